/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * warm.c - sandboxes that wait for a request
 *
 * Runs in: the launcher. Each was made for nobody, is used once and thrown away. What a
 * request may still change is what its plan has: limits downward, and the input. One that
 * did anything but wait (it ended, it wrote, it spoke) is not used: the run starts cold,
 * and so does one whose sandbox fails before it has started the program.
 *
 * Without a cgroup what waiting has cost could not be told from what the run costs, and
 * runs that share the host's namespaces would share the time of waiting too: there none
 * waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/sys.h"
#include "launcher/launcher.h"

#define MS 1000000ull
#define OLD_MS 600000 /* then it is replaced: its random seeds are not for ever */
#define TELL_MS 100
#define SOON_MS 5
#define MARGIN_KB 4096 /* that a run may have beyond what it waited with at least */
#define RETRY_FIRST_MS 100
#define RETRY_MOST_MS 60000
#define NO_LAYERS_MS 60000 /* after one that could not be moved */

static bool possible(const struct launcher *l)
{
	return l->setup->warm > 0 && !l->probe && !l->lost.now && !launcher_shares(l) &&
	       l->cgroups.kind != CGROUP_NONE && l->report.level >= l->setup->min_level;
}

static bool is_warm(const struct slot *s)
{
	return s->state == SLOT_WARMING || s->state == SLOT_WAITING;
}

/* sandboxes of a row that wait or will; -1: one is being made, of whatever row */
static int count(const struct launcher *l, uint32_t row)
{
	int n = 0;

	for (unsigned i = 0; i < l->slot_count; i++) {
		if (l->slots[i].state == SLOT_WARMING)
			return -1;
		n += l->slots[i].state == SLOT_WAITING && l->slots[i].run.plan.row == row;
	}
	return n;
}

static void on_retry(void *arg)
{
	warm_fill(arg);
}

uint64_t warm_holds(const struct launcher *l)
{
	uint64_t kb = 0;

	for (unsigned i = 0; i < l->slot_count; i++)
		kb += l->slots[i].held_kb +
		      (l->slots[i].state == SLOT_WAITING ? l->slots[i].run.held_kb : 0);
	return kb;
}

bool warm_has_room(const struct launcher *l, uint64_t kb)
{
	return warm_holds(l) + kb <= (uint64_t)l->setup->warm_memory_mb << 10;
}

bool warm_is_too_large(uint64_t held_kb, const struct plan *p)
{
	return ((uint64_t)p->limits.memory_mb << 10) < held_kb + MARGIN_KB;
}

static void on_tell(void *arg)
{
	warm_tell(arg);
}

static void tell_later(struct launcher *l, uint64_t ms)
{
	l->warm.tell.fn = on_tell;
	l->warm.tell.arg = l;
	loop_timer_at(l->loop, &l->warm.tell, loop_now_ns() + ms * MS);
}

/* an interpreter that forks is free again in a moment: each time would be twice a run */
void warm_tell_soon(struct launcher *l)
{
	if (!l->warm.tell.place)
		tell_later(l, SOON_MS);
}

/* the server, which has it for who asks; one that does not listen now is told later */
void warm_tell(struct launcher *l)
{
	struct message m = {.type = MSG_WARM};

	if (l->unsent) {
		tell_later(l, TELL_MS);
		return;
	}
	m.warm.rows = l->setup->rows;
	m.warm.memory_kb = warm_holds(l);
	for (unsigned i = 0; i < l->slot_count; i++) {
		if (l->slots[i].state == SLOT_WAITING)
			m.warm.ready[l->slots[i].run.plan.row]++;
		if (l->slots[i].forks && l->slots[i].state == SLOT_FREE)
			m.warm.ready[l->setup->fork_row]++;
	}
	memcpy(m.warm.fork_failed, l->warm.fork_failed, sizeof(m.warm.fork_failed));
	launcher_send(l, &m, NULL);
}

