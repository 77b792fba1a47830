/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * watch.c - waits for a run's end
 *
 * Runs in: the launcher. A run's end is known by its pidfd: when process 1 of a pid
 * namespace can be reaped, nothing of the run is alive. Deadlines live here, so a hung
 * server cannot stretch one.
 */
#include <assert.h>
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

void run_init(struct run *r, struct slot *s)
{
	r->slot = s;
	r->pid_fd = r->news_fd = r->work_fd = r->proc_fd = r->place_fd = -1;
	r->sockets_fd = r->canary_fd = r->collector_fd = r->files_fd = r->notify.fd = -1;
	r->layer_fd = r->mounts_fd = -1;
	r->stream_fd[0] = r->stream_fd[1] = r->stream_fd[2] = r->input_fd = -1;
	r->failed.step = -1;
}

void run_clear(struct run *r)
{
	struct slot *s = r->slot;
	int *fds[] = {&r->pid_fd,       &r->news_fd,      &r->work_fd,      &r->proc_fd,
		      &r->place_fd,     &r->canary_fd,    &r->collector_fd, &r->files_fd,
		      &r->stream_fd[0], &r->stream_fd[1], &r->stream_fd[2], &r->input_fd,
		      &r->sockets_fd,   &r->layer_fd,     &r->mounts_fd};
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

static void kill_now(struct run *r)
{
	sys_pidfd_send_signal(r->pid_fd, SIGKILL);
	/* process 1 takes the rest along, but only when it gets to run: among many that
	 * spin that may take longer than anybody should wait */
	cgroup_kill(&r->slot->cgroup, r->slot->worker);
}

void run_kill(struct run *r)
{
	if (r->pid_fd < 0 || r->dead)
		return;
	cgroup_unthrottle(&r->slot->cgroup);
	/* refused: it dies slowly, but dies */
	(void)cgroup_slot_idle(&r->slot->cgroup, false);
	if (!launcher_shares(r->slot->launcher)) {
		kill_now(r);
		return;
	}
	/* who is no process 1 has to take the rest along itself, however often it is
	 * told; killed only when its time is up, and then its orphans come to us */
	if (r->ending)
		return;
	r->ending = true;
	sys_pidfd_send_signal(r->pid_fd, SIGTERM);
	loop_timer_at(r->slot->launcher->loop, &r->timer, loop_now_ns() + ENDING_MS * MS);
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
			kill_now(r);
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
	if (r->plan.errand == ERRAND_SESSION) {
		session_slot_failed(r->slot, copy, num);
		return;
	}
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
	/* its namespaces and cgroup go: no fault of ours, and no layer that is lost */
	if (session_gives_up(r->slot))
		snprintf(copy, sizeof(copy), "session_end");
	tell_failed(r, copy, num);
	slot_reset(r->slot);
}

void run_refused(struct run *r, const char *step, int num)
{
	failed(r, step, num);
}

/* the server has it made, and asks again */
void run_no_layer(struct run *r)
{
	struct message m = {.type = MSG_FAILED, .run = r->id};

	m.failure.no_layer = 1;
	launcher_send(r->slot->launcher, &m, NULL);
	slot_reset(r->slot);
}

/* a command has ended, its tree has not: told now, and its init stays with the rest */
static void leave(struct run *r)
{
	struct sample last;

	run_measure(r, &last); /* nobody waits for its init, whose usage it would be */
	r->left = true;
	run_over(r);
}

static void on_timer(void *arg)
{
	struct run *r = arg;
	uint64_t now = loop_now_ns(), next;

	if (r->collector_fd >= 0) {
		collect_kill(r->collector_fd);
		return;
	}
	if (r->dead) { /* its worker says nothing of what it wrote */
		r->slot->condemned = true;
		run_disk_silent(r);
		return;
	}
	if (r->ending) {
		kill_now(r);
		return;
	}
	if (r->exited && session_by_tree(r->slot)) {
		leave(r);
		return;
	}
	if (r->exited) { /* it was in time, but others of its tree are slow to go */
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
void run_finish(struct run *r)
{
	struct message m = {.type = MSG_DONE, .run = r->id};
	struct outcome *o = &m.outcome;

	run_judge(r, o);
	session_outcome(r->slot, o);
	o->layer = r->layer_result;
	o->unbuilt = layers_unbuilt(r);
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
	run_finish(r);
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
	assert(r->collector_fd >= 0); /* else it would be anybody whom we wait for */
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
	run_finish(r);
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

	if (r->killed || r->work_fd < 0 || r->plan.kept ||
	    (!launcher_shares(r->slot->launcher) &&
	     collect_nothing(r->work_fd, setup->output_dir))) {
		run_finish(r);
		return;
	}
	if (collect_start(&job, &r->collector, &r->collector_fd, &r->files_fd, &e) < 0) {
		log_error("collect.failed", "slot=%u error=\"%s\"", r->slot->n, e.text);
		r->files_lost = true;
		run_finish(r);
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

/* its own end: in a session others, and the command, can kill its init; where no cgroup
 * counts the host may take it first when its memory is out */
static void killed_inside(struct run *r)
{
	r->exited = true;
	r->wait_status = SIGKILL;
	r->exited_ns = loop_now_ns();
	if (!r->started)
		r->started_ns = r->exited_ns;
	run_finish(r);
}

void run_over(struct run *r)
{
	struct launcher *l = r->slot->launcher;

	if (r->plan.errand == ERRAND_SESSION && r->started)
		session_ended(r);
	else if (r->orphan)
		worker_lost(r);
	else if (r->failed.step >= 0)
		failed(r, child_step_name(r->failed.step), r->failed.num);
	else if (r->plan.errand == ERRAND_SESSION)
		failed(r, "session_setup", why_not_started(r));
	else if (r->plan.errand == ERRAND_SEED)
		seed_over(l, r->exited && r->wait_status == 0);
	else if (r->plan.errand != ERRAND_NONE)
		probe_run_over(l, r, NULL, 0); /* never calls execve, so never starts */
	else if (warm_concerns(r))
		failed(r, "waiting", why_not_started(r));
	else if (r->init_killed && (session_entered(r->slot) || r->proc_fd >= 0) &&
		 lost(r))
		killed_inside(r);
	else if (!r->started && (r->memory_out || cgroup_oom_seen(&r->slot->cgroup)))
		starved(r);
	else if (!r->started)
		failed(r, r->slot->session && r->killed ? "session_end" : "setup",
		       why_not_started(r));
	else if (lost(r))
		failed(r, "init", ECHILD);
	else if (run_disk_last(r))
		return; /* comes back here */
	else if (l->setup->row[r->plan.row].installs)
		layers_keep(r);
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
	run_over(r);
}

/* a session's command that did not end by itself: all of its tree goes with it */
static void on_rest(void *arg)
{
	struct run *r = arg;

	if (!session_rest_gone(r->slot)) {
		loop_timer_at(r->slot->launcher->loop, &r->timer,
			      loop_now_ns() + ORPHANS_MS * MS);
		return;
	}
	run_over(r);
}

static bool rest_must_end(struct run *r)
{
	return session_entered(r->slot) &&
	       (!r->exited || r->timed_out || r->cpu_out || r->disk_out || r->killed ||
		r->memory_out || r->pids_out || cgroup_oom_seen(&r->slot->cgroup));
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
	r->init_ended = status == 0;
	r->init_killed = WIFSIGNALED(status);
	if (r->left) { /* what it was waiting for has ended, or it was killed */
		session_left_over(r->slot);
		return;
	}
	if (r->news_fd >= 0 && !r->orphan)
		run_on_news(r, 0); /* what it said last */
	loop_timer_stop(r->slot->launcher->loop, &r->timer);
	if (launcher_shares(r->slot->launcher) && status != 0) {
		r->timer.fn = on_orphans;
		on_orphans(r);
		return;
	}
	if (rest_must_end(r)) {
		r->timer.fn = on_rest;
		on_rest(r);
		return;
	}
	run_over(r);
}

void run_watch(struct run *r)
{
	struct loop *l = r->slot->launcher->loop;
	const uint64_t ms = r->slot->state == SLOT_WARMING ? WARMING_DEADLINE_MS
			    : r->warm                      ? WARM_START_MS
							   : SETUP_DEADLINE_MS;

	r->timer.fn = on_timer;
	r->timer.arg = r;
	loop_timer_at(l, &r->timer, r->arrived_ns + ms * MS);
	if (loop_add(l, r->news_fd, EPOLLIN, run_on_news, r) < 0 ||
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
