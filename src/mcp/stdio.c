/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stdio.c - the Model Context Protocol over a pair of descriptors, a message a line
 *
 * The descriptors may be shared with others, so they stay blocking: what is written is
 * what poll() says there is room for, and a page of it at a time, which pipes and sockets
 * that can be written to always take.
 */
#include "mcp/stdio.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "api/tools.h"
#include "base/defer.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "config/settings.h"
#include "mcp/mcp.h"
#include "session/session.h"

#define READ_BYTES 65536
#define PAGE_BYTES 4096 /* PIPE_BUF */
#define UNSENT_CAP_BYTES (512u << 20)
#define UNSENT_HIGH_BYTES (1u << 20) /* above, no requests are read */
#define TICK_NS 1000000000ull

/* a call whose run is under way */
struct waiting {
	struct waiting *next;
	uint64_t who;
	uint64_t began_ns;
	char request_id[32];
	bool opening; /* first the client's own session, then the call */
	struct mcp_call call;
};

struct stdio {
	struct loop *loop;
	struct request_world world;
	struct jobs *jobs;
	struct artifacts *artifacts;
	struct sessions *sessions;
	struct job_observer observer;
	int in_fd, out_fd;
	bool begun, reading, writing; /* what the loop watches */
	bool ended;
	struct buf in;
	bool too_long; /* the rest of this line is not kept */
	struct buf out;
	size_t sent;
	struct waiting *waiting;
	uint64_t last_who;
	struct loop_timer tick;
	void (*on_end)(void *arg);
	void *on_end_arg;
};

static void on_in(void *arg, uint32_t events);
static void on_out(void *arg, uint32_t events);

static void end(struct stdio *s)
{
	if (s->ended)
		return;
	s->ended = true;
	loop_remove(s->loop, s->in_fd);
	loop_remove(s->loop, s->out_fd);
	loop_timer_stop(s->loop, &s->tick);
	if (s->on_end)
		s->on_end(s->on_end_arg);
}

/* ---- out ---- */

/* who does not read has nothing more to ask */
static void watch(struct stdio *s)
{
	const size_t unsent = s->out.len - s->sent;
	const bool read_on = s->begun && unsent < UNSENT_HIGH_BYTES;

	if (s->ended)
		return;
	if (unsent && !s->writing)
		s->writing = loop_add(s->loop, s->out_fd, EPOLLOUT, on_out, s) == 0;
	else if (!unsent && s->writing)
		loop_remove(s->loop, s->out_fd), s->writing = false;
	if (read_on && !s->reading)
		s->reading = loop_add(s->loop, s->in_fd, EPOLLIN, on_in, s) == 0;
	else if (!read_on && s->reading)
		loop_remove(s->loop, s->in_fd), s->reading = false;
	if ((unsent && !s->writing) || (read_on && !s->reading)) {
		log_error("mcp.lost", "error=\"%s\"", strerror(errno));
		end(s);
	}
}

static bool has_room(const struct stdio *s)
{
	struct pollfd p = {.fd = s->out_fd, .events = POLLOUT};

	return poll(&p, 1, 0) == 1 && p.revents & (POLLOUT | POLLERR);
}

static void flush(struct stdio *s)
{
	while (s->sent < s->out.len && !s->ended && has_room(s)) {
		const size_t left = s->out.len - s->sent;
		const ssize_t n = write(s->out_fd, s->out.bytes + s->sent,
					left < PAGE_BYTES ? left : PAGE_BYTES);

		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return end(s); /* nobody reads any more */
		s->sent += n > 0 ? (size_t)n : 0;
	}
	if (s->sent == s->out.len) {
		buf_done(&s->out);
		s->sent = 0;
	}
	watch(s);
}

static void on_out(void *arg, uint32_t events)
{
	(void)events;
	flush(arg);
}

/* one message; rc: whether it could be written */
static void send_line(struct stdio *s, const struct buf *message, int rc)
{
	if (s->sent >= UNSENT_HIGH_BYTES) {
		buf_drop(&s->out, s->sent);
		s->sent = 0;
	}
	if (rc < 0 || buf_add(&s->out, message->bytes, message->len) < 0 ||
	    buf_add(&s->out, "\n", 1) < 0) {
		log_error("mcp.lost", "error=\"no memory for an answer\"");
		return end(s);
	}
	flush(s);
}

/* ---- calls ---- */

static struct waiting **find(struct stdio *s, uint64_t who)
{
	struct waiting **at = &s->waiting;

	while (*at && (*at)->who != who)
		at = &(*at)->next;
	return at;
}

static void drop(struct waiting **at)
{
	struct waiting *w = *at;

	assert(w);
	*at = w->next;
	mcp_call_done(&w->call);
	free(w);
}

static void session_job_over(struct stdio *s, uint64_t who,
			     const struct session_end *how);

