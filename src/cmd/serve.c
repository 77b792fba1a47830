/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * serve.c - the supervisor
 *
 * Runs in: the process that was started. It keeps the rights it was given and reads no
 * client bytes: it starts the launcher and the server, relays signals and reaps. A dead
 * launcher is replaced, and the server gets a new socket; a dead server ends everything.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/manager.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "http/server.h"

#define RESTART_FIRST_MS 10
#define RESTART_MOST_MS 5000
#define BROKER_WAIT_NS 1000000000ull
#define STOP_SLACK_SEC 15 /* after the runs' grace: launcher, broker and cgroups end */
#define STEADY_NS 10000000000ull /* a launcher that lived this long was fine */

struct supervisor {
	struct loop *loop;
	struct prepared prepared;
	struct launched launcher;
	struct launched broker; /* the brokers' mother, where runs may have network */
	uint64_t launched_ns;
	unsigned restarts;
	struct loop_timer restart;
	struct loop_timer broker_restart;
	pid_t server;
	int server_pid_fd;
	struct front front;
	bool stdio;     /* mcp: there is no listening socket */
	int control_fd; /* new launchers' and mothers' sockets go to the server here */
	int ready_fd;   /* the server's word that it serves; -1: came, or nobody asks */
	int status;
};

/* a manager that is not told would end us, or wait: its operator should know why */
static void tell_manager(const char *state)
{
	if (manager_tell(state) < 0)
		log_error("manager.untold", "error=\"%s\"", strerror(errno));
}

static void on_launcher_dead(void *arg, uint32_t events);

