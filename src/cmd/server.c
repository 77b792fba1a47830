/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * server.c - the process that speaks HTTP, or MCP with the client that started us
 *
 * Runs in: a child of the supervisor. It parses hostile bytes, so before the first one it
 * gives up every right: not root, no capability in any set, no_new_privs, an empty
 * environment; then, with everything open, confine.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "config/tokens.h"
#include "http/server.h"
#include "job/artifacts.h"
#include "job/audit.h"
#include "job/job.h"
#include "mcp/stdio.h"
#include "session/session.h"

#ifndef SANDBOX_VERSION
#define SANDBOX_VERSION "dev"
#endif

#define DRAIN_LOOK_NS 20000000ull

struct server {
	struct loop *loop;
	struct prepared *prepared;
	struct http_server *http; /* NULL: stdio is the front */
	struct stdio *stdio;
	struct jobs *jobs;
	struct artifacts *artifacts;
	struct audit *audit;
	struct sessions *sessions;
	int control_fd;
	int ready_fd; /* -1: nobody wants to be told */
	bool shared;  /* clients wait for us to let them in */
	bool announced;
	bool draining;
	uint64_t deadline_ns;   /* of the grace, then of each last step */
	unsigned steps;         /* last steps done */
	struct loop_timer look; /* while draining: is it over */
	int status;
};

