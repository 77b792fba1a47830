/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup_v1.c - one directory per controller; worker and run share it
 *
 * Runs in: the launcher.
 * The directory outlives a run, since moving a process costs more than all the rest of a
 * run. Counters are therefore differences, or reset, or unknown.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "launcher/cgroup_kernel.h"

#define OURS 2                /* tasks that are not the program's: worker and init */
#define SLACK_BYTES (1 << 20) /* the kernel charges in batches, per CPU */

static const struct cgroup_file_row files[CGROUP_FILES] = {
	[CGROUP_FILE_OOM] = {CGROUP_MEMORY, "memory.oom_control", O_RDONLY},
	[CGROUP_FILE_CPU_TIME] = {CGROUP_CPUACCT, "cpuacct.usage", O_RDONLY},
	[CGROUP_FILE_CPU_STAT] = {CGROUP_CPU, "cpu.stat", O_RDONLY},
	[CGROUP_FILE_MEMORY_PEAK] = {CGROUP_MEMORY, "memory.max_usage_in_bytes", O_RDWR},
	[CGROUP_FILE_MEMORY_NOW] = {CGROUP_MEMORY, "memory.usage_in_bytes", O_RDONLY},
	[CGROUP_FILE_PIDS_PEAK] = {CGROUP_PIDS, "pids.peak", O_RDONLY},
	[CGROUP_FILE_MEMORY_MAX] = {CGROUP_MEMORY, "memory.limit_in_bytes", O_WRONLY},
	[CGROUP_FILE_SWAP_MAX] = {CGROUP_MEMORY, "memory.memsw.limit_in_bytes", O_WRONLY},
	[CGROUP_FILE_PIDS_MAX] = {CGROUP_PIDS, "pids.max", O_WRONLY},
	[CGROUP_FILE_CPU_MAX] = {CGROUP_CPU, "cpu.cfs_quota_us", O_WRONLY},
	[CGROUP_FILE_CPU_WEIGHT] = {CGROUP_CPU, "cpu.shares", O_WRONLY},
};

static int make_dir(struct cgroup_slot *slot, int c)
{
	auto_fd int base_fd = cgroup_open_dir(AT_FDCWD, slot->base->dir[c]);
	char name[32];

	if (base_fd < 0)
		return -1;
	(void)snprintf(name, sizeof(name), "slot-%u", slot->n);
	/* one that is there already is of a launcher that died: its counters are not ours
	 */
	if (cgroup_first_of_mount(slot->base, c) && mkdirat(base_fd, name, 0755) < 0) {
		if (errno != EEXIST || cgroup_tree_remove(base_fd, name, 0) < 0 ||
		    mkdirat(base_fd, name, 0755) < 0)
			return -1;
	}
	slot->dir_fd[c] = cgroup_open_dir(base_fd, name);
	return slot->dir_fd[c] < 0 ? -1 : 0;
}

/* null zero full random urandom. Refused: the program has no device node and no mknod */
static void allow_devices(int dir_fd)
{
	static const char *const nodes[] = {"c 1:3 rw", "c 1:5 rw", "c 1:7 rw",
					    "c 1:8 rw", "c 1:9 rw"};

	if (dir_fd < 0 || fs_write_at(dir_fd, "devices.deny", "a") < 0)
		return;
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
		(void)fs_write_at(dir_fd, "devices.allow", nodes[i]);
}

/* an eventfd that counts when the memory cgroup runs out; without it only the end tells
 */
static void watch_oom(struct cgroup_slot *slot)
{
	auto_fd int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	char text[64];

	(void)snprintf(text, sizeof(text), "%d %d", fd, slot->file_fd[CGROUP_FILE_OOM]);
	if (fd >= 0 && slot->file_fd[CGROUP_FILE_OOM] >= 0 &&
	    fs_write_at(slot->dir_fd[CGROUP_MEMORY], "cgroup.event_control", text) == 0)
		slot->oom_fd = take_fd(&fd);
}

static int v1_make(struct cgroup_slot *slot, struct err *e)
{
	for (int c = 0; c < CGROUP_CONTROLLERS; c++)
		if (slot->base->dir[c][0] && make_dir(slot, c) < 0)
			return err_errno(e, "make a slot in '%s'", slot->base->dir[c]);
	cgroup_open_files(slot, &cgroup_v1);
	/* no swap on this host, or none for cgroups: then there is nothing to forbid */
	(void)fs_write_at(slot->dir_fd[CGROUP_MEMORY], "memory.swappiness", "0");
	allow_devices(slot->dir_fd[CGROUP_DEVICES]);
	watch_oom(slot);
	return 0;
}

static int v1_join(const struct cgroup_slot *slot)
{
	for (int c = 0; c < CGROUP_CONTROLLERS; c++)
		if (cgroup_first_of_mount(slot->base, c) &&
		    fs_write_at(slot->dir_fd[c], "cgroup.procs", "0") < 0)
			return -1;
	return 0;
}

