/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lost.c - an isolation layer that goes away while we serve
 *
 * Runs in: the launcher. Somebody sets user.max_user_namespaces to 0, or removes our
 * cgroup: the next run cannot be made as promised. Then none is made at all, the server
 * is told which layer it is and why, and a canary tries every few seconds. When it sees
 * all that was seen at the start, slots are made anew and runs go on. What runs in the
 * meantime was born with all layers, and keeps them.
 *
 * A launcher that replaces another and finds less than the first one did is in the same
 * state from its start. It has given abilities up, so it ends after a while, and the next
 * one looks again.
 */
#include "launcher/lost.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/fork.h"
#include "launcher/launcher.h"
#include "launcher/ledger.h"
#include "launcher/verdicts.h"

#define MS 1000000ull
#define RETRY_FIRST_MS 250
#define RETRY_MOST_MS 4000
#define TRANSIENT_MOST 8 /* tries of a slot, five seconds apart by then */

/* Steps that fail for want of a layer, whatever the reason, unless one is given. The
 * others are faults of ours or a client's own doing. */
static const struct {
	const char *step;
	int num; /* 0: any */
	enum layer_id layer;
} layer_steps[] = {
	{"clone", ENODEV, LAYER_MEMORY_LIMIT}, /* the cgroup that it is to be born in */
	{"clone", 0, LAYER_USER_NAMESPACE},
	{"cgroup", 0, LAYER_MEMORY_LIMIT},
	{"cgroup_namespace", ENOSPC, LAYER_CGROUP_NAMESPACE},
	{"slot_cgroup", 0, LAYER_MEMORY_LIMIT},
	{"slot_namespaces", 0, LAYER_NETWORK_NAMESPACE},
	{"slot_proc", 0, LAYER_PROC},
	{"slot_identity", 0, LAYER_IDENTITY},
	{"slot_", 0, LAYER_ROOT}, /* whatever else a slot is made of */
};

/* what each run has made for it alone, but for the last, which is its slot's */
static const struct {
	const char *limit;
	enum layer_id layer;
} namespaces[LOST_LIMITS] = {
	{"/proc/sys/user/max_user_namespaces", LAYER_USER_NAMESPACE},
	{"/proc/sys/user/max_mnt_namespaces", LAYER_MOUNT_NAMESPACE},
	{"/proc/sys/user/max_pid_namespaces", LAYER_PID_NAMESPACE},
	{"/proc/sys/user/max_ipc_namespaces", LAYER_IPC_NAMESPACE},
	{"/proc/sys/user/max_uts_namespaces", LAYER_UTS_NAMESPACE},
	{"/proc/sys/user/max_cgroup_namespaces", LAYER_CGROUP_NAMESPACE},
	{"/proc/sys/user/max_net_namespaces", LAYER_NETWORK_NAMESPACE},
};

static bool is_transient(int num)
{
	return num == EAGAIN || num == ENOMEM || num == EMFILE || num == ENFILE ||
	       num == EINTR || num == EBUSY || num == ECHILD;
}

static bool is_namespace(enum layer_id layer)
{
	return layer >= LAYER_USER_NAMESPACE && layer < LAYER_USER_NAMESPACE + NS_COUNT;
}

void lost_open_limits(struct launcher *l)
{
	for (unsigned i = 0; i < LOST_LIMITS; i++)
		l->limit_fd[i] = open(namespaces[i].limit, O_RDONLY | O_CLOEXEC);
}

/* the first of so many kinds that may not be made any more, or -1; one that cannot be
 * read says nothing */
static int full_namespace(const struct launcher *l, unsigned count)
{
	char text[4];

	for (unsigned i = 0; i < count; i++) {
		ssize_t n = pread(l->limit_fd[i], text, sizeof(text), 0);

		if (n == 2 && text[0] == '0')
			return (int)i;
	}
	return -1;
}

