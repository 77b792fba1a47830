/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * run.c - one program in the same sandbox, without HTTP
 *
 * Output passes through live; the exit status is the program's own, 124 for a timeout,
 * 125 when the sandbox failed. --json prints the result object of POST /execute instead.
 * `policy observe` is the same with every refused call reported: the program's output
 * goes to standard error, and a policy to standard output.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/cmd.h"
#include "wire/input.h"

enum { EXIT_TIMEOUT = 124, EXIT_SANDBOX = 125 };

#define INPUT_CAP (32u << 20)
#define JSON_CAP (64u << 20)

struct one_run {
	struct alone alone;
	struct run_request request;
	const char *script;
	double timeout_sec; /* 0: the default */
	bool stdin_given;
	bool json;
	bool observe;
	int status; /* -1: not known yet */
};

static const char usage[] =
	"usage: sandbox-server run [--mode M] [--timeout S] [--file NAME=PATH]...\n"
	"                          [--stdin] [--json] SCRIPT|- [ARGUMENT]...\n\n"
	"Runs one program in a sandbox and exits with its code; 124: timeout,\n"
	"125: the sandbox failed. '-' reads the program from standard input.\n\n"
	"  --timeout S       seconds, 0.5 too\n"
	"  --file NAME=PATH  put the file PATH into the working directory as NAME\n"
	"  --stdin           standard input is the program's\n"
	"  --json            print the result as one JSON object, not the output\n";

static const char observe_usage[] =
	"usage: sandbox-server policy observe [--mode M] [--timeout S]\n"
	"           [--file NAME=PATH]... [--stdin] SCRIPT|- [ARGUMENT]...\n\n"
	"Runs one program, its output to standard error, and prints the calls that it\n"
	"made beyond the policy, as a policy file that would allow just those. They are\n"
	"refused all the same, so a program that gives up early shows the first ones.\n";

static int read_all(int fd, const char *name, struct buf *out, struct err *e)
{
	char block[65536];
	ssize_t n;

	while ((n = read(fd, block, sizeof(block))) > 0) {
		if (buf_add(out, block, (size_t)n) < 0)
			return err_bad(e, "'%s' is larger than %u MB", name,
				       INPUT_CAP >> 20);
	}
	return n < 0 ? err_errno(e, "read '%s'", name) : 0;
}

static int read_path(const char *path, struct buf *out, struct err *e)
{
	auto_fd int fd = -1;

	buf_init(out, INPUT_CAP);
	if (strcmp(path, "-") == 0)
		return read_all(STDIN_FILENO, "standard input", out, e);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_errno(e, "open '%s'", path);
	return read_all(fd, path, out, e);
}

static int add_file(struct one_run *r, const char *text, struct err *e)
{
	struct run_request *q = &r->request;
	const char *equals = strchr(text, '=');
	struct run_file *files;

	if (!equals || !fs_name_ok(text, (size_t)(equals - text), 4096))
		return err_bad(e, "--file %s: want NAME=PATH with a relative NAME", text);
	files = mem_array(q->file_count + 1, sizeof(*files));
	if (q->file_count)
		memcpy(files, q->files, q->file_count * sizeof(*files));
	free(q->files);
	q->files = files;
	files[q->file_count].name = mem_copy_n(text, (size_t)(equals - text));
	return read_path(equals + 1, &files[q->file_count++].data, e);
}

static int set_timeout(struct one_run *r, const char *value, struct err *e)
{
	if (num_decimal(value, &r->timeout_sec) < 0 || r->timeout_sec <= 0 ||
	    r->timeout_sec > 86400)
		return err_bad(e, "--timeout %s: want seconds, more than 0", value);
	return 0;
}

static int set_stdin(struct one_run *r, const char *value, struct err *e)
{
	(void)value;
	(void)e;
	r->stdin_given = true;
	return 0;
}

static int set_json(struct one_run *r, const char *value, struct err *e)
{
	(void)value;
	(void)e;
	r->json = true;
	return 0;
}

static const struct {
	const char *name;
	bool has_value;
	int (*set)(struct one_run *r, const char *value, struct err *e);
} options[] = {
	{"--timeout", true, set_timeout},
	{"--file", true, add_file},
	{"--stdin", false, set_stdin},
	{"--json", false, set_json},
};

