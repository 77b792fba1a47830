/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inside.c - process 1 of a run's container, with SANDBOX_TYPE=docker
 *
 * Not for people: launcher/engine.c has the engine start it. Records of wire/input.h come
 * on standard input, frames of wire/engine.h go to standard output; between them it is as
 * `run`: a launcher, a sandbox as good as the container lets one be, one program.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/cmd.h"
#include "job/job.h"
#include "wire/engine.h"
#include "wire/files.h"
#include "wire/input.h"

#define INPUT_CAP (1100u << 20) /* above the largest request there can be */

enum word { MODE, WALL_MS, CPU_MS, MEMORY_MB, PIDS, DISK_MB, NETWORK, FILES, FILES_MB };
enum { OUTPUT_DIR = FILES_MB + 1, WORDS };

struct inside {
	struct alone alone;
	struct run_request request;
	struct buf input;
	uint64_t number[WORDS];
	int status; /* -1: not known yet */
};

/* who cannot be told any more is gone, and so is what it wanted */
static void frame(uint32_t kind, const void *bytes, size_t len)
{
	const struct engine_frame head = {kind, (uint32_t)len};

	if (fs_write_all(STDOUT_FILENO, &head, sizeof(head)) < 0 ||
	    fs_write_all(STDOUT_FILENO, bytes, len) < 0)
		_exit(1);
}

static void pieces(uint32_t kind, const char *bytes, size_t len)
{
	for (size_t n; len; bytes += n, len -= n) {
		n = len < ENGINE_FRAME_MOST ? len : ENGINE_FRAME_MOST;
		frame(kind, bytes, n);
	}
}

static void on_output(void *arg, uint64_t who, enum job_stream stream, const char *text,
		      size_t len)
{
	(void)arg;
	(void)who;
	pieces(stream == JOB_STDOUT ? ENGINE_OUT : ENGINE_ERR, text, len);
}

static void add_file(uint32_t kind, const char *name, const char *bytes, size_t len)
{
	static const char zeros[FILES_ALIGN];
	const struct files_head head = {kind, (uint32_t)strlen(name), len};
	const size_t whole = sizeof(head) + head.name_len + len;

	frame(ENGINE_FILES, &head, sizeof(head));
	pieces(ENGINE_FILES, name, head.name_len);
	pieces(ENGINE_FILES, bytes, len);
	pieces(ENGINE_FILES, zeros, (FILES_ALIGN - whole % FILES_ALIGN) % FILES_ALIGN);
}

/* has the kernel ended something of this container for its memory? */
static bool out_of_memory(void)
{
	static const char *const counts[] = {"/sys/fs/cgroup/memory.events",
					     "/sys/fs/cgroup/memory/memory.oom_control"};
	static const char key[] = "\noom_kill ";
	char text[1024];
	const char *at;

	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		if (fs_read_at(AT_FDCWD, counts[i], text, sizeof(text)) < 0)
			continue;
		at = strstr(text, key);
		return at && at[strlen(key)] != '0';
	}
	return false;
}

static void on_done(void *arg, uint64_t who, const struct result *r)
{
	struct inside *in = arg;
	struct outcome o = r->outcome;

	(void)who;
	if (o.verdict == VERDICT_SIGNAL && o.signal == SIGKILL && out_of_memory())
		o.verdict = VERDICT_OUT_OF_MEMORY;
	for (size_t i = 0; i < r->violation_count; i++)
		frame(ENGINE_VIOLATION, &r->violations[i], sizeof(r->violations[i]));
	for (size_t i = 0; i < r->file_count; i++)
		add_file(FILES_FILE, r->files[i].name, r->files[i].bytes,
			 r->files[i].len);
	for (size_t i = 0; i < r->skipped_count; i++)
		add_file(FILES_SKIPPED, r->skipped[i].name, r->skipped[i].reason,
			 strlen(r->skipped[i].reason));
	o.files = r->file_count + r->skipped_count ? OUTCOME_FILES : OUTCOME_NO_FILES;
	frame(ENGINE_DONE, &o, sizeof(o));
	in->status = 0;
	loop_stop(in->alone.loop);
}

