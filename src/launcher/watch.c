/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * watch.c - waits and judges
 *
 * Runs in: the launcher. A run's end is known by its pidfd: when process 1 of a pid
 * namespace can be reaped, nothing of the run is alive. The verdict comes from evidence:
 * counters as differences, the wait status, which timer fired. Deadlines live here, so a
 * hung server cannot stretch one.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/statfs.h>
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
#define MS 1000000ull
#define CPU_SLACK_US \
	100000 /* one period of the CPU quota: a timeout is not a CPU limit */
#define CPU_LOOK_US 10000
#define SAMPLE_MS 20
#define END_MS 5 /* from the end of the program to that of its tree, as a rule */

void run_clear(struct run *r)
{
	struct slot *s = r->slot;
	int *fds[] = {&r->pid_fd,    &r->news_fd,      &r->work_fd, &r->proc_fd,
		      &r->canary_fd, &r->collector_fd, &r->files_fd};
	unsigned i;

	loop_timer_stop(s->launcher->loop, &r->timer);
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0) {
			loop_remove(s->launcher->loop, *fds[i]);
			close(*fds[i]);
		}
	}
	memset(r, 0, sizeof(*r));
	r->slot = s;
	r->pid_fd = r->news_fd = r->work_fd = r->proc_fd = -1;
	r->canary_fd = r->collector_fd = r->files_fd = -1;
	r->failed.step = -1;
}

void run_kill(struct run *r)
{
	if (r->pid_fd < 0 || r->dead)
		return;
	cgroup_unthrottle(&r->slot->cgroup);
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
		waitpid(r->collector, NULL, 0);
	}
	if (r->pid_fd >= 0 && !r->dead) {
		run_kill(r);
		waitpid(r->pid, NULL, __WALL);
	}
	run_clear(r);
}

void run_oom(struct run *r)
{
	r->memory_out = true;
	run_kill(r);
}

/* a layer that only the host can give back: the client is told 503, not that we are
 * broken */
static bool is_lost_layer(const char *step, int num)
{
	return strcmp(step, "clone") == 0 ||
	       (strcmp(step, "cgroup") == 0 && (num == ENOENT || num == ENODEV));
}

static void tell_failed(struct run *r, const char *step, int num)
{
	struct launcher *l = r->slot->launcher;
	struct message m = {.type = MSG_FAILED, .run = r->id};

	m.failure.num = num;
	m.failure.lost_layer = is_lost_layer(step, num);
	snprintf(m.failure.step, sizeof(m.failure.step), "%s", step);
	if (!r->killed)
		log_error("run.failed", "slot=%u step=%s error=\"%s\"", r->slot->n, step,
			  strerror(num));
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
	tell_failed(r, copy, num);
	slot_reset(r->slot);
}

void run_refused(struct run *r, const char *step, int num)
{
	failed(r, step, num);
}

