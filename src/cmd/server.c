/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * server.c - the process that speaks HTTP
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

#include "base/caps.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "cmd/cmd.h"
#include "http/server.h"
#include "job/artifacts.h"
#include "job/job.h"

#ifndef SANDBOX_VERSION
#define SANDBOX_VERSION "dev"
#endif

#define DRAIN_LOOK_NS 20000000ull

struct server {
	struct loop *loop;
	struct prepared *prepared;
	struct http_server *http;
	struct jobs *jobs;
	struct artifacts *artifacts;
	int control_fd;
	bool announced;
	bool draining;
	uint64_t deadline_ns;
	struct loop_timer look; /* while draining: is it over */
	int status;
};

/* clearenv alone leaves the texts where they were: a bug could still tell them */
static void forget_environment(void)
{
	for (char **v = environ; v && *v; v++)
		explicit_bzero(*v, strlen(*v));
	clearenv();
}

static int drop_rights(const struct settings *s)
{
	const uid_t uid = s->uid_base ? (uid_t)s->uid_base - 1 : geteuid();
	const gid_t gid = s->uid_base ? (gid_t)s->uid_base - 1 : getegid();

	if (caps_become_nobody(uid, gid) < 0)
		return -1;
	/* the change of ids cleared it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	forget_environment();
	return chdir("/");
}

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

static void announce(struct server *s)
{
	const struct settings *set = &s->prepared->settings;
	const struct report *r = jobs_report(s->jobs);
	const struct mode *m = &s->prepared->modes.mode[0];
	unsigned port = http_server_port(s->http);
	bool any = strcmp(set->listen, "0.0.0.0") == 0 || strcmp(set->listen, "::") == 0;

	s->announced = true;
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
	if (r->level >= least) {
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

static void on_control(void *arg, uint32_t events)
{
	struct server *s = arg;
	int fds[FDPASS_MAX];
	size_t count;
	char byte = 0;

	(void)events;
	if (fdpass_receive(s->control_fd, &byte, 1, fds, &count, FDPASS_NOW) == 1 &&
	    count == 1) {
		jobs_new_launcher(s->jobs, fds[0]);
		return;
	}
	/* the supervisor is gone, and its death signal is on its way */
	s->status = 1;
	loop_stop(s->loop);
}

static void on_look(void *arg)
{
	struct server *s = arg;

	if (jobs_idle(s->jobs) && http_server_idle(s->http)) {
		loop_stop(s->loop);
		return;
	}
	if (loop_now_ns() >= s->deadline_ns) {
		log_warn("server.grace_over", "running=%u", jobs_running(s->jobs));
		loop_stop(s->loop);
		return;
	}
	loop_timer_at(s->loop, &s->look, loop_now_ns() + DRAIN_LOOK_NS);
}

static void on_signal(void *arg, int signo)
{
	struct server *s = arg;

	if (signo != SIGTERM)
		return;
	if (s->draining) {
		log_warn("server.stop", "running=%u", jobs_running(s->jobs));
		loop_stop(s->loop);
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

static int start(struct server *s, int listen_fd, int launcher_fd, struct err *e)
{
	const struct settings *set = &s->prepared->settings;
	sigset_t signals;
	int stored_fd;

	s->loop = loop_new();
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	if (!s->loop || loop_signals(s->loop, &signals, on_signal, s) < 0 ||
	    loop_add(s->loop, s->control_fd, EPOLLIN, on_control, s) < 0)
		return err_errno(e, "make the server's loop");
	s->http = http_server_new(s->loop, set, &s->prepared->modes, listen_fd, e);
	if (!s->http)
		return -1;
	s->jobs = jobs_new(s->loop, set, &s->prepared->modes,
			   http_server_observer(s->http), launcher_fd);
	jobs_on_report(s->jobs, on_report, s);
	http_server_set_jobs(s->http, s->jobs);
	stored_fd = open_artifacts(s->prepared);
	/* it looks at what is stored already: later nothing can be opened to be read */
	s->artifacts = artifacts_new(stored_fd, set->artifact_max_mb << 20);
	if (!s->artifacts)
		stored_fd = -1; /* there is no room for any */
	if (confine_server(stored_fd, s->prepared->server_calls) < 0)
		return err_errno(e, "confine the server");
	http_server_set_artifacts(s->http, s->artifacts,
				  s->prepared->state_note[0] ? s->prepared->state_note
							     : NULL);
	return 0;
}

int server_main(struct prepared *p, int listen_fd, int control_fd, int launcher_fd)
{
	struct server s = {.prepared = p, .control_fd = control_fd};
	struct err e = {0};

	prctl(PR_SET_NAME, "sandbox-http", 0, 0, 0);
	log_setup((enum log_level)p->settings.log_level,
		  (enum log_format)p->settings.log_format, "server");
	if (drop_rights(&p->settings) < 0) {
		fprintf(stderr,
			"sandbox-server: the server cannot give up its rights: %s\n",
			strerror(errno));
		return 1;
	}
	umask(0077);
	if (start(&s, listen_fd, launcher_fd, &e) < 0) {
		fprintf(stderr, "sandbox-server: %s\n", e.text);
		return 1;
	}
	if (loop_run(s.loop) < 0) {
		log_error("server.loop", "error=\"%s\"", strerror(errno));
		s.status = 1;
	}
	http_server_free(s.http);
	jobs_free(s.jobs);
	artifacts_free(s.artifacts);
	loop_free(s.loop);
	return s.status;
}