/* "--name value" or "--name=value". How many arguments it took; 0: none of ours; -1 */
static int own_option(struct one_run *r, int left, char **argv, struct err *e)
{
	unsigned i;

	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const size_t len = strlen(options[i].name);
		const char *rest = argv[0] + len;
		int took = 1;

		if (strncmp(argv[0], options[i].name, len) != 0 ||
		    (*rest && *rest != '='))
			continue;
		if (*rest && !options[i].has_value)
			return err_bad(e, "%s has no value", options[i].name);
		if (!*rest && options[i].has_value && left < 2)
			return err_bad(e, "%s wants a value", options[i].name);
		if (*rest)
			rest++;
		else if (options[i].has_value)
			rest = argv[took++];
		return options[i].set(r, rest, e) < 0 ? -1 : took;
	}
	return 0;
}

/* settings and our own flags in any order, then the script, then its arguments */
static int read_arguments(struct one_run *r, int argc, char **argv, struct err *e)
{
	auto_free char **settings = mem_array((size_t)argc + 1, sizeof(char *));
	int at, own, count = 0;

	for (at = 0; at < argc && strncmp(argv[at], "--", 2) == 0; at += own) {
		if (strcmp(argv[at], "--help") == 0) {
			print_usage(r->observe ? observe_usage : usage);
			exit(0);
		}
		own = own_option(r, argc - at, argv + at, e);
		if (own < 0)
			return -1;
		if (r->json && r->observe)
			return err_bad(e, "policy observe has no --json");
		if (own > 0)
			continue;
		/* every setting has a value */
		own = strchr(argv[at], '=') || at + 1 == argc ? 1 : 2;
		memcpy(settings + count, argv + at, (size_t)own * sizeof(*argv));
		count += own;
	}
	if (settings_load(&r->alone.prepared.settings, count, settings, NULL, e) < 0)
		return -1;
	if (at >= argc)
		return err_bad(e, "no script given (try %s --help)",
			       r->observe ? "policy observe" : "run");
	r->script = argv[at++];
	if (argc - at > INPUT_ARGS_MAX)
		return err_bad(e, "more than %d arguments", INPUT_ARGS_MAX);
	r->request.args = mem_array((size_t)(argc - at) + 1, sizeof(char *));
	for (own = 0; at < argc; at++)
		r->request.args[own++] = mem_copy(argv[at]);
	return 0;
}

/* a reader that went away ends the run, as it ends any program of a pipeline */
static void write_out(struct one_run *r, int fd, const char *text, size_t len)
{
	if (fs_write_all(fd, text, len) == 0)
		return;
	if (errno != EPIPE) {
		log_warn("run.output", "error=\"%s\"", strerror(errno));
		return;
	}
	r->status = 128 + SIGPIPE;
	loop_stop(r->alone.loop);
}

static void on_output(void *arg, uint64_t who, enum job_stream stream, const char *text,
		      size_t len)
{
	struct one_run *r = arg;

	(void)who;
	if (!r->json)
		write_out(r,
			  stream == JOB_STDOUT && !r->observe ? STDOUT_FILENO
							      : STDERR_FILENO,
			  text, len);
}

static void tell_observed(struct one_run *r, const struct result *result)
{
	const struct report *report = jobs_report(r->alone.jobs);
	struct err e = {0};

	const char *reason = report->layer[LAYER_VIOLATIONS].reason;

	r->status = 0;
	if (result->outcome.violations == VIOLATIONS_UNKNOWN)
		err_bad(&e, "calls cannot be observed here: %s", reason);
	else if (report->level < LEVEL_NAMESPACES)
		err_bad(&e, "calls can be observed with namespaces only: without them "
			    "more is refused than the policy says");
	else if (observe_print(result, &e) == 0 &&
		 result->outcome.violations == VIOLATIONS_CUT)
		err_bad(&e, "there were more calls than can be noted: this is not all");
	else if (!e.text[0] && reason[0])
		err_bad(&e, "this may not be all: %s", reason);
	else if (!e.text[0])
		return;
	fprintf(stderr, "sandbox-server: %s\n", e.text);
	r->status = EXIT_SANDBOX;
}

static void on_done(void *arg, uint64_t who, const struct result *result)
{
	struct one_run *r = arg;
	struct buf b;

	(void)who;
	r->status = result->outcome.verdict == VERDICT_TIMEOUT ? EXIT_TIMEOUT
							       : result->exit_code;
	loop_stop(r->alone.loop);
	if (r->observe) {
		tell_observed(r, result);
		return;
	}
	buf_init(&b, JSON_CAP);
	if (r->json && reply_result(&b, result) == 0 && buf_puts(&b, "\n") == 0)
		write_out(r, STDOUT_FILENO, b.bytes, b.len);
	buf_done(&b);
}

