/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup_v2.c - slot-N with two leaves: worker, and a run that is fresh every time
 *
 * Runs in: the launcher.
 * A run is born in its leaf by CLONE_INTO_CGROUP, called by the worker without any right
 * but its uid. The kernel asks for write permission on cgroup.procs of the leaf and of
 * what both leaves have above them; that is why these two files, and nothing else, belong
 * to the worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "launcher/cgroup_kernel.h"

#define OURS 1 /* task in the run's leaf that is not the program's: init */

static const struct cgroup_file_row files[CGROUP_FILES] = {
	[CGROUP_FILE_EVENTS] = {CGROUP_RUN, "cgroup.events", O_RDONLY},
	[CGROUP_FILE_OOM] = {CGROUP_RUN, "memory.events", O_RDONLY},
	[CGROUP_FILE_CPU_TIME] = {CGROUP_RUN, "cpu.stat", O_RDONLY},
	[CGROUP_FILE_CPU_STAT] = {CGROUP_RUN, "cpu.stat", O_RDONLY},
	[CGROUP_FILE_MEMORY_NOW] = {CGROUP_RUN, "memory.current", O_RDONLY},
	[CGROUP_FILE_MEMORY_PEAK] = {CGROUP_RUN, "memory.peak", O_RDONLY},
	[CGROUP_FILE_PIDS_PEAK] = {CGROUP_RUN, "pids.peak", O_RDONLY},
	[CGROUP_FILE_MEMORY_MAX] = {CGROUP_RUN, "memory.max", O_WRONLY},
	[CGROUP_FILE_SWAP_MAX] = {CGROUP_RUN, "memory.swap.max", O_WRONLY},
	[CGROUP_FILE_PIDS_MAX] = {CGROUP_RUN, "pids.max", O_WRONLY},
	[CGROUP_FILE_CPU_MAX] = {CGROUP_RUN, "cpu.max", O_WRONLY},
	[CGROUP_FILE_CPU_WEIGHT] = {CGROUP_SLOT, "cpu.weight", O_WRONLY},
};

static int make_leaf(struct cgroup_slot *slot, int place, const char *name)
{
	if (mkdirat(slot->dir_fd[CGROUP_SLOT], name, 0755) < 0)
		return -1;
	slot->dir_fd[place] = cgroup_open_dir(slot->dir_fd[CGROUP_SLOT], name);
	return slot->dir_fd[place] < 0 ? -1 : 0;
}