static void on_done(void *arg, uint64_t who, const struct result *r)
{
	struct stdio *s = arg;
	struct waiting **at = find(s, who);
	const struct session_end how = {r, NULL};
	struct buf json;

	if (session_owns(s->sessions, who))
		return session_job_over(s, who, &how);
	if (!*at)
		return;
	reply_store(s->artifacts, s->world.settings, r, (*at)->request_id);
	buf_init(&json, UNSENT_CAP_BYTES);
	send_line(s, &json, mcp_done(&json, &(*at)->call, r));
	buf_done(&json);
	drop(at);
}

static void fail(struct stdio *s, const struct waiting *w, const struct err *e)
{
	struct buf json;

	log_event(e->kind == ERR_OURS ? LOG_ERROR : LOG_DEBUG, "request.failed",
		  "request=%s code=%s error=\"%s\"", w->request_id, e->code, e->text);
	buf_init(&json, UNSENT_CAP_BYTES);
	send_line(s, &json, mcp_failed(&json, &w->call, e, w->request_id));
	buf_done(&json);
}

static void on_failed(void *arg, uint64_t who, const struct err *e)
{
	struct stdio *s = arg;
	struct waiting **at = find(s, who);
	const struct session_end how = {NULL, e};

	if (session_owns(s->sessions, who))
		return session_job_over(s, who, &how);
	if (!*at)
		return;
	fail(s, *at, e);
	drop(at);
}

static void on_tick(void *arg)
{
	struct stdio *s = arg;
	const uint64_t now = loop_now_ns();
	bool wanted = false;
	struct buf json;

	for (const struct waiting *w = s->waiting; w && !s->ended; w = w->next) {
		if (!w->call.token[0])
			continue;
		wanted = true;
		if (s->sent < s->out.len)
			continue; /* nobody reads */
		buf_init(&json, 4096);
		send_line(s, &json,
			  mcp_progress(&json, &w->call, (now - w->began_ns) / 1000000));
		buf_done(&json);
	}
	if (wanted && !s->ended)
		loop_timer_at(s->loop, &s->tick, now + TICK_NS);
}

static struct waiting *wait_for(struct stdio *s, const struct mcp_call *call)
{
	struct waiting *w = mem_zero(sizeof(*w));

	w->call = *call;
	memset(&w->call.run, 0, sizeof(w->call.run)); /* it is the job's now */
	w->who = ++s->last_who;
	w->began_ns = loop_now_ns();
	snprintf(w->request_id, sizeof(w->request_id), "mcp-%llu",
		 (unsigned long long)w->who);
	w->next = s->waiting;
	s->waiting = w;
	if (w->call.token[0] && !s->tick.place)
		loop_timer_at(s->loop, &s->tick, w->began_ns + TICK_NS);
	return w;
}

static void submit(struct stdio *s, const struct mcp_call *call)
{
	struct waiting *w = wait_for(s, call);
	struct run_request r = call->run;
	struct err e = {0};

	memcpy(r.request_id, w->request_id, sizeof(w->request_id));
	if (jobs_submit(s->jobs, w->who, &r, false, &e) < 0) {
		fail(s, w, &e);
		drop(&s->waiting); /* nothing came between */
	}
}

static void cancel(struct stdio *s, const char *id)
{
	struct waiting **at = &s->waiting;

	while (*at && strcmp((*at)->call.id, id) != 0)
		at = &(*at)->next;
	if (!*at)
		return;
	session_forget(s->sessions, (*at)->who);
	jobs_cancel(s->jobs, (*at)->who);
	drop(at);
}

/* ---- sessions ---- */

/* rc: of session_begin() or session_over(), neither of which still waits */
static void answer_session(struct stdio *s, struct waiting **at, int rc,
			   const struct buf *told, const struct err *e)
{
	struct buf json;

	if (rc < 0) {
		fail(s, *at, e);
	} else {
		buf_init(&json, UNSENT_CAP_BYTES);
		send_line(s, &json, mcp_told(&json, &(*at)->call, told));
		buf_done(&json);
	}
	drop(at);
}

static void begin_session(struct stdio *s, struct waiting *w)
{
	const char *name = w->call.tool->name;
	struct session_request q = {
		.tool = session_tool_find(name, strlen(name)),
		.args = w->call.arguments,
		.who = w->who,
		.request_id = w->request_id,
	};
	struct err e = {0};
	struct buf told;
	int rc;

	w->opening = session_own_wanted(s->sessions, &q);
	if (w->opening) {
		q.tool = TOOL_OPEN;
		q.args = NULL;
	}
	buf_init(&told, UNSENT_CAP_BYTES);
	rc = session_begin(s->sessions, &q, &told, &e);
	if (rc <= 0)
		answer_session(s, find(s, w->who), rc, &told, &e);
	buf_done(&told);
}