/* the row that has the fewest and may be tried; -1: none is to be made now */
static int neediest(struct launcher *l)
{
	const uint64_t now = loop_now_ns();
	int best = -1, least = (int)l->setup->warm;

	for (uint32_t row = 0; row < l->setup->rows; row++) {
		const uint64_t not_before = l->warm.row[row].not_before_ns;
		int n;

		if (l->setup->row[row].waits == WAITS_NOT)
			continue;
		n = count(l, row);
		if (n < 0)
			return -1;
		if (n >= least || !warm_has_room(l, l->warm.row[row].size_kb))
			continue;
		if (not_before > now) {
			l->warm.retry.fn = on_retry;
			l->warm.retry.arg = l;
			loop_timer_at(l->loop, &l->warm.retry, not_before);
			continue;
		}
		least = n;
		best = (int)row;
	}
	return best;
}

void warm_start(struct launcher *l)
{
	if ((l->setup->warm > 0 || l->setup->forks > 0) &&
	    (launcher_shares(l) || l->cgroups.kind == CGROUP_NONE))
		log_event(l->setup->warm_asked || l->setup->forks ? LOG_WARN : LOG_DEBUG,
			  "warm.none", "reason=\"%s\"",
			  launcher_shares(l) ? "runs share the host's namespaces"
					     : "no cgroup counts what a run uses");
}

/* A slot that no run will miss, whatever comes at once; NULL: there is none yet. They
 * are built one by one, when there is something to put into them. */
static struct slot *spare(struct launcher *l)
{
	struct slot *empty = NULL;
	unsigned usable = 0, building = 0;

	for (unsigned i = 0; i < l->slot_count; i++) {
		struct slot *s = &l->slots[i];

		if (s->forks)
			continue;
		usable += s->state == SLOT_FREE || s->state == SLOT_BUSY;
		building += s->state == SLOT_BUILDING;
		if (s->state == SLOT_EMPTY && !s->retry.place)
			empty = empty ? empty : s;
	}
	if (usable > launcher_capacity(l))
		return launcher_free_slot(l);
	if (empty && usable + building <= launcher_capacity(l))
		slot_build(empty);
	return NULL;
}

static void start_waiting(struct slot *s, uint32_t row)
{
	struct launcher *l = s->launcher;
	struct run *r = &s->run;

	run_clear(r);
	r->plan = (struct plan){.row = row, .limits = l->setup->row[row].ceiling};
	r->plan.ahead = !l->warm.row[row].plain;
	r->arrived_ns = loop_now_ns();
	s->state = SLOT_WARMING;
	slot_clone(s, l->proc_fd, -1);
}

void warm_fill(struct launcher *l)
{
	struct slot *s;
	int row;

	if (!possible(l) || l->waiting_count)
		return;
	row = neediest(l);
	s = row >= 0 ? spare(l) : NULL;
	if (s)
		start_waiting(s, (uint32_t)row);
}

static uint64_t old_ms(const struct launcher *l)
{
#ifdef SANDBOX_TEST_HOOKS
	if (strcmp(l->setup->test_fault, "old") == 0)
		return 300;
#endif
	(void)l;
	return OLD_MS;
}

void warm_ready(struct run *r)
{
	struct slot *s = r->slot;
	struct launcher *l = s->launcher;
	uint64_t kb = cgroup_memory_kb(&s->cgroup);

	if (s->state != SLOT_WARMING || r->killed) {
		run_kill(r); /* it was not asked */
		return;
	}
	if (kb == CGROUP_UNKNOWN64) /* as much as it may */
		kb = (uint64_t)r->plan.limits.memory_mb << 10;
	l->warm.row[r->plan.row].size_kb = r->held_kb = kb;
	if (!warm_has_room(l, kb)) {
		log_info("warm.full", "row=%u memory_kb=%llu", r->plan.row,
			 (unsigned long long)kb);
		r->killed = true; /* by us: no fault of its own */
		run_kill(r);
		return;
	}
	s->state = SLOT_WAITING;
	warm_tell(l);
	loop_timer_at(l->loop, &r->timer, loop_now_ns() + old_ms(l) * MS);
	log_debug("warm.ready", "slot=%u row=%u", s->n, r->plan.row);
	warm_fill(l);
}

/* its end, which comes by its pidfd, makes room for the next one */
static void discard(struct slot *s, const char *reason, int num)
{
	log_warn("warm.discarded", "slot=%u row=%u reason=%s error=\"%s\"", s->n,
		 s->run.plan.row, reason, num ? strerror(num) : "");
	s->state = SLOT_WARMING;
	s->run.killed = true;
	run_kill(&s->run);
}