static void on_news(void *arg, uint32_t events)
{
	struct run *r = arg;
	struct child_news n = {0};
	int fds[FDPASS_MAX], got;
	size_t count, i;

	(void)events;
	while ((got = fdpass_receive(r->news_fd, &n, sizeof(n), fds, &count, false)) ==
	       1) {
		if (n.type == NEWS_PLACES && r->work_fd < 0) {
			r->work_fd = take_fd(&fds[0]);
			r->proc_fd = take_fd(&fds[1]);
		} else if (n.type == NEWS_FAILED && !r->started) {
			r->failed = n;
		} else if (n.type == NEWS_STARTED && r->failed.step < 0 && !r->started) {
			struct message m = {.type = MSG_STARTED, .run = r->id};

			r->started = true;
			r->started_ns = n.at_ns;
			m.setup_us = (n.at_ns - r->arrived_ns) / 1000;
			if (r->plan.errand == ERRAND_NONE)
				launcher_send(r->slot->launcher, &m, NULL);
			loop_timer_at(r->slot->launcher->loop, &r->timer, 0);
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

/* over the CPU limit; else until when it cannot be, on every CPU it was given */
static bool cpu_spent(struct run *r, uint64_t cpu_us, uint64_t now, uint64_t *next)
{
	const uint64_t most_us = r->plan.limits.cpu_ms * 1000ull + CPU_SLACK_US;
	uint64_t left_us;

	if (cpu_us == CGROUP_UNKNOWN64)
		return false;
	if (cpu_us > most_us)
		return true;
	left_us = (most_us - cpu_us) * 1000 /
		  (r->slot->launcher->setup->cpu_milli + 1000);
	if (left_us < CPU_LOOK_US)
		left_us = CPU_LOOK_US;
	if (now + left_us * 1000 < *next)
		*next = now + left_us * 1000;
	return false;
}

/* the next moment something can have changed; now when a limit is passed */
static uint64_t next_look(struct run *r, uint64_t now)
{
	const struct limits *l = &r->plan.limits;
	uint64_t next = r->started_ns + l->wall_ms * MS;
	struct sample s;

	if (r->slot->cgroup.kind != CGROUP_NONE) {
		r->cpu_out = cpu_spent(r, cgroup_cpu_us(&r->slot->cgroup), now, &next);
		return r->cpu_out ? now : next;
	}
	if (r->proc_fd < 0)
		return next;
	sample_take(r->proc_fd, r->work_fd, &s);
	if (s.cpu_us > r->peak.cpu_us)
		r->peak.cpu_us = s.cpu_us;
	if (s.memory_kb > r->peak.memory_kb)
		r->peak.memory_kb = s.memory_kb;
	r->memory_out = s.memory_kb > (uint64_t)l->memory_mb << 10;
	r->cpu_out = cpu_spent(r, s.cpu_us, now, &next);
	if (r->memory_out || r->cpu_out)
		return now;
	return now + SAMPLE_MS * MS < next ? now + SAMPLE_MS * MS : next;
}

static void on_timer(void *arg)
{
	struct run *r = arg;
	uint64_t now = loop_now_ns(), next;

	if (r->collector_fd >= 0) {
		collect_kill(r->collector_fd);
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
	next = next_look(r, now);
	if (next <= now)
		run_kill(r);
	else
		loop_timer_at(r->slot->launcher->loop, &r->timer, next);
}

static bool disk_is_full(const struct run *r)
{
	struct statfs fs;

	return r->work_fd >= 0 && fstatfs(r->work_fd, &fs) == 0 &&
	       (fs.f_bfree == 0 || fs.f_ffree == 0);
}

static uint64_t rusage_cpu_us(const struct rusage *u)
{
	return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000u +
	       (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* the cgroup's count; without one what was reaped, since who was killed is in nobody's
 * rusage, or what was seen on the way */
static uint64_t cpu_us_used(const struct run *r)
{
	const uint64_t counted = cgroup_cpu_us(&r->slot->cgroup);

	return counted != CGROUP_UNKNOWN64
		       ? counted
		       : larger(rusage_cpu_us(&r->rusage), r->peak.cpu_us);
}

static enum verdict judge(struct run *r)
{
	if (cgroup_oom_seen(&r->slot->cgroup) || r->memory_out)
		return VERDICT_OUT_OF_MEMORY;
	if (r->timed_out)
		return VERDICT_TIMEOUT;
	if (r->cpu_out)
		return VERDICT_CPU_TIMEOUT;
	if (!r->exited) /* killed, and nothing above says why: the client left */
		return VERDICT_SIGNAL;
	/* anybody can send SIGXCPU, so the time itself must have been used too */
	if (WIFSIGNALED(r->wait_status))
		return WTERMSIG(r->wait_status) == SIGXCPU &&
				       cpu_us_used(r) >= r->plan.limits.cpu_ms * 1000ull
			       ? VERDICT_CPU_TIMEOUT
			       : VERDICT_SIGNAL;
	if (WEXITSTATUS(r->wait_status) == 0)
		return VERDICT_OK;
	return disk_is_full(r) ? VERDICT_DISK_FULL : VERDICT_NONZERO_EXIT;
}

static void fill_usage(const struct run *r, struct outcome *o)
{
	struct cgroup_usage u;

	cgroup_usage(&r->slot->cgroup, &u);
	o->cpu_us = cpu_us_used(r);
	o->memory_peak_kb = u.memory_peak_kb != CGROUP_UNKNOWN64 ? u.memory_peak_kb
								 : USAGE_UNKNOWN;
	o->pids_peak = u.pids_peak != CGROUP_UNKNOWN32 ? u.pids_peak : USAGE_UNKNOWN;
	if (o->memory_peak_kb ==
	    USAGE_UNKNOWN) /* the largest process, or all when we looked */
		o->memory_peak_kb = larger((uint64_t)r->rusage.ru_maxrss,
					   r->peak.memory_kb);
	else if (u.memory_reason)
		snprintf(o->memory_reason, sizeof(o->memory_reason), "%s",
			 u.memory_reason);
	if (u.pids_reason)
		snprintf(o->pids_reason, sizeof(o->pids_reason), "%s", u.pids_reason);
}

/* the collector is through, or was not needed: the answer, and the slot is free again */
static void finish(struct run *r)
{
	struct message m = {.type = MSG_DONE, .run = r->id};
	uint64_t end_ns = r->exited ? r->exited_ns : loop_now_ns();
	struct outcome *o = &m.outcome;

	o->verdict = judge(r);
	if (r->exited && WIFEXITED(r->wait_status))
		o->exit_code = WEXITSTATUS(r->wait_status);
	else
		o->signal = r->exited ? WTERMSIG(r->wait_status) : SIGKILL;
	o->setup_us = (r->started_ns - r->arrived_ns) / 1000;
	o->wall_us = end_ns > r->started_ns ? (end_ns - r->started_ns) / 1000 : 0;
	if (o->verdict == VERDICT_TIMEOUT &&
	    o->wall_us < r->plan.limits.wall_ms * 1000ull)
		o->wall_us = r->plan.limits.wall_ms * 1000ull;
	fill_usage(r, o);
	o->files = r->files_fd >= 0;
	m.fds = o->files;
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

void run_worker_lost(struct run *r)
{
	if (r->plan.errand == ERRAND_NONE && cgroup_oom_seen(&r->slot->cgroup))
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
	if (collect_finish(r->collector, r->files_fd, &e) < 0)
		log_error("collect.failed", "slot=%u error=\"%s\"", r->slot->n, e.text);
	else if (fstat(r->files_fd, &st) == 0 && st.st_size > 0) {
		finish(r);
		return;
	}
	close(r->files_fd);
	r->files_fd = -1;
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
	       !r->killed && !cgroup_oom_seen(&r->slot->cgroup);
}

static void over(struct run *r)
{
	struct launcher *l = r->slot->launcher;

	if (r->failed.step >= 0)
		failed(r, child_step_name(r->failed.step), r->failed.num);
	else if (r->plan.errand == ERRAND_SEED)
		seed_over(l, r->exited && r->wait_status == 0);
	else if (r->plan.errand != ERRAND_NONE)
		probe_run_over(l, r, NULL, 0); /* never calls execve, so never starts */
	else if (!r->started && (r->memory_out || cgroup_oom_seen(&r->slot->cgroup)))
		starved(r);
	else if (!r->started)
		failed(r, "setup", why_not_started(r));
	else if (lost(r))
		failed(r, "init", ECHILD);
	else
		collect(r);
}

static void on_dead(void *arg, uint32_t events)
{
	struct run *r = arg;
	siginfo_t info;

	(void)events;
	loop_remove(r->slot->launcher->loop, r->pid_fd);
	loop_timer_stop(r->slot->launcher->loop, &r->timer);
	/* the C library's waitid has no rusage */
	if (syscall(SYS_waitid, P_PIDFD, r->pid_fd, &info, WEXITED, &r->rusage) < 0)
		log_error("run.wait", "slot=%u error=\"%s\"", r->slot->n,
			  strerror(errno));
	r->dead = true;
	if (r->news_fd >= 0)
		on_news(r, 0); /* what it said last */
	loop_timer_stop(r->slot->launcher->loop, &r->timer);
	over(r);
}

void run_watch(struct run *r)
{
	struct loop *l = r->slot->launcher->loop;

	r->timer.fn = on_timer;
	r->timer.arg = r;
	loop_timer_at(l, &r->timer, r->arrived_ns + SETUP_DEADLINE_MS * MS);
	if (loop_add(l, r->news_fd, EPOLLIN, on_news, r) < 0 ||
	    loop_add(l, r->pid_fd, EPOLLIN, on_dead, r) < 0) {
		log_error("run.watch", "slot=%u error=\"%s\"", r->slot->n,
			  strerror(errno));
		r->slot->condemned = true;
		sys_pidfd_send_signal(r->pid_fd, SIGKILL);
		waitpid(r->pid, NULL, 0);
		failed(r, "watch", ENOMEM);
	} else if (r->killed) {
		run_kill(r); /* the client left before the run had a pid */
	}
}
