/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup.c - a slot's limits and counters, whatever the kernel
 *
 * Runs in: the launcher; cgroup_slot_join in the worker.
 * Every file is opened once per place and read with pread from then on: a run costs a few
 * microseconds here. What differs between kernels is in cgroup_v1.c and cgroup_v2.c.
 */
#include "launcher/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "launcher/cgroup_kernel.h"

static const struct cgroup_kernel *kernel_of(const struct cgroup_slot *slot)
{
	switch (slot->kind) {
	case CGROUP_V1:
		return &cgroup_v1;
	case CGROUP_V2:
		return &cgroup_v2;
	case CGROUP_NONE:
		break;
	}
	return NULL;
}

void cgroup_open_files(struct cgroup_slot *slot, const struct cgroup_kernel *k)
{
	for (int i = 0; i < CGROUP_FILES; i++) {
		const struct cgroup_file_row *row = &k->files[i];

		if (slot->file_fd[i] >= 0)
			close(slot->file_fd[i]);
		slot->file_fd[i] = -1;
		if (row->name && slot->dir_fd[row->place] >= 0)
			slot->file_fd[i] = openat(slot->dir_fd[row->place], row->name,
						  row->flags | O_CLOEXEC);
	}
}

int cgroup_put(const struct cgroup_slot *slot, enum cgroup_file file, const char *fmt,
	       ...)
{
	char text[64];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (slot->file_fd[file] < 0) {
		errno = ENOENT;
		return -1;
	}
	return pwrite(slot->file_fd[file], text, (size_t)len, 0) == len ? 0 : -1;
}

uint64_t cgroup_number(const struct cgroup_slot *slot, enum cgroup_file file,
		       const char *key)
{
	size_t key_len = key ? strlen(key) : 0;
	char text[2048];
	const char *at;
	ssize_t got;

	if (slot->file_fd[file] < 0)
		return CGROUP_UNKNOWN64;
	got = pread(slot->file_fd[file], text, sizeof(text) - 1, 0);
	if (got <= 0)
		return CGROUP_UNKNOWN64;
	text[got] = 0;
	for (at = text; key_len && at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
		if (strncmp(at, key, key_len) == 0 && at[key_len] == ' ')
			break;
	if (!at)
		return CGROUP_UNKNOWN64;
	at += key_len + (key_len != 0);
	return *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : CGROUP_UNKNOWN64;
}

/* what grew since; a counter that went backwards says nothing */
static uint64_t grown(uint64_t now, uint64_t before)
{
	if (now == CGROUP_UNKNOWN64 || before == CGROUP_UNKNOWN64 || now < before)
		return CGROUP_UNKNOWN64;
	return now - before;
}

static uint64_t cpu_us_now(const struct cgroup_slot *slot, const struct cgroup_kernel *k)
{
	uint64_t n = cgroup_number(slot, CGROUP_FILE_CPU_TIME, k->cpu_key);

	return n == CGROUP_UNKNOWN64 ? n : n / k->cpu_per_us;
}

/* reading is what quiets the descriptor; true: memory ran out, whoever's it was */
static bool oom_drain(const struct cgroup_slot *slot)
{
	char text[1024];

	if (slot->oom_fd < 0)
		return false;
	if (slot->kind == CGROUP_V1)
		return read(slot->oom_fd, text, sizeof(uint64_t)) > 0;
	/* v2 wakes for every memory event: the leaf's own counter decides */
	(void)!pread(slot->oom_fd, text, sizeof(text), 0);
	return false;
}

int cgroup_slot_make(const struct cgroup_base *base, unsigned n, uid_t uid,
		     struct cgroup_slot *out, struct err *e)
{
	struct cgroup_slot slot = {
		.kind = base->kind, .n = n, .uid = uid, .base = base, .oom_fd = -1};
	const struct cgroup_kernel *k = kernel_of(&slot);

	for (int i = 0; i < CGROUP_CONTROLLERS; i++)
		slot.dir_fd[i] = -1;
	for (int i = 0; i < CGROUP_FILES; i++)
		slot.file_fd[i] = -1;
	if (k && k->make(&slot, e) < 0) {
		(void)cgroup_slot_remove(
			&slot); /* what stays is swept at the next start */
		return -1;
	}
	*out = slot;
	return 0;
}

int cgroup_slot_join(const struct cgroup_slot *slot)
{
	const struct cgroup_kernel *k = kernel_of(slot);

	return k ? k->join(slot) : 0;
}

static void close_all(struct cgroup_slot *slot)
{
	for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
		if (slot->dir_fd[i] >= 0)
			close(slot->dir_fd[i]);
		slot->dir_fd[i] = -1;
	}
	for (int i = 0; i < CGROUP_FILES; i++) {
		if (slot->file_fd[i] >= 0)
			close(slot->file_fd[i]);
		slot->file_fd[i] = -1;
	}
	if (slot->oom_fd >= 0)
		close(slot->oom_fd);
	slot->oom_fd = -1;
}