static void fail(struct inside *in, const char *text)
{
	pieces(ENGINE_FAILED, text, strnlen(text, ENGINE_TEXT - 1));
	in->status = 1;
	if (in->alone.loop)
		loop_stop(in->alone.loop);
}

static void on_failed(void *arg, uint64_t who, const struct err *e)
{
	(void)who;
	fail(arg, e->text[0] ? e->text : "the sandbox failed");
}

static void on_started(void *arg, uint64_t who)
{
	(void)arg;
	(void)who;
	frame(ENGINE_STARTED, "", 0);
}

static void on_report(void *arg, const struct report *report)
{
	struct inside *in = arg;
	struct err e = {0};

	if (report->level < LEVEL_PROCESS)
		fail(in, report->summary[0] ? report->summary : "no sandbox can be made");
	else if (in->request.mode &&
		 jobs_submit(in->alone.jobs, 1, &in->request, true, &e) < 0)
		on_failed(in, 1, &e);
}

static void on_signal(void *arg, int signo)
{
	struct inside *in = arg;

	in->status = 128 + signo;
	loop_stop(in->alone.loop);
}

static int take_record(struct run_request *q, const struct input_record *r,
		       const char *name, const char *data)
{
	const size_t len = r->data_len;

	switch (r->kind) {
	case INPUT_SCRIPT:
		buf_init(&q->code, len);
		return buf_add(&q->code, data, len);
	case INPUT_STDIN:
		buf_init(&q->stdin_text, len);
		return buf_add(&q->stdin_text, data, len);
	case INPUT_FILE:
		q->files[q->file_count].name = mem_copy_n(name, r->name_len);
		buf_init(&q->files[q->file_count].data, len);
		return buf_add(&q->files[q->file_count++].data, data, len);
	case INPUT_ARG:
	case INPUT_ENV: {
		char **at = r->kind == INPUT_ARG ? q->args : q->env;

		while (*at)
			at++;
		*at = mem_copy_n(data, len);
		return 0;
	}
	default:
		return -1;
	}
}

/* how many of a kind there are; -1: these are no records */
static long count_records(const struct buf *b, uint32_t kind)
{
	const struct input_record *r;
	long n = 0;

	for (size_t at = 0; at + sizeof(*r) <= b->len;) {
		r = (const struct input_record *)(b->bytes + at);
		if (r->kind == INPUT_END)
			return n;
		if (r->name_len > b->len || r->data_len > b->len ||
		    input_size(r->name_len, r->data_len) > b->len - at)
			return -1;
		n += r->kind == kind;
		at += input_size(r->name_len, r->data_len);
	}
	return -1;
}

static int read_records(struct inside *in, struct err *e)
{
	struct run_request *q = &in->request;
	const struct buf *b = &in->input;
	const struct input_record *r;
	const long files = count_records(b, INPUT_FILE);

	if (files < 0 || count_records(b, INPUT_ARG) > INPUT_ARGS_MAX ||
	    count_records(b, INPUT_ENV) > INPUT_ENV_MAX)
		return err_bad(e, "standard input has no records of a run");
	q->files = mem_array((size_t)files + 1, sizeof(*q->files));
	q->args = mem_array(INPUT_ARGS_MAX + 1, sizeof(char *));
	q->env = mem_array(INPUT_ENV_MAX + 1, sizeof(char *));
	for (size_t at = 0;; at += input_size(r->name_len, r->data_len)) {
		const char *name;

		r = (const struct input_record *)(b->bytes + at);
		name = (const char *)(r + 1);
		if (r->kind == INPUT_END)
			return 0;
		if (take_record(q, r, name, name + r->name_len + 1) < 0)
			return err_errno(e, "take the records of a run");
	}
}

static int read_input(struct inside *in, struct err *e)
{
	char block[65536];
	ssize_t n;

	while ((n = read(STDIN_FILENO, block, sizeof(block))) > 0)
		if (buf_add(&in->input, block, (size_t)n) < 0)
			return err_errno(e, "read a run");
	return n < 0 ? err_errno(e, "read a run") : read_records(in, e);
}

