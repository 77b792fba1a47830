/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * probe.c - what this kernel and container allow, found by doing
 *
 * Runs in: the launcher, once, before it says what it can do. The first slot is built and
 * a canary run in it, with everything asked for. Where a step is refused that a weaker
 * level can do without, that ability is given up and the slot built again; any other
 * refusal is final. What the last canary saw is the evidence that /isolation and `check`
 * show.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/launcher.h"
#include "launcher/verdicts.h"

#define MS 1000000ull

struct probe {
	enum errand stage;
	struct probe_facts facts;
};

/* steps that a level can do without, and what is given up for it */
static const struct {
	const char *step;
	int num;        /* 0: whatever the errno */
	size_t ability; /* a bool of struct abilities */
	enum layer_id layer;
} dispensable[] = {
	{"slot_pivot", 0, offsetof(struct abilities, pivot), LAYER_ROOT},
	{"slot_proc", 0, offsetof(struct abilities, private_proc), LAYER_PROC},
	{"proc", EPERM, offsetof(struct abilities, private_proc), LAYER_PROC},
	{"namespace_limits", EROFS, offsetof(struct abilities, private_proc), LAYER_PROC},
	/* containers without CAP_SYS_ADMIN: their filter refuses it in every namespace */
	{"hostname", EPERM, offsetof(struct abilities, hostname), LAYER_UTS_NAMESPACE},
	{"go_cache", 0, offsetof(struct abilities, overlay), LAYER_COUNT},
};

static void end_probe(struct launcher *l)
{
	unsigned i;

	free(l->probe);
	l->probe = NULL;
	l->report.slots = l->slot_count;
	if (message_send_report(l->server_fd, &l->report) < 0)
		log_error("server.lost", "error=\"%s\"", strerror(errno));
	if (l->report.level < l->setup->min_level)
		return; /* nothing will be run: no slots */
	for (i = 0; i < l->slot_count; i++) {
		if (l->slots[i].state == SLOT_EMPTY)
			slot_build(&l->slots[i]);
	}
	seed_start(l);
}

static void conclude(struct launcher *l)
{
	verdicts_report(l, &l->probe->facts, &l->report);
	log_info("isolation.found", "level=%s missing=\"%s\"",
		 report_level_name(l->report.level), l->report.summary);
	end_probe(l);
}

/* no sandbox can be made here at all */
static void give_up(struct launcher *l, const char *step, int num)
{
	l->probe->facts.fatal_num = num;
	snprintf(l->probe->facts.fatal_step, sizeof(l->probe->facts.fatal_step), "%s",
		 step);
	conclude(l);
}

/* true: something was given up, and another try makes sense */
static bool give_way(struct launcher *l, const char *step, int num)
{
	struct probe_facts *f = &l->probe->facts;
	unsigned i;
	bool *ability;

	for (i = 0; i < sizeof(dispensable) / sizeof(dispensable[0]); i++) {
		if (strcmp(dispensable[i].step, step) != 0 ||
		    (dispensable[i].num && dispensable[i].num != num))
			continue;
		ability = (bool *)((char *)&l->abilities + dispensable[i].ability);
		if (!*ability)
			return false;
		*ability = false;
		if (dispensable[i].layer < LAYER_COUNT)
			f->refused[dispensable[i].layer] = num;
		log_info("isolation.without", "step=%s error=\"%s\"", step,
			 strerror(num));
		return true;
	}
	return false;
}

static void build_again(struct launcher *l)
{
	l->slots[0].condemned = true;
	slot_reset(&l->slots[0]);
}

void probe_slot_failed(struct launcher *l, const char *step, int num)
{
	if (strcmp(step, "slot_cgroup") == 0 && l->cgroups.kind != CGROUP_NONE) {
		/* ours to make, not ours to use: a launcher that gave up root */
		l->cgroups.kind = CGROUP_NONE;
		snprintf(l->cgroups.reason, sizeof(l->cgroups.reason),
			 "the cgroup made at start cannot be used: %s", strerror(num));
		l->abilities.poll_memory = true;
	} else if (!give_way(l, step, num)) {
		give_up(l, step, num);
		return;
	}
	slot_build(&l->slots[0]);
}

void probe_slot_ready(struct launcher *l)
{
	struct message m = {.type = MSG_RUN};
	struct plan *p = &m.plan;
	unsigned i;

	p->errand = l->probe->stage;
	p->limits = (struct limits){.wall_ms = 5000,
				    .cpu_ms = 5000,
				    .memory_mb = 64,
				    .pids = 8,
				    .disk_mb = 4};
	if (p->errand == ERRAND_MEMORY)
		p->limits.memory_mb = 24;
	for (i = 0; i < l->setup->rows; i++) {
		if (l->setup->row[i].go_cache)
			p->row = i; /* the row that needs most */
	}
	slot_start_run(&l->slots[0], &m, l->proc_fd, loop_now_ns());
}

static int read_seen(struct launcher *l, const struct run *r)
{
	struct probe_facts *f = &l->probe->facts;

	if (r->canary_fd < 0 || !r->exited || r->wait_status != 0 ||
	    read(r->canary_fd, &f->seen, sizeof(f->seen)) != (ssize_t)sizeof(f->seen))
		return -1;
	f->seen.hostname[sizeof(f->seen.hostname) - 1] = '\0';
	f->looked = true;
	return 0;
}

static void next_stage(struct launcher *l, enum errand stage)
{
	l->probe->stage = stage;
	slot_reset(
		&l->slots[0]); /* rebuilt when the memory canary took the worker along */
	if (l->slots[0].state == SLOT_FREE)
		probe_slot_ready(l);
}

void probe_run_over(struct launcher *l, const struct run *r, const char *failed_step,
		    int num)
{
	struct probe_facts *f = &l->probe->facts;

	if (failed_step) {
		if (give_way(l, failed_step, num))
			build_again(l);
		else
			give_up(l, failed_step, num);
		return;
	}
	switch (l->probe->stage) {
	case ERRAND_LOOK:
		if (read_seen(l, r) < 0) {
			give_up(l, "canary", EIO);
			return;
		}
		if (l->cgroups.kind != CGROUP_NONE) {
			next_stage(l, ERRAND_MEMORY);
			return;
		}
		break;
	case ERRAND_MEMORY:
		f->memory_stopped = cgroup_oom_seen(&l->slots[0].cgroup);
		next_stage(l, ERRAND_CPU);
		return;
	default:
		f->throttled = cgroup_throttled(&l->slots[0].cgroup);
		break;
	}
	/* ends the probe first: the slot then serves whoever waits */
	conclude(l);
	slot_reset(&l->slots[0]);
}

void probe_start(struct launcher *l)
{
	int abi = sys_landlock_abi();
	struct stat st;

	l->probe = mem_zero(sizeof(*l->probe));
	l->probe->stage = ERRAND_LOOK;
	l->abilities = (struct abilities){
		.pivot = true,
		.private_proc = true,
		.hostname = true,
		.overlay = true,
		.landlock_abi = abi > 0 ? abi : 0,
		.poll_memory = l->cgroups.kind == CGROUP_NONE,
		.go_seed = l->setup->go_seed_dir[0] &&
			   stat(l->setup->go_seed_dir, &st) == 0,
	};
	slot_build(&l->slots[0]);
}

void probe_refused(struct launcher *l, const char *step, int num)
{
	l->probe = mem_zero(sizeof(*l->probe));
	give_up(l, step, num);
}
