/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * watch.c - waits for a run's end
 *
 * Runs in: the launcher. A run's end is known by its pidfd: when process 1 of a pid
 * namespace can be reaped, nothing of the run is alive. Deadlines live here, so a hung
 * server cannot stretch one.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/sys.h"
#include "launcher/collect.h"
#include "launcher/launcher.h"

#define SETUP_DEADLINE_MS 10000
#define WARMING_DEADLINE_MS 60000 /* with the time that others leave */
#define MS 1000000ull
#define ENDING_MS 1000 /* that init has to end its tree */
#define ORPHANS_MS 2
#define END_MS 5 /* from the end of the program to that of its tree, as a rule */

void run_init(struct run *r, struct slot *s)
{
	r->slot = s;
	r->pid_fd = r->news_fd = r->work_fd = r->proc_fd = r->place_fd = -1;
	r->canary_fd = r->collector_fd = r->files_fd = r->notify.fd = -1;
	r->stream_fd[0] = r->stream_fd[1] = r->stream_fd[2] = r->input_fd = -1;
	r->failed.step = -1;
}

void run_clear(struct run *r)
{
	struct slot *s = r->slot;
	int *fds[] = {&r->pid_fd,       &r->news_fd,      &r->work_fd,      &r->proc_fd,
		      &r->place_fd,     &r->canary_fd,    &r->collector_fd, &r->files_fd,
		      &r->stream_fd[0], &r->stream_fd[1], &r->stream_fd[2], &r->input_fd};
	unsigned i;

	loop_timer_stop(s->launcher->loop, &r->timer);
	notify_clear(r);
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0) {
			loop_remove(s->launcher->loop, *fds[i]);
			close(*fds[i]);
		}
	}
	memset(r, 0, sizeof(*r));
	run_init(r, s);
}

void run_kill(struct run *r)
{
	if (r->pid_fd < 0 || r->dead)
		return;
	cgroup_unthrottle(&r->slot->cgroup);
	/* refused: it dies slowly, but dies */
	(void)cgroup_slot_idle(&r->slot->cgroup, false);
	/* who is no process 1 has to take the rest along itself; killed only when it does
	 * not, and then its orphans come to us */
	if (launcher_shares(r->slot->launcher) && !r->ending) {
		r->ending = true;
		sys_pidfd_send_signal(r->pid_fd, SIGTERM);
		loop_timer_at(r->slot->launcher->loop, &r->timer,
			      loop_now_ns() + ENDING_MS * MS);
		return;
	}
	sys_pidfd_send_signal(r->pid_fd, SIGKILL);
	/* process 1 takes the rest along, but only when it gets to run: among many that
	 * spin that may take longer than anybody should wait */
	cgroup_kill(&r->slot->cgroup, r->slot->worker);
}

/* on the way out: kill, and wait until nothing of it is left */
void run_end(struct run *r)
{
	if (r->collector_fd >= 0) {
		collect_kill(r->collector_fd);
		(void)sys_reap(r->collector, NULL, NULL);
	}
	if (r->pid_fd >= 0 && !r->dead) {
		struct pollfd p = {.fd = r->pid_fd, .events = POLLIN};

		run_kill(r);
		if (r->ending && poll(&p, 1, ENDING_MS) != 1)
			run_kill(r);
		(void)sys_reap(r->pid, NULL, NULL);
		r->dead = true;
	}
	run_clear(r);
}

void run_oom(struct run *r)
{
	r->memory_out = true;
	run_kill(r);
}

static void tell_failed(struct run *r, const char *step, int num)
{
	struct launcher *l = r->slot->launcher;
	struct message m = {.type = MSG_FAILED, .run = r->id};
	/* a layer that only the host can give back: the client is told 503, not that we
	 * are broken */
	int layer = lost_layer_of(l, step, num);

	m.failure.num = num;
	if (layer >= 0)
		m.failure.lost_layer = (uint32_t)layer + 1;
	snprintf(m.failure.step, sizeof(m.failure.step), "%s", step);
	if (!r->killed)
		log_error("run.failed", "slot=%u step=%s error=\"%s\"", r->slot->n, step,
			  strerror(num));
	if (layer >= 0)
		lost_begin(l, layer, step, num); /* first: nothing new comes in between */
	launcher_send(l, &m, NULL);
}

