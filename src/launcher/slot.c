/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * slot.c - build, reset, rebuild a slot
 *
 * A slot is a place where one run at a time can be born: cgroups with limits, an empty
 * network namespace, a prepared root, a uid of its own, and a worker that lives in all of
 * them. When anything about it is odd after a run, it is thrown away and made anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/fork.h"
#include "launcher/launcher.h"
#include "launcher/worker.h"

#define CANARY_CPU_MILLI 20 /* half of what its canary uses, in every period */
#define RETRY_FIRST_MS 50
#define RETRY_MOST_MS 5000
#define ANSWER_MS 10000    /* that a worker may take to clone; */
#define FORK_ANSWER_MS 500 /* an interpreter: then the run starts cold, in time */
#define MS 1000000ull

static void on_oom(void *arg, uint32_t events)
{
	struct slot *s = arg;

	(void)events;
	if (cgroup_oom_seen(&s->cgroup) && s->state == SLOT_BUSY)
		run_oom(&s->run);
}

void slot_drop_worker(struct slot *s)
{
	struct loop *l = s->launcher->loop;

	if (s->oom_fd >= 0)
		loop_remove(l, s->oom_fd);
	s->oom_fd = -1; /* the cgroup's own */
	if (s->worker_fd >= 0)
		loop_remove(l, s->worker_fd);
	defer_close(&s->worker_fd);
	s->worker_fd = -1;
	if (s->worker_pid_fd >= 0) {
		loop_remove(l, s->worker_pid_fd);
		/* a short wait: it holds no more than the mounts of one run */
		sys_pidfd_send_signal(s->worker_pid_fd, SIGKILL);
		(void)sys_reap(s->worker, NULL, NULL);
		close(s->worker_pid_fd);
	}
	s->worker_pid_fd = -1;
	s->worker = 0;
}

void slot_unbuild(struct slot *s)
{
	slot_drop_worker(s);
	defer_close(&s->sockets_fd); /* not with the worker: a run may go on after it */
	s->sockets_fd = -1;
	if (cgroup_slot_remove(&s->cgroup) < 0)
		log_warn("slot.left", "slot=%u what=cgroup", s->n);
	s->state = SLOT_EMPTY;
	s->condemned = s->cleaning = false;
	s->held_kb = 0;
	loop_timer_stop(s->launcher->loop, &s->old);
}

static void on_retry(void *arg)
{
	struct slot *s = arg;

	if (s->state == SLOT_EMPTY)
		slot_build(s);
}

void slot_build_later(struct slot *s, uint64_t wait_ms)
{
	s->retry.fn = on_retry;
	s->retry.arg = s;
	loop_timer_at(s->launcher->loop, &s->retry, loop_now_ns() + wait_ms * MS);
}

/* another try later, or the probe's business while it decides what this host can do */
void slot_build_failed(struct slot *s, const char *step, int num)
{
	struct launcher *l = s->launcher;
	uint64_t wait_ms = RETRY_FIRST_MS;
	unsigned i;

	slot_unbuild(s);
	if (s->session)
		return session_slot_failed(s, step, num);
	if (l->probe) {
		probe_slot_failed(l, step, num);
		return;
	}
	if (s->seed_dir) {
		log_warn("seed.failed", "step=%s error=\"%s\"", step, strerror(num));
		seed_over(l, false);
		return;
	}
	if (s->forks) { /* an interpreter's own fault, or others find the same */
		snprintf(l->warm.fork_failed, sizeof(l->warm.fork_failed), "%s", step);
		warm_tell(l);
	} else {
		lost_slot_failed(s, step, num);
	}
	if (l->lost.now)
		return; /* made when the layer is back */
	for (i = 0; i < s->failures && wait_ms < RETRY_MOST_MS; i++)
		wait_ms *= 2;
	s->failures++;
	log_error("slot.failed", "slot=%u step=%s error=\"%s\" retry_ms=%llu", s->n, step,
		  strerror(num), (unsigned long long)wait_ms);
	slot_build_later(s, wait_ms);
	if (s->forks)
		fork_fill(l);
}