int lost_layer_of(const struct launcher *l, const char *step, int num)
{
	unsigned i;
	int full;

	for (i = 0; i < sizeof(layer_steps) / sizeof(layer_steps[0]); i++) {
		const char *name = layer_steps[i].step;
		const bool prefix = name[strlen(name) - 1] == '_';

		if ((prefix ? strncmp(step, name, strlen(name)) != 0
			    : strcmp(step, name) != 0) ||
		    (layer_steps[i].num && layer_steps[i].num != num))
			continue;
		if (is_transient(num))
			return -1;
		/* where runs share the host's namespaces, none was asked for */
		if (launcher_shares(l) && is_namespace(layer_steps[i].layer))
			return -1;
		if (l->abilities.pod && layer_steps[i].layer == LAYER_NETWORK_NAMESPACE)
			return (int)LAYER_MOUNT_NAMESPACE; /* the other one made there */
		full = num == ENOSPC ? full_namespace(l, LOST_LIMITS) : -1;
		return (int)(full < 0 ? layer_steps[i].layer : namespaces[full].layer);
	}
	return -1;
}

/* without the reports of refused calls: they tell, they do not isolate */
static uint32_t active_layers(const struct report *r)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < LAYER_COUNT; i++)
		bits |= r->layer[i].active ? 1u << i : 0;
	return bits & ~(1u << LAYER_VIOLATIONS);
}

static const char *fix_of(uint32_t layer, int num)
{
	if (num == ENOSPC && layer == LAYER_USER_NAMESPACE)
		return "sysctl -w user.max_user_namespaces=15000";
	if (layer == LAYER_MEMORY_LIMIT)
		return "restart the server, so that it makes its cgroup again";
	return "";
}

/* the report that the server gets: as found, but for what is gone */
static void describe(struct launcher *l, const char *step, int num)
{
	struct report *r = &l->report;
	struct layer *layer = &r->layer[l->lost.layer];

	r->level = LEVEL_NONE;
	r->lost = l->lost.layer + 1;
	if (layer->active || !layer->reason[0]) { /* else the probe has said it */
		snprintf(layer->reason, sizeof(layer->reason),
			 "refused while serving: %s: %s", step,
			 num == ENOSPC ? "none left" : strerror(num));
		snprintf(layer->fix, sizeof(layer->fix), "%s",
			 fix_of(l->lost.layer, num));
	}
	layer->active = 0;
	layer->evidence[0] = '\0';
	snprintf(r->summary, sizeof(r->summary), "%s is lost: %s",
		 report_layer_name((enum layer_id)l->lost.layer), layer->reason);
}

static void on_retry(void *arg);

static void try_later(struct launcher *l)
{
	uint64_t wait_ms = RETRY_FIRST_MS;
	unsigned i;

	for (i = 0; i < l->lost.tries && wait_ms < RETRY_MOST_MS; i++)
		wait_ms *= 2;
	l->lost.tries++;
	l->lost.slot = NULL;
	l->lost.retry.fn = on_retry;
	l->lost.retry.arg = l;
	loop_timer_at(l->loop, &l->lost.retry, loop_now_ns() + wait_ms * MS);
}

void lost_begin(struct launcher *l, int layer, const char *step, int num)
{
	if (l->lost.now)
		return;
	l->lost = (struct lost){
		.now = true, .layer = (uint32_t)layer, .since_ns = loop_now_ns()};
	describe(l, step, num);
	log_error("isolation.lost", "layer=%s step=%s error=\"%s\"",
		  report_layer_name((enum layer_id)layer), step, strerror(num));
	launcher_report(l);
	launcher_refuse_waiting(l);
	warm_drop(l);
	try_later(l);
}

void lost_look(struct launcher *l)
{
	int full;

	if (l->lost.now || l->probe || launcher_shares(l))
		return;
	full = full_namespace(l, LOST_LIMITS - 1);
	if (full >= 0 && l->ledger.layers & 1u << namespaces[full].layer)
		lost_begin(l, (int)namespaces[full].layer,
			   namespaces[full].limit + strlen("/proc/sys/user/"), ENOSPC);
}

/* a slot that is not in use; those that are keep what they have */
static struct slot *idle_slot(struct launcher *l)
{
	for (unsigned i = 0; i < l->slot_count; i++) {
		enum slot_state state = l->slots[i].state;

		if ((state == SLOT_EMPTY || state == SLOT_FREE) && !l->slots[i].forks)
			return &l->slots[i];
	}
	return NULL;
}

static void on_retry(void *arg)
{
	struct launcher *l = arg;
	struct slot *s = idle_slot(l);

	if (l->lost.start_anew) {
		l->status = LAUNCHER_AGAIN;
		loop_stop(l->loop);
		return;
	}
	if (!s) {
		try_later(l);
		return;
	}
	l->lost.slot = s;
	if (s->state == SLOT_FREE)
		slot_unbuild(s);
	slot_build(s);
}