/* where stored runs go; -1 when they are off, which the log and /health tell */
static int open_artifacts(struct prepared *p)
{
	const struct settings *s = &p->settings;
	const char *what = s->artifact_dir ? "SANDBOX_ARTIFACT_DIR"
					   : "the state directory";
	auto_fd int fd = -1;

	if (s->store_code == STORE_NEVER)
		return -1;
	if (s->artifact_dir)
		fd = open(s->artifact_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	else if (p->artifacts_fd >= 0)
		fd = fs_make_path(p->artifacts_fd, "executions", 0700);
	/* the same right that writing there will need: ours, after all others went */
	if (fd >= 0 && faccessat(fd, ".", W_OK, AT_EACCESS) == 0)
		return take_fd(&fd);
	if (!p->state_note[0])
		snprintf(p->state_note, sizeof(p->state_note),
			 "uid %u cannot write to %s: %s", (unsigned)geteuid(), what,
			 strerror(errno));
	log_warn("artifacts.off", "reason=\"%s\"", p->state_note);
	return -1;
}

/* a program to try, as it stands in JSON inside a shell's quotes */
static const char *const samples[MODE_COUNT] = {
	[MODE_PYTHON] = "print(6*7)",
	[MODE_GOLANG] = "package main\\nfunc main() { println(6*7) }",
	[MODE_NODE] = "console.log(6*7)",
	[MODE_SHELL] = "echo $((6*7))",
};

/* not before programs can run: clients of MCP ask at once, and do not ask again */
static void begin_stdio(struct server *s)
{
	const struct report *r = jobs_report(s->jobs);
	struct err e;

	log_info("server.ready", "mode=%s isolation=%s", s->prepared->modes.mode[0].name,
		 report_level_name(r->level));
	if (stdio_begin(s->stdio, &e) == 0)
		return;
	fprintf(stderr, "sandbox-server: %s\n", e.text);
	s->status = 1;
	loop_stop(s->loop);
}

/* from now on there is an answer for whoever asks */
static void let_in(struct server *s)
{
	const uint64_t one = 1;

	if (s->shared && http_server_open(s->http) < 0) {
		log_error("server.open", "error=\"%s\"", strerror(errno));
		s->status = 1;
		loop_stop(s->loop);
		return;
	}
	if (s->ready_fd >= 0 && write(s->ready_fd, &one, sizeof(one)) < 0)
		log_error("server.untold", "error=\"%s\"", strerror(errno));
}

static void announce(struct server *s)
{
	const struct settings *set = &s->prepared->settings;
	const struct report *r = jobs_report(s->jobs);
	const struct mode *m = &s->prepared->modes.mode[0];
	unsigned port = s->http ? http_server_port(s->http) : 0;
	bool any = strcmp(set->listen, "0.0.0.0") == 0 || strcmp(set->listen, "::") == 0;

	s->announced = true;
	let_in(s);
	if (s->stdio)
		return begin_stdio(s);
	log_info("server.listening", "address=%s port=%u mode=%s isolation=%s",
		 set->listen, port, m->name, report_level_name(r->level));
	printf("sandbox-server %s: %s (%s), isolation %s, http://%s:%u\n"
	       "try: curl -s http://%s:%u/execute -H 'Content-Type: application/json' "
	       "-d '{\"code\":\"%s\"}'\n",
	       SANDBOX_VERSION, m->name, m->runtime_version, report_level_name(r->level),
	       set->listen, port, any ? "127.0.0.1" : set->listen, port, samples[m->id]);
	fflush(stdout);
}

static void on_report(void *arg, const struct report *r)
{
	struct server *s = arg;
	const uint32_t least = (uint32_t)s->prepared->settings.min_isolation;

	if (s->announced)
		return; /* later ones turn readiness on and off */
	if (r->level >= least || s->prepared->settings.docker) {
		if (r->level == LEVEL_PROCESS)
			log_warn(
				"isolation.process",
				"effect=\"programs can read what this user can read, and "
				"end its processes\"");
		announce(s);
		return;
	}
	explain_level(r, least);
	s->status = 1;
	loop_stop(s->loop);
}

/* the supervisor has found them good; the descriptor is ours */
static void take_tokens(struct server *s, int fd)
{
	auto_free struct tokens *t = mem_zero(sizeof(*t));
	auto_fd int taken_fd = fd;
	struct err e;

	if (reload_tokens(taken_fd, t, &e) == 0)
		http_server_set_tokens(s->http, t);
	else
		log_error("tokens.refused", "error=\"%s\"", e.text);
}

static void take_images(struct server *s, int fd)
{
	auto_free char *bytes = mem_array(SESSION_IMAGES_BYTES, 1);
	auto_fd int taken_fd = fd;
	const ssize_t len = pread(taken_fd, bytes, SESSION_IMAGES_BYTES, 0);

	if (len < 0)
		log_error("images.list", "error=\"%s\"", strerror(errno));
	else
		sessions_set_images(s->sessions, bytes, (size_t)len);
}

static void on_control(void *arg, uint32_t events)
{
	struct server *s = arg;
	int fds[FDPASS_MAX];
	size_t count;
	char byte = 0;

	(void)events;
	if (fdpass_receive(s->control_fd, &byte, 1, fds, &count, FDPASS_NOW) == 1 &&
	    count == 1) {
		if (byte == CONTROL_BROKER)
			jobs_set_broker(s->jobs, fds[0]);
		else if (byte == CONTROL_TOKENS)
			take_tokens(s, fds[0]);
		else if (byte == CONTROL_AUDIT)
			audit_continue(s->audit, fds[0]);
		else if (byte == CONTROL_IMAGES)
			take_images(s, fds[0]);
		else
			jobs_new_launcher(s->jobs, fds[0]);
		return;
	}
	/* the supervisor is gone, and its death signal is on its way */
	s->status = 1;
	loop_stop(s->loop);
}

/* for who still waits: an answer of what there is; then one without; then none */
static void go_on_ending(struct server *s)
{
	static const struct {
		void (*take)(struct jobs *j);
		uint64_t ns; /* an engine takes a while to end a container */
	} steps[] = {{jobs_kill_all, 3000000000ull}, {jobs_fail_all, 3000000000ull}};

	if (s->steps == sizeof(steps) / sizeof(steps[0]))
		return loop_stop(s->loop);
	steps[s->steps].take(s->jobs);
	s->deadline_ns = loop_now_ns() + steps[s->steps++].ns;
}

static void on_look(void *arg)
{
	struct server *s = arg;

	if (jobs_idle(s->jobs) && http_server_idle(s->http) &&
	    http_server_close(s->http)) {
		loop_stop(s->loop);
		return;
	}
	if (loop_now_ns() >= s->deadline_ns) {
		if (!s->steps)
			log_warn("server.grace_over", "running=%u",
				 jobs_running(s->jobs));
		go_on_ending(s);
	}
	loop_timer_at(s->loop, &s->look, loop_now_ns() + DRAIN_LOOK_NS);
}

static void on_signal(void *arg, int signo)
{
	struct server *s = arg;

	if (signo != SIGTERM)
		return;
	if (s->stdio)
		return loop_stop(s->loop); /* whoever waits for an answer said so */
	if (s->draining) {
		log_warn("server.stop", "running=%u", jobs_running(s->jobs));
		go_on_ending(s);
		return;
	}
	log_info("server.draining", "running=%u grace_sec=%llu", jobs_running(s->jobs),
		 (unsigned long long)s->prepared->settings.grace_sec);
	s->draining = true;
	s->deadline_ns = loop_now_ns() + s->prepared->settings.grace_sec * 1000000000ull;
	jobs_drain(s->jobs);
	http_server_drain(s->http);
	s->look.fn = on_look;
	s->look.arg = s;
	on_look(s);
}

static void on_client_gone(void *arg)
{
	struct server *s = arg;

	log_info("server.stop", "running=%u", jobs_running(s->jobs));
	loop_stop(s->loop);
}

/* what jobs report to; NULL and *e */
static const struct job_observer *open_front(struct server *s, const struct front *f,
					     struct err *e)
{
	const struct request_world w = {&s->prepared->settings, &s->prepared->modes,
					false};

	if (f->listen_fd < 0) {
		s->stdio = stdio_new(s->loop, &w, f->in_fd, f->out_fd);
		stdio_on_end(s->stdio, on_client_gone, s);
		return stdio_observer(s->stdio);
	}
	s->http = http_server_new(s->loop, w.settings, w.modes, f->listen_fd, e);
	if (!s->http ||
	    (f->agent_fd >= 0 && http_server_listen(s->http, f->agent_fd, e) < 0))
		return NULL;
	if (f->shared)
		http_server_share(s->http);
	s->shared = f->shared;
	return http_server_observer(s->http);
}

static void give_jobs(struct server *s)
{
	const char *note = s->prepared->state_note;

	if (s->stdio)
		return stdio_set_jobs(s->stdio, s->jobs, s->artifacts, s->sessions);
	if (s->prepared->tokens)
		http_server_set_tokens(s->http, s->prepared->tokens);
	http_server_set_jobs(s->http, s->jobs);
	http_server_set_sessions(s->http, s->sessions);
	http_server_set_artifacts(s->http, s->artifacts, note[0] ? note : NULL);
}

static void give_sessions(struct server *s)
{
	struct buf images;

	sessions_set_jobs(s->sessions, s->jobs, &s->prepared->start->setup);
	if (session_images_pack(s->prepared->images_fd, &images) < 0)
		log_error("images.list", "error=\"%s\"", strerror(errno));
	sessions_set_images(s->sessions, images.bytes, images.len);
	buf_done(&images);
}

static int start(struct server *s, const struct front *front, int launcher_fd,
		 struct err *e)
{
	const struct settings *set = &s->prepared->settings;
	const struct job_observer *observer;
	sigset_t signals;
	const int index_fd = s->prepared->sessions_fd;
	int stored_fd;

	s->loop = loop_new();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	if (!s->loop || loop_signals(s->loop, &signals, on_signal, s) < 0 ||
	    loop_add(s->loop, s->control_fd, EPOLLIN, on_control, s) < 0)
		return err_errno(e, "make the server's loop");
	observer = open_front(s, front, e);
	if (!observer)
		return -1;
	s->jobs = jobs_new(s->loop, set, &s->prepared->modes, observer, launcher_fd);
	jobs_on_report(s->jobs, on_report, s);
	if (s->prepared->audit) {
		s->audit = audit_new(s->loop, take_fd(&s->prepared->audit->fd),
				     &s->prepared->audit->end);
		jobs_set_audit(s->jobs, s->audit);
	}
	s->sessions = sessions_new(
		s->loop, set, s->prepared->sessions_fd,
		s->prepared->sessions_why[0] ? s->prepared->sessions_why : NULL);
	s->prepared->sessions_fd = -1;
	if (sessions_load(s->sessions, e) < 0)
		return -1;
	if (!s->prepared->sessions_why[0])
		give_sessions(s);
	if (s->stdio)
		sessions_have_own(s->sessions);
	/* from here on the supervisor looks for it */
	defer_close(&s->prepared->images_fd);
	s->prepared->images_fd = -1;
	stored_fd = open_artifacts(s->prepared);
	/* it looks at what is stored already: later nothing can be opened to be read */
	s->artifacts = artifacts_new(stored_fd, set->artifact_max_mb << 20);
	if (!s->artifacts)
		stored_fd = -1; /* there is no room for any */
	if (confine_server(stored_fd, index_fd, s->prepared->server_calls) < 0)
		return err_errno(e, "confine the server");
	give_jobs(s);
	return 0;
}

int server_main(struct prepared *p, const struct front *front, int control_fd,
		int launcher_fd)
{
	struct server s = {
		.prepared = p, .control_fd = control_fd, .ready_fd = front->ready_fd};
	struct err e = {0};

	prctl(PR_SET_NAME, front->listen_fd < 0 ? "sandbox-mcp" : "sandbox-http", 0, 0,
	      0);
	log_setup((enum log_level)p->settings.log_level,
		  (enum log_format)p->settings.log_format, "server");
	if (confine_rights(&p->settings, RIGHTS_SERVER) < 0) {
		fprintf(stderr,
			"sandbox-server: the server cannot give up its rights: %s\n",
			strerror(errno));
		return 1;
	}
	umask(0077);
	if (start(&s, front, launcher_fd, &e) < 0) {
		fprintf(stderr, "sandbox-server: %s\n", e.text);
		return 1;
	}
	if (loop_run(s.loop) < 0) {
		log_error("server.loop", "error=\"%s\"", strerror(errno));
		s.status = 1;
	}
	http_server_free(s.http);
	stdio_free(s.stdio);
	jobs_free(s.jobs);
	sessions_free(s.sessions);
	artifacts_free(s.artifacts);
	if (audit_free(s.audit) < 0)
		s.status = 1;
	loop_free(s.loop);
	return s.status;
}
