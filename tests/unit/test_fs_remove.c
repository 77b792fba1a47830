/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_fs_remove.c - trees that were grown to be hard to remove
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define TAP_SECONDS 60
#include "base/fs.h"
#include "mounts_fixture.h"

static char root[] = "/tmp/test_rm.XXXXXX";

static void remove_root(void)
{
	fs_remove_tree(AT_FDCWD, root);
}

static int fresh(void)
{
	int fd;

	CHECK(mkdtemp(root));
	atexit(remove_root);
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0 && mkdirat(fd, "top", 0755) == 0);
	return fd;
}

static void touch(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	close(fd);
}

static int gone(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

/* the last directory of a chain below `from` */
static int grow_chain(int from_fd, int depth, mode_t mode)
{
	int fd = dup(from_fd), next;

	for (int i = 0; i < depth; i++) {
		CHECK(mkdirat(fd, "d", 0700) == 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(next >= 0);
		CHECK(fchmod(fd, i ? mode : 0700) == 0);
		close(fd);
		fd = next;
	}
	return fd;
}

TEST(what_is_not_there_is_removed)
{
	int dir_fd = fresh();

	CHECK(fs_remove_tree(dir_fd, "absent") == 0);
	close(dir_fd);
}

TEST(files_and_links_go_themselves)
{
	int dir_fd = fresh();

	touch(dir_fd, "file");
	touch(dir_fd, "top/victim");
	CHECK(symlinkat("top", dir_fd, "link") == 0);
	CHECK(fs_remove_tree(dir_fd, "file") == 0 && gone(dir_fd, "file"));
	CHECK(fs_remove_tree(dir_fd, "link") == 0 && gone(dir_fd, "link"));
	CHECK(!gone(dir_fd, "top/victim"));
	close(dir_fd);
}

TEST(every_kind_of_entry_goes_and_links_are_not_followed)
{
	int dir_fd = fresh();
	char path[64];

	CHECK(mkdirat(dir_fd, "outside", 0700) == 0);
	touch(dir_fd, "outside/victim");
	CHECK(symlinkat("../outside", dir_fd, "top/link") == 0);
	CHECK(symlinkat("absent", dir_fd, "top/dangling") == 0);
	CHECK(mkfifoat(dir_fd, "top/fifo", 0600) == 0);
	CHECK(mkdirat(dir_fd, "top/empty", 0700) == 0);
	CHECK(mkdirat(dir_fd, "top/full", 0700) == 0);
	CHECK(mkdirat(dir_fd, "top/full/..a", 0700) == 0);
	touch(dir_fd, "top/full/..a/\n\xff -rf *");
	CHECK(fchmodat(dir_fd, "top/full", 0, 0) == 0);
	snprintf(path, sizeof(path), "%s/top", root);
	CHECK(fs_remove_tree(AT_FDCWD, path) == 0 && gone(dir_fd, "top"));
	CHECK(!gone(dir_fd, "outside/victim"));
	close(dir_fd);
}

TEST(ten_thousand_levels_need_two_descriptors)
{
	int dir_fd = fresh(), top_fd = openat(dir_fd, "top", O_RDONLY | O_DIRECTORY);
	int end_fd = grow_chain(top_fd, 10000, 0700);
	struct rlimit few = {(rlim_t)end_fd + 3, (rlim_t)end_fd + 3};
	struct rlimit stack = {256 << 10, 256 << 10};

	touch(end_fd, "f");
	close(end_fd);
	close(top_fd);
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0 &&
	      setrlimit(RLIMIT_STACK, &stack) == 0);
	CHECK(fs_remove_tree(dir_fd, "top") == 0 && gone(dir_fd, "top"));
	close(dir_fd);
}

/* in a process of its own: root walks through shut doors */
static void shut_and_remove(int dir_fd)
{
	int top_fd, end_fd;

	CHECK(geteuid() != 0 || (setresgid(65534, 65534, 65534) == 0 &&
				 setresuid(65534, 65534, 65534) == 0));
	top_fd = openat(dir_fd, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	end_fd = grow_chain(top_fd, 20, 0);
	touch(end_fd, "f");
	CHECK(fchmod(end_fd, 0500) == 0);
	CHECK(openat(dir_fd, "top/d/d", O_RDONLY | O_CLOEXEC) == -1 && errno == EACCES);
	CHECK(fs_remove_tree(dir_fd, "top") == 0 && gone(dir_fd, "top"));
	_exit(0);
}

TEST(shut_directories_are_opened_by_their_owner)
{
	int dir_fd = fresh(), status = -1;
	pid_t pid;

	CHECK(geteuid() != 0 || fchownat(dir_fd, "top", 65534, 65534, 0) == 0);
	CHECK(fchmod(dir_fd, 0777) == 0);
	pid = fork();
	if (pid == 0)
		shut_and_remove(dir_fd);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close(dir_fd);
}

TEST(many_files_and_directories_in_one_place)
{
	int dir_fd = fresh(), top_fd = openat(dir_fd, "top", O_RDONLY | O_DIRECTORY);
	char name[32];

	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		touch(top_fd, name);
		if (i % 4)
			continue;
		snprintf(name, sizeof(name), "d%d", i);
		CHECK(mkdirat(top_fd, name, 0700) == 0);
		snprintf(name, sizeof(name), "d%d/f", i);
		touch(top_fd, name);
	}
	close(top_fd);
	CHECK(fs_remove_tree(dir_fd, "top") == 0 && gone(dir_fd, "top"));
	close(dir_fd);
}

TEST(what_cannot_go_is_told_and_the_rest_goes)
{
	char outside[64], path[64], name[32];
	int dir_fd;

	mounts_own(); /* first: descriptors would stay in the old namespace */
	dir_fd = fresh();
	CHECK(mkdirat(dir_fd, "outside", 0700) == 0);
	touch(dir_fd, "outside/victim");
	snprintf(outside, sizeof(outside), "%s/outside", root);
	for (int i = 0; i < 100; i++) { /* more than one reading lists */
		snprintf(name, sizeof(name), "top/m%d", i);
		CHECK(mkdirat(dir_fd, name, 0700) == 0);
		snprintf(path, sizeof(path), "%s/top/m%d", root, i);
		CHECK(mount(outside, path, NULL, MS_BIND, NULL) == 0);
		snprintf(name, sizeof(name), "top/d%d", i);
		CHECK(mkdirat(dir_fd, name, 0700) == 0);
		snprintf(name, sizeof(name), "top/d%d/f", i);
		touch(dir_fd, name);
	}
	CHECK(fs_remove_tree(dir_fd, "top") == -1 && errno == EXDEV);
	CHECK(!gone(dir_fd, "outside/victim"));
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "top/d%d", i);
		CHECK(gone(dir_fd, name));
		snprintf(path, sizeof(path), "%s/top/m%d", root, i);
		CHECK(umount2(path, MNT_DETACH) == 0);
	}
	CHECK(fs_remove_tree(dir_fd, "top") == 0 && gone(dir_fd, "top"));
	close(dir_fd);
}

TEST(a_mount_in_the_place_of_the_tree_is_left_alone)
{
	char from[64], to[64];
	int dir_fd;

	mounts_own(); /* first: descriptors would stay in the old namespace */
	dir_fd = fresh();
	CHECK(mkdirat(dir_fd, "outside", 0700) == 0);
	touch(dir_fd, "outside/victim");
	snprintf(from, sizeof(from), "%s/outside", root);
	snprintf(to, sizeof(to), "%s/top", root);
	CHECK(mount(from, to, NULL, MS_BIND, NULL) == 0);
	CHECK(fs_remove_tree(dir_fd, "top") == -1);
	CHECK(fs_remove_tree(AT_FDCWD, to) == -1);
	CHECK(!gone(dir_fd, "outside/victim"));
	CHECK(umount2(to, MNT_DETACH) == 0);
	close(dir_fd);
}