int cgroup_slot_remove(struct cgroup_slot *slot)
{
	char name[32];
	int rc = 0;

	if (slot->kind == CGROUP_NONE)
		return 0;
	close_all(slot);
	(void)snprintf(name, sizeof(name), "slot-%u", slot->n);
	for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
		auto_fd int base_fd = -1;

		if (!slot->base->dir[c][0])
			continue;
		base_fd = cgroup_open_dir(AT_FDCWD, slot->base->dir[c]);
		if (base_fd >= 0 && cgroup_tree_remove(base_fd, name, 0) < 0)
			rc = -1;
	}
	if (rc < 0)
		errno = EBUSY;
	else
		slot->kind = CGROUP_NONE;
	return rc;
}

static void remember(struct cgroup_slot *slot, const struct cgroup_kernel *k)
{
	struct cgroup_counters *b = &slot->begin;

	b->oom_kills = cgroup_number(slot, CGROUP_FILE_OOM, k->oom_key);
	b->memory_bytes = cgroup_number(slot, CGROUP_FILE_MEMORY_NOW, NULL);
	b->pids_peak = cgroup_number(slot, CGROUP_FILE_PIDS_PEAK, NULL);
}

static void remember_cpu(struct cgroup_slot *slot, const struct cgroup_kernel *k)
{
	slot->begin.cpu_us = cpu_us_now(slot, k);
	slot->begin.throttled = cgroup_number(slot, CGROUP_FILE_CPU_STAT, "nr_throttled");
}

int cgroup_run_begin(struct cgroup_slot *slot, const struct cgroup_limits *limits,
		     struct err *e)
{
	const struct cgroup_kernel *k = kernel_of(slot);

	if (!k)
		return 0;
	if (slot->used && cgroup_run_end(slot) < 0)
		return err_errno(e, "renew the cgroup of slot %u", slot->n);
	slot->used = true;
	if (k->limit(slot, limits, e) < 0)
		return -1;
	slot->set = *limits;
	slot->set_valid = true;
	(void)oom_drain(slot); /* it may be due to an earlier run */
	slot->oom_woke = false;
	k->reset(slot);
	remember(slot, k);
	remember_cpu(slot, k);
	return 0;
}

int cgroup_run_limit(struct cgroup_slot *slot, const struct cgroup_limits *limits,
		     struct err *e)
{
	const struct cgroup_kernel *k = kernel_of(slot);

	if (!k)
		return 0;
	if (k->limit(slot, limits, e) < 0)
		return -1;
	slot->set = *limits;
	slot->set_valid = true;
	remember_cpu(slot, k);
	return 0;
}

int cgroup_slot_idle(struct cgroup_slot *slot, bool idle)
{
	const struct cgroup_kernel *k = kernel_of(slot);

	if (!k || slot->idle == idle)
		return 0;
	if (cgroup_put(slot, CGROUP_FILE_CPU_WEIGHT, "%s",
		       idle ? k->weight_idle : k->weight_usual) < 0)
		return -1;
	slot->idle = idle;
	return 0;
}

uint64_t cgroup_memory_kb(const struct cgroup_slot *slot)
{
	const uint64_t held = cgroup_number(slot, CGROUP_FILE_MEMORY_NOW, NULL);

	return held == CGROUP_UNKNOWN64 ? held : held / 1024;
}