/* the ceilings are this run's own limits, and nothing of the image's variables counts */
static int load(struct inside *in, char **argv, struct err *e)
{
	const uint64_t sec = (in->number[WALL_MS] + 999) / 1000;
	const uint64_t cpu_sec = (in->number[CPU_MS] + 999) / 1000;
	auto_free char *wall = mem_printf("%llu", (unsigned long long)sec);
	auto_free char *cpu = mem_printf("%llu", (unsigned long long)cpu_sec);
	char *words[] = {"--config=",
			 "--type=local",
			 "--min-isolation=process",
			 "--state-dir=/tmp/state",
			 "--log-level=error",
			 "--sessions=off",
			 "--supported-languages=",
			 "--preload=",
			 "--block-dangerous-imports=false",
			 "--network",
			 in->number[NETWORK] ? "pod" : "off",
			 "--mode",
			 argv[MODE],
			 "--timeout-sec",
			 wall,
			 "--max-timeout-sec",
			 wall,
			 "--cpu-sec",
			 cpu,
			 "--memory-mb",
			 argv[MEMORY_MB],
			 "--pids",
			 argv[PIDS],
			 "--disk-mb",
			 argv[DISK_MB],
			 "--max-files",
			 argv[FILES],
			 "--max-files-mb",
			 argv[FILES_MB],
			 "--output-dir",
			 argv[OUTPUT_DIR]};
	const int count = (int)(sizeof(words) / sizeof(*words));

	return settings_load(&in->alone.prepared.settings, count, words, NULL, e);
}

static int run(struct inside *in, char **argv, struct err *e)
{
	const struct job_observer observer = {in, on_output, on_done, on_failed,
					      on_started};
	struct run_request *q = &in->request;

	if (load(in, argv, e) < 0)
		return -1;
	log_setup(LOG_ERROR, LOG_TEXT, "inside");
	if (read_input(in, e) < 0 || prepare(&in->alone.prepared, 1, TO_RUN, e) < 0)
		return -1;
	q->mode = modes_for_language(&in->alone.prepared.modes, NULL, &q->row, e);
	if (!q->mode)
		return -1;
	q->limits = (struct limits){.wall_ms = (uint32_t)in->number[WALL_MS],
				    .cpu_ms = (uint32_t)in->number[CPU_MS],
				    .memory_mb = (uint32_t)in->number[MEMORY_MB],
				    .pids = (uint32_t)in->number[PIDS],
				    .disk_mb = (uint32_t)in->number[DISK_MB],
				    .output_kb = 1};
	q->pass_through = true;
	q->bare = true;
	q->pod = in->number[NETWORK];
	if (alone_start(&in->alone, &observer, on_signal, e) < 0)
		return -1;
	jobs_on_report(in->alone.jobs, on_report, in);
	if (loop_run(in->alone.loop) < 0)
		return err_errno(e, "run the loop");
	return in->status < 0 ? err_ours(e, "the launcher died at its start") : 0;
}

int cmd_inside(int argc, char **argv)
{
	const struct engine_hello hello = {ENGINE_MAGIC, sizeof(struct outcome)};
	struct inside in = {.alone = ALONE_NONE, .status = -1};
	struct err e = {0};

	for (int i = WALL_MS; i <= FILES_MB; i++)
		if (argc != WORDS ||
		    num_range(argv[i], 0, UINT32_MAX, &in.number[i]) < 0) {
			fprintf(stderr, "sandbox-server: 'inside' is not for people: use "
					"'run'\n");
			return 2;
		}
	buf_init(&in.input, INPUT_CAP);
	frame(ENGINE_HELLO, &hello, sizeof(hello));
	if (run(&in, argv, &e) < 0)
		fail(&in, e.text);
	buf_done(&in.input);
	request_done(&in.request);
	alone_done(&in.alone);
	return in.status;
}