/* it has ended or spoken: nobody had asked it anything */
static bool is_odd(const struct run *r)
{
	struct pollfd p[] = {{.fd = r->pid_fd, .events = POLLIN},
			     {.fd = r->news_fd, .events = POLLIN},
			     {.fd = r->stream_fd[1], .events = POLLIN},
			     {.fd = r->stream_fd[2], .events = POLLIN}};

	return poll(p, sizeof(p) / sizeof(p[0]), 0) != 0;
}

/* the scratch tmpfs, whose size it was born with; by us, since nobody in the sandbox has
 * the right any more */
static int resize(const struct run *r, uint32_t disk_mb)
{
	auto_fd int fd = -1;
	char size[24], inodes[24];

	if (disk_mb == r->plan.limits.disk_mb)
		return 0;
	fd = sys_fspick(r->work_fd, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
	if (fd < 0)
		return -1;
	snprintf(size, sizeof(size), "%llu", (unsigned long long)disk_mb << 20);
	snprintf(inodes, sizeof(inodes), "%llu",
		 (unsigned long long)disk_mb * CHILD_INODES_PER_MB + CHILD_INODES);
	if (sys_fsconfig(fd, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
	    sys_fsconfig(fd, FSCONFIG_SET_STRING, "nr_inodes", inodes, 0) < 0)
		return -1;
	return sys_fsconfig(fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0);
}

/* a run's layer of packages; it is its own from here on, whatever becomes of it */
static int give_layer(struct run *r, int layer_fd)
{
	if (layer_fd < 0)
		return 0;
	r->layer_fd = fcntl(layer_fd, F_DUPFD_CLOEXEC, 0);
	return r->layer_fd < 0 ? -1 : layers_move(r);
}

static int hand_over(struct slot *s, const struct message *m, int input_fd, int layer_fd,
		     const char **out_reason)
{
	const struct cgroup_limits want = slot_limits(s, &m->plan);
	const struct child_order order = {.plan = m->plan};
	struct run *r = &s->run;
	struct err e = {0};

	errno = 0;
	*out_reason = "not_waiting";
	if (s->condemned || is_odd(r))
		return -1;
	*out_reason = "disk";
	if (resize(r, m->plan.limits.disk_mb) < 0) {
		s->launcher->warm.fixed_disk = true;
		return -1;
	}
	*out_reason = "cgroup";
	if (cgroup_slot_idle(&s->cgroup, false) < 0 ||
	    cgroup_run_limit(&s->cgroup, &want, &e) < 0)
		return -1;
	*out_reason = "layer";
	if (give_layer(r, layer_fd) < 0) {
		s->launcher->warm.no_layers_ns = loop_now_ns() + NO_LAYERS_MS * MS;
		return -1;
	}
	*out_reason = "order";
	r->input_fd = fcntl(input_fd, F_DUPFD_CLOEXEC, 0);
	if (r->input_fd < 0)
		return -1;
	return fdpass_send(r->news_fd, &order, sizeof(order), &input_fd, 1);
}

bool warm_take(struct launcher *l, const struct message *m, int input_fd,
	       uint64_t arrived_ns)
{
	auto_fd int layer_fd = -1;

	if (m->plan.cold >= COLD_ALWAYS || !possible(l) ||
	    (m->plan.has_layer && loop_now_ns() < l->warm.no_layers_ns))
		return false;
	/* one that is not there is no fault of who waits: a cold start finds it too */
	if (m->plan.has_layer && (layer_fd = layers_open(l, &m->plan)) < 0)
		return false;
	for (unsigned i = 0; i < l->slot_count; i++) {
		struct slot *s = &l->slots[i];
		struct run *r = &s->run;
		const char *reason;

		if (s->state != SLOT_WAITING || r->plan.row != m->plan.row ||
		    (m->plan.cold && !r->takes_words) ||
		    warm_is_too_large(r->held_kb, &m->plan) ||
		    (l->warm.fixed_disk &&
		     r->plan.limits.disk_mb != m->plan.limits.disk_mb))
			continue;
		if (hand_over(s, m, input_fd, layer_fd, &reason) < 0) {
			discard(s, reason, errno);
			/* whatever the request has of these the next would fail with too
			 */
			if (strcmp(reason, "layer") == 0 || strcmp(reason, "cgroup") == 0)
				return false;
			continue;
		}
		s->state = SLOT_BUSY; /* which is told when it has started */
		r->warm = true;
		r->id = m->run;
		r->plan = m->plan;
		r->arrived_ns = arrived_ns;
		loop_timer_at(l->loop, &r->timer, arrived_ns + WARM_START_MS * MS);
		return true;
	}
	return false;
}

void warm_started(struct run *r, const struct message *started)
{
	const struct message m = {.type = MSG_STREAMS, .fds = 3, .run = r->id};
	struct launcher *l = r->slot->launcher;

	/* All at once, so that the server wakes once. Not before: a run that has to start
	 * cold has other streams. */
	if (r->slot->forks)
		warm_tell_soon(l);
	else
		warm_tell(l);
	launcher_send(l, &m, r->stream_fd);
	launcher_send(l, started, NULL);
	for (int i = 0; i < 3; i++)
		close(take_fd(&r->stream_fd[i]));
	close(take_fd(&r->input_fd));
	l->warm.row[r->plan.row].failures = 0;
}

bool warm_concerns(const struct run *r)
{
	return is_warm(r->slot) ||
	       (r->slot->state == SLOT_BUSY && r->warm && !r->started && !r->killed);
}

static void put_off(struct launcher *l, uint32_t row)
{
	uint64_t wait_ms = RETRY_FIRST_MS;
	unsigned i;

	for (i = 0; i < l->warm.row[row].failures && wait_ms < RETRY_MOST_MS; i++)
		wait_ms *= 2;
	l->warm.row[row].failures++;
	l->warm.row[row].not_before_ns = loop_now_ns() + wait_ms * MS;
}

static void start_cold(struct run *r, const char *step, int num)
{
	struct launcher *l = r->slot->launcher;
	struct message m = {.type = MSG_RUN, .run = r->id};
	const uint64_t arrived_ns = r->arrived_ns;
	int fds[RUN_FDS] = {take_fd(&r->input_fd), -1};

	log_warn("warm.cold", "slot=%u step=%s error=\"%s\"", r->slot->n, step,
		 strerror(num));
	m.plan = r->plan;
	slot_reset(r->slot);
	launcher_start_cold(l, &m, fds, arrived_ns);
	defer_close(&fds[RUN_INPUT]);
}

void warm_failed(struct run *r, const char *step, int num)
{
	struct slot *s = r->slot;
	struct launcher *l = s->launcher;
	const uint32_t row = r->plan.row;
	const bool starved = s->state == SLOT_BUSY && cgroup_oom_seen(&s->cgroup);
	const bool meant = r->killed || (s->state == SLOT_WAITING && r->timed_out);
	const int layer = lost_layer_of(l, step, num);

	/* nor is it its fault that a layer has what an interpreter had at its start, or
	 * that the client gave it too little */
	if (!meant && !starved && num != CHILD_HAS_ALREADY) {
		put_off(l, row);
		s->condemned = s->condemned || s->forks; /* whatever is wrong with it */
	}
	/* then without it: what a request adds to its words starts cold */
	if (num == ENOEXEC && strcmp(step, "order") == 0 &&
	    l->setup->row[row].ahead != AHEAD_IMPORTS)
		l->warm.row[row].plain = true;
	if (s->state == SLOT_BUSY) {
		start_cold(r, step, num);
		warm_tell(l);
		return;
	}
	if (!meant)
		log_warn("warm.failed", "slot=%u row=%u step=%s error=\"%s\"", s->n, row,
			 step, strerror(num));
	if (layer >= 0)
		lost_begin(l, layer, step, num);
	slot_reset(s);
	warm_tell(l);
}

void warm_drop(struct launcher *l)
{
	for (unsigned i = 0; i < l->slot_count; i++) {
		struct slot *s = &l->slots[i];

		if (!is_warm(s))
			continue;
		s->condemned = true;
		s->state = SLOT_WARMING;
		s->run.killed = true;
		run_kill(&s->run); /* one without a pid yet is killed when it has one */
	}
}
