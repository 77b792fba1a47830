/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup_fixture.h - a claimed base and a slot for one test; include it after tap.h
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/fs.h"
#include "launcher/cgroup_kernel.h"

#define UID 600007

static struct cgroup_base base;
static struct cgroup_slot slot;
static char place[512], came_from[512]; /* v2: a cgroup of this test's own */

static inline void leave(void)
{
	(void)cgroup_slot_remove(&slot);
	cgroup_release(&base);
	if (place[0]) {
		(void)fs_write_at(AT_FDCWD, came_from, "0");
		(void)rmdir(place);
	}
}

/* v2: the process that runs the tests lives in our cgroup; go to one beside it, alone */
static inline void go_elsewhere(void)
{
	char *slash, file[600];
	struct stat st;

	cgroup_find("/proc/self", &base);
	(void)snprintf(file, sizeof(file), "%s/cgroup.type", base.dir[CGROUP_SLOT]);
	if (base.kind != CGROUP_V2 || stat(file, &st) < 0)
		return; /* not v2, or its root, where anybody may live */
	(void)snprintf(came_from, sizeof(came_from), "%.490s/cgroup.procs",
		       base.dir[CGROUP_SLOT]);
	slash = strrchr(base.dir[CGROUP_SLOT], '/');
	*slash = 0;
	(void)snprintf(place, sizeof(place), "%.480s/test.%d", base.dir[CGROUP_SLOT],
		       getpid());
	(void)snprintf(file, sizeof(file), "%s/cgroup.procs", place);
	if (mkdir(place, 0755) < 0 || fs_write_at(AT_FDCWD, file, "0") < 0)
		place[0] = 0; /* the claim will say what is wrong */
}

static inline void claim(void)
{
	atexit(leave);
	go_elsewhere();
	if (cgroup_claim(&base) == CGROUP_NONE)
		SKIP(base.reason);
	cgroup_sweep(&base);
}

static inline void claim_slot(void)
{
	struct err e = {0};

	claim();
	if (cgroup_slot_make(&base, 3, geteuid() ? geteuid() : UID, &slot, &e) < 0)
		fprintf(stderr, "# %s\n", e.text);
	CHECK(slot.kind != CGROUP_NONE);
}

static inline int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
