/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * manager.c - the service manager that started us, if it wants to be told how we are
 */
#include "base/manager.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/defer.h"

static const char *where(void)
{
	return getenv("NOTIFY_SOCKET");
}

bool manager_listens(void)
{
	return where() != NULL;
}

int manager_tell(const char *state)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const char *path = where();
	const size_t len = path ? strlen(path) : 0;
	auto_fd int fd = -1;
	ssize_t n;

	if (!path)
		return 0;
	if ((path[0] != '/' && path[0] != '@') || len >= sizeof(to.sun_path)) {
		errno = EAFNOSUPPORT;
		return -1;
	}
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0'; /* a name without a file */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	do
		n = sendto(fd, state, strlen(state), MSG_NOSIGNAL,
			   (const struct sockaddr *)&to,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}