/* as a plain user everything is ours already */
static int give_procs(int dir_fd, uid_t uid)
{
	struct stat st;

	if (fstatat(dir_fd, "cgroup.procs", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	return st.st_uid == uid ? 0 : fchownat(dir_fd, "cgroup.procs", uid, (gid_t)-1, 0);
}

static int make_run(struct cgroup_slot *slot)
{
	static const struct {
		const char *file, *value;
	} fixed[] = {
		{"memory.swap.max", "0"},
		{"memory.zswap.max", "0"},
		{"memory.oom.group", "1"},
		{"cgroup.max.descendants", "0"},
	};

	if (make_leaf(slot, CGROUP_RUN, "run") < 0 ||
	    give_procs(slot->dir_fd[CGROUP_RUN], slot->uid) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		/* a kernel without the file has not got what it would forbid */
		if (fs_write_at(slot->dir_fd[CGROUP_RUN], fixed[i].file, fixed[i].value) <
			    0 &&
		    errno != ENOENT)
			return -1;
	cgroup_open_files(slot, &cgroup_v2);
	slot->set_valid = false;
	return 0;
}

static int v2_make(struct cgroup_slot *slot, struct err *e)
{
	auto_fd int base_fd = cgroup_open_dir(AT_FDCWD, slot->base->dir[CGROUP_SLOT]);
	char name[32];

	if (base_fd < 0)
		return err_errno(e, "open '%s'", slot->base->dir[CGROUP_SLOT]);
	(void)snprintf(name, sizeof(name), "slot-%u", slot->n);
	/* one that is there already is of a launcher that died */
	if (mkdirat(base_fd, name, 0755) < 0 &&
	    (errno != EEXIST || cgroup_tree_remove(base_fd, name, 0) < 0 ||
	     mkdirat(base_fd, name, 0755) < 0))
		return err_errno(e, "make the cgroup of slot %u", slot->n);
	slot->dir_fd[CGROUP_SLOT] = cgroup_open_dir(base_fd, name);
	if (slot->dir_fd[CGROUP_SLOT] < 0 ||
	    fs_write_at(slot->dir_fd[CGROUP_SLOT], "cgroup.subtree_control",
			"+memory +pids +cpu") < 0 ||
	    give_procs(slot->dir_fd[CGROUP_SLOT], slot->uid) < 0)
		return err_errno(e, "set up the cgroup of slot %u", slot->n);
	if (make_leaf(slot, CGROUP_WORKER, "worker") < 0 || make_run(slot) < 0)
		return err_errno(e, "make the leaves of slot %u", slot->n);
	/* events of the leaf are told here too, and this one stays when the leaf goes */
	slot->oom_fd = openat(slot->dir_fd[CGROUP_SLOT], "memory.events",
			      O_RDONLY | O_CLOEXEC);
	return 0;
}

static int v2_join(const struct cgroup_slot *slot)
{
	return fs_write_at(slot->dir_fd[CGROUP_WORKER], "cgroup.procs", "0");
}

static int v2_limit(struct cgroup_slot *slot, const struct cgroup_limits *want,
		    struct err *e)
{
	const struct cgroup_limits *set = slot->set_valid ? &slot->set : NULL;
	int rc = 0;

	if (!set || set->memory_bytes != want->memory_bytes)
		rc = want->memory_bytes
			     ? cgroup_put(slot, CGROUP_FILE_MEMORY_MAX, "%llu",
					  (unsigned long long)want->memory_bytes)
			     : cgroup_put(slot, CGROUP_FILE_MEMORY_MAX, "max");
	if (rc < 0)
		return err_errno(e, "limit the memory of slot %u", slot->n);
	if (!set || set->pids != want->pids)
		rc = want->pids ? cgroup_put(slot, CGROUP_FILE_PIDS_MAX, "%llu",
					     (unsigned long long)want->pids + OURS)
				: cgroup_put(slot, CGROUP_FILE_PIDS_MAX, "max");
	if (rc < 0)
		return err_errno(e, "limit the processes of slot %u", slot->n);
	if (!set || set->cpu_milli != want->cpu_milli)
		rc = want->cpu_milli ? cgroup_put(slot, CGROUP_FILE_CPU_MAX, "%llu %d",
						  (unsigned long long)want->cpu_milli *
							  (CGROUP_PERIOD_US / 1000),
						  CGROUP_PERIOD_US)
				     : cgroup_put(slot, CGROUP_FILE_CPU_MAX, "max");
	if (rc < 0)
		return err_errno(e, "limit the CPU of slot %u", slot->n);
	return 0;
}

/* the new leaf gets the old one's limits at once: most runs then find theirs in place */
static int v2_renew(struct cgroup_slot *slot)
{
	struct cgroup_limits was = slot->set;
	bool had = slot->set_valid;

	if (cgroup_tree_remove(slot->dir_fd[CGROUP_SLOT], "run", 0) < 0)
		return -1;
	close(slot->dir_fd[CGROUP_RUN]);
	slot->dir_fd[CGROUP_RUN] = -1;
	if (make_run(slot) < 0)
		return -1;
	if (had && v2_limit(slot, &was, NULL) == 0) {
		slot->set = was;
		slot->set_valid = true;
	}
	return 0;
}

static void v2_reset(struct cgroup_slot *slot)
{
	(void)slot; /* the leaf is fresh */
}

static void v2_usage(const struct cgroup_slot *slot, struct cgroup_usage *out)
{
	uint64_t memory = cgroup_number(slot, CGROUP_FILE_MEMORY_PEAK, NULL);
	uint64_t pids = cgroup_number(slot, CGROUP_FILE_PIDS_PEAK, NULL);

	if (memory == CGROUP_UNKNOWN64) {
		out->memory_reason = "this kernel has no memory.peak (Linux 5.19)";
	} else {
		out->memory_peak_kb = memory / 1024;
		out->memory_reason = NULL;
	}
	if (pids == CGROUP_UNKNOWN64) {
		out->pids_reason = "this kernel has no pids.peak (Linux 6.1)";
	} else {
		out->pids_peak = pids > OURS ? (uint32_t)(pids - OURS) : 0;
		out->pids_reason = NULL;
	}
}

const struct cgroup_kernel cgroup_v2 = {
	.files = files,
	.make = v2_make,
	.join = v2_join,
	.limit = v2_limit,
	.renew = v2_renew,
	.reset = v2_reset,
	.usage = v2_usage,
	.oom_key = "oom_kill",
	.cpu_key = "usage_usec",
	.cpu_per_us = 1,
	.no_quota = "max",
	.weight_usual = "100",
	.weight_idle = "1",
};
