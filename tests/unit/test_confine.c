/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_confine.c - what a server can still do once it is confined
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"
#include "base/err.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "config/filter.h"
#include "wire/setup.h"

#ifdef __SANITIZE_ADDRESS__
#define CONFINED 0
#else
#define CONFINED 1
#endif

/* as job/artifacts.c opens one */
#define NEW_FILE (O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC)

static int fails_with(int r, int num)
{
	return r < 0 && errno == num;
}

static int confine(int dir_fd)
{
	static struct setup_filter calls;
	struct err e = {0};

	CHECK(filter_compile_own(POLICY_SERVER, &calls, &e) == 0);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
		       ? -1
		       : confine_server(dir_fd, -1, &calls);
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
	CHECK(confine(-1) == 0);
	CHECK(fails_with(execve("/bin/true", argv, argv + 1), EPERM));
	CHECK(fails_with(kill(getppid(), 0), EPERM));
	/* abort() needs this one for itself */
	CHECK(fails_with(tgkill(getppid(), getppid(), SIGABRT), EPERM));
	CHECK(fails_with(tgkill(getpid(), gettid(), SIGTERM), EPERM));
	CHECK(fails_with(unshare(CLONE_NEWUSER), EPERM));
}

TEST(a_confined_server_has_its_stored_runs_and_no_other_file)
{
	char dir[] = "/tmp/confine-XXXXXX";
	int dir_fd, fd;

	if (!CONFINED)
		SKIP("a sanitizer needs what is taken here");
	if (sys_landlock_abi() < 1)
		SKIP("this kernel has no Landlock");
	CHECK(mkdtemp(dir) != NULL);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir_fd >= 0 && rmdir_later(dir) == 0);
	CHECK(confine(dir_fd) == 0);

	fd = openat(dir_fd, "a", NEW_FILE, 0600);
	CHECK(fd >= 0 && write(fd, "x", 1) == 1);
	CHECK(renameat(dir_fd, "a", dir_fd, "b") == 0);
	CHECK(fails_with(openat(dir_fd, "b", O_RDONLY | O_CLOEXEC), EPERM));
	CHECK(unlinkat(dir_fd, "b", 0) == 0);
	CHECK(fails_with(mkdirat(dir_fd, "c", 0700), EPERM));
	CHECK(fails_with(symlinkat("/etc", dir_fd, "d"), EPERM));
	CHECK(fails_with(open("/etc/passwd", O_RDONLY | O_CLOEXEC), EPERM));
	CHECK(fails_with(openat(AT_FDCWD, "/tmp/confined", NEW_FILE, 0600), EACCES));
}

TEST(a_confined_server_makes_no_socket_and_no_code)
{
	if (!CONFINED)
		SKIP("a sanitizer needs what is taken here");
	CHECK(confine(-1) == 0);
	CHECK(fails_with(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), EPERM));
	CHECK(fails_with(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), EPERM));
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0) != MAP_FAILED);
	CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0) == MAP_FAILED &&
	      errno == EPERM);
	CHECK(fails_with(fcntl(0, F_SETOWN, getppid()), EPERM));
}

static int confine_unpacker(int made_fd, int read_fd)
{
	static struct setup_filter calls;
	struct err e = {0};

	CHECK(filter_compile_own(POLICY_IMAGE, &calls, &e) == 0);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
		       ? -1
		       : confine_image(made_fd, read_fd, &calls);
}

TEST(who_unpacks_an_image_has_its_directory_and_nothing_else)
{
	char dir[] = "/tmp/confine-XXXXXX", *const argv[] = {"true", NULL};
	int dir_fd, fd;

	if (!CONFINED)
		SKIP("a sanitizer needs what is taken here");
	if (sys_landlock_abi() < 2)
		SKIP("this kernel has no Landlock, or one that lets nothing be linked");
	CHECK(mkdtemp(dir) != NULL);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir_fd >= 0 && rmdir_later(dir) == 0);
	CHECK(confine_unpacker(dir_fd, -1) == 0);

	CHECK(mkdirat(dir_fd, "d", 0700) == 0);
	fd = openat(dir_fd, "d/f", NEW_FILE, 0600);
	CHECK(fd >= 0 && write(fd, "x", 1) == 1 && fchmod(fd, 0755) == 0);
	CHECK(symlinkat("/etc", dir_fd, "l") == 0);
	CHECK(linkat(dir_fd, "d/f", dir_fd, "h", 0) == 0);
	CHECK(fails_with(openat(dir_fd, "l/passwd", O_RDONLY | O_CLOEXEC), EACCES));
	CHECK(fails_with(openat(dir_fd, "../confined", NEW_FILE, 0600), EACCES));
	CHECK(fails_with(open("/etc/passwd", O_RDONLY | O_CLOEXEC), EACCES));
	CHECK(fails_with(mknodat(dir_fd, "n", S_IFCHR | 0600, 0x103), EPERM));
	CHECK(fails_with(fchown(fd, 1, 1), EPERM));
	CHECK(fails_with(socket(AF_UNIX, SOCK_STREAM, 0), EPERM));
	CHECK(fails_with(execve("/bin/true", argv, argv + 1), EPERM));
	CHECK(fails_with(kill(getppid(), 0), EPERM));
	CHECK(unlinkat(dir_fd, "d/f", 0) == 0 && unlinkat(dir_fd, "h", 0) == 0);
	CHECK(unlinkat(dir_fd, "l", 0) == 0);
	CHECK(unlinkat(dir_fd, "d", AT_REMOVEDIR) == 0);
}

TEST(who_reads_a_directory_for_an_image_writes_nothing)
{
	char dir[] = "/tmp/confine-XXXXXX";
	int dir_fd;

	if (!CONFINED)
		SKIP("a sanitizer needs what is taken here");
	if (sys_landlock_abi() < 1)
		SKIP("this kernel has no Landlock");
	CHECK(mkdtemp(dir) != NULL);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir_fd >= 0 && rmdir_later(dir) == 0);
	CHECK(confine_unpacker(-1, dir_fd) == 0);
	CHECK(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0);
	CHECK(fails_with(openat(dir_fd, "f", NEW_FILE, 0600), EACCES));
	CHECK(fails_with(mkdirat(dir_fd, "d", 0700), EACCES));
	CHECK(fails_with(open("/etc/passwd", O_RDONLY | O_CLOEXEC), EACCES));
}
