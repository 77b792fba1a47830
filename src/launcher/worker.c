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
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/defer.h"
#include "base/fdpass.h"
#include "base/sys.h"
#include "launcher/launcher.h"
#include "launcher/sockets.h"

#define COUNT_MOST (1u << 20) /* processes of one uid */
#define RUN_NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

struct worker {
	const struct slot *slot;
	pid_t launcher;
	int socket_fd;
	int proc_fd;
	int self_fd;
	int place_fd;            /* without namespaces: the slot's directory; else -1 */
	unsigned long processes; /* of our uid at the start, where runs share it */
};

enum { ORDER_NEWS, ORDER_INPUT, ORDER_CGROUP, ORDER_FDS };

/* in, out, err: the child's ends and ours */
struct streams {
	int child[3];
	int ours[3];
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

static int make_streams(struct streams *s)
{
	int p[3][2], i;

	for (i = 0; i < 3; i++)
		s->child[i] = s->ours[i] = -1;
	for (i = 0; i < 3; i++) {
		if (pipe2(p[i], O_CLOEXEC) < 0)
			return -1;
		s->child[i] = p[i][i == 0 ? 0 : 1];
		s->ours[i] = p[i][i == 0 ? 1 : 0];
		/* the server's end must never make it wait; the program's end is ordinary
		 */
		if (fcntl(s->ours[i], F_SETFL, O_NONBLOCK) < 0)
			return -1;
	}
	return 0;
}

static void close_streams(struct streams *s)
{
	int i;

	for (i = 0; i < 3; i++) {
		defer_close(&s->child[i]);
		defer_close(&s->ours[i]);
	}
}

/*
 * CLONE_PARENT: the launcher is the parent and waits. If clone3 is refused, the same set
 * through clone(2), never a smaller one; without clone3 nothing can be born in another
 * cgroup.
 */
static pid_t clone_run(unsigned long namespaces, int cgroup_fd, int *out_pid_fd)
{
	struct clone_args args = {
		.flags = namespaces | CLONE_PARENT | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)out_pid_fd,
	};
	pid_t pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = sys_clone3(&args, sizeof(args));
	if (pid < 0 && errno == ENOSYS && cgroup_fd < 0)
		pid = (pid_t)syscall(SYS_clone, namespaces | CLONE_PARENT | CLONE_PIDFD,
				     0, out_pid_fd, 0, 0);
	return pid;
}

static _Noreturn void start_child(const struct worker *w, const struct worker_order *o,
				  const int *fds, const struct streams *s,
				  const char *place)
{
	static struct child c; /* large, and nobody else uses this process's copy */
	const struct launcher *l = w->slot->launcher;

	c.setup = l->setup;
	c.row = &l->setup->row[o->plan.row];
	c.abilities = l->abilities;
	c.plan = o->plan;
	c.waits = o->waits ? c.row->waits : WAITS_NOT;
	c.script_fd = -1;
	c.input_fd = fds[ORDER_INPUT];
	c.news_fd = fds[ORDER_NEWS];
	c.proc_fd = w->proc_fd;
	c.self_fd = w->self_fd;
	memcpy(c.stream_fd, s->child, sizeof(c.stream_fd));
	c.work_fd = c.listener_fd = -1;
	c.outer_uid = w->slot->uid;
	c.outer_gid = w->slot->gid;
	c.keeps_groups = l->abilities.one_uid;
	c.place = place;
	c.seed_dir = o->plan.errand == ERRAND_SEED ? w->slot->seed_dir : NULL;
	c.processes = w->processes;
	c.launcher = w->launcher;
	c.supervisor = l->supervisor;
	child_main(&c);
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

static void obey(const struct worker *w, const struct worker_order *o, const int *fds)
{
	const bool shares = launcher_shares(w->slot->launcher);
	struct worker_answer a = {.num = 0};
	char place[SETUP_PATH] = "";
	struct streams s;
	int out[4], pid_fd = -1;

	if (o->plan.errand == ERRAND_CLEAN) {
		answer(w, "slot_clean", place_clean(w->place_fd) < 0 ? errno : 0);
		return;
	}
	if (shares && place_make(w->slot, w->place_fd, place) < 0) {
		answer(w, "directory", errno);
		return;
	}
	if (make_streams(&s) < 0) {
		answer(w, "pipes", errno);
		close_streams(&s);
		return;
	}
	a.pid = clone_run(shares ? 0 : RUN_NAMESPACES,
			  o->into_cgroup ? fds[ORDER_CGROUP] : -1, &pid_fd);
	if (a.pid == 0)
		start_child(w, o, fds, &s, shares ? place : NULL);
	test_die(w, o);
	if (a.pid < 0) {
		answer(w, "clone", errno);
		close_streams(&s);
		return;
	}
	out[0] = pid_fd;
	memcpy(out + 1, s.ours, sizeof(s.ours));
	/* the launcher gone: so will the child be, by its parent-death signal */
	if (fdpass_send(w->socket_fd, &a, sizeof(a), out, 4) < 0)
		_exit(1);
	close(pid_fd);
	close_streams(&s);
}

/* rights and descriptors down to what cloning needs */
static int settle(struct worker *w)
{
	/* numbers from 3 on, in this order: child_descriptors() relies on it */
	int *kept[] = {&w->socket_fd, &w->proc_fd, &w->self_fd, &w->place_fd};
	enum { KEPT = sizeof(kept) / sizeof(kept[0]) };
	const struct slot *s = w->slot;
	int i, next = 3;

	if (caps_become_nobody(s->uid, s->gid) < 0)
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

/* 0, or -1 with errno and the step's name */
static int build(struct worker *w, const char **step, int *out_sockets_fd)
{
	const struct slot *s = w->slot;
	const struct launcher *l = s->launcher;
	const bool shares = launcher_shares(l);

	*step = "slot_cgroup";
	if (cgroup_slot_join(&s->cgroup) < 0)
		return -1;
	*step = "slot_directory";
	if (shares)
		w->place_fd = place_slot(l, s);
	if (shares ? w->place_fd < 0
		   : template_build(l->setup, &l->abilities, s->seed_dir, step) < 0)
		return -1;
	*step = "slot_identity";
	if (settle(w) < 0 || (shares && settle_shared(w, step) < 0))
		return -1;
	*step = "slot_sockets";
	if (launcher_counts_sockets(l))
		*out_sockets_fd = sockets_open(shares ? s->uid : SOCKETS_OF_ALL);
	return launcher_counts_sockets(l) && *out_sockets_fd < 0 ? -1 : 0;
}

_Noreturn void worker_main(const struct slot *s, int socket_fd)
{
	struct worker w = {
		.slot = s,
		.launcher = getppid(),
		.socket_fd = socket_fd,
		.proc_fd = s->launcher->proc_fd,
		.self_fd = s->launcher->self_fd,
		.place_fd = -1,
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
	answer_with(&w, "", 0, sockets_fd);
	defer_close(&sockets_fd);
	while (fdpass_receive(w.socket_fd, &order, sizeof(order), fds, &count,
			      FDPASS_WAIT) == 1) {
		obey(&w, &order, fds);
		for (i = 0; i < count; i++)
			close(fds[i]);
	}
	_exit(0);
}