static void failed(struct run *r, const char *step, int num)
{
	struct launcher *l = r->slot->launcher;
	char copy[32];

	snprintf(copy, sizeof(copy), "%s", step);
	if (r->plan.errand == ERRAND_SEED) {
		log_warn("seed.failed", "step=%s error=\"%s\"", copy, strerror(num));
		seed_over(l, false);
		return;
	}
	if (r->plan.errand != ERRAND_NONE) {
		probe_run_over(l, r, copy, num);
		return;
	}
	if (warm_concerns(r)) {
		warm_failed(r, copy, num);
		return;
	}
	tell_failed(r, copy, num);
	slot_reset(r->slot);
}

void run_refused(struct run *r, const char *step, int num)
{
	failed(r, step, num);
}

/* calls of the program wait for an answer: without one it must not run */
static void take_listener(struct run *r, int *fd)
{
	if (notify_take(r, fd) == 0)
		return;
	r->failed = (struct child_news){.num = errno};
	r->failed.step = child_step_find("listener");
	run_kill(r);
}

/* links to the compile cache's seed are no doing of the program's, and many */
static void take_own_place(struct run *r, int *fd)
{
	const struct launcher *l = r->slot->launcher;

	r->place_fd = take_fd(fd);
	if (l->abilities.go_seed && l->setup->row[r->plan.row].go_cache &&
	    r->plan.errand == ERRAND_NONE)
		sample_disk(r->place_fd, UINT64_MAX, &r->disk_base);
}

static void started(struct run *r, uint64_t at_ns)
{
	struct message m = {.type = MSG_STARTED, .run = r->id};

	if (r->slot->state != SLOT_BUSY) {
		run_kill(r); /* without an order */
		return;
	}
	r->started = true;
	r->started_ns = at_ns;
	m.setup_us = (at_ns - r->arrived_ns) / 1000;
	if (r->warm)
		warm_started(r);
	if (r->plan.errand == ERRAND_NONE)
		launcher_send(r->slot->launcher, &m, NULL);
	loop_timer_at(r->slot->launcher->loop, &r->timer, 0);
}

static void on_news(void *arg, uint32_t events)
{
	struct run *r = arg;
	struct child_news n = {0};
	int fds[FDPASS_MAX], got;
	size_t count, i;

	(void)events;
	while ((got = fdpass_receive(r->news_fd, &n, sizeof(n), fds, &count,
				     FDPASS_NOW)) == 1) {
		if (n.type == NEWS_PLACES && r->work_fd < 0) {
			r->work_fd = take_fd(&fds[0]);
			if (launcher_shares(r->slot->launcher))
				take_own_place(r, &fds[1]);
			else
				r->proc_fd = take_fd(&fds[1]);
		} else if (n.type == NEWS_FAILED && !r->started) {
			r->failed = n;
		} else if (n.type == NEWS_LISTENER && !r->notify.taken && !r->started) {
			take_listener(r, &fds[0]);
		} else if (n.type == NEWS_STARTED && r->failed.step < 0 && !r->started) {
			started(r, n.at_ns);
		} else if (n.type == NEWS_READY) {
			warm_ready(r);
		} else if (n.type == NEWS_EXITED && !r->exited) {
			r->exited = true;
			r->wait_status = n.status;
			r->exited_ns = n.at_ns;
			loop_timer_at(r->slot->launcher->loop, &r->timer,
				      loop_now_ns() + END_MS * MS);
		}
		for (i = 0; i < count; i++)
			defer_close(&fds[i]);
	}
	if (got == 0 || errno != EAGAIN)
		loop_remove(r->slot->launcher->loop, r->news_fd);
}

