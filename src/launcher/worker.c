/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * worker.c - lives in the slot, clones runs
 *
 * Runs in: a process per slot. It joins the slot's cgroups, enters an empty network
 * namespace and the slot's root, drops to the slot's uid without a capability, and then
 * only clones: whatever it clones is born where it must be, so that nothing is moved at
 * request time.
 */
#include "launcher/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/defer.h"
#include "base/fdpass.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/fork.h"
#include "launcher/kept.h"
#include "launcher/launcher.h"
#include "launcher/session.h"
#include "launcher/sockets.h"
#include "launcher/template.h"

#define COUNT_MOST (1u << 20) /* processes of one uid */

struct worker {
	const struct slot *slot;
	pid_t launcher;
	int socket_fd;
	int proc_fd;
	int self_fd;
	int object_fd;
	int template_fd, setup_fd; /* only of one that becomes an interpreter, */
	int cover_fd;              /* and then to who takes the cover off /proc, */
	pid_t keeper;              /* which is this process */
	int place_fd;              /* without namespaces: the slot's directory; else -1 */
	int mounts_fd;             /* of a run that is over, until they are let go */
	unsigned long processes;   /* of our uid at the start, where runs share it */
};

static void answer_with(const struct worker *w, const char *step, int num, int fd)
{
	struct worker_answer a = {.num = num};

	snprintf(a.step, sizeof(a.step), "%s", step);
	if (fdpass_send(w->socket_fd, &a, sizeof(a), &fd, fd >= 0) < 0)
		_exit(1); /* the launcher is gone */
}

static void answer(const struct worker *w, const char *step, int num)
{
	answer_with(w, step, num, -1);
}

