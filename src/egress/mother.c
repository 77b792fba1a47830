/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mother.c - forks a broker for each order of the server
 *
 * Runs in: a process of the supervisor's, confined already. One thread, no byte of a run:
 * what a program says is read in a process that nobody shares with it. An order that
 * cannot be followed is answered by the end of its sockets.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "egress/broker.h"

enum { ORDER_WHAT, ORDER_CONTROL, ORDER_RUN, ORDER_FDS };

static void on_child(int signo)
{
	(void)signo; /* it only ends the wait */
}

static unsigned reap(void)
{
	unsigned n = 0;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		n++;
	return n;
}

static int take_signals(sigset_t *out_open)
{
	const struct sigaction act = {.sa_handler = on_child};
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigfillset(out_open);
	sigdelset(out_open, SIGCHLD);
	/* the others are for the supervisor, whose end is ours */
	return sigaction(SIGCHLD, &act, NULL) < 0 ||
			       sigprocmask(SIG_BLOCK, &child, NULL) < 0
		       ? -1
		       : 0;
}

static bool follow(int socket_fd, const struct egress_world *w, int fds[FDPASS_MAX],
		   bool room)
{
	pid_t pid = room ? fork() : -1;

	if (pid < 0)
		log_error("egress.fork", "room=%d errno=%d", room, errno);
	if (pid != 0)
		return pid > 0;
	close(socket_fd);
	broker_main(w, take_fd(&fds[ORDER_WHAT]), take_fd(&fds[ORDER_CONTROL]),
		    take_fd(&fds[ORDER_RUN]));
}

int mother_main(int socket_fd, const struct egress_world *w)
{
	struct pollfd p = {.fd = socket_fd, .events = POLLIN};
	unsigned brokers = 0;
	sigset_t open;

	if (take_signals(&open) < 0)
		return 1;
	for (;;) {
		int fds[FDPASS_MAX], rc;
		uint32_t word = 0;
		size_t count, i;

		brokers -= reap();
		if (ppoll(&p, 1, NULL, &open) < 0)
			continue; /* a child */
		rc = fdpass_receive(socket_fd, &word, sizeof(word), fds, &count,
				    FDPASS_NOW);
		if (rc == 0)
			return 0;
		if (rc == 1 && word == MOTHER_ORDER && count == ORDER_FDS)
			brokers += follow(socket_fd, w, fds, brokers < MOTHER_BROKERS);
		for (i = 0; rc == 1 && i < count; i++)
			defer_close(&fds[i]);
	}
}
