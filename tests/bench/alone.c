/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * alone.c - the launcher without HTTP: a run for every line of standard input
 *
 * usage: alone [PROGRAM]      settings by SANDBOX_..., the code by BENCH_CODE
 *
 * Each answer is the result object of POST /execute as one line. With PROGRAM, an
 * absolute path, the first mode runs that instead of its interpreter: what a sandbox
 * costs by itself, and how much of a program's start is the program's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "job/job.h"

static struct alone a = ALONE_NONE;
static uint64_t asked;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "alone: %s\n", what);
	alone_done(&a);
	exit(1);
}

static void say(const char *text, size_t len)
{
	if (fs_write_all(STDOUT_FILENO, text, len) < 0)
		loop_stop(a.loop); /* nobody listens */
}

static void on_done(void *arg, uint64_t who, const struct result *r)
{
	struct buf b;

	(void)arg;
	(void)who;
	buf_init(&b, 1u << 20);
	if (reply_result(&b, r) < 0 || buf_puts(&b, "\n") < 0)
		die("no room for the result");
	say(b.bytes, b.len);
	buf_done(&b);
}

static void on_failed(void *arg, uint64_t who, const struct err *e)
{
	(void)arg;
	(void)who;
	die(e->text);
}

static void on_output(void *arg, uint64_t who, enum job_stream stream, const char *text,
		      size_t len)
{
	(void)arg;
	(void)who;
	(void)stream;
	(void)text;
	(void)len;
}

static void start_one(void)
{
	const char *code = getenv("BENCH_CODE");
	struct run_request q = {0};
	struct limits wanted = {0};
	struct err e = {0};

	q.mode = modes_for_language(&a.prepared.modes, NULL, &q.row, &e);
	if (!q.mode)
		die(e.text);
	buf_init(&q.code, 1u << 20);
	buf_init(&q.stdin_text, 1);
	if (buf_puts(&q.code, code ? code : ":") < 0)
		die("no room for the code");
	q.args = mem_array(1, sizeof(char *));
	q.env = mem_array(1, sizeof(char *));
	job_limits(&a.prepared.settings, q.mode, &wanted, &q.limits);
	if (jobs_submit(a.jobs, ++asked, &q, false, &e) < 0)
		die(e.text);
}

static void on_line(void *arg, uint32_t events)
{
	char bytes[256];
	ssize_t i, n = read(STDIN_FILENO, bytes, sizeof(bytes));

	(void)arg;
	(void)events;
	if (n <= 0)
		loop_stop(a.loop);
	for (i = 0; i < n; i++) {
		if (bytes[i] == '\n')
			start_one();
	}
}

static void on_report(void *arg, const struct report *r)
{
	(void)arg;
	if (r->level < a.prepared.settings.min_isolation)
		die(r->summary);
	if (loop_add(a.loop, STDIN_FILENO, EPOLLIN, on_line, NULL) < 0 && errno != EEXIST)
		die("cannot watch standard input");
}

static void on_signal(void *arg, int signo)
{
	(void)arg;
	(void)signo;
	loop_stop(a.loop);
}

/* the first mode's row runs this one */
static void replace_program(const char *program)
{
	struct setup *setup = &a.prepared.start->setup;
	const char *slash = strrchr(program, '/');

	if (setup->binds == SETUP_BINDS || !slash || slash == program)
		die("want the absolute path of a program");
	memset(&setup->row[0].argv, 0, sizeof(setup->row[0].argv));
	snprintf(setup->row[0].argv.text, SETUP_PATH, "%s", program);
	snprintf(setup->bind[setup->binds++].path, SETUP_PATH, "%.*s",
		 (int)(slash - program), program);
	close(a.prepared.start_fd);
	a.prepared.start_fd = fs_sealed("launcher-start", a.prepared.start,
					sizeof(*a.prepared.start));
	if (a.prepared.start_fd < 0)
		die("cannot seal the launcher's start");
}

int main(int argc, char **argv)
{
	const struct job_observer o = {NULL, on_output, on_done, on_failed, NULL};
	struct err e = {0};

	if (argc == 2 && strcmp(argv[1], "launcher") == 0)
		return cmd_launcher(0, argv + 2);
	log_setup(LOG_WARN, LOG_TEXT, "alone");
	if (settings_load(&a.prepared.settings, 0, argv + argc, NULL, &e) < 0)
		die(e.text);
	a.prepared.settings.log_level = LOG_WARN;
	if (prepare(&a.prepared, (unsigned)a.prepared.settings.max_concurrent, TO_SERVE,
		    &e) < 0)
		die(e.text);
	if (argc == 2)
		replace_program(argv[1]);
	if (alone_start(&a, &o, on_signal, &e) < 0)
		die(e.text);
	jobs_on_report(a.jobs, on_report, NULL);
	if (loop_run(a.loop) < 0)
		die("cannot run the loop");
	alone_done(&a);
	return 0;
}
