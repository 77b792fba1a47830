/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mother.c - forks a broker for each order of the server
 *
 * Runs in: a process of the supervisor's, confined already. One thread, no byte of a run:
 * what a program says is read in a process that nobody shares with it. An order that
 * cannot be followed is answered by the end of its sockets; one that asks for more than
 * the operator allows is counted, too.
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

#define REFUSED_LOGGED 16 /* each; then the powers of two */

struct mother {
	int socket_fd;
	const struct egress_world *world;
	const struct egress_ceiling *most;
	unsigned brokers;
	uint64_t refused;
};

static void on_child(int signo)
{
	(void)signo; /* it only ends the wait */
}

/* A server of ours never causes this. Whoever does it a million times fills no log. */
static void count_refused(struct mother *m, enum order_fault why)
{
	const uint64_t n = ++m->refused;

	if (n <= REFUSED_LOGGED || (n & (n - 1)) == 0)
		log_error("order.refused", "reason=%s refused=%llu",
			  order_fault_name(why), (unsigned long long)n);
}

static void reap(struct mother *m)
{
	int status;

	while (waitpid(-1, &status, WNOHANG) > 0) {
		const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;

		m->brokers--;
		if (code > BROKER_REFUSES && code < BROKER_REFUSES + ORDER_FAULTS)
			count_refused(m, (enum order_fault)(code - BROKER_REFUSES));
	}
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

static void follow(struct mother *m, int fds[FDPASS_MAX])
{
	const bool room = m->brokers < MOTHER_BROKERS;
	pid_t pid = room ? fork() : -1;

	if (pid < 0)
		log_error("egress.fork", "room=%d errno=%d", room, errno);
	m->brokers += pid > 0;
	if (pid != 0)
		return;
	close(m->socket_fd);
	broker_main(m->world, m->most, fds);
}

int mother_main(int socket_fd, const struct egress_world *w,
		const struct egress_ceiling *most)
{
	struct mother m = {.socket_fd = socket_fd, .world = w, .most = most};
	struct pollfd p = {.fd = socket_fd, .events = POLLIN};
	sigset_t open;

	if (take_signals(&open) < 0)
		return 1;
	for (;;) {
		int fds[FDPASS_MAX], rc;
		uint32_t word = 0;
		size_t count, i;

		reap(&m);
		if (ppoll(&p, 1, NULL, &open) < 0)
			continue; /* a child */
		rc = fdpass_receive(socket_fd, &word, sizeof(word), fds, &count,
				    FDPASS_NOW);
		if (rc == 0)
			return 0;
		if (rc == 1 && word == MOTHER_ORDER && count == ORDER_FDS)
			follow(&m, fds);
		else if (rc == 1 || errno == EPROTO)
			count_refused(&m, ORDER_FRAME);
		for (i = 0; rc == 1 && i < count; i++)
			defer_close(&fds[i]);
	}
}
