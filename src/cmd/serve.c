/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * serve.c - the supervisor
 *
 * Runs in: the process that was started. It keeps the rights it was given and reads no
 * client bytes: it starts the launcher and the server, relays signals and reaps. A dead
 * launcher is replaced, and the server gets a new socket; a dead server ends everything.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "http/server.h"

#define RESTART_FIRST_MS 10
#define RESTART_MOST_MS 5000
#define STEADY_NS 10000000000ull /* a launcher that lived this long was fine */

struct supervisor {
	struct loop *loop;
	struct prepared prepared;
	struct launched launcher;
	uint64_t launched_ns;
	unsigned restarts;
	struct loop_timer restart;
	pid_t server;
	int server_pid_fd;
	int control_fd; /* new launchers' sockets go to the server here */
	int status;
};

static void on_launcher_dead(void *arg, uint32_t events);

/* the server's end goes over and is not kept: its end of file must reach the launcher */
static int hand_launcher(struct supervisor *s)
{
	const char byte = 'L';
	int r;

	r = fdpass_send(s->control_fd, &byte, 1, &s->launcher.socket_fd, 1);
	close(take_fd(&s->launcher.socket_fd));
	return r;
}

static int start_launcher(struct supervisor *s, struct err *e)
{
	s->launched_ns = loop_now_ns();
	if (launch(&s->prepared, &s->launcher, e) < 0)
		return -1;
	if (loop_add(s->loop, s->launcher.pid_fd, EPOLLIN, on_launcher_dead, s) < 0)
		return err_errno(e, "watch the launcher");
	return 0;
}

static void on_restart(void *arg)
{
	struct supervisor *s = arg;
	struct err e = {0};

	if (start_launcher(s, &e) < 0 || hand_launcher(s) < 0) {
		log_error("launcher.failed", "error=\"%s\"", e.text);
		kill(s->server, SIGKILL);
	}
}

/* as process 1 of a container we are given what a dead launcher leaves */
static void reap_adopted(const struct supervisor *s)
{
	sys_reap_adopted(s->launcher.pid_fd >= 0 ? s->launcher.pid : 0,
			 s->server_pid_fd >= 0 ? s->server : 0);
}

static void on_launcher_dead(void *arg, uint32_t events)
{
	struct supervisor *s = arg;
	uint64_t wait_ms = RESTART_FIRST_MS;
	unsigned i;
	int status = 0;

	(void)events;
	loop_remove(s->loop, s->launcher.pid_fd);
	waitpid(s->launcher.pid, &status, 0);
	close(take_fd(&s->launcher.pid_fd));
	reap_adopted(s);
	if (s->server_pid_fd < 0)
		return; /* we are on our way out */
	if (loop_now_ns() - s->launched_ns > STEADY_NS)
		s->restarts = 0;
	for (i = 0; i < s->restarts && wait_ms < RESTART_MOST_MS; i++)
		wait_ms *= 2;
	s->restarts++;
	/* with 0 it saw the end of its socket: the server is going, which we hear next;
	 * and one that lost a layer goes for another to look again */
	if (WIFEXITED(status) && WEXITSTATUS(status) == LAUNCHER_AGAIN)
		log_debug("launcher.again", "restart_ms=%llu",
			  (unsigned long long)wait_ms);
	else
		log_event(status ? LOG_ERROR : LOG_DEBUG, "launcher.died",
			  "status=%d restart_ms=%llu", status,
			  (unsigned long long)wait_ms);
	s->restart.fn = on_restart;
	s->restart.arg = s;
	loop_timer_at(s->loop, &s->restart, loop_now_ns() + wait_ms * 1000000u);
}

static void on_server_dead(void *arg, uint32_t events)
{
	struct supervisor *s = arg;
	int status = 0;

	(void)events;
	loop_remove(s->loop, s->server_pid_fd);
	waitpid(s->server, &status, 0);
	close(take_fd(&s->server_pid_fd));
	s->status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	if (!WIFEXITED(status))
		log_error("server.died", "signal=%d", WTERMSIG(status));
	loop_stop(s->loop);
}

static void on_signal(void *arg, int signo)
{
	struct supervisor *s = arg;

	if (signo == SIGCHLD)
		reap_adopted(s);
	else if (s->server_pid_fd >= 0)
		sys_pidfd_send_signal(s->server_pid_fd,
				      signo == SIGINT ? SIGTERM : signo);
}