static void on_built(struct slot *s, const struct worker_answer *a, int *fds)
{
	if (a->num != 0) {
		slot_build_failed(s, a->step, a->num);
		return;
	}
	if (s->sockets_fd < 0 && !s->forks)
		s->sockets_fd = take_fd(&fds[0]); /* not when it has only cleaned up */
	if (s->forks && !fork_ready(s))
		return;
	s->state = SLOT_FREE;
	s->cleaning = false;
	s->failures = s->forks ? s->failures : 0; /* of use when it has had a run */
	if (s->session)
		session_slot_ready(s);
	else if (s->condemned) /* meanwhile, so again */
		slot_reset(s);
	else if (s->launcher->probe)
		probe_slot_ready(s->launcher);
	else if (s->seed_dir)
		seed_slot_ready(s->launcher);
	else if (lost_tries_in(s))
		lost_slot_ready(s->launcher);
	else if (s->forks)
		fork_fill(s->launcher);
	else
		launcher_next_waiting(s->launcher);
}

static void on_cloned(struct slot *s, const struct worker_answer *a, int *fds,
		      size_t count)
{
	struct run *r = &s->run;
	struct message m = {.type = MSG_STREAMS, .fds = 3, .run = r->id};

	loop_timer_stop(s->launcher->loop, &r->timer);
	if (a->num != 0 || count != 4) {
		run_refused(r, a->num ? a->step : "worker", a->num ? a->num : EPROTO);
		return;
	}
	r->pid = a->pid;
	r->pid_fd = take_fd(&fds[0]);
	run_disk_begin(r, &a->use);
	if (s->state == SLOT_WARMING || r->warm) {
		memcpy(r->stream_fd, fds + 1, sizeof(r->stream_fd));
		fds[1] = fds[2] = fds[3] = -1;
	} else if (r->plan.errand != ERRAND_NONE) {
		r->canary_fd = take_fd(&fds[2]); /* open, so that it can be written to */
	} else {
		launcher_send(s->launcher, &m, fds + 1);
	}
	session_ids_give(s);
	run_watch(r);
}

/* the worker was told to clone something */
static bool has_order(const struct slot *s)
{
	return s->state == SLOT_BUSY || s->state == SLOT_WARMING;
}

/* the worker died by itself, or was killed with a run that used up the memory, or does
 * not answer */
static void worker_lost(struct slot *s)
{
	bool unanswered = has_order(s) && s->run.pid_fd < 0;
	enum slot_state state = s->state;

	if (unanswered)
		loop_timer_stop(s->launcher->loop, &s->run.timer);
	slot_drop_worker(s);
	s->condemned = true;
	if (state == SLOT_BUILDING)
		slot_build_failed(s, "worker", ECHILD);
	else if (unanswered)
		run_worker_lost(&s->run);
	else if (state == SLOT_FREE && s->forks) /* the next one may end so too */
		slot_build_failed(s, "fork_ended", ECHILD);
	else if (state == SLOT_FREE)
		slot_reset(s);
	else if (state != SLOT_BUSY)
		run_kill(&s->run); /* nobody has a use for it yet */
	else if (s->run.disk_asked)
		run_disk_silent(&s->run);
	/* else a run goes on without it: the launcher is its parent */
}

static void on_no_answer(void *arg)
{
	struct slot *s = arg;

	log_warn("slot.silent", "slot=%u", s->n);
	worker_lost(s);
}

/* 1: it said something; 0: it never will again; -1 with errno */
static int hear_worker(struct slot *s)
{
	struct worker_answer a = {0};
	int fds[FDPASS_MAX], r;
	size_t count, i;

	r = fdpass_receive(s->worker_fd, &a, sizeof(a), fds, &count, FDPASS_NOW);
	if (r <= 0)
		return r;
	a.step[sizeof(a.step) - 1] = '\0';
	if (a.counted)
		run_disk_counted(&s->run, &a);
	else if (s->state == SLOT_BUILDING)
		on_built(s, &a, fds);
	else if (has_order(s) && s->run.pid_fd < 0)
		on_cloned(s, &a, fds, count);
	for (i = 0; i < count; i++)
		defer_close(&fds[i]);
	return 1;
}

static void on_worker(void *arg, uint32_t events)
{
	int r = hear_worker(arg);

	(void)events;
	if (r == 0 || (r < 0 && errno != EAGAIN))
		worker_lost(arg);
}

/* Its socket may have no end yet: a run that it cloned has a copy until execve. What it
 * said last comes first. */
static void on_worker_dead(void *arg, uint32_t events)
{
	(void)events;
	if (hear_worker(arg) <= 0)
		worker_lost(arg);
}

