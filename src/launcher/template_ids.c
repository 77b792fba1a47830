/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * template_ids.c - the root of a session whose user is root: whose its files are
 *
 * Runs in: the worker of a session's process 1, with the launcher's rights, once.
 * Before: the small tmpfs that will be the lowest layer is built; its files and those of
 *         an image belong to ids that the session does not have.
 * After:  the first are the session's root's; of the image there is a mount, read-only,
 *         that shows its one owner as that root. Nothing on disk is changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/sys.h"
#include "launcher/template.h"

#define LOWEST_FDS 16

/* root has a name and a home */
static int add_root(void)
{
	static const char *const files[][2] = {
		{"etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"},
		{"etc/group", "root:x:0:\n"},
	};
	unsigned i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		auto_fd int fd = open(files[i][0], O_WRONLY | O_APPEND | O_CLOEXEC);

		if (fd < 0 || fs_write_all(fd, files[i][1], strlen(files[i][1])) < 0)
			return -1;
	}
	return mkdir("root", 0700) < 0 && errno != EEXIST ? -1 : 0;
}

static uid_t lowest_uid; /* nftw has no argument for it; a worker builds one root */

static int give(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)at;
	return type == FTW_NS ? -1 : lchown(path, lowest_uid, lowest_uid);
}

/* only what was made for it: what is bound there is the host's */
static int give_lowest(const struct building *t)
{
	lowest_uid = t->session->uid;
	return nftw(".", give, LOWEST_FDS, FTW_PHYS | FTW_MOUNT) == 0 ? 0 : -1;
}

static int write_map(pid_t pid, const char *name, unsigned from, unsigned to)
{
	char path[40], line[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	snprintf(line, sizeof(line), "%u %u 1", from, to);
	return fs_write_at(AT_FDCWD, path, line);
}

/* there until it is killed; it may be looked into when the pipe has an end */
static _Noreturn void stand(int told_fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	close(told_fd);
	for (;;)
		pause();
}

int template_mapping(const struct stat *from, uid_t to)
{
	int ends[2], fd = -1;
	char path[40], byte;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		stand(ends[1]);
	close(ends[1]);
	if (pid > 0 && read(ends[0], &byte, 1) == 0 &&
	    write_map(pid, "uid_map", from->st_uid, to) == 0 &&
	    write_map(pid, "gid_map", from->st_gid, to) == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (pid > 0) {
		kill(pid, SIGKILL); /* not reaped yet: the number is still its own */
		(void)sys_reap(pid, NULL, NULL);
	}
	close(ends[0]);
	return fd;
}

/* An overlay takes what is mounted somewhere, so it is: at a place of the lowest layer
 * where it is in nobody's sight, since that is shown without what is mounted on it. */
static int map_image(const struct building *t)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY |
					      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
				  .propagation = MS_PRIVATE};
	auto_fd int image_fd = template_open_image(t);
	auto_fd int tree_fd = -1;

	if (image_fd < 0)
		return -1;
	tree_fd = sys_open_tree(image_fd, "",
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (tree_fd < 0)
		return -1;
	attr.userns_fd = (uint64_t)t->mapping_fd;
	if (sys_mount_setattr(tree_fd, "", AT_EMPTY_PATH, &attr) < 0)
		return -1;
	return sys_move_mount(tree_fd, "", t->root_fd, TEMPLATE_IMAGE,
			      MOVE_MOUNT_F_EMPTY_PATH);
}

static bool is_roots(const struct building *t)
{
	return t->session && t->session->stack->root;
}

int template_session_mapping(struct building *t)
{
	auto_fd int image_fd = -1;
	struct stat st;

	if (!is_roots(t) || !template_has_image(t))
		return 0;
	image_fd = template_open_image(t);
	if (image_fd < 0 || fstat(image_fd, &st) < 0)
		return -1;
	t->mapping_fd = template_mapping(&st, t->session->uid);
	return t->mapping_fd < 0 ? -1 : 0;
}

int template_session_ids(struct building *t)
{
	if (!is_roots(t))
		return 0;
	if (add_root() < 0 || give_lowest(t) < 0)
		return -1;
	return template_has_image(t) ? map_image(t) : 0;
}
