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
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/sys.h"
#include "launcher/child.h"

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
	sigset_t none;

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
 * CLONE_VFORK without CLONE_VM: process 1 sleeps until the program has called execve or
 * ended, so it knows which without a pipe. The program returns from here and takes the
 * rest of the steps.
 */
int child_fork(struct child *c)
{
	struct child_news n = {.type = NEWS_STARTED, .step = -1};
	/* this canary is looked at while it goes on, and never calls execve */
	const unsigned long wait = c->plan.errand == ERRAND_FORKS ? 0 : CLONE_VFORK;
	pid_t pid;

	c->init = getpid();
	pid = (pid_t)syscall(SYS_clone, wait | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		return -1;
	if (pid == 0) {
		c->is_program = true;
		return 0;
	}
	/* a program that failed before execve has said so already; the launcher heard
	 * that first */
	n.at_ns = child_clock_ns();
	if (c->waits == WAITS_STARTED)
		child_await_order(c, pid);
	if (child_settle(c) < 0)
		_exit(125);
	if (c->script_fd >= 0) {
		n.at_ns = child_clock_ns();
		close(c->script_fd); /* the end of the script: now it is run */
	}
	(void)child_send(c, &n, NULL, 0); /* nobody listens: we are about to be killed */
	child_reap(c, pid);
}
