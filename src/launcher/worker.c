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
#include <unistd.h>

#include "base/caps.h"
#include "base/defer.h"
#include "base/fdpass.h"
#include "base/sys.h"
#include "launcher/launcher.h"

#define RUN_NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

struct worker {
	const struct slot *slot;
	int socket_fd;
	int proc_fd;
};

enum { ORDER_NEWS, ORDER_INPUT, ORDER_CGROUP, ORDER_FDS };

/* in, out, err: the child's ends and ours */
struct streams {
	int child[3];
	int ours[3];
};

static void answer(const struct worker *w, const char *step, int num)
{
	struct worker_answer a = {.num = num};

	snprintf(a.step, sizeof(a.step), "%s", step);
	if (fdpass_send(w->socket_fd, &a, sizeof(a), NULL, 0) < 0)
		_exit(1); /* the launcher is gone */
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
static pid_t clone_run(int cgroup_fd, int *out_pid_fd)
{
	struct clone_args args = {
		.flags = RUN_NAMESPACES | CLONE_PARENT | CLONE_PIDFD |
			 CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)out_pid_fd,
	};
	pid_t pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = sys_clone3(&args, sizeof(args));
	if (pid < 0 && errno == ENOSYS && cgroup_fd < 0)
		pid = (pid_t)syscall(SYS_clone,
				     RUN_NAMESPACES | CLONE_PARENT | CLONE_PIDFD, 0,
				     out_pid_fd, 0, 0);
	return pid;
}

static _Noreturn void start_child(const struct worker *w, const struct worker_order *o,
				  const int *fds, const struct streams *s)
{
	static struct child c; /* large, and nobody else uses this process's copy */
	const struct launcher *l = w->slot->launcher;

	c.setup = l->setup;
	c.row = &l->setup->row[o->plan.row];
	c.abilities = l->abilities;
	c.plan = o->plan;
	c.input_fd = fds[ORDER_INPUT];
	c.news_fd = fds[ORDER_NEWS];
	c.proc_fd = w->proc_fd;
	memcpy(c.stream_fd, s->child, sizeof(c.stream_fd));
	c.work_fd = -1;
	c.outer_uid = w->slot->uid;
	c.outer_gid = w->slot->gid;
	c.keeps_groups = l->own_user_ns;
	child_main(&c);
}

static void obey(const struct worker *w, const struct worker_order *o, const int *fds)
{
	struct worker_answer a = {.num = 0};
	struct streams s;
	int out[4], pid_fd = -1;

	if (make_streams(&s) < 0) {
		answer(w, "pipes", errno);
		close_streams(&s);
		return;
	}
	a.pid = clone_run(o->into_cgroup ? fds[ORDER_CGROUP] : -1, &pid_fd);
	if (a.pid == 0)
		start_child(w, o, fds, &s);
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
static int settle(struct worker *w, pid_t launcher)
{
	const struct slot *s = w->slot;
	int socket_fd, proc_fd;

	if (caps_become_nobody(s->uid, s->gid) < 0)
		return -1;
	/* after the change of ids, which clears it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -1;
	if (getppid() != launcher)
		_exit(1);
	socket_fd = fcntl(w->socket_fd, F_DUPFD_CLOEXEC, 5);
	proc_fd = fcntl(w->proc_fd, F_DUPFD_CLOEXEC, 5);
	if (socket_fd < 0 || proc_fd < 0)
		return -1;
	if (dup3(socket_fd, 3, O_CLOEXEC) < 0 || dup3(proc_fd, 4, O_CLOEXEC) < 0)
		return -1;
	w->socket_fd = 3;
	w->proc_fd = 4;
	return sys_close_range(5, ~0U, 0);
}

_Noreturn void worker_main(const struct slot *s, int socket_fd)
{
	struct worker w = {s, socket_fd, s->launcher->proc_fd};
	const struct launcher *l = s->launcher;
	const pid_t launcher = getppid();
	struct worker_order order = {0};
	int fds[FDPASS_MAX];
	const char *step;
	size_t count, i;

	prctl(PR_SET_NAME, "sandbox-worker", 0, 0, 0);
	if (cgroup_slot_join(&s->cgroup) < 0) {
		answer(&w, "slot_cgroup", errno);
		_exit(1);
	}
	if (template_build(l->setup, &l->abilities, s->seed_dir, &step) < 0) {
		answer(&w, step, errno);
		_exit(1);
	}
	if (settle(&w, launcher) < 0) {
		answer(&w, "slot_identity", errno);
		_exit(1);
	}
	answer(&w, "", 0);
	while (fdpass_receive(w.socket_fd, &order, sizeof(order), fds, &count, true) ==
	       1) {
		obey(&w, &order, fds);
		for (i = 0; i < count; i++)
			close(fds[i]);
	}
	_exit(0);
}