/* the server's end goes over and is not kept: its end of file must reach the other one */
static int hand(struct supervisor *s, char what, struct launched *whose)
{
	int r;

	r = fdpass_send(s->control_fd, &what, 1, &whose->socket_fd, 1);
	close(take_fd(&whose->socket_fd));
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

static int start_broker(struct supervisor *s, struct err *e);

/* the server ended her where its launcher could give nobody a network: another one may */
static int offer_broker(struct supervisor *s, struct err *e)
{
	if (!s->prepared.broker_calls || s->broker.pid_fd >= 0)
		return 0;
	return start_broker(s, e) < 0 ? -1 : hand(s, CONTROL_BROKER, &s->broker);
}

static void on_restart(void *arg)
{
	struct supervisor *s = arg;
	struct err e = {0};

	if (offer_broker(s, &e) < 0 || start_launcher(s, &e) < 0 ||
	    hand(s, CONTROL_LAUNCHER, &s->launcher) < 0) {
		log_error("launcher.failed", "error=\"%s\"", e.text);
		kill(s->server, SIGKILL);
	}
}

/* as process 1 of a container we are given what a dead launcher leaves */
static void reap_adopted(const struct supervisor *s)
{
	const pid_t ours[] = {s->launcher.pid_fd >= 0 ? s->launcher.pid : 0,
			      s->server_pid_fd >= 0 ? s->server : 0,
			      s->broker.pid_fd >= 0 ? s->broker.pid : 0};

	sys_reap_adopted(ours, sizeof(ours) / sizeof(ours[0]));
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

static void on_broker_dead(void *arg, uint32_t events);

/* nothing to do where runs can have no network */
static int start_broker(struct supervisor *s, struct err *e)
{
	if (broker_start(&s->prepared, &s->broker, e) < 0)
		return -1;
	if (s->broker.pid_fd >= 0 &&
	    loop_add(s->loop, s->broker.pid_fd, EPOLLIN, on_broker_dead, s) < 0)
		return err_errno(e, "watch the brokers' mother");
	return 0;
}

static void on_broker_restart(void *arg)
{
	struct supervisor *s = arg;
	struct err e = {0};

	if (offer_broker(s, &e) < 0) {
		log_error("egress.failed", "error=\"%s\"", e.text);
		kill(s->server, SIGKILL);
	}
}

/* with her went the brokers of runs, which find no way out any more */
static void on_broker_dead(void *arg, uint32_t events)
{
	struct supervisor *s = arg;
	int status = 0;

	(void)events;
	loop_remove(s->loop, s->broker.pid_fd);
	waitpid(s->broker.pid, &status, 0);
	close(take_fd(&s->broker.pid_fd));
	reap_adopted(s);
	if (s->server_pid_fd < 0 || status == 0)
		return; /* the server is going, or has no use for her */
	log_error("egress.died", "status=%d", status);
	s->broker_restart.fn = on_broker_restart;
	s->broker_restart.arg = s;
	loop_timer_at(s->loop, &s->broker_restart, loop_now_ns() + BROKER_WAIT_NS);
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

/* the server has seen its canaries: who connects is answered */
static void on_ready(void *arg, uint32_t events)
{
	struct supervisor *s = arg;

	(void)events;
	loop_remove(s->loop, s->ready_fd);
	close(take_fd(&s->ready_fd));
	tell_manager("READY=1");
}

static void reload(struct supervisor *s)
{
	const bool tell = s->ready_fd < 0; /* READY=1 is not ours to say before */
	char state[64];

	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)loop_now_ns() / 1000);
	if (tell)
		tell_manager(state);
	reload_again(&s->prepared, s->control_fd);
	if (tell)
		tell_manager("READY=1");
}

/* however long the grace is, the manager shall wait for it */
static void stop(struct supervisor *s)
{
	const unsigned long long sec = s->prepared.settings.grace_sec + STOP_SLACK_SEC;
	char state[64];

	snprintf(state, sizeof(state), "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu",
		 sec * 1000000);
	tell_manager(state);
	sys_pidfd_send_signal(s->server_pid_fd, SIGTERM);
}

static void on_signal(void *arg, int signo)
{
	struct supervisor *s = arg;

	if (signo == SIGCHLD)
		reap_adopted(s);
	else if (signo == SIGHUP)
		reload(s);
	else if (s->server_pid_fd >= 0)
		stop(s);
}

static _Noreturn void become_server(struct supervisor *s, int control_fd)
{
	/* its signals stay blocked until its own loop takes them: none may kill it before
	 */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	close(s->control_fd);
	close(s->launcher.pid_fd);
	defer_close(&s->broker.pid_fd);
	defer_close(&s->broker.socket_fd);
	close(s->prepared.start_fd);
	close(s->prepared.ledger_fd);
	/* the supervisor's alone: his end is the moment when another may have it */
	defer_close(&s->prepared.sessions_lock_fd);
	s->prepared.sessions_lock_fd = -1;
	cgroup_unlock();
	loop_free(s->loop);
	_exit(server_main(&s->prepared, &s->front, control_fd, s->launcher.socket_fd));
}

static int start_server(struct supervisor *s, struct err *e)
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
		become_server(s, theirs);
	s->server_pid_fd = sys_pidfd_open(s->server, 0);
	if (s->server_pid_fd < 0 ||
	    loop_add(s->loop, s->server_pid_fd, EPOLLIN, on_server_dead, s) < 0)
		return err_errno(e, "watch the server");
	close(take_fd(&s->launcher.socket_fd));
	return 0;
}

/* an eventfd carries a number and nothing else: a server gone wrong can send no more */
static int expect_ready(struct supervisor *s, struct err *e)
{
	if (!manager_listens())
		return 0;
	s->ready_fd = s->front.ready_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->ready_fd < 0 || loop_add(s->loop, s->ready_fd, EPOLLIN, on_ready, s) < 0)
		return err_errno(e, "wait for the server");
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

/* Standard output is the client's, and protocol alone: whatever else would be printed
 * goes where the log goes. No other process gets either of them. */
