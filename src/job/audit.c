/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * audit.c - SANDBOX_AUDIT_FILE: lines out, in order, each whole or not at all
 *
 * Runs in: the server, on its loop; audit_open() in the supervisor. Lines go to the page
 * cache at once: a crash of ours loses none, one of the machine may lose the last.
 */
#include "job/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "job/audit_line.h"

#ifndef SANDBOX_VERSION
#define SANDBOX_VERSION "dev"
#endif

#define TAIL_BYTES (256 * 1024) /* more than a line can have */
#define PENDING_BYTES (64 << 20)
#define AGAIN_NS 1000000000ull

struct audit {
	struct loop *loop;
	int fd;
	struct chain chain;
	struct buf pending; /* whole lines, but for ... */
	size_t written;     /* ... so much of the first */
	unsigned lines;     /* in pending */
	bool failed;
	bool lost;
	struct loop_timer again;
	void (*on_back)(void *arg);
	void *on_back_arg;
};

/* ---- out ---- */

static void tell_failure(struct audit *a, int error)
{
	if (!a->failed)
		log_error("audit.failed",
			  "effect=\"nothing is run until it can be written\" lines=%u "
			  "error=\"%s\"",
			  a->lines, strerror(error));
	a->failed = true;
	loop_timer_at(a->loop, &a->again, loop_now_ns() + AGAIN_NS);
}

/* whole lines at the front that have been written */
static void forget_written(struct audit *a)
{
	const char *end;

	while (a->written && (end = memchr(a->pending.bytes, '\n', a->written))) {
		const size_t len = (size_t)(end - a->pending.bytes) + 1;

		buf_drop(&a->pending, len);
		a->written -= len;
		a->lines--;
	}
}