static _Noreturn void become_server(struct supervisor *s, int listen_fd, int control_fd)
{
	/* its signals stay blocked until its own loop takes them: none may kill it before
	 */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	close(s->control_fd);
	close(s->launcher.pid_fd);
	close(s->prepared.start_fd);
	close(s->prepared.ledger_fd);
	cgroup_unlock();
	loop_free(s->loop);
	_exit(server_main(&s->prepared, listen_fd, control_fd, s->launcher.socket_fd));
}

static int start_server(struct supervisor *s, int listen_fd, struct err *e)
{
	auto_fd int theirs = -1;
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, "make the server's socket");
	s->control_fd = pair[0];
	theirs = pair[1];
	s->server = fork();
	if (s->server < 0)
		return err_errno(e, "fork the server");
	if (s->server == 0)
		become_server(s, listen_fd, theirs);
	s->server_pid_fd = sys_pidfd_open(s->server, 0);
	if (s->server_pid_fd < 0 ||
	    loop_add(s->loop, s->server_pid_fd, EPOLLIN, on_server_dead, s) < 0)
		return err_errno(e, "watch the server");
	close(take_fd(&s->launcher.socket_fd));
	return 0;
}

/* from here on a signal waits for the loop */
static int take_signals(struct supervisor *s, struct err *e)
{
	sigset_t signals;

	s->loop = loop_new();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	if (!s->loop || loop_signals(s->loop, &signals, on_signal, s) < 0)
		return err_errno(e, "make the loop");
	return 0;
}

/* told to end before there was anything to end */
static bool unwanted(void)
{
	sigset_t waiting;

	return sigpending(&waiting) == 0 && (sigismember(&waiting, SIGTERM) == 1 ||
					     sigismember(&waiting, SIGINT) == 1);
}

static int supervise(struct supervisor *s, struct err *e)
{
	const struct settings *set = &s->prepared.settings;
	auto_fd int listen_fd = -1;

	if (take_signals(s, e) < 0)
		return -1;
	listen_fd = http_listen(set->listen, (unsigned)set->port, e);
	if (listen_fd < 0)
		return -1;
	if (prepare(&s->prepared, (unsigned)set->max_concurrent, TO_SERVE, e) < 0)
		return -1;
	if (unwanted())
		return 0;
	if (start_launcher(s, e) < 0 || start_server(s, listen_fd, e) < 0)
		return -1;
	close(take_fd(&listen_fd));
	if (loop_run(s->loop) < 0)
		return err_errno(e, "run the loop");
	return 0;
}

static const char usage[] =
	"usage: sandbox-server [serve] [SETTINGS]\n\n"
	"Serves POST /execute, GET /health, /healthz, /readyz and /isolation.\n";

/* 1: go on; 0: help was all that was wanted; -1 */
static int read_arguments(struct settings *s, int argc, char **argv, struct err *e)
{
	static const char *const own_flags[] = {"--help", NULL};
	int used = settings_load(s, argc, argv, own_flags, e);

	if (used < 0)
		return -1;
	if (used == argc)
		return 1;
	if (strcmp(argv[used], "--help") != 0)
		return err_bad(e, "unknown argument '%s' (try --help)", argv[used]);
	print_usage(usage);
	return 0;
}

int cmd_serve(int argc, char **argv)
{
	struct supervisor s = {
		.prepared = {.start_fd = -1, .artifacts_fd = -1, .ledger_fd = -1},
		.launcher = {.pid_fd = -1, .socket_fd = -1},
		.server_pid_fd = -1,
		.control_fd = -1,
	};
	const struct settings *set = &s.prepared.settings;
	struct err e = {0};
	int go_on;

	go_on = read_arguments(&s.prepared.settings, argc, argv, &e);
	if (go_on > 0) {
		log_setup((enum log_level)set->log_level,
			  (enum log_format)set->log_format, "supervisor");
		go_on = supervise(&s, &e);
	}
	if (go_on < 0) {
		fprintf(stderr, "sandbox-server: %s\n", e.text);
		s.status = 1;
		if (s.server_pid_fd >= 0)
			sys_pidfd_send_signal(s.server_pid_fd, SIGKILL);
	}
	if (s.server_pid_fd >= 0)
		waitpid(s.server, NULL, 0);
	launched_done(&s.launcher);
	prepared_done(&s.prepared);
	defer_close(&s.control_fd);
	loop_free(s.loop);
	return s.status;
}
