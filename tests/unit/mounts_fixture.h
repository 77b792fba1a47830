/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mounts_fixture.h - a mount namespace for a test, also for who is not root
 */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "../tap.h"
#include "base/fs.h"

static inline int mounts_map(const char *file, unsigned id)
{
	char line[40];

	snprintf(line, sizeof(line), "0 %u 1", id);
	return fs_write_at(AT_FDCWD, file, line);
}

/* without the right to one, it comes with a user namespace in which we are root */
static inline void mounts_own(void)
{
	unsigned uid = geteuid(), gid = getegid();

	if (unshare(CLONE_NEWNS) < 0) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
			SKIP("cannot make a mount namespace");
		CHECK(fs_write_at(AT_FDCWD, "/proc/self/setgroups", "deny") == 0);
		CHECK(mounts_map("/proc/self/uid_map", uid) == 0);
		CHECK(mounts_map("/proc/self/gid_map", gid) == 0);
	}
	CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}