static int fork_worker(struct slot *s)
{
	auto_fd int theirs = -1;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	s->worker_fd = pair[0];
	theirs = pair[1];
	s->worker = fork();
	if (s->worker < 0)
		return -1;
	if (s->worker == 0)
		worker_main(s, theirs);
	s->worker_pid_fd = sys_pidfd_open(s->worker, 0);
	if (s->worker_pid_fd < 0) {
		int saved = errno;

		kill(s->worker,
		     SIGKILL); /* not reaped yet: the number is still its own */
		(void)sys_reap(s->worker, NULL, NULL);
		errno = saved;
		return -1;
	}
	if (fcntl(s->worker_fd, F_SETFL, O_NONBLOCK) < 0 ||
	    loop_add(s->launcher->loop, s->worker_fd, EPOLLIN, on_worker, s) < 0)
		return -1;
	return loop_add(s->launcher->loop, s->worker_pid_fd, EPOLLIN, on_worker_dead, s);
}

void slot_build(struct slot *s)
{
	struct launcher *l = s->launcher;
	uint32_t events = 0;
	struct err e = {0};

	if (s->forks && !fork_may_build(s))
		return;
	if (cgroup_slot_make(session_cgroups(s), s->n, s->uid, &s->cgroup, &e) < 0) {
		log_warn("slot.cgroup", "slot=%u error=\"%s\"", s->n, e.text);
		slot_build_failed(s, "slot_cgroup", e.num);
		return;
	}
	/* with time that nobody wants, but where one is missed */
	if (s->forks && cgroup_slot_idle(&s->cgroup, !fork_is_missed(s)) < 0) {
		slot_build_failed(s, "slot_cgroup", errno);
		return;
	}
	s->state = SLOT_BUILDING;
	if (fork_worker(s) < 0) {
		slot_build_failed(s, "slot_worker", errno);
		return;
	}
	s->oom_fd = cgroup_oom_fd(&s->cgroup, &events);
	if (s->oom_fd >= 0 && loop_add(l->loop, s->oom_fd, events, on_oom, s) < 0)
		slot_build_failed(s, "slot_oom", errno);
}

/* the worker takes away what the run left, however long that takes */
static int clean(struct slot *s, int *mounts_fd)
{
	struct worker_order order = {.plan = {.errand = ERRAND_HOLD}};

	if (s->worker_fd < 0)
		return -1;
	if (*mounts_fd >= 0) {
		if (fdpass_send(s->worker_fd, &order, sizeof(order), mounts_fd, 1) < 0)
			return -1;
		close(take_fd(mounts_fd)); /* not the last, as long as it holds them */
	}
	order.plan.errand = ERRAND_CLEAN;
	if (fdpass_send(s->worker_fd, &order, sizeof(order), NULL, 0) < 0)
		return -1;
	s->state = SLOT_BUILDING;
	s->cleaning = true;
	return 0;
}

void slot_reset(struct slot *s)
{
	auto_fd int mounts_fd = -1;

	if (s->session)
		return session_slot_over(s);
	mounts_fd = take_fd(&s->run.mounts_fd);
	run_clear(&s->run);
	/* its worker too: whoever waits for it, if only for its end, waits long else */
	if (cgroup_slot_idle(&s->cgroup, false) < 0)
		s->condemned = true;
	/* a worker that shares the run's cgroup, as in v1, or its memory, may have been
	 * killed with it, and be still on its way out when the next run wants it */
	if ((s->cgroup.kind == CGROUP_V1 || s->forks) && cgroup_oom_seen(&s->cgroup))
		s->condemned = true;
	if (!s->condemned && !cgroup_empty(&s->cgroup, s->worker))
		s->condemned = true;
	if (!s->condemned && cgroup_run_end(&s->cgroup) < 0)
		s->condemned = true;
	if (!s->condemned && (launcher_shares(s->launcher) || mounts_fd >= 0) &&
	    clean(s, &mounts_fd) < 0)
		s->condemned = true;
	if (s->forks && s->state == SLOT_BUSY && fork_is_old(s))
		s->condemned = true;
	if (s->condemned) {
		log_event(s->forks ? LOG_DEBUG : LOG_INFO, "slot.rebuild", "slot=%u",
			  s->n);
		if (mounts_fd >= 0) /* the next worker would have it too */
			close(take_fd(&mounts_fd));
		slot_unbuild(s);
		slot_build(s);
		return;
	}
	if (s->state == SLOT_BUILDING)
		return; /* free when its worker is */
	s->state = SLOT_FREE;
	if (s->forks)
		warm_tell_soon(s->launcher);
	else if (!s->launcher->probe)
		launcher_next_waiting(s->launcher);
}