static int take_standard(struct supervisor *s, struct err *e)
{
	auto_fd int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	s->front.in_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	s->front.out_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (null_fd < 0 || s->front.in_fd < 0 || s->front.out_fd < 0 ||
	    dup2(null_fd, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return err_errno(e, "take standard input and output");
	return 0;
}

static int open_front(struct supervisor *s, struct err *e)
{
	const struct settings *set = &s->prepared.settings;
	int given[2] = {-1, -1};
	int count;

	if (s->stdio)
		return take_standard(s, e);
	count = http_inherit(given, sizeof(given) / sizeof(given[0]), e);
	if (count < 0)
		return -1;
	s->front.listen_fd = given[0];
	s->front.agent_fd = given[1];
	s->front.shared = count > 0;
	if (count > 0)
		return 0; /* the settings are for who listens himself */
	s->front.listen_fd = http_listen(set->listen, (unsigned)set->port, e);
	if (s->front.listen_fd < 0 || !set->agent_port)
		return s->front.listen_fd < 0 ? -1 : 0;
	s->front.agent_fd = http_listen(set->listen, (unsigned)set->agent_port, e);
	return s->front.agent_fd < 0 ? -1 : 0;
}

/* it is the server's: only its end shall be seen */
static void close_front(struct supervisor *s)
{
	defer_close(&s->front.listen_fd);
	defer_close(&s->front.agent_fd);
	defer_close(&s->front.in_fd);
	defer_close(&s->front.out_fd);
	s->front = (struct front)FRONT_NONE;
}

static int supervise(struct supervisor *s, struct err *e)
{
	const struct settings *set = &s->prepared.settings;

	if (take_signals(s, e) < 0 || reload_first(&s->prepared, !s->stdio, e) < 0 ||
	    open_front(s, e) < 0)
		return -1;
	if (prepare(&s->prepared, (unsigned)set->max_concurrent, TO_SERVE, e) < 0)
		return -1;
	if ((set->preload || set->warm_fork) && ahead_check(&s->prepared, e) < 0)
		return -1;
	if (unwanted())
		return 0;
	/* its environment and memory have what the others gave up: /proc/PID is root's */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_errno(e, "close our memory to others");
	if (expect_ready(s, e) < 0 || start_launcher(s, e) < 0 ||
	    start_broker(s, e) < 0 || start_server(s, e) < 0)
		return -1;
	if (s->broker.socket_fd >= 0 && hand(s, CONTROL_BROKER, &s->broker) < 0)
		return err_errno(e, "hand the brokers' socket over");
	if (reload_watch(&s->prepared, s->loop, &s->control_fd, e) < 0)
		return -1;
	close_front(s);
	if (loop_run(s->loop) < 0)
		return err_errno(e, "run the loop");
	return 0;
}

static const char usage[] =
	"usage: sandbox-server [serve] [SETTINGS]\n\n"
	"Serves POST /execute, /mcp and /tools, /sessions, GET /health, /healthz,\n"
	"/readyz, /isolation and /metrics.\n";

static const char mcp_usage[] =
	"usage: sandbox-server mcp [SETTINGS]\n\n"
	"Speaks the Model Context Protocol with the client that started it: messages on\n"
	"standard input and output, the log on standard error. Ends with its input.\n";

/* 1: go on; 0: help was all that was wanted; -1 */
static int read_arguments(struct settings *s, const char *text, int argc, char **argv,
			  struct err *e)
{
	static const char *const own_flags[] = {"--help", NULL};
	int used = settings_load(s, argc, argv, own_flags, e);

	if (used < 0)
		return -1;
	if (used == argc)
		return 1;
	if (strcmp(argv[used], "--help") != 0)
		return err_bad(e, "unknown argument '%s' (try --help)", argv[used]);
	print_usage(text);
	return 0;
}

static int serve(bool stdio, int argc, char **argv)
{
	struct supervisor s = {
		.prepared = {.start_fd = -1,
			     .artifacts_fd = -1,
			     .sessions_fd = -1,
			     .sessions_lock_fd = -1,
			     .images_fd = -1,
			     .own = {-1, -1, "", ""},
			     .ledger_fd = -1},
		.launcher = {.pid_fd = -1, .socket_fd = -1},
		.broker = {.pid_fd = -1, .socket_fd = -1},
		.server_pid_fd = -1,
		.control_fd = -1,
		.front = FRONT_NONE,
		.ready_fd = -1,
		.stdio = stdio,
	};
	const struct settings *set = &s.prepared.settings;
	struct err e = {0};
	int go_on;

	go_on = read_arguments(&s.prepared.settings, stdio ? mcp_usage : usage, argc,
			       argv, &e);
	if (go_on > 0) {
		log_setup((enum log_level)set->log_level,
			  (enum log_format)set->log_format, "supervisor");
		s.prepared.alone = stdio; /* a server may have the others */
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
	launched_done(&s.broker);
	prepared_done(&s.prepared);
	defer_close(&s.control_fd);
	defer_close(&s.ready_fd);
	close_front(&s);
	loop_free(s.loop);
	return s.status;
}

int cmd_serve(int argc, char **argv)
{
	return serve(false, argc, argv);
}

int cmd_mcp(int argc, char **argv)
{
	return serve(true, argc, argv);
}