static void on_failed(void *arg, uint64_t who, const struct err *e)
{
	struct one_run *r = arg;

	(void)who;
	fprintf(stderr, "sandbox-server: %s\n", e->text);
	r->status = EXIT_SANDBOX;
	loop_stop(r->alone.loop);
}

static void on_report(void *arg, const struct report *report)
{
	struct one_run *r = arg;
	const struct settings *s = &r->alone.prepared.settings;
	struct err e = {0};

	if (report->level < s->min_isolation) {
		explain_level(report, (uint32_t)s->min_isolation);
		r->status = EXIT_SANDBOX;
		loop_stop(r->alone.loop);
	} else if (jobs_submit(r->alone.jobs, 1, &r->request, !r->json, &e) < 0) {
		on_failed(r, 1, &e);
	}
}

static void on_signal(void *arg, int signo)
{
	struct one_run *r = arg;

	r->status = 128 + signo;
	loop_stop(r->alone.loop); /* the launcher and the run go with us */
}

static bool at_or_below(const char *name, const char *top)
{
	size_t len = strlen(top);

	return strncmp(name, top, len) == 0 && (name[len] == '\0' || name[len] == '/');
}

/* known now that the mode is */
static int check_names(const struct one_run *r, struct err *e)
{
	const struct setup *setup = &r->alone.prepared.start->setup;
	const struct run_request *q = &r->request;
	size_t i;

	for (i = 0; i < q->file_count; i++) {
		if (at_or_below(q->files[i].name, setup->row[q->row].script))
			return err_bad(e, "--file %s: that name is the script's own",
				       q->files[i].name);
		if (at_or_below(q->files[i].name, setup->output_dir))
			return err_bad(e,
				       "--file %s: that name is the output directory's",
				       q->files[i].name);
	}
	return 0;
}

static int fill_request(struct one_run *r, struct err *e)
{
	const struct settings *s = &r->alone.prepared.settings;
	struct run_request *q = &r->request;
	struct limits wanted = {0};

	q->mode = modes_for_language(&r->alone.prepared.modes, NULL, &q->row, e);
	if (!q->mode || check_names(r, e) < 0 || read_path(r->script, &q->code, e) < 0)
		return -1;
	buf_init(&q->stdin_text, INPUT_CAP);
	if (r->stdin_given &&
	    read_all(STDIN_FILENO, "standard input", &q->stdin_text, e) < 0)
		return -1;
	q->env = mem_array(1, sizeof(char *));
	wanted.wall_ms = (uint32_t)(r->timeout_sec * 1000 + 0.5);
	job_limits(s, q->mode, &wanted, &q->limits);
	q->pass_through = !r->json;
	return 0;
}

static int run_it(struct one_run *r, struct err *e)
{
	const struct job_observer observer = {r, on_output, on_done, on_failed, NULL};

	if (prepare(&r->alone.prepared, 1, r->observe ? TO_OBSERVE : TO_RUN, e) < 0 ||
	    fill_request(r, e) < 0 || alone_start(&r->alone, &observer, on_signal, e) < 0)
		return -1;
	jobs_on_report(r->alone.jobs, on_report, r);
	if (loop_run(r->alone.loop) < 0)
		return err_errno(e, "run the loop");
	return r->status < 0 ? err_ours(e, "the launcher died at its start") : 0;
}

static int run_program(int argc, char **argv, bool observe)
{
	struct one_run r = {.alone = ALONE_NONE, .observe = observe, .status = -1};
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct err e = {0};

	sigaction(SIGPIPE, &ignore, NULL);
	if (read_arguments(&r, argc, argv, &e) < 0) {
		fprintf(stderr, "sandbox-server: %s\n", e.text);
		r.status = EXIT_SANDBOX;
	} else {
		if (r.alone.prepared.settings.log_level < LOG_WARN)
			r.alone.prepared.settings.log_level = LOG_WARN;
		log_setup((enum log_level)r.alone.prepared.settings.log_level,
			  (enum log_format)r.alone.prepared.settings.log_format, "run");
		if (run_it(&r, &e) < 0) {
			fprintf(stderr, "sandbox-server: %s\n", e.text);
			r.status = EXIT_SANDBOX;
		}
	}
	request_done(&r.request);
	alone_done(&r.alone);
	return r.status;
}

int cmd_run(int argc, char **argv)
{
	return run_program(argc, argv, false);
}

int cmd_observe(int argc, char **argv)
{
	return run_program(argc, argv, true);
}