bool lost_tries_in(const struct slot *s)
{
	return s->launcher->lost.now && s->launcher->lost.slot == s;
}

void lost_slot_ready(struct launcher *l)
{
	probe_canary(l->lost.slot, ERRAND_LOOK);
}

static void still_lost(struct launcher *l, const char *step, int num)
{
	log_debug("isolation.still_lost", "layer=%s step=%s error=\"%s\" tries=%u",
		  report_layer_name((enum layer_id)l->lost.layer), step, strerror(num),
		  l->lost.tries);
	try_later(l);
}

/* Before anything is lost: is it now. Afterwards a slot that cannot be made waits for
 * the layer, and the try that failed for the next one. */
void lost_slot_failed(struct slot *s, const char *step, int num)
{
	struct launcher *l = s->launcher;
	int layer = lost_layer_of(l, step, num);

	if (lost_tries_in(s))
		still_lost(l, step, num);
	else if (layer < 0 && s->failures >= TRANSIENT_MOST)
		layer = LAYER_ROOT; /* nobody shall wait for it any longer */
	if (layer >= 0)
		lost_begin(l, layer, step, num);
}

static void restore(struct launcher *l)
{
	const uint64_t ms = (loop_now_ns() - l->lost.since_ns) / MS;

	log_info("isolation.restored", "layer=%s after_ms=%llu",
		 report_layer_name((enum layer_id)l->lost.layer), (unsigned long long)ms);
	loop_timer_stop(l->loop, &l->lost.retry);
	l->lost = (struct lost){0};
	launcher_report(l);
	/* none that was made before the layer went is trusted, or counted as there */
	for (unsigned i = 0; i < l->slot_count; i++)
		l->slots[i].condemned |= l->slots[i].state == SLOT_FREE;
	for (unsigned i = 0; i < l->slot_count; i++) {
		struct slot *s = &l->slots[i];

		loop_timer_stop(l->loop, &s->retry);
		s->failures = 0;
		if (s->state != SLOT_EMPTY && s->state != SLOT_FREE) {
			s->condemned = s->state != SLOT_BUILDING || s->cleaning;
			continue;
		}
		if (s->state == SLOT_EMPTY &&
		    (s->forks ? !fork_possible(l) : i >= launcher_capacity(l)))
			continue; /* made when something is to wait in it */
		if (s->state == SLOT_FREE)
			slot_unbuild(s);
		slot_build(s);
	}
	warm_tell(l);
}

/* the first layer of the ledger that this report lacks, or -1 */
static int missing_layer(const struct report *r, const struct ledger *found)
{
	const uint32_t gone = found->layers & ~active_layers(r);

	if (gone)
		return __builtin_ctz(gone);
	return r->level < found->level ? (int)LAYER_ROOT : -1;
}

void lost_run_over(struct launcher *l, const struct run *r, const char *failed_step,
		   int num)
{
	struct slot *s = l->lost.slot;
	struct report seen;

	if (!failed_step && probe_read_seen(l->facts, r) < 0) {
		failed_step = "canary";
		num = EIO;
	}
	if (!failed_step) {
		verdicts_report(l, l->facts, &seen);
		seen.slots = l->slot_count;
		if (missing_layer(&seen, &l->ledger) >= 0) {
			failed_step = "canary";
			num = ENODATA;
		}
	}
	l->lost.slot = NULL;
	slot_reset(s);
	if (failed_step) {
		still_lost(l, failed_step, num);
		return;
	}
	l->report = seen;
	restore(l);
}

void lost_probe_over(struct launcher *l, const struct probe_facts *facts)
{
	int layer;

	if (!l->facts)
		l->facts = mem_zero(sizeof(*l->facts));
	*l->facts = *facts;
	if (l->ledger.level == LEVEL_NONE) {
		l->ledger.level = l->report.level;
		l->ledger.layers = active_layers(&l->report);
		if (ledger_write(l->ledger_fd, &l->ledger) < 0) {
			log_error("ledger.failed", "error=\"%s\"", strerror(errno));
			loop_stop(l->loop);
		}
		return;
	}
	layer = missing_layer(&l->report, &l->ledger);
	if (layer < 0)
		return;
	lost_begin(l, layer, facts->fatal_step[0] ? facts->fatal_step : "start",
		   facts->fatal_num ? facts->fatal_num : ENODATA);
	l->lost.start_anew = true;
}
