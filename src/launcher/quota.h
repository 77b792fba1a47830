/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * quota.h - what a directory may hold, as its file system keeps count of it
 *
 * By project quotas, of ext4 and xfs: whatever is made below a directory that was marked
 * with a number while it was empty counts for that number. Only the kernel's own root
 * namespace may mark. Each: 0, or -1 with errno.
 */
#ifndef LAUNCHER_QUOTA_H
#define LAUNCHER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

struct quota_use {
	uint64_t bytes, entries;
};

/* the file system of this directory counts, and stops who has too much */
bool quota_possible(int dir_fd);
/* a new directory, with nothing in it; project: not 0 */
int quota_mark(int dir_fd, uint32_t project);
bool quota_marked(int dir_fd, uint32_t project);
/* dir_fd: any of that file system; most NULL: no limit, and nothing is remembered */
int quota_limit(int dir_fd, uint32_t project, const struct quota_use *most);
int quota_used(int dir_fd, uint32_t project, struct quota_use *out);

#endif