int cgroup_run_fd(const struct cgroup_slot *slot)
{
	return slot->kind == CGROUP_V2 ? slot->dir_fd[CGROUP_RUN] : -1;
}

int cgroup_run_end(struct cgroup_slot *slot)
{
	const struct cgroup_kernel *k = kernel_of(slot);

	if (k && slot->used && k->renew(slot) < 0)
		return -1;
	slot->used = false;
	return 0;
}

int cgroup_oom_fd(const struct cgroup_slot *slot, uint32_t *out_events)
{
	if (slot->kind == CGROUP_NONE)
		return -1;
	*out_events = slot->kind == CGROUP_V1 ? EPOLLIN : EPOLLPRI;
	return slot->oom_fd;
}

bool cgroup_oom_seen(struct cgroup_slot *slot)
{
	const struct cgroup_kernel *k = kernel_of(slot);
	uint64_t kills;

	if (!k)
		return false;
	/* v1 wakes us before it kills: the counter may rise only after we looked */
	if (oom_drain(slot))
		slot->oom_woke = true;
	kills = grown(cgroup_number(slot, CGROUP_FILE_OOM, k->oom_key),
		      slot->begin.oom_kills);
	return slot->oom_woke || (kills != CGROUP_UNKNOWN64 && kills > 0);
}

void cgroup_unthrottle(struct cgroup_slot *slot)
{
	const struct cgroup_kernel *k = kernel_of(slot);

	if (!k || (slot->set_valid && slot->set.cpu_milli == 0))
		return;
	if (cgroup_put(slot, CGROUP_FILE_CPU_MAX, "%s", k->no_quota) == 0)
		slot->set.cpu_milli = 0; /* refused: it dies slowly, but dies */
}

static int run_dir(const struct cgroup_slot *slot)
{
	return slot->dir_fd[slot->kind == CGROUP_V2 ? (int)CGROUP_RUN : (int)CGROUP_PIDS];
}

void cgroup_kill(const struct cgroup_slot *slot, pid_t worker)
{
	if (slot->kind == CGROUP_NONE)
		return;
	if (slot->kind == CGROUP_V2 &&
	    fs_write_at(run_dir(slot), "cgroup.kill", "1") == 0)
		return;
	cgroup_kill_dir(run_dir(slot), worker);
}

bool cgroup_empty(const struct cgroup_slot *slot, pid_t worker)
{
	switch (slot->kind) {
	case CGROUP_V1:
		return cgroup_list(run_dir(slot), worker, NULL, 0) == 0;
	case CGROUP_V2: /* a list leaves out who is on his way; the directory counts him
			 */
		return cgroup_number(slot, CGROUP_FILE_EVENTS, "populated") == 0;
	case CGROUP_NONE:
		break;
	}
	return true;
}

uint64_t cgroup_cpu_us(const struct cgroup_slot *slot)
{
	const struct cgroup_kernel *k = kernel_of(slot);

	return k ? grown(cpu_us_now(slot, k), slot->begin.cpu_us) : CGROUP_UNKNOWN64;
}

uint64_t cgroup_throttled(const struct cgroup_slot *slot)
{
	if (slot->kind == CGROUP_NONE)
		return CGROUP_UNKNOWN64;
	return grown(cgroup_number(slot, CGROUP_FILE_CPU_STAT, "nr_throttled"),
		     slot->begin.throttled);
}

void cgroup_usage(const struct cgroup_slot *slot, struct cgroup_usage *out)
{
	const struct cgroup_kernel *k = kernel_of(slot);

	*out = (struct cgroup_usage){.cpu_us = cgroup_cpu_us(slot),
				     .memory_peak_kb = CGROUP_UNKNOWN64,
				     .pids_peak = CGROUP_UNKNOWN32,
				     .memory_reason = "no cgroup is in use",
				     .pids_reason = "no cgroup is in use"};
	if (k)
		k->usage(slot, out);
	if (out->cpu_us == CGROUP_UNKNOWN64)
		out->cpu_reason = k ? "this host has no CPU accounting"
				    : out->memory_reason;
}
