/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_init.c - process 1 of the sandbox: reaps, relays the status
 *
 * A program must not be process 1 itself: signals without a handler would be ignored,
 * orphans would never be reaped, and a daemon would outlive the answer. When this process
 * ends, the kernel kills whatever is left.
 */
#include <errno.h>
#include <linux/filter.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "base/sys.h"
#include "launcher/child.h"

#define STACK_BYTES (64 << 10)

static uint64_t child_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Noreturn void child_reap(const struct child *c, pid_t program)
{
	struct child_news n = {.type = NEWS_EXITED, .step = -1};
	pid_t pid;
	int status;

	for (;;) {
		pid = wait4(-1, &status, __WALL, NULL);
		if (pid == program)
			break;
		if (pid < 0 && errno != EINTR)
			_exit(126); /* cannot happen: the program is our child until
				       reaped */
	}
	n.status = status;
	n.at_ns = child_clock_ns();
	(void)child_send(c, &n, NULL, 0); /* the launcher sees our end in any case */
	if (child_shares(c))
		child_end_tree(c->proc_fd); /* in a pid namespace our own end does it */
	/* what a command leaves may stay, and nobody else knows whose it is */
	while (child_takes_in(c) && (wait4(-1, NULL, __WALL, NULL) > 0 || errno == EINTR))
		;
	_exit(0);
}

/* nothing but waiting and one message is left to do */
static int child_settle(struct child *c)
{
	const struct setup_filter *f =
		&c->setup->filter[child_shares(c) ? FILTER_INIT_SHARED : FILTER_INIT];
	struct sock_fprog program = {
		.len = (unsigned short)f->len,
		.filter = (struct sock_filter *)f->insns,
	};
	/* who needs no /proc to end its tree keeps none */
	const bool two = child_shares(c) || c->script_fd >= 0;
	const int news_fd = fcntl(c->news_fd, F_DUPFD_CLOEXEC, 2);
	const int other_fd = fcntl(c->script_fd >= 0 ? c->script_fd : c->proc_fd,
				   F_DUPFD_CLOEXEC, 2);
	const struct __user_cap_data_struct no_rights[2] = {{0}};
	sigset_t none;

	/* the program has its own, if any */
	if (c->plan.root && sys_capset(no_rights) < 0)
		return -1;
	if (news_fd < 0 || other_fd < 0 || dup3(news_fd, 0, O_CLOEXEC) < 0 ||
	    dup3(other_fd, 1, O_CLOEXEC) < 0)
		return -1;
	c->news_fd = 0;
	*(c->script_fd >= 0 ? &c->script_fd : &c->proc_fd) = 1;
	if (sys_close_range(two ? 2 : 1, ~0U, 0) < 0)
		return -1;
	sigemptyset(&none);
	if (child_shares(c) && sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return -1;
	return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program);
}

/*
 * Process 1 of a session: it runs nothing and reaps whoever loses his parent. Commands
 * come in from outside, as children of the launcher. Its end is the session's, and it
 * ends when the launcher closes its socket, or dies.
 */
_Noreturn void child_stay(struct child *c)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct child_news n = {.type = NEWS_STARTED, .step = -1};
	ssize_t got;
	char byte;

	/* the kernel reaps for who ignores it */
	if (sigaction(SIGCHLD, &ignore, NULL) < 0 || child_settle(c) < 0)
		_exit(125);
	n.at_ns = child_clock_ns();
	(void)child_send(c, &n, NULL, 0); /* nobody listens: the end of file comes next */
	do
		got = read(c->news_fd, &byte, 1);
	while (got > 0 || (got < 0 && errno == EINTR));
	_exit(0);
}

/* as CLONE_VFORK does it: the parent goes on when the child has closed its end */
static pid_t child_fork_on(struct child *c)
{
	int ends[2];
	char byte;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid = c->fork();
	close(ends[pid == 0 ? 0 : 1]);
	if (pid == 0) {
		c->started_fd = ends[1];
		return 0;
	}
	while (pid > 0 && read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(ends[0]);
	return pid;
}

/* on the stack of its own; child_go_on() ends in execve or in _exit() */
static int child_program(void *arg)
{
	child_go_on(arg);
	_exit(127);
}

/*
 * CLONE_VFORK: process 1 sleeps until the program has called execve or ended, so it knows
 * which without a pipe. A program that borrows our memory takes the rest of the steps on
 * another stack; what it changed in *c is put back. Others return from here and take
 * them.
 */
static pid_t child_clone(struct child *c)
{
	static _Alignas(16) char stack[STACK_BYTES];
	/* this canary is looked at while it goes on, and never calls execve */
	const unsigned long wait = c->plan.errand == ERRAND_FORKS ? 0 : CLONE_VFORK;
	const int news_fd = c->news_fd, work_fd = c->work_fd;
	pid_t pid;

	if (!child_borrows(c))
		return (pid_t)syscall(SYS_clone, wait | SIGCHLD, 0, 0, 0, 0);
	pid = clone(child_program, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | SIGCHLD, c);
	c->news_fd = news_fd;
	c->work_fd = work_fd;
	return pid;
}

int child_fork(struct child *c)
{
	struct child_news n = {.type = NEWS_STARTED, .step = -1};
	pid_t pid;

	c->init = getpid();
	if (child_keeps_session(c))
		child_stay(c);
	pid = c->fork ? child_fork_on(c) : child_clone(c);
	if (pid <= 0)
		return (int)pid;
	/* a program that failed before execve has said so already; the launcher heard
	 * that first */
	n.at_ns = child_clock_ns();
	if (c->waits == WAITS_STARTED)
		child_await_order(c, pid);
	/* who is large is the first to go when memory runs out */
	if ((c->input && munmap((void *)(uintptr_t)c->input, c->plan.input_bytes) < 0) ||
	    child_settle(c) < 0)
		_exit(125);
	if (c->script_fd >= 0) {
		n.at_ns = child_clock_ns();
		close(c->script_fd); /* the end of the script: now it is run */
	}
	(void)child_send(c, &n, NULL, 0); /* nobody listens: we are about to be killed */
	child_reap(c, pid);
}
