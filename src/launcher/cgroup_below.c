/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup_below.c - cgroups below a slot's: what is in them counts for the slot too
 *
 * Runs in: the launcher.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/fs.h"
#include "launcher/cgroup_kernel.h"

int cgroup_below(const struct cgroup_slot *slot, struct cgroup_base *out)
{
	*out = *slot->base;
	for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
		const size_t len = strlen(out->dir[c]);

		if (len &&
		    (size_t)snprintf(out->dir[c] + len, sizeof(out->dir[c]) - len,
				     "/slot-%u", slot->n) >= sizeof(out->dir[c]) - len) {
			errno = ENAMETOOLONG;
			return -1;
		}
	}
	return 0;
}

/* v1 has them where the run's own are set; v2 in the directory above the run's */
int cgroup_limit_all(struct cgroup_slot *slot, const struct cgroup_limits *limits,
		     struct err *e)
{
	char memory[32], pids[32];

	if (slot->kind != CGROUP_V2)
		return 0;
	(void)snprintf(memory, sizeof(memory), "%llu",
		       (unsigned long long)limits->memory_bytes);
	(void)snprintf(pids, sizeof(pids), "%u", limits->pids);
	if (fs_write_at(slot->dir_fd[CGROUP_SLOT], "memory.max", memory) < 0 ||
	    fs_write_at(slot->dir_fd[CGROUP_SLOT], "pids.max", pids) < 0)
		return err_errno(e, "limit what is below slot %u", slot->n);
	return 0;
}
