/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job_fixture.h - jobs with a launcher that the test plays itself
 *
 * fixture_open() gives jobs on a loop of their own; f.peer_fd is the launcher's end of
 * the socket. UNTIL(condition) turns the loop until it holds, at most five seconds.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/mem.h"
#include "config/mode.h"
#include "config/settings.h"
#include "job/job.h"
#include "tap.h"
#include "wire/message.h"

struct fixture {
	struct settings settings;
	struct modes modes;
	struct loop *loop;
	struct jobs *jobs;
	int peer_fd;
	/* what the observer saw */
	unsigned started, done, failed, pieces;
	uint64_t who;
	struct err err;
	struct buf live[2], out, errors;
	int exit_code;
	bool truncated;
	char message[RESULT_MESSAGE];
	unsigned file_count, skipped_count, violation_count, violations_known;
	char skipped_reason[64];
	struct violation last_violation;
	char file_name[64], file_bytes[64];
	bool cancel_on_output;
};

static struct fixture f;

static inline void fixture_output(void *arg, uint64_t who, enum job_stream stream,
				  const char *text, size_t len)
{
	(void)arg;
	f.pieces++;
	CHECK(buf_add(&f.live[stream], text, len) == 0);
	if (f.cancel_on_output)
		jobs_cancel(f.jobs, who);
}

static inline void fixture_done(void *arg, uint64_t who, const struct result *r)
{
	(void)arg;
	f.done++;
	f.who = who;
	f.exit_code = r->exit_code;
	f.truncated = r->out.truncated || r->err.truncated;
	snprintf(f.message, sizeof(f.message), "%s", r->message);
	f.out.len = f.errors.len = 0;
	CHECK(buf_add(&f.out, r->out.kept.bytes, r->out.kept.len) == 0);
	CHECK(buf_add(&f.errors, r->err.kept.bytes, r->err.kept.len) == 0);
	CHECK(buf_text(&f.out) == 0 && buf_text(&f.errors) == 0);
	f.file_count = (unsigned)r->file_count;
	f.skipped_count = (unsigned)r->skipped_count;
	if (r->skipped_count)
		snprintf(f.skipped_reason, sizeof(f.skipped_reason), "%s",
			 r->skipped[r->skipped_count - 1].reason);
	f.violation_count = (unsigned)r->violation_count;
	f.violations_known = r->outcome.violations;
	if (r->violation_count)
		f.last_violation = r->violations[r->violation_count - 1];
	if (r->file_count) {
		snprintf(f.file_name, sizeof(f.file_name), "%s", r->files[0].name);
		CHECK(r->files[0].len < sizeof(f.file_bytes));
		memcpy(f.file_bytes, r->files[0].bytes, r->files[0].len);
	}
}

static inline void fixture_failed(void *arg, uint64_t who, const struct err *e)
{
	(void)arg;
	f.failed++;
	f.who = who;
	f.err = *e;
}

static inline void fixture_started(void *arg, uint64_t who)
{
	(void)arg;
	f.started++;
	f.who = who;
}

static inline void fixture_settings(void)
{
	static char output_dir[] = "output";

	f.settings = (struct settings){
		.max_concurrent = 3,
		.timeout_sec = 30,
		.max_timeout_sec = 300,
		.max_output_kb = 10,
		.output_ceiling_kb = 1024,
		.max_files = 200,
		.max_files_mb = 10,
		.output_dir = output_dir,
		.min_isolation = LEVEL_NAMESPACES,
	};
	f.modes.count = 1;
	f.modes.mode[0] = (struct mode){
		.id = MODE_PYTHON,
		.name = "python",
		.defaults = {.memory_mb = 512, .pids = 64, .disk_mb = 256},
		.row = 0,
		.typescript_row = -1,
	};
}

static inline void fixture_say(struct message *m, const int *fds)
{
	CHECK(message_send(f.peer_fd, m, fds) == 0);
}

static inline void fixture_report(uint32_t level)
{
	const struct message m = {.type = MSG_REPORT, .fds = 1};
	struct report r = {.level = level};
	int fd = message_make_report(&r);

	CHECK(message_send(f.peer_fd, &m, &fd) == 0);
	close(fd);
}