static void on_timer(void *arg)
{
	struct run *r = arg;
	uint64_t now = loop_now_ns(), next;

	if (r->collector_fd >= 0) {
		collect_kill(r->collector_fd);
		return;
	}
	if (r->ending ||
	    r->exited) { /* it was in time, but others of its tree are slow to go */
		run_kill(r);
		return;
	}
	if (!r->started) {
		r->timed_out = true;
		run_kill(r);
		return;
	}
	if (now >= r->started_ns + r->plan.limits.wall_ms * MS) {
		r->timed_out = true;
		run_kill(r);
		return;
	}
	next = run_look(r, now);
	if (next <= now)
		run_kill(r);
	else
		loop_timer_at(r->slot->launcher->loop, &r->timer, next);
}

/* the collector is through, or was not needed: the answer, and the slot is free again */
static void finish(struct run *r)
{
	struct message m = {.type = MSG_DONE, .run = r->id};
	struct outcome *o = &m.outcome;

	run_judge(r, o);
	o->violations = notify_known(r);
	notify_tell(r);
	o->files = r->files_fd >= 0 ? OUTCOME_FILES
		   : r->files_lost  ? OUTCOME_FILES_LOST
				    : OUTCOME_NO_FILES;
	m.fds = r->files_fd >= 0;
	launcher_send(r->slot->launcher, &m, &r->files_fd);
	slot_reset(r->slot);
}

/* The limit is too small for the set-up itself: what the client chose, not a fault of
 * ours */
static void starved(struct run *r)
{
	r->memory_out = true;
	r->started_ns = loop_now_ns();
	finish(r);
}

static void worker_lost(struct run *r)
{
	if (!warm_concerns(r) && r->plan.errand == ERRAND_NONE &&
	    cgroup_oom_seen(&r->slot->cgroup))
		starved(r);
	else
		failed(r, "worker", ECHILD);
}

static void on_collected(void *arg, uint32_t events)
{
	struct run *r = arg;
	struct err e = {0};
	struct stat st;

	(void)events;
	loop_remove(r->slot->launcher->loop, r->collector_fd);
	if (collect_finish(r->collector, r->files_fd, &e) < 0 ||
	    fstat(r->files_fd, &st) < 0) {
		log_error("collect.failed", "slot=%u error=\"%s\"", r->slot->n, e.text);
		r->files_lost = true;
	}
	if (r->files_lost || st.st_size == 0) {
		close(r->files_fd);
		r->files_fd = -1;
	}
	finish(r);
}

static void collect(struct run *r)
{
	const struct setup *setup = r->slot->launcher->setup;
	struct loop *l = r->slot->launcher->loop;
	struct collect_job job = {
		.work_fd = r->work_fd,
		.output_dir = setup->output_dir,
		.uid = r->slot->uid,
		.gid = r->slot->gid,
		.max_files = setup->max_files,
		.max_bytes = setup->max_files_bytes,
		.wall_ms = 1000,
	};
	struct err e = {0};

	if (r->killed || r->work_fd < 0) {
		finish(r);
		return;
	}
	if (collect_start(&job, &r->collector, &r->collector_fd, &r->files_fd, &e) < 0) {
		log_error("collect.failed", "slot=%u error=\"%s\"", r->slot->n, e.text);
		r->files_lost = true;
		finish(r);
		return;
	}
	loop_timer_at(l, &r->timer,
		      loop_now_ns() + (job.wall_ms + COLLECT_GRACE_MS) * MS);
	if (loop_add(l, r->collector_fd, EPOLLIN, on_collected, r) < 0) {
		collect_kill(r->collector_fd);
		on_collected(r, 0);
	}
}

/* killed on the way in: by the deadline, or because the client left */
static int why_not_started(const struct run *r)
{
	return r->timed_out ? ETIMEDOUT : EINTR;
}

