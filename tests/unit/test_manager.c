/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_manager.c - what a service manager hears
 */
#include "base/manager.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../tap.h"

/* listens as a manager does; name as in NOTIFY_SOCKET */
static int manager(const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", name);
	if (name[0] == '@')
		at.sun_path[0] = '\0';
	CHECK(fd >= 0);
	CHECK(bind(fd, (struct sockaddr *)&at,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))) ==
	      0);
	setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static void hears(int fd, const char *what)
{
	char heard[100] = "";

	CHECK(recv(fd, heard, sizeof(heard) - 1, MSG_DONTWAIT) == (ssize_t)strlen(what));
	CHECK(strcmp(heard, what) == 0);
}

TEST(a_manager_with_a_file_hears_it)
{
	char dir[] = "/tmp/manager-XXXXXX", name[64];
	int fd;

	CHECK(mkdtemp(dir));
	snprintf(name, sizeof(name), "%s/notify", dir);
	fd = manager(name);
	CHECK(manager_listens());
	CHECK(manager_tell("READY=1") == 0);
	hears(fd, "READY=1");
	unlink(name);
	rmdir(dir);
}

TEST(a_manager_with_an_abstract_name_hears_it)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "@sandbox-test-manager-%d", (int)getpid());
	fd = manager(name);
	CHECK(manager_tell("RELOADING=1\nMONOTONIC_USEC=7") == 0);
	hears(fd, "RELOADING=1\nMONOTONIC_USEC=7");
}

TEST(without_a_manager_nothing_is_said)
{
	unsetenv("NOTIFY_SOCKET");
	CHECK(!manager_listens());
	CHECK(manager_tell("READY=1") == 0);
}

TEST(a_socket_that_is_none_is_an_error)
{
	char name[200];

	memset(name, 'x', sizeof(name));
	name[0] = '/';
	name[sizeof(name) - 1] = '\0';
	setenv("NOTIFY_SOCKET", name, 1);
	CHECK(manager_tell("READY=1") == -1 && errno == EAFNOSUPPORT);
	setenv("NOTIFY_SOCKET", "vsock:2:1", 1);
	CHECK(manager_tell("READY=1") == -1 && errno == EAFNOSUPPORT);
	setenv("NOTIFY_SOCKET", "", 1);
	CHECK(manager_tell("READY=1") == -1 && errno == EAFNOSUPPORT);
	setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
	CHECK(manager_tell("READY=1") == -1 && errno == ENOENT);
}