static pid_t fork_on(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* what waits for execve else hears that it is done; nothing of ours stays open */
static _Noreturn void go_inside(const struct worker *w, struct child *c)
{
	char *argv[CHILD_WORDS + 1];
	int argc = 0;

	/* as execve would: its own to change; a few words, which the server counted */
	while (argc < CHILD_WORDS && c->argv[argc]) {
		argv[argc] = mem_copy(c->argv[argc]);
		argc++;
	}
	argv[argc] = NULL;
	if (close(c->news_fd) < 0 || close(c->started_fd) < 0)
		_exit(127);
	/* it has written all it said; what others want done at an exit is not for here */
	_exit(w->slot->launcher->inside(argc, argv));
}

static _Noreturn void start_child(const struct worker *w, const struct worker_order *o,
				  const int *fds, const struct pipes *s,
				  const char *place)
{
	static struct child c; /* large, and nobody else uses this process's copy */
	const struct launcher *l = w->slot->launcher;

	c.setup = l->setup;
	c.row = &l->setup->row[o->plan.row];
	c.abilities = l->abilities;
	c.plan = o->plan;
	c.waits = o->waits ? c.row->waits : WAITS_NOT;
	c.object_fd = w->object_fd;
	/* where nothing waits nothing is imported ahead */
	c.ahead = c.row->ahead && !child_shares(&c) && !c.abilities.poll_memory &&
		  c.plan.ahead;
	c.script_fd = -1;
	c.input_fd = fds[ORDER_INPUT];
	c.egress_fd = c.plan.network == NETWORK_BROKER
			      ? fds[o->into_cgroup ? ORDER_CGROUP + 1 : ORDER_CGROUP]
			      : -1;
	c.news_fd = fds[ORDER_NEWS];
	c.proc_fd = w->proc_fd;
	c.self_fd = w->self_fd;
	memcpy(c.stream_fd, s->child, sizeof(c.stream_fd));
	c.work_fd = c.listener_fd = -1;
	/* behind the others that are there */
	c.layer_fd = o->with_layer ? fds[ORDER_CGROUP + (o->into_cgroup ? 1 : 0) +
					 (c.egress_fd >= 0 ? 1 : 0)]
				   : -1;
	c.outer_uid = w->slot->uid;
	c.outer_gid = w->slot->gid;
	c.keeps_groups = l->abilities.one_uid;
	c.place = place;
	c.kept = c.plan.kept ? l->kept : NULL;
	c.seed_dir = o->plan.errand == ERRAND_SEED ? w->slot->seed_dir : NULL;
	c.processes = w->processes;
	c.launcher = w->launcher;
	c.supervisor = l->supervisor;
	if (c.row->self == SELF_INSIDE)
		c.fork = fork_on;
	child_main(&c);
	go_inside(w, &c); /* only that returns */
}

/* a test wants to see a run whose worker died when it had cloned it */
static void test_die(const struct worker *w, const struct worker_order *o)
{
#ifdef SANDBOX_TEST_HOOKS
	if (o->plan.errand == ERRAND_NONE &&
	    strcmp(w->slot->launcher->setup->test_fault, "worker") == 0)
		raise(SIGKILL);
#else
	(void)w;
	(void)o;
#endif
}

static unsigned long namespaces_of(const struct worker *w, const struct plan *p)
{
	if (launcher_shares(w->slot->launcher) || p->session != SESSION_NOT)
		return 0; /* a session's: the worker has come into them */
	return RUN_NAMESPACES |
	       (p->network == NETWORK_BROKER || p->errand == ERRAND_SESSION ? CLONE_NEWNET
									    : 0);
}

static void clean(struct worker *w)
{
	int num = 0;

	if (w->mounts_fd >= 0)
		close(take_fd(
			&w->mounts_fd)); /* the last that held them: takes its time */
	if (w->place_fd >= 0 && place_clean(w->place_fd) < 0)
		num = errno;
	answer(w, "slot_clean", num);
}

static void count_files(const struct worker *w, const struct worker_order *o)
{
	struct worker_answer a = {.counted = 1, .last = o->last};

	sample_disk(w->place_fd, o->most, &a.use);
	if (o->plan.kept)
		a.removed = kept_count(w->slot->launcher, o, &a.use);
	if (fdpass_send(w->socket_fd, &a, sizeof(a), NULL, 0) < 0)
		_exit(1);
}

static void obey(struct worker *w, struct worker_order *o, int *fds)
{
	const bool shares = launcher_shares(w->slot->launcher);
	const bool own_network = o->plan.network == NETWORK_BROKER;
	struct worker_answer a = {.num = 0};
	char place[SETUP_PATH] = "";
	struct pipes s;
	int out[4], pid_fd = -1;

	if (o->plan.errand == ERRAND_HOLD) {
		w->mounts_fd = take_fd(&fds[0]);
		return;
	}
	if (o->plan.errand == ERRAND_CLEAN) {
		clean(w);
		return;
	}
	if (o->plan.errand == ERRAND_COUNT) {
		count_files(w, o);
		return;
	}
	if (o->plan.kept && kept_begin(w->slot->launcher, &o->plan.limits, &a.use) < 0) {
		answer(w, errno == EDQUOT ? "kept_disk" : "kept_directory", errno);
		return;
	}
	if (o->plan.kept && kept_is_full(&o->plan.limits, &a.use))
		o->plan.limits.disk_mb = 0;
	if (shares && place_make(w->slot, w->place_fd, place) < 0) {
		answer(w, "directory", errno);
		return;
	}
	if (pipes_make(&s) < 0) {
		answer(w, "pipes", errno);
		pipes_close(&s);
		return;
	}
	/* the slot's network is of use to runs that have none: nothing can be left in it
	 */
	a.pid = clone_into(namespaces_of(w, &o->plan),
			   o->into_cgroup ? fds[ORDER_CGROUP] : -1, NULL, &pid_fd);
	if (a.pid == 0)
		start_child(w, o, fds, &s, shares ? place : NULL);
	test_die(w, o);
	if (a.pid < 0) {
		/* where other runs need none, only this one is the poorer for it */
		answer(w,
		       own_network && w->slot->launcher->abilities.pod ? "network"
								       : "clone",
		       errno);
		pipes_close(&s);
		return;
	}
	out[0] = pid_fd;
	memcpy(out + 1, s.ours, sizeof(s.ours));
	/* the launcher gone: so will the child be, by its parent-death signal */
	if (fdpass_send(w->socket_fd, &a, sizeof(a), out, 4) < 0)
		_exit(1);
	close(pid_fd);
	pipes_close(&s);
}

/* rights and descriptors down to what cloning needs */
static int settle(struct worker *w)
{
	/* numbers from 3 on, in this order: child_descriptors() relies on it */
	int *kept[] = {&w->socket_fd,   &w->proc_fd,  &w->self_fd,  &w->object_fd,
		       &w->template_fd, &w->setup_fd, &w->cover_fd, &w->place_fd};
	enum { KEPT = sizeof(kept) / sizeof(kept[0]) };
	const struct slot *s = w->slot;
	const bool enters = session_entered(s);
	int i, next = 3;

	/* inside it has the number that the session's map gives it */
	if (enters && session_is_root(s)
		    ? caps_become_root_inside() < 0
		    : caps_become_nobody(enters ? CHILD_UID : s->uid,
					 enters ? CHILD_UID : s->gid) < 0)
		return -1;
	if (enters && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	/* after the change of ids, which clears it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -1;
	if (getppid() != w->launcher)
		_exit(1);
	for (i = 0; i < KEPT; i++) {
		if (*kept[i] < 0)
			continue;
		*kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, next + KEPT);
		if (*kept[i] < 0)
			return -1;
	}
	for (i = 0; i < KEPT; i++) {
		if (*kept[i] < 0)
			continue;
		if (dup3(*kept[i], next, O_CLOEXEC) < 0)
			return -1;
		*kept[i] = next++;
	}
	return sys_close_range((unsigned)next, ~0U, 0);
}

/*
 * How many processes and threads the kernel counts for our uid: found by doing, since
 * other containers may have the same one, and their processes are out of our sight.
 */
static unsigned long count_processes(void)
{
	struct rlimit was, now;
	rlim_t least = 0, most = COUNT_MOST;

	if (getrlimit(RLIMIT_NPROC, &was) < 0)
		return 0;
	if (was.rlim_max < most)
		most = was.rlim_max;
	now = was;
	while (least < most) {
		pid_t pid;

		now.rlim_cur = least + (most - least) / 2;
		if (setrlimit(RLIMIT_NPROC, &now) < 0)
			break;
		pid = fork();
		if (pid == 0)
			_exit(0);
		if (pid > 0)
			(void)sys_reap(pid, NULL, NULL);
		if (pid < 0)
			least = now.rlim_cur + 1; /* as many as this are there already */
		else
			most = now.rlim_cur;
	}
	(void)setrlimit(RLIMIT_NPROC, &was); /* it was allowed before */
	return least;
}

/* what a slot without namespaces has in their place, after the rights are gone */
static int settle_shared(struct worker *w, const char **step)
{
	const struct setup *setup = w->slot->launcher->setup;
	unsigned i;

	*step = "slot_clean";
	if (place_clean(w->place_fd) < 0)
		return -1;
	/* no mount could open to a run what only others may enter */
	*step = "slot_runtime";
	for (i = 0; i < setup->rows; i++) {
		if (!setup->row[i].self &&
		    faccessat(AT_FDCWD, setup->row[i].argv.text, X_OK, AT_EACCESS) < 0)
			return -1;
	}
	/* root may see a seed that runs cannot */
	*step = "slot_seed";
	if (w->slot->launcher->abilities.go_seed &&
	    faccessat(AT_FDCWD, setup->go_seed_dir, R_OK | X_OK, AT_EACCESS) < 0)
		return -1;
	if (w->slot->launcher->abilities.one_uid)
		w->processes = count_processes();
	return 0;
}

/*
 * A command's worker goes where its session is. Its rights are those of the session's own
 * user namespace from the first step on; it opens nothing there and is not in sight,
 * since only what it clones is in the session's pid namespace.
 */
static int enter_session(const struct slot *s)
{
	const int *ns_fd = session_namespaces(s);
	int i;

	/* whatever it clones is the first to go when memory runs out; while nobody may
	 * look into us our own /proc/self is root's, which a plain user is not */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ||
	    fs_write_at(s->launcher->proc_fd, "self/oom_score_adj", "1000") < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	for (i = 0; i < NS_COUNT; i++) { /* the user namespace is the first */
		if (setns(ns_fd[i], 0) < 0)
			return -1;
	}
	return 0;
}

static int make_root(const struct slot *s, const char **step)
{
	const struct launcher *l = s->launcher;

	if (session_entered(s)) {
		*step = "session_enter";
		return enter_session(s);
	}
	return template_build(l->setup, &l->abilities, s->seed_dir, session_root(s),
			      s->forks, step);
}

/* 0, or -1 with errno and the step's name */
static int build(struct worker *w, const char **step, int *out_sockets_fd)
{
	const struct slot *s = w->slot;
	const struct launcher *l = s->launcher;
	const bool shares = launcher_shares(l);

	*step = "slot_cgroup";
	if (!s->forks && cgroup_slot_join(&s->cgroup) < 0)
		return -1;
	*step = "slot_directory";
	if (shares)
		w->place_fd = place_slot(l, s);
	if (shares ? w->place_fd < 0 : make_root(s, step) < 0)
		return -1;
	*step = "slot_proc_cover";
	if (s->forks && (w->cover_fd = fork_proc_keep(&w->keeper)) < 0)
		return -1;
	/* not the keeper: when its worker is gone nothing is to be left in there */
	*step = "slot_cgroup";
	if (s->forks && cgroup_slot_join(&s->cgroup) < 0)
		return -1;
	*step = "slot_identity";
	if (settle(w) < 0 || (shares && settle_shared(w, step) < 0))
		return -1;
	*step = "slot_sockets";
	/* those of a session are in a namespace that its process 1 makes, and tells of */
	if (!launcher_counts_sockets(l) || s->session)
		return 0;
	*out_sockets_fd = sockets_open(shares ? s->uid : SOCKETS_OF_ALL);
	return *out_sockets_fd < 0 ? -1 : 0;
}

_Noreturn void worker_main(const struct slot *s, int socket_fd)
{
	struct worker w = {
		.slot = s,
		.launcher = getppid(),
		.socket_fd = socket_fd,
		.proc_fd = s->launcher->proc_fd,
		.self_fd = s->launcher->self_fd,
		.object_fd = s->launcher->object_fd,
		.template_fd = s->forks ? s->launcher->template_fd : -1,
		.setup_fd = s->forks ? s->launcher->setup_fd : -1,
		.cover_fd = -1,
		.place_fd = -1,
		.mounts_fd = -1,
	};
	struct worker_order order = {0};
	int fds[FDPASS_MAX], sockets_fd = -1;
	const char *step;
	size_t count, i;

	prctl(PR_SET_NAME, "sandbox-worker", 0, 0, 0);
	if (build(&w, &step, &sockets_fd) < 0) {
		answer(&w, step, errno);
		_exit(1);
	}
	if (s->forks) {
		const struct fork_given given = {w.proc_fd, w.template_fd, w.setup_fd,
						 w.cover_fd, w.keeper};

		fork_become(s, &w.socket_fd, &given);
		answer(&w, "fork_exec", errno);
		_exit(1);
	}
	answer_with(&w, "", 0, sockets_fd);
	defer_close(&sockets_fd);
	while (fdpass_receive(w.socket_fd, &order, sizeof(order), fds, &count,
			      FDPASS_WAIT) == 1) {
		obey(&w, &order, fds);
		for (i = 0; i < count; i++)
			defer_close(&fds[i]);
	}
	_exit(0);
}