/* process 1 ended without a word, and it was not us who killed it */
static bool lost(struct run *r)
{
	return !r->exited && !r->timed_out && !r->cpu_out && !r->memory_out &&
	       !r->pids_out && !r->disk_out && !r->killed &&
	       !cgroup_oom_seen(&r->slot->cgroup);
}

static void over(struct run *r)
{
	struct launcher *l = r->slot->launcher;

	if (r->orphan)
		worker_lost(r);
	else if (r->failed.step >= 0)
		failed(r, child_step_name(r->failed.step), r->failed.num);
	else if (r->plan.errand == ERRAND_SEED)
		seed_over(l, r->exited && r->wait_status == 0);
	else if (r->plan.errand != ERRAND_NONE)
		probe_run_over(l, r, NULL, 0); /* never calls execve, so never starts */
	else if (warm_concerns(r))
		failed(r, "waiting", why_not_started(r));
	else if (!r->started && (r->memory_out || cgroup_oom_seen(&r->slot->cgroup)))
		starved(r);
	else if (!r->started)
		failed(r, "setup", why_not_started(r));
	else if (lost(r))
		failed(r, "init", ECHILD);
	else
		collect(r);
}

/* init did not end by itself: what it left must be dead before anybody looks at files */
static void on_orphans(void *arg)
{
	struct run *r = arg;
	struct launcher *l = r->slot->launcher;

	if (orphan_kill_all(l) > 0) {
		loop_timer_at(l->loop, &r->timer, loop_now_ns() + ORPHANS_MS * MS);
		return;
	}
	r->timer.fn = on_timer; /* the collector's, from here on */
	over(r);
}

static void on_dead(void *arg, uint32_t events)
{
	struct run *r = arg;
	int status = -1;

	(void)events;
	loop_remove(r->slot->launcher->loop, r->pid_fd);
	loop_timer_stop(r->slot->launcher->loop, &r->timer);
	if (sys_reap(r->pid, &status, &r->rusage) < 0)
		log_error("run.wait", "slot=%u error=\"%s\"", r->slot->n,
			  strerror(errno));
	r->dead = true;
	if (r->news_fd >= 0 && !r->orphan)
		on_news(r, 0); /* what it said last */
	loop_timer_stop(r->slot->launcher->loop, &r->timer);
	if (launcher_shares(r->slot->launcher) && status != 0) {
		r->timer.fn = on_orphans;
		on_orphans(r);
		return;
	}
	over(r);
}

void run_watch(struct run *r)
{
	struct loop *l = r->slot->launcher->loop;
	const uint64_t ms = r->slot->state == SLOT_WARMING ? WARMING_DEADLINE_MS
							   : SETUP_DEADLINE_MS;

	r->timer.fn = on_timer;
	r->timer.arg = r;
	loop_timer_at(l, &r->timer, r->arrived_ns + ms * MS);
	if (loop_add(l, r->news_fd, EPOLLIN, on_news, r) < 0 ||
	    loop_add(l, r->pid_fd, EPOLLIN, on_dead, r) < 0) {
		log_error("run.watch", "slot=%u error=\"%s\"", r->slot->n,
			  strerror(errno));
		r->slot->condemned = true;
		sys_pidfd_send_signal(r->pid_fd, SIGKILL);
		(void)sys_reap(r->pid, NULL, NULL);
		failed(r, "watch", ENOMEM);
	} else if (r->killed) {
		run_kill(r); /* the client left before the run had a pid */
	}
}

void run_worker_lost(struct run *r)
{
	struct launcher *l = r->slot->launcher;
	const int found = orphan_find(r);

	if (found == 0) {
		worker_lost(r);
		return;
	}
	r->orphan = true;
	if (found < 0 || loop_add(l->loop, r->pid_fd, EPOLLIN, on_dead, r) < 0) {
		log_error("run.orphan", "error=\"%s\"", strerror(errno));
		loop_stop(l->loop); /* it dies with us, by its parent-death signal */
		return;
	}
	run_kill(r);
}
