/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_confine.c - what a server can still do once it is confined
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"
#include "base/sys.h"
#include "cmd/cmd.h"

#ifdef __SANITIZE_ADDRESS__
#define CONFINED 0
#else
#define CONFINED 1
#endif

static int fails_with(int r, int num)
{
	return r < 0 && errno == num;
}

/* whoever is confined cannot: a child does, when this process has ended */
static int rmdir_later(const char *dir)
{
	int pair[2];
	char byte;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -1;
	if (fork() == 0) {
		setsid(); /* out of the test's group, which ends with it */
		close(pair[1]);
		(void)!read(pair[0], &byte, 1);
		_exit(rmdir(dir) < 0);
	}
	close(pair[0]);
	return 0;
}

TEST(a_confined_server_starts_no_program_and_reaches_nobody)
{
	char *const argv[] = {"true", NULL};

	if (!CONFINED)
		SKIP("a sanitizer needs what is taken here");
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(confine_server(-1) == 0);
	CHECK(fails_with(execve("/bin/true", argv, argv + 1), EPERM));
	CHECK(fails_with(kill(getppid(), 0), EPERM));
	CHECK(fails_with(unshare(CLONE_NEWUSER), EPERM));
}

TEST(a_confined_server_has_its_stored_runs_and_no_other_file)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(9),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char dir[] = "/tmp/confine-XXXXXX";
	int dir_fd, fd;

	if (!CONFINED)
		SKIP("a sanitizer needs what is taken here");
	if (sys_landlock_abi() < 4)
		SKIP("this kernel's Landlock knows no network");
	CHECK(mkdtemp(dir) != NULL);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir_fd >= 0 && rmdir_later(dir) == 0);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(confine_server(dir_fd) == 0);

	fd = openat(dir_fd, "a", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, "x", 1) == 1);
	CHECK(renameat(dir_fd, "a", dir_fd, "b") == 0);
	CHECK(unlinkat(dir_fd, "b", 0) == 0);
	CHECK(fails_with(mkdirat(dir_fd, "c", 0700), EACCES));
	CHECK(fails_with(symlinkat("/etc", dir_fd, "d"), EACCES));
	CHECK(fails_with(open("/etc/passwd", O_RDONLY | O_CLOEXEC), EACCES));
	CHECK(fails_with(open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC), EACCES));

	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fails_with(connect(fd, (struct sockaddr *)&to, sizeof(to)), EACCES));
	close(fd);
}
