/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * listen.c - the listening socket; may be made by another process than the one that
 * accepts
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/num.h"
#include "http/server.h"

enum { BACKLOG = 1024, FIRST_INHERITED = 3 };

static socklen_t parse_address(const char *text, unsigned port,
			       struct sockaddr_storage *out)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	char bare[INET6_ADDRSTRLEN];
	size_t len = strlen(text);

	*out = (struct sockaddr_storage){0};
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		return sizeof(*v4);
	}
	if (len > 2 && text[0] == '[' && text[len - 1] == ']')
		text++, len -= 2;
	if (len >= sizeof(bare))
		return 0;
	memcpy(bare, text, len);
	bare[len] = 0;
	if (inet_pton(AF_INET6, bare, &v6->sin6_addr) != 1)
		return 0;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)port);
	return sizeof(*v6);
}

int http_listen(const char *address, unsigned port, struct err *e)
{
	struct sockaddr_storage at;
	socklen_t len = parse_address(address, port, &at);
	auto_fd int fd = -1;
	int on = 1, off = 0;

	if (!len || port > 65535)
		return err_bad(e, "listen on '%s' port %u: not an IPv4 or IPv6 address",
			       address, port);
	fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(e, "listen on '%s'", address);
	/* a restart must not wait for the last connections' TIME_WAIT */
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at.ss_family ==
	    AF_INET6) /* "::" means IPv4 too, whatever the host's default */
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, BACKLOG) < 0)
		return err_errno(e, "listen on '%s' port %u", address, port);
	return take_fd(&fd);
}

unsigned http_listen_port(int listen_fd)
{
	struct sockaddr_storage at = {0};
	socklen_t len = sizeof(at);

	if (getsockname(listen_fd, (struct sockaddr *)&at, &len) < 0)
		return 0;
	if (at.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&at)->sin6_port);
	return at.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&at)->sin_port) : 0;
}

/* 0, or -1 and *e: it must be what http_listen() would have made */
static int take_inherited(int fd, struct err *e)
{
	int listens = 0, type = 0;
	socklen_t len = sizeof(listens), type_len = sizeof(type);
	const int flags = fcntl(fd, F_GETFL);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) < 0)
		return err_errno(e, "LISTEN_FDS: descriptor %d", fd);
	if (!listens || type != SOCK_STREAM || !http_listen_port(fd))
		return err_bad(e, "LISTEN_FDS: descriptor %d is no listening TCP socket",
			       fd);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_errno(e, "LISTEN_FDS: descriptor %d", fd);
	return 0;
}

int http_inherit(int *out_fds, size_t room, struct err *e)
{
	const char *pid_text = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
	uint64_t pid, count;

	if (!pid_text || !count_text)
		return 0;
	if (num_u64(pid_text, &pid) < 0 || num_u64(count_text, &count) < 0)
		return err_bad(e, "LISTEN_PID=%s LISTEN_FDS=%s: must be numbers",
			       pid_text, count_text);
	if (pid != (uint64_t)getpid())
		return 0; /* they were another process's, which started us */
	if (count == 0 || count > room)
		return err_bad(e, "LISTEN_FDS=%" PRIu64 ": must be 1 to %zu", count,
			       room);
	for (size_t i = 0; i < count; i++)
		if (take_inherited(FIRST_INHERITED + (int)i, e) < 0)
			return -1;
	for (size_t i = 0; i < count; i++)
		out_fds[i] = FIRST_INHERITED + (int)i;
	/* whom we start has nothing there */
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return (int)count;
}
