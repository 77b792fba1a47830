/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * on_mcp.c - POST /mcp: the Model Context Protocol by streamable HTTP
 *
 * One message a request; what it means is for src/mcp. The answer is JSON, or events when
 * the client wants to hear of progress. A session's id is a random name that we give and
 * do not keep: it tells the requests of one client from those of others, for the
 * notifications by which clients of old give up a request. Newer ones just hang up.
 */
#include "mcp/mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/accept.h"
#include "http/clients.h"
#include "http/conn.h"
#include "session/session.h"

int on_mcp_admit(struct conn *k, struct err *e)
{
	if (auth_json_body(&k->req, e) < 0)
		return -1;
	if (k->h->draining)
		return err_client(e, 503, "draining", "the server is shutting down");
	if (!k->h->jobs)
		return err_client(e, 503, "not_ready", "the server is starting");
	if (unread_admit(k, e) < 0)
		return -1;
	return 0;
}

static void accept_it(struct conn *k)
{
	struct buf nothing;

	buf_init(&nothing, 0);
	answer_json(k, 202, NULL, &nothing);
}

/* ---- requests that their client gave up ---- */

static bool same_session(const struct conn *a, const struct conn *b)
{
	const struct span s = a->req.mcp_session, t = b->req.mcp_session;

	return a->client == b->client && s.p && t.p && s.len > 0 && s.len == t.len &&
	       memcmp(s.p, t.p, s.len) == 0;
}

static struct conn *find_call(const struct conn *k, const char *id)
{
	for (size_t i = 0; i < WAITING_LISTS; i++)
		for (struct conn *w = k->h->waiting[i]; w; w = w->next_waiting)
			if (w->call && same_session(w, k) && strcmp(w->call->id, id) == 0)
				return w;
	return NULL;
}

/* no answer may come any more, but the HTTP request has to end */
static void cancel(struct conn *k, const char *id)
{
	struct conn *given_up = find_call(k, id);

	if (given_up) {
		on_execute_gone(given_up);
		if (given_up->state == CONN_STREAM)
			stream_end(given_up);
		else
			accept_it(given_up);
	}
	accept_it(k);
}

/* ---- runs ---- */

/* from now on: packages may take longer than the program */
static void tell_progress(struct conn *k)
{
	if (!k->call->token[0] || !accept_names(k->req.accept, "text/event-stream"))
		return;
	k->stream = STREAM_SSE;
	stream_begin(k);
}

static int submit(struct conn *k, struct err *e)
{
	struct run_request r = k->call->run;

	memset(&k->call->run, 0, sizeof(k->call->run)); /* it is the job's now */
	if (client_may_run(k->client, e) < 0) {
		request_done(&r);
		return -1;
	}
	conn_ids(k, &r);
	conn_wait(k);
	if (jobs_submit(k->h->jobs, k->who, &r, false, e) < 0) {
		conn_unwait(k);
		return -1;
	}
	tell_progress(k);
	return 0;
}

static int begin_session(struct conn *k, struct buf *out, struct err *e)
{
	const char *name = k->call->tool->name;
	struct session_request q = {
		.tool = session_tool_find(name, strlen(name)),
		.args = k->call->arguments,
		.workflow_run = {k->req.workflow_run.p, k->req.workflow_run.len},
		.agent_run = {k->req.agent_run.p, k->req.agent_run.len},
		.request_id = k->request_id,
		.traceparent = k->traceparent,
		.owner = k->client ? k->client->name : NULL,
		.owner_most = k->client ? k->client->sessions : 0,
	};
	int rc;

	if (client_may_run(k->client, e) < 0)
		return -1;

	conn_wait(k);
	q.who = k->who;
	rc = session_begin(k->h->sessions, &q, out, e);
	if (rc != 1)
		conn_unwait(k);
	else
		tell_progress(k);
	return rc;
}

