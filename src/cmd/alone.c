/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * alone.c - a launcher of one's own, and jobs without HTTP
 *
 * Runs in: `run` and `selftest`, which are supervisor and server in one.
 */
#include <signal.h>
#include <sys/epoll.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/loop.h"
#include "cmd/cmd.h"
#include "job/job.h"

/* nobody replaces it; what is in its care hears of it by its socket */
static void on_launcher_dead(void *arg, uint32_t events)
{
	struct alone *a = arg;

	(void)events;
	loop_remove(a->loop, a->launcher.pid_fd);
	if (jobs_running(a->jobs) == 0)
		loop_stop(a->loop);
}

int alone_start(struct alone *a, const struct job_observer *o,
		void (*on_signal)(void *arg, int signo), struct err *e)
{
	sigset_t signals;

	a->loop = loop_new();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	if (!a->loop || loop_signals(a->loop, &signals, on_signal, o->arg) < 0)
		return err_errno(e, "make the loop");
	if (launch(&a->prepared, &a->launcher, e) < 0 ||
	    broker_start(&a->prepared, &a->broker, e) < 0)
		return -1;
	a->jobs = jobs_new(a->loop, &a->prepared.settings, &a->prepared.modes, o,
			   take_fd(&a->launcher.socket_fd));
	jobs_set_broker(a->jobs, take_fd(&a->broker.socket_fd));
	if (loop_add(a->loop, a->launcher.pid_fd, EPOLLIN, on_launcher_dead, a) < 0)
		return err_errno(e, "watch the launcher");
	return 0;
}

void alone_done(struct alone *a)
{
	jobs_free(a->jobs);
	launched_done(&a->launcher);
	launched_done(&a->broker);
	prepared_done(&a->prepared);
	loop_free(a->loop);
}
