/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * probe.c - what this kernel and container allow, found by doing
 *
 * Runs in: the launcher, once, before it says what it can do. The first slot is built and
 * a canary run in it, with everything asked for. Where a step is refused that a weaker
 * level can do without, that ability is given up and the slot built again; any other
 * refusal ends the attempt. After namespaces come the levels that need none, whatever the
 * minimum: an operator wants to know what would work. What the last canary saw is the
 * evidence that /isolation and `check` show.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/fork.h"
#include "launcher/launcher.h"
#include "launcher/verdicts.h"

#define MS 1000000ull
#define CPU_TRIES 8 /* on a busy host a canary may not get its quota in one period */

struct probe {
	enum errand stage;
	unsigned cpu_tries;
	bool last; /* no other level would do better */
	struct probe_facts facts;
};

/* steps that a level can do without, and what is given up for it */
static const struct {
	const char *step;
	int num;        /* 0: whatever the errno, unless it is a passing one */
	size_t ability; /* a bool of struct abilities */
	enum layer_id layer;
} dispensable[] = {
	{"slot_pivot", 0, offsetof(struct abilities, pivot), LAYER_ROOT},
	{"slot_proc", 0, offsetof(struct abilities, private_proc), LAYER_PROC},
	{"proc", EPERM, offsetof(struct abilities, private_proc), LAYER_PROC},
	{"namespace_limits", EROFS, offsetof(struct abilities, private_proc), LAYER_PROC},
	/* containers without CAP_SYS_ADMIN: their filter refuses it in every namespace */
	{"hostname", EPERM, offsetof(struct abilities, hostname), LAYER_UTS_NAMESPACE},
	{"slot_sockets", 0, offsetof(struct abilities, sockets), LAYER_MEMORY_LIMIT},
	{"go_cache", 0, offsetof(struct abilities, overlay), LAYER_COUNT},
	{"slot_seed", 0, offsetof(struct abilities, go_seed), LAYER_COUNT},
	/* before 5.19 that flag is unknown; then whatever it is, the listener is too much
	 */
	{"seccomp", EINVAL, offsetof(struct abilities, wait_killable), LAYER_COUNT},
	{"seccomp", 0, offsetof(struct abilities, notify), LAYER_VIOLATIONS},
};

/* an error that says nothing about what the host allows, only that it was short of
 * something: no reason to go on with less */
static bool passing(int num)
{
	static const int nums[] = {ENOMEM, EIO,    EINTR,   EAGAIN,
				   EMFILE, ENFILE, ENOBUFS, ENOSPC};

	for (unsigned i = 0; i < sizeof(nums) / sizeof(nums[0]); i++)
		if (nums[i] == num)
			return true;
	return false;
}

static void end_probe(struct launcher *l)
{
	unsigned i;

	l->report.slots = l->slot_count;
	l->report.network = launcher_network(l);
	l->report.install_network = launcher_install_network(l);
	lost_probe_over(l, &l->probe->facts);
	free(l->probe);
	l->probe = NULL;
	if (l->lost.now)
		return; /* which was told */
	launcher_report(l);
	if (l->report.level < l->setup->min_level)
		return; /* nothing will be run: no slots */
	for (i = 0; i < l->slot_count; i++) {
		if (l->slots[i].state == SLOT_EMPTY &&
		    (l->slots[i].forks ? fork_possible(l) : i < launcher_capacity(l)))
			slot_build(&l->slots[i]);
	}
	warm_start(l);
	layers_start(l);
	sessions_start(l);
	seed_start(l);
}

static void build_again(struct launcher *l)
{
	l->slots[0].condemned = true;
	slot_reset(&l->slots[0]);
}

static void conclude(struct launcher *l);

/* the next level is tried from its start, in a slot made for it */
static void begin_level(struct launcher *l, int level)
{
	struct probe_facts *f = &l->probe->facts;

	l->abilities.level = level;
	l->abilities.private_proc = l->abilities.overlay = false;
	l->probe->stage = ERRAND_LOOK;
	f->looked = false;
	f->fatal_step[0] = '\0';
	if (l->place_fd < 0 &&
	    (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || place_open(l) < 0)) {
		f->fatal_num = errno;
		snprintf(f->fatal_step, sizeof(f->fatal_step), "run_directory");
		l->probe->last = true;
		conclude(l);
	} else if (l->slots[0].state == SLOT_EMPTY) {
		slot_build(&l->slots[0]);
	} else {
		build_again(l);
	}
}

