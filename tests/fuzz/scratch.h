/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scratch.h - a directory in memory that harnesses let paths loose in
 *
 * top/work is what paths are taken beneath. Nothing may ever appear in top beside it.
 */
#pragma once

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

static char scratch_top[] = "/dev/shm/fuzz.XXXXXX";
static int scratch_top_fd = -1;

static inline void scratch_remove(void)
{
	fs_remove_tree(AT_FDCWD, scratch_top);
}

/* an empty top/work */
static inline int scratch_work(void)
{
	int fd;

	if (scratch_top_fd < 0) {
		assert(mkdtemp(scratch_top));
		atexit(scratch_remove);
		scratch_top_fd = open(scratch_top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		umask(0);
	}
	assert(fs_remove_tree(scratch_top_fd, "work") == 0);
	assert(mkdirat(scratch_top_fd, "work", 0755) == 0);
	fd = openat(scratch_top_fd, "work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(fd >= 0);
	return fd;
}

/* nothing got out of it */
static inline void scratch_check(void)
{
	int fd = openat(scratch_top_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fdopendir(fd);
	unsigned entries = 0;

	assert(dir);
	while (readdir(dir))
		entries++;
	closedir(dir);
	assert(entries == 3); /* with "." and ".." */
}

/* what fd is open on lies below top/work, or is it */
static inline void scratch_beneath(int fd)
{
	char link[64], path[8192], work[64];
	ssize_t len;
	size_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	snprintf(work, sizeof(work), "%s/work", scratch_top);
	n = strlen(work);
	len = readlink(link, path, sizeof(path) - 1);
	assert(len > 0);
	path[len] = 0;
	assert(strncmp(path, work, n) == 0 && (path[n] == '/' || path[n] == 0));
}