static void send_last(struct conn *k, struct buf *json, int rc)
{
	struct err e;

	if (rc < 0) {
		buf_done(json);
		if (k->state == CONN_STREAM)
			return conn_close(k);
		err_errno(&e, "write the answer");
		return answer_error(k, &e);
	}
	if (k->state != CONN_STREAM)
		return answer_json(k, 200, NULL, json);
	stream_event(k, "message", json);
	buf_done(json);
	stream_end(k);
}

void on_mcp_done(struct conn *k, const struct result *r)
{
	struct buf json;

	buf_init(&json, ANSWER_CAP_BYTES);
	send_last(k, &json, mcp_done(&json, k->call, r));
}

void on_mcp_told(struct conn *k, struct buf *told)
{
	struct buf json;

	buf_init(&json, ANSWER_CAP_BYTES);
	send_last(k, &json, mcp_told(&json, k->call, told));
	buf_done(told);
}

void on_mcp_failed(struct conn *k, const struct err *e)
{
	struct buf json;

	log_event(e->kind == ERR_OURS ? LOG_ERROR : LOG_DEBUG, "request.failed",
		  LOG_IDS " code=%s error=\"%s\"", CONN_IDS(k), e->code, e->text);
	tally_add(&k->h->refused, e->code);
	buf_init(&json, ANSWER_CAP_BYTES);
	send_last(k, &json, mcp_failed(&json, k->call, e, k->request_id));
}

void on_mcp_tick(struct conn *k, uint64_t now_ns)
{
	struct buf json;

	if (!k->who || answer_unsent(k))
		return; /* it is over, or nobody reads */
	buf_init(&json, 4096);
	if (mcp_progress(&json, k->call, (now_ns - k->request_ns) / 1000000) == 0)
		stream_event(k, "message", &json);
	buf_done(&json);
}

void on_mcp_forget(struct conn *k)
{
	if (k->call)
		mcp_call_done(k->call);
	free(k->call);
	k->call = NULL;
}

/* ---- messages ---- */

static char *text_of(struct span s)
{
	return s.p ? mem_copy_n(s.p, s.len) : NULL;
}

static enum mcp_what receive(struct conn *k, struct mcp_answer *out)
{
	const struct request_world w = {k->h->settings, k->h->modes,
					on_sessions_offered(k->h)};
	auto_free char *version = text_of(k->req.mcp_version);
	auto_free char *method = text_of(k->req.mcp_method);
	auto_free char *name = text_of(k->req.mcp_name);
	const struct mcp_headers headers = {version, method, name};
	enum mcp_what what;

	k->call = mem_zero(sizeof(*k->call));
	what = mcp_receive(&w, &headers, k->body.bytes, k->body.len, k->call, out);
	buf_done(&k->body);
	return what;
}

static void answer_now(struct conn *k, struct mcp_answer *a)
{
	char session[REQUEST_ID_ROOM], extra[128] = "";

	if (a->begins) {
		auth_request_id((struct span){0}, session);
		snprintf(extra, sizeof(extra), "Mcp-Session-Id: %s\r\n", session);
	}
	answer_json(k, a->status, extra, &a->json);
}

static void call_session(struct conn *k)
{
	struct err e = {0};
	struct buf told;
	int rc;

	buf_init(&told, ANSWER_CAP_BYTES);
	rc = begin_session(k, &told, &e);
	if (rc == 0)
		return on_mcp_told(k, &told);
	buf_done(&told);
	if (rc < 0)
		on_mcp_failed(k, &e);
}

void on_mcp(struct conn *k)
{
	struct mcp_answer answer;
	struct err e;

	switch (receive(k, &answer)) {
	case MCP_ANSWER:
		answer_now(k, &answer);
		break;
	case MCP_ACCEPTED:
		accept_it(k);
		break;
	case MCP_CANCEL:
		cancel(k, k->call->id);
		break;
	case MCP_RUN:
		if (submit(k, &e) < 0)
			on_mcp_failed(k, &e);
		break;
	case MCP_SESSION:
		call_session(k);
		break;
	}
	buf_done(&answer.json);
}