struct cgroup_limits slot_limits(const struct slot *s, const struct plan *p)
{
	return (struct cgroup_limits){
		.memory_bytes = (uint64_t)p->limits.memory_mb << 20,
		.pids = session_pids(p),
		.cpu_milli = p->errand == ERRAND_CPU ? CANARY_CPU_MILLI
						     : s->launcher->setup->cpu_milli,
	};
}

static int begin_cgroup(struct slot *s, const struct plan *p, struct err *e)
{
	const struct cgroup_limits want = slot_limits(s, p);

	if (cgroup_slot_idle(&s->cgroup, s->state == SLOT_WARMING) < 0)
		return err_errno(e, "weigh the CPU time of slot %u", s->n);
	return cgroup_run_begin(&s->cgroup, &want, e);
}

/* the slot's run, cloned by its worker as its plan and state say */
void slot_clone(struct slot *s, int input_fd, int egress_fd)
{
	struct worker_order order = {.plan = s->run.plan,
				     .waits = s->state == SLOT_WARMING};
	int pair[2], fds[FDPASS_MAX] = {-1, input_fd}, count = 2;
	auto_fd int tree_fd = -1;
	struct run *r = &s->run;
	struct err e = {0};

	if (begin_cgroup(s, &r->plan, &e) < 0) {
		log_error("run.cgroup", "slot=%u error=\"%s\"", s->n, e.text);
		s->condemned = true;
		run_refused(r, "cgroup", e.num);
		return;
	}
	/* without a mount namespace it has a path of its own instead */
	order.with_layer = r->layer_fd >= 0 && !launcher_shares(s->launcher);
	if (order.with_layer && (tree_fd = layers_tree(r)) < 0) {
		run_refused(r, "layer", errno);
		return;
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		run_refused(r, "news", errno);
		return;
	}
	r->timer.fn = on_no_answer; /* until it answers */
	r->timer.arg = s;
	loop_timer_at(s->launcher->loop, &r->timer,
		      loop_now_ns() + (s->forks ? FORK_ANSWER_MS : ANSWER_MS) * MS);
	r->news_fd = pair[0];
	fds[0] = pair[1];
	fds[count] = cgroup_run_fd(&s->cgroup);
	order.into_cgroup = fds[count] >= 0;
	count += fds[count] >= 0;
	if (egress_fd >= 0)
		fds[count++] = egress_fd;
	if (order.with_layer)
		fds[count++] = tree_fd;
	if (fcntl(r->news_fd, F_SETFL, O_NONBLOCK) < 0 ||
	    fdpass_send(s->worker_fd, &order, sizeof(order), fds, (size_t)count) < 0) {
		s->condemned = true;
		run_refused(r, "worker", errno);
	}
	close(pair[1]);
}

void slot_start_run(struct slot *s, const struct message *m, const int fds[RUN_FDS],
		    uint64_t arrived_ns)
{
	struct run *r = &s->run;

	run_clear(r);
	r->id = m->run;
	r->plan = m->plan;
	r->arrived_ns = arrived_ns;
	s->state = SLOT_BUSY;
	if (r->plan.network && r->plan.network != launcher_network(s->launcher) &&
	    r->plan.network != launcher_install_network(s->launcher)) {
		run_refused(r, "network", EOPNOTSUPP);
		return;
	}
	if (layers_take(r) < 0)
		run_no_layer(r);
	else
		slot_clone(s, fds[RUN_INPUT], fds[RUN_EGRESS]);
}

void slot_init(struct slot *s, struct launcher *l, unsigned n)
{
	s->launcher = l;
	s->n = n;
	s->uid = l->abilities.one_uid ? getuid() : l->setup->uid_base + n;
	s->gid = l->abilities.one_uid ? getgid() : l->setup->uid_base + n;
	s->worker_fd = s->worker_pid_fd = s->oom_fd = s->sockets_fd = -1;
	run_init(&s->run, s);
}

int slots_make(struct launcher *l)
{
	unsigned i;

	l->slot_count = l->setup->slots;
	l->slots = mem_array(l->slot_count, sizeof(*l->slots));
	l->waiting = mem_array(l->slot_count, sizeof(*l->waiting));
	for (i = 0; i < l->slot_count; i++) {
		slot_init(&l->slots[i], l, i);
		l->slots[i].forks = i >= l->slot_count - l->setup->forks;
		if (l->slots[i].uid == 0) {
			errno = EPERM; /* code never runs as host root */
			return -1;
		}
	}
	return 0;
}
