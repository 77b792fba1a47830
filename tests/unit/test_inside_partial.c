/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_inside_partial.c - names of files that are being written
 */
#include "session/inside.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"

static int scratch(char path[32])
{
	memcpy(path, "/tmp/partial.XXXXXX", 20);
	CHECK(mkdtemp(path));
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void leave(int dir_fd, const char *name)
{
	close(openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static bool there(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

TEST(only_such_names_are_such_names)
{
	CHECK(partial_is(".sandbox-0.partial") && partial_is(".sandbox-123456.partial"));
	CHECK(!partial_is(".sandbox-.partial") && !partial_is(".sandbox-1.partial2"));
	CHECK(!partial_is(".sandbox-a.partial") && !partial_is("x.sandbox-1.partial"));
	CHECK(!partial_is(".sandbox-1") && !partial_is(""));
}

TEST(what_was_left_gives_way_and_what_is_held_does_not)
{
	char path[32], name[32];
	const int dir_fd = scratch(path);
	int one, two, three;

	leave(dir_fd, ".sandbox-0.partial");
	one = partial_open(dir_fd, name);
	CHECK(one >= 0 && strcmp(name, ".sandbox-0.partial") == 0);
	two = partial_open(dir_fd, name);
	CHECK(two >= 0 && strcmp(name, ".sandbox-1.partial") == 0);
	partial_sweep_all(dir_fd);
	CHECK(there(dir_fd, ".sandbox-0.partial") && there(dir_fd, ".sandbox-1.partial"));
	/* whose process is gone */
	close(one);
	three = open(path, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	CHECK(three < 0 || (flock(three, LOCK_EX | LOCK_NB) == 0 &&
			    partial_link(three, dir_fd, name) == 0 &&
			    strcmp(name, ".sandbox-0.partial") == 0));
	partial_sweep_all(dir_fd);
	CHECK(there(dir_fd, ".sandbox-0.partial") == (three >= 0));
	close(two);
	close(three);
	partial_sweep_all(dir_fd);
	CHECK(rmdir(path) == 0);
	close(dir_fd);
}

TEST(what_is_no_file_is_nobodys_to_sweep)
{
	static const char name[] = ".sandbox-0.partial";
	char path[32], got[32];
	const int dir_fd = scratch(path);
	int fd;

	CHECK(mkfifoat(dir_fd, name, 0600) == 0);
	partial_sweep_all(dir_fd);
	CHECK(there(dir_fd, name));
	fd = partial_open(dir_fd, got);
	CHECK(fd >= 0 && strcmp(got, ".sandbox-1.partial") == 0);
	close(fd);
	CHECK(unlinkat(dir_fd, name, 0) == 0 && mkdirat(dir_fd, name, 0700) == 0);
	partial_sweep_all(dir_fd);
	CHECK(there(dir_fd, name) && !there(dir_fd, got));
	CHECK(unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 && rmdir(path) == 0);
	close(dir_fd);
}