static inline void fixture_stop(void *arg)
{
	loop_stop(arg);
}

/* turn the loop for a moment */
static inline void fixture_turn(void)
{
	struct loop_timer t = {.fn = fixture_stop, .arg = f.loop};

	loop_timer_at(f.loop, &t, loop_now_ns() + 1000000);
	CHECK(loop_run(f.loop) == 0);
	loop_timer_stop(f.loop, &t);
}

#define UNTIL(condition)                                     \
	do {                                                 \
		uint64_t end_ = loop_now_ns() + 5000000000u; \
		while (!(condition) && loop_now_ns() < end_) \
			fixture_turn();                      \
		CHECK(condition);                            \
	} while (0)

static inline int fixture_pair(void)
{
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	f.peer_fd = pair[1];
	return pair[0];
}

static inline void fixture_open(void)
{
	struct job_observer o = {NULL, fixture_output, fixture_done, fixture_failed,
				 fixture_started};

	if (!f.settings.max_concurrent)
		fixture_settings();
	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	for (int i = 0; i < 2; i++)
		buf_init(&f.live[i], 4 << 20);
	buf_init(&f.out, 4 << 20);
	buf_init(&f.errors, 4 << 20);
	f.loop = loop_new();
	CHECK(f.loop);
	f.jobs = jobs_new(f.loop, &f.settings, &f.modes, &o, fixture_pair());
	fixture_report(LEVEL_FULL);
	UNTIL(jobs_ready(f.jobs));
}

static inline void fixture_close(void)
{
	jobs_free(f.jobs);
	loop_free(f.loop);
	close(f.peer_fd);
	for (int i = 0; i < 2; i++)
		buf_done(&f.live[i]);
	buf_done(&f.out);
	buf_done(&f.errors);
}

static inline int fixture_submit(uint64_t who, const char *stdin_text, bool live)
{
	struct limits wanted = {0};
	struct run_request r = {.mode = &f.modes.mode[0]};

	buf_init(&r.code, 100);
	buf_init(&r.stdin_text, 1 << 20);
	CHECK(buf_puts(&r.code, "print(1)") == 0);
	CHECK(buf_puts(&r.stdin_text, stdin_text) == 0);
	job_limits(&f.settings, r.mode, &wanted, &r.limits);
	memset(&f.err, 0, sizeof(f.err));
	return jobs_submit(f.jobs, who, &r, live, &f.err);
}

/* a message at the launcher's end; the descriptor of MSG_RUN is closed */
static inline uint64_t fixture_hear(uint32_t type)
{
	struct message m = {0};
	int fds[MESSAGE_FDS];

	CHECK(message_receive(f.peer_fd, &m, fds) == 1);
	CHECK(m.type == type);
	for (int i = 0; i < MESSAGE_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return m.run;
}

static inline bool fixture_silent(void)
{
	struct message m;
	int fds[MESSAGE_FDS];

	return message_receive(f.peer_fd, &m, fds) == -1 && errno == EAGAIN;
}

/* the program's ends of the pipes: stdin, stdout, stderr */
static inline void fixture_start(uint64_t run, int program[3])
{
	struct message m = {.type = MSG_STREAMS, .fds = 3, .run = run};
	int in[2], out[2], err[2];

	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
	      pipe2(err, O_CLOEXEC) == 0);
	fixture_say(&m, (int[]){in[1], out[0], err[0]});
	close(in[1]);
	close(out[0]);
	close(err[0]);
	program[0] = in[0];
	program[1] = out[1];
	program[2] = err[1];
	m = (struct message){.type = MSG_STARTED, .run = run};
	fixture_say(&m, NULL);
}

static inline void fixture_end(uint64_t run, struct outcome o)
{
	struct message m = {.type = MSG_DONE, .run = run};

	m.outcome = o;
	fixture_say(&m, NULL);
}

static inline void fixture_close_program(int program[3])
{
	for (int i = 0; i < 3; i++)
		close(program[i]);
}