static void flush(struct audit *a)
{
	while (a->written < a->pending.len) {
		const ssize_t n = write(a->fd, a->pending.bytes + a->written,
					a->pending.len - a->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		a->written += (size_t)n;
	}
	if (a->written < a->pending.len)
		tell_failure(a, errno);
	else if (a->failed)
		log_info("audit.back", "lines=%u", a->lines);
	if (a->written == a->pending.len)
		a->failed = false;
	forget_written(a);
}

static void on_again(void *arg)
{
	struct audit *a = arg;

	flush(a);
	if (audit_open_for_runs(a) && a->on_back)
		a->on_back(a->on_back_arg);
}

/* no memory: nothing is run any more, for good */
static void lose(struct audit *a, struct buf *line)
{
	a->lost = true;
	log_error("audit.lost", "behind=%llu error=\"%s\"",
		  (unsigned long long)a->chain.line, strerror(errno));
	buf_done(line);
}

/* line is an object without its brace; emptied */
static void add(struct audit *a, struct buf *line)
{
	struct chain next = a->chain;

	if (chain_seal(&next, line) < 0 ||
	    buf_add(&a->pending, line->bytes, line->len) < 0)
		return lose(a, line);
	a->chain = next;
	a->lines++;
	flush(a);
	buf_done(line);
}

static void tell_head(const struct audit *a)
{
	log_info("audit.head", "line=%llu hash=%s", (unsigned long long)a->chain.line,
		 a->chain.hash);
}

/* every file begins with such a line, and so does what a start adds to it; the end of a
 * server is one too */
static void begin(struct audit *a, const char *event, const struct audit_end *end)
{
	struct buf line;

	if (audit_line_begin(&line, event) < 0 ||
	    buf_puts(&line, ",\"version\":\"" SANDBOX_VERSION "\"") < 0 ||
	    (end && end->has_torn &&
	     buf_printf(&line, ",\"torn\":\"%s\"", end->torn) < 0))
		return lose(a, &line);
	add(a, &line);
	tell_head(a);
}

struct audit *audit_new(struct loop *l, int fd, const struct audit_end *end)
{
	struct audit *a = mem_zero(sizeof(*a));

	a->loop = l;
	a->fd = fd;
	a->chain = end->chain;
	a->again = (struct loop_timer){.fn = on_again, .arg = a};
	buf_init(&a->pending, PENDING_BYTES);
	if (end->has_torn || end->open) {
		(void)buf_puts(&a->pending, "\n"); /* the end of what has none */
		a->lines++;
	}
	begin(a, "start", end);
	return a;
}

int audit_free(struct audit *a)
{
	int rc;

	if (!a)
		return 0;
	begin(a, "stop", NULL);
	(void)fsync(a->fd); /* what can be done */
	rc = a->lines || a->lost ? -1 : 0;
	if (a->lines)
		log_error("audit.lost", "lines=%u", a->lines);
	loop_timer_stop(a->loop, &a->again);
	close(a->fd);
	buf_done(&a->pending);
	free(a);
	return rc;
}

void audit_continue(struct audit *a, int fd)
{
	flush(a);
	close(a->fd);
	a->fd = fd;
	a->written = 0; /* a line that the old file has in part is here whole */
	begin(a, "continue", NULL);
}

bool audit_open_for_runs(const struct audit *a)
{
	return !a || (!a->failed && !a->lost);
}

void audit_on_back(struct audit *a, void (*fn)(void *arg), void *arg)
{
	if (!a)
		return;
	a->on_back = fn;
	a->on_back_arg = arg;
}

uint64_t audit_lines(const struct audit *a)
{
	return a ? a->chain.line : 0;
}

unsigned audit_pending(const struct audit *a)
{
	return a ? a->lines : 0;
}

void audit_take(const struct audit *a, struct job *job)
{
	if (a)
		audit_line_take(job);
}

void audit_run(struct audit *a, const struct job *job, const struct err *e)
{
	struct buf line;

	if (!a)
		return;
	if (audit_line_run(&line, job, e) < 0)
		return lose(a, &line);
	add(a, &line);
}

/* ---- at the start ---- */

/* what stands behind the last newline: a line that misses just its own, or a torn one */
static void read_rest(const char *rest, size_t len, struct audit_end *out)
{
	char prev[CHAIN_HEX];
	struct err why;

	out->open = chain_read(rest, len, &out->chain, prev, &why) == 0;
	out->has_torn = !out->open;
	if (out->has_torn)
		chain_hash(rest, len, out->torn);
}

/* the last whole line, and what is behind it */
static int read_end(int fd, off_t size, struct audit_end *out, struct err *e)
{
	const size_t want = size < TAIL_BYTES ? (size_t)size : TAIL_BYTES;
	auto_free char *tail = mem_array(want + 1, 1);
	char prev[CHAIN_HEX];
	const char *end, *line, *rest;

	if (pread(fd, tail, want, size - (off_t)want) != (ssize_t)want)
		return err_errno(e, "read its end");
	end = memrchr(tail, '\n', want);
	if (!end && want < (size_t)size)
		return err_bad(e, "its last line is none of an audit file");
	rest = end ? end + 1 : tail;
	if (rest < tail + want)
		read_rest(rest, want - (size_t)(rest - tail), out);
	if (!end || out->open)
		return 0;
	line = memrchr(tail, '\n', (size_t)(end - tail));
	line = line ? line + 1 : tail;
	if (chain_read(line, (size_t)(end - line), &out->chain, prev, e) < 0)
		return err_bad(e, "its last line is none of an audit file; "
				  "sandbox-server audit verify says more");
	return 0;
}

int audit_open(const char *path, struct audit_end *out, struct err *e)
{
	auto_fd int fd = open(path,
			      O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NOCTTY |
				      O_NONBLOCK | O_CLOEXEC,
			      0600);
	auto_fd int read_fd = -1;
	struct audit_end end = {0};
	struct stat st;
	struct err why;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, "open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_bad(e, "'%s' is not a regular file", path);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_bad(e,
			       "'%s' can be written by others than its owner: "
			       "chmod go-w",
			       path);
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_errno(e, "lock '%s', which another server has", path);
	if (st.st_size) {
		read_fd = open(path, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
		if (read_fd < 0)
			return err_errno(e, "read '%s'", path);
		if (read_end(read_fd, st.st_size, &end, &why) < 0)
			return err_bad(e, "'%s': %s", path, why.text);
	}
	*out = end;
	return take_fd(&fd);
}