static void session_job_over(struct stdio *s, uint64_t who, const struct session_end *how)
{
	struct session_answer a;
	struct waiting **at;
	struct err e = {0};
	struct buf told;
	int rc;

	buf_init(&told, UNSENT_CAP_BYTES);
	rc = session_over(s->sessions, who, how, &a, &told, &e);
	at = find(s, a.who);
	if (*at && (*at)->opening && rc == 0) {
		(*at)->who = ++s->last_who; /* another job */
		begin_session(s, *at);
	} else if (*at) {
		answer_session(s, at, rc, &told, &e);
	}
	buf_done(&told);
}

/* ---- in ---- */

static void take(struct stdio *s, const char *line, size_t len)
{
	struct mcp_answer answer;
	struct mcp_call call;

	if (len && line[len - 1] == '\r')
		len--;
	if (len == 0)
		return;
	s->world.sessions = sessions_admit(s->sessions, NULL) == 0;
	switch (mcp_receive(&s->world, NULL, line, len, &call, &answer)) {
	case MCP_ANSWER:
		send_line(s, &answer.json, 0);
		mcp_call_done(&call);
		break;
	case MCP_CANCEL:
		cancel(s, call.id);
		break;
	case MCP_RUN:
		submit(s, &call);
		break;
	case MCP_SESSION:
		begin_session(s, wait_for(s, &call));
		break;
	case MCP_ACCEPTED:
		mcp_call_done(&call);
		break;
	}
	buf_done(&answer.json);
}

static void refuse_long(struct stdio *s)
{
	struct buf json;

	s->too_long = false;
	buf_init(&json, 1024);
	send_line(s, &json,
		  buf_printf(&json,
			     "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,"
			     "\"message\":\"a message has at most %llu MB\"}}",
			     (unsigned long long)s->world.settings->max_body_mb));
	buf_done(&json);
}

static void line_complete(struct stdio *s)
{
	struct buf line = s->in;

	buf_init(&s->in, line.cap_bytes);
	if (s->too_long)
		refuse_long(s);
	else
		take(s, line.bytes, line.len);
	buf_done(&line);
}

static void on_in(void *arg, uint32_t events)
{
	struct stdio *s = arg;
	char block[READ_BYTES];
	const char *at = block;
	ssize_t n = read(s->in_fd, block, sizeof(block));

	(void)events;
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		return end(s);
	for (const char *stop = block + n; at < stop && !s->ended;) {
		const char *newline = memchr(at, '\n', (size_t)(stop - at));
		const size_t len = (size_t)((newline ? newline : stop) - at);

		if (!s->too_long && buf_add(&s->in, at, len) < 0) {
			s->too_long = true;
			buf_done(&s->in);
		}
		if (newline)
			line_complete(s);
		at += len + (newline ? 1 : 0);
	}
}

/* ---- life ---- */

struct stdio *stdio_new(struct loop *l, const struct request_world *w, int in_fd,
			int out_fd)
{
	struct stdio *s = mem_zero(sizeof(*s));

	s->loop = l;
	s->world = *w;
	s->in_fd = in_fd;
	s->out_fd = out_fd;
	s->tick = (struct loop_timer){.fn = on_tick, .arg = s};
	s->observer = (struct job_observer){
		.arg = s, .on_done = on_done, .on_failed = on_failed};
	buf_init(&s->in, w->settings->max_body_mb << 20);
	buf_init(&s->out, UNSENT_CAP_BYTES);
	return s;
}

void stdio_on_end(struct stdio *s, void (*fn)(void *arg), void *arg)
{
	s->on_end = fn;
	s->on_end_arg = arg;
}

const struct job_observer *stdio_observer(struct stdio *s)
{
	return &s->observer;
}

void stdio_set_jobs(struct stdio *s, struct jobs *j, struct artifacts *a,
		    struct sessions *sessions)
{
	s->jobs = j;
	s->artifacts = a;
	s->sessions = sessions;
}

int stdio_begin(struct stdio *s, struct err *e)
{
	if (s->begun)
		return 0;
	/* files and /dev/null have nothing to wait for */
	if (loop_add(s->loop, s->in_fd, EPOLLIN, on_in, s) < 0 && errno == EPERM)
		return err_bad(e, "standard input must be a pipe, a socket or a "
				  "terminal, with a client of MCP behind it");
	s->begun = s->reading = true;
	watch(s);
	return 0;
}

void stdio_free(struct stdio *s)
{
	if (!s)
		return;
	while (s->waiting)
		drop(&s->waiting);
	loop_remove(s->loop, s->in_fd);
	loop_remove(s->loop, s->out_fd);
	loop_timer_stop(s->loop, &s->tick);
	buf_done(&s->in);
	buf_done(&s->out);
	defer_close(&s->in_fd);
	defer_close(&s->out_fd);
	free(s);
}