/* memory and swap together may never be less than memory alone, not even in between */
static int limit_memory(struct cgroup_slot *slot, uint64_t bytes)
{
	uint64_t now = slot->set_valid ? slot->set.memory_bytes : 0;
	bool up = !bytes || (now && bytes > now);
	enum cgroup_file first = up ? CGROUP_FILE_SWAP_MAX : CGROUP_FILE_MEMORY_MAX;
	enum cgroup_file then = up ? CGROUP_FILE_MEMORY_MAX : CGROUP_FILE_SWAP_MAX;
	const enum cgroup_file order[] = {first, then};

	for (int i = 0; i < 2; i++) {
		if (slot->file_fd[order[i]] < 0 && order[i] == CGROUP_FILE_SWAP_MAX)
			continue; /* swap is not counted here; swappiness is 0 */
		if ((bytes ? cgroup_put(slot, order[i], "%llu", (unsigned long long)bytes)
			   : cgroup_put(slot, order[i], "-1")) < 0)
			return -1;
	}
	return 0;
}

static int v1_limit(struct cgroup_slot *slot, const struct cgroup_limits *want,
		    struct err *e)
{
	const struct cgroup_limits *set = slot->set_valid ? &slot->set : NULL;
	long quota = want->cpu_milli ? (long)want->cpu_milli * (CGROUP_PERIOD_US / 1000)
				     : -1;

	if ((!set || set->memory_bytes != want->memory_bytes) &&
	    limit_memory(slot, want->memory_bytes) < 0)
		return err_errno(e, "limit the memory of slot %u", slot->n);
	if (!set || set->pids != want->pids) {
		if ((want->pids ? cgroup_put(slot, CGROUP_FILE_PIDS_MAX, "%llu",
					     (unsigned long long)want->pids + OURS)
				: cgroup_put(slot, CGROUP_FILE_PIDS_MAX, "max")) < 0)
			return err_errno(e, "limit the processes of slot %u", slot->n);
	}
	if ((!set || set->cpu_milli != want->cpu_milli) &&
	    cgroup_put(slot, CGROUP_FILE_CPU_MAX, "%ld", quota) < 0)
		return err_errno(e, "limit the CPU of slot %u", slot->n);
	return 0;
}

static int v1_renew(struct cgroup_slot *slot)
{
	(void)slot;
	return 0;
}

static void v1_reset(struct cgroup_slot *slot)
{
	/* refused: usage() sees that the peak is below the baseline or says unknown */
	if (cgroup_put(slot, CGROUP_FILE_MEMORY_PEAK, "0") < 0) {
		close(slot->file_fd[CGROUP_FILE_MEMORY_PEAK]);
		slot->file_fd[CGROUP_FILE_MEMORY_PEAK] = -1;
	}
}

/*
 * What the worker holds and what earlier runs left in the page cache was there at begin
 * and is not this run's. At the limit the kernel has thrown that cache out, and all is
 * the run's.
 */
static void usage_memory(const struct cgroup_slot *slot, struct cgroup_usage *out)
{
	uint64_t peak = cgroup_number(slot, CGROUP_FILE_MEMORY_PEAK, NULL);
	uint64_t now = cgroup_number(slot, CGROUP_FILE_MEMORY_NOW, NULL);
	uint64_t before = slot->begin.memory_bytes;

	if (peak == CGROUP_UNKNOWN64 || now == CGROUP_UNKNOWN64 ||
	    before == CGROUP_UNKNOWN64) {
		out->memory_reason = "this kernel cannot reset a memory peak";
		return;
	}
	if (slot->set.memory_bytes && peak + SLACK_BYTES >= slot->set.memory_bytes)
		before = 0;
	if (now + SLACK_BYTES < before || peak < before) {
		out->memory_reason = "memory of an earlier run was still being freed";
		return;
	}
	out->memory_peak_kb = (peak - before) / 1024;
	out->memory_reason = NULL;
}

static void v1_usage(const struct cgroup_slot *slot, struct cgroup_usage *out)
{
	uint64_t peak = cgroup_number(slot, CGROUP_FILE_PIDS_PEAK, NULL);

	usage_memory(slot, out);
	if (peak == CGROUP_UNKNOWN64) {
		out->pids_reason = "this kernel does not count a peak of processes";
	} else if (peak <= slot->begin.pids_peak) {
		out->pids_reason = "an earlier run's peak was not exceeded (cgroup v1)";
	} else {
		out->pids_peak = peak > OURS ? (uint32_t)(peak - OURS) : 0;
		out->pids_reason = NULL;
	}
}

const struct cgroup_kernel cgroup_v1 = {
	.files = files,
	.make = v1_make,
	.join = v1_join,
	.limit = v1_limit,
	.renew = v1_renew,
	.reset = v1_reset,
	.usage = v1_usage,
	.oom_key = "oom_kill",
	.cpu_key = NULL,
	.cpu_per_us = 1000,
	.no_quota = "-1",
	.weight_usual = "1024",
	.weight_idle = "2",
};