static void conclude(struct launcher *l)
{
	struct probe *p = l->probe;

	verdicts_report(l, &p->facts, &l->report);
	log_info("isolation.found", "isolation=%s missing=\"%s\"",
		 report_level_name(l->report.level), l->report.summary);
	if (l->report.level == LEVEL_NONE && !p->last &&
	    l->abilities.level > LEVEL_PROCESS) {
		const bool apart = !launcher_shares(l);

		*(apart ? &p->facts.apart : &p->facts.locked) = l->report;
		begin_level(l, apart ? LEVEL_LANDLOCK : LEVEL_PROCESS);
		return;
	}
	end_probe(l);
}

/* no sandbox of this level can be made here */
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
		    (dispensable[i].num && dispensable[i].num != num) ||
		    (passing(num) && dispensable[i].layer < LAYER_COUNT))
			continue;
		ability = (bool *)((char *)&l->abilities + dispensable[i].ability);
		if (!*ability)
			continue; /* given up already: that was not it */
		*ability = false;
		if (dispensable[i].layer < LAYER_COUNT)
			f->refused[dispensable[i].layer] = num;
		log_info("isolation.without", "step=%s error=\"%s\"", step,
			 strerror(num));
		return true;
	}
	return false;
}

void probe_slot_failed(struct launcher *l, const char *step, int num)
{
	if (strcmp(step, "slot_cgroup") == 0 && l->cgroups.kind != CGROUP_NONE &&
	    !passing(num)) {
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
	probe_canary(&l->slots[0], l->probe->stage);
}

void probe_canary(struct slot *s, enum errand errand)
{
	struct launcher *l = s->launcher;
	struct message m = {.type = MSG_RUN};
	struct plan *p = &m.plan;
	unsigned i;

	p->errand = errand;
	p->limits = (struct limits){.wall_ms = 5000,
				    .cpu_ms = 5000,
				    .memory_mb = 64,
				    .pids = 8,
				    .disk_mb = 4};
	if (p->errand == ERRAND_MEMORY)
		p->limits.memory_mb = 24;
	/* its processes are counted, not what they hold */
	if (p->errand == ERRAND_FORKS)
		p->limits.memory_mb = 512;
	/* who is counted would be ended for trying it */
	if (p->errand == ERRAND_LOOK && launcher_counts_pids(l))
		p->limits.pids = 1024;
	for (i = 0; i < l->setup->rows; i++) {
		if (l->setup->row[i].go_cache)
			p->row = i; /* the row that needs most */
	}
	slot_start_run(s, &m, (const int[]){l->proc_fd, -1}, loop_now_ns());
}

int probe_read_seen(struct probe_facts *f, const struct run *r)
{
	if (r->canary_fd < 0 || !r->exited || r->wait_status != 0 ||
	    read(r->canary_fd, &f->seen, sizeof(f->seen)) != (ssize_t)sizeof(f->seen))
		return -1;
	f->seen.hostname[sizeof(f->seen.hostname) - 1] = '\0';
	f->looked = true;
	return 0;
}

/*
 * What the reporting filter lets the launcher decide, a kernel that takes the filter
 * without asking the launcher would let pass. false: the plain filters shall do it.
 */
static bool denials_reported(struct launcher *l, const struct run *r)
{
	struct probe_facts *f = &l->probe->facts;

	/* where a container's own filter refuses unshare, that one's error counts and
	 * nobody is asked */
	f->reported = notify_count(r, launcher_shares(l) ? SYS_sched_setaffinity
							 : SYS_unshare);
	f->unshare_reported = notify_count(r, SYS_unshare) > 0;
	if (!l->abilities.notify || f->reported)
		return true;
	l->abilities.notify = false;
	f->refused[LAYER_VIOLATIONS] = ENOMSG;
	log_warn("isolation.without", "step=listener error=\"%s\"", strerror(ENOMSG));
	return false;
}

static void next_stage(struct launcher *l, enum errand stage)
{
	l->probe->stage = stage;
	slot_reset(
		&l->slots[0]); /* rebuilt when the memory canary took the worker along */
	if (l->slots[0].state == SLOT_FREE)
		probe_slot_ready(l);
}

/* a test wants to see a canary that had too little CPU time to be throttled */
static bool test_idle(const struct launcher *l)
{
#ifdef SANDBOX_TEST_HOOKS
	return l->probe->cpu_tries == 0 && strcmp(l->setup->test_fault, "idle") == 0;
#else
	(void)l;
	return false;
#endif
}

/* false: another one shall try */
static bool throttle_seen(struct launcher *l)
{
	struct probe_facts *f = &l->probe->facts;

	f->throttled = test_idle(l) ? 0 : cgroup_throttled(&l->slots[0].cgroup);
	return f->throttled > 0 || ++l->probe->cpu_tries == CPU_TRIES;
}

void probe_run_over(struct launcher *l, const struct run *r, const char *failed_step,
		    int num)
{
	struct probe_facts *f = l->probe ? &l->probe->facts : NULL;

	if (!f) { /* a canary that looks for what was lost */
		lost_run_over(l, r, failed_step, num);
		return;
	}
	if (failed_step) {
		if (give_way(l, failed_step, num))
			build_again(l);
		else
			give_up(l, failed_step, num);
		return;
	}
	switch (l->probe->stage) {
	case ERRAND_LOOK:
		if (probe_read_seen(f, r) < 0) {
			give_up(l, "canary", EIO);
			return;
		}
		if (!denials_reported(l, r)) {
			build_again(l);
			return;
		}
		if (l->cgroups.kind != CGROUP_NONE) {
			next_stage(l, ERRAND_MEMORY);
			return;
		}
		if (launcher_counts_pids(l)) {
			next_stage(l, ERRAND_FORKS);
			return;
		}
		break;
	case ERRAND_FORKS:
		f->forks_stopped = r->pids_out;
		break;
	case ERRAND_MEMORY:
		f->memory_stopped = cgroup_oom_seen(&l->slots[0].cgroup);
		next_stage(l, ERRAND_CPU);
		return;
	default:
		if (!throttle_seen(l)) {
			next_stage(l, ERRAND_CPU);
			return;
		}
		break;
	}
	/* ends the probe first: the slot then serves whoever waits */
	conclude(l);
	if (!l->probe)
		slot_reset(&l->slots[0]);
}

void probe_start(struct launcher *l)
{
	const int abi = sys_landlock_abi(), num = abi < 0 ? errno : 0;
	struct stat st;

	l->probe = mem_zero(sizeof(*l->probe));
	l->probe->stage = ERRAND_LOOK;
	l->abilities = (struct abilities){
		.level = LEVEL_NAMESPACES,
		.one_uid = l->abilities.one_uid,
		.pod = l->setup->network == NETWORK_POD,
		.pivot = true,
		.private_proc = true,
		.hostname = true,
		.overlay = true,
		.landlock_abi = abi > 0 ? abi : 0,
		.notify = true,
		.wait_killable = true,
		.poll_memory = l->cgroups.kind == CGROUP_NONE,
		.sockets = true,
		.go_seed = l->setup->go_seed_dir[0] &&
			   stat(l->setup->go_seed_dir, &st) == 0,
	};
	if (notify_usable() < 0) {
		l->abilities.notify = false;
		l->probe->facts.refused[LAYER_VIOLATIONS] = errno;
	}
	l->probe->facts.refused[LAYER_LANDLOCK] = num;
	l->probe->last = passing(num);
	if (passing(num))
		give_up(l, "landlock", num);
	else if (l->no_user_ns)
		give_up(l, "user_namespace", l->no_user_ns);
	else
		slot_build(&l->slots[0]);
}

void probe_refused(struct launcher *l, const char *step, int num)
{
	l->probe = mem_zero(sizeof(*l->probe));
	l->probe->last = true;
	l->abilities.level = LEVEL_NAMESPACES;
	give_up(l, step, num);
}
