/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * on_execute.c - POST /execute: a body to a job, news of the job to the client
 *
 * Busy is said before the body is read. A client that goes away, or only shuts down its
 * sending side, cancels its run.
 */
#include <string.h>

#include "api/tools.h"
#include "base/log.h"
#include "http/clients.h"
#include "http/conn.h"
#include "session/session.h"

int on_execute_admit(struct conn *k, struct err *e)
{
	struct http_server *h = k->h;

	if (auth_json_body(&k->req, e) < 0)
		return -1;
	if (h->draining)
		return err_client(e, 503, "draining", "the server is shutting down");
	if (!h->jobs)
		return err_client(e, 503, "not_ready", "the server is starting");
	if (unread_admit(k, e) < 0)
		return -1;
	return client_may_run(k->client, e) < 0 ? -1 : jobs_may_admit(h->jobs, e);
}

int on_execute_submit(struct conn *k, struct run_request *r, const struct tool *tool,
		      struct err *e)
{
	buf_done(&k->body);
	conn_ids(k, r);
	k->tool = tool;
	/* events carry objects, and some tools answer with a text */
	k->stream = tool && !tool->output ? STREAM_NONE : stream_wanted(k->req.accept);
	conn_wait(k);
	if (jobs_submit(k->h->jobs, k->who, r, k->stream != STREAM_NONE, e) == 0)
		return 0;
	conn_unwait(k);
	return -1;
}

static int submit(struct conn *k, struct err *e)
{
	const struct http_server *h = k->h;
	struct run_request r = {0};

	if (request_parse(k->body.bytes, k->body.len, h->settings, h->modes, &r, e) < 0) {
		request_done(&r);
		return -1;
	}
	return on_execute_submit(k, &r, NULL, e);
}

void on_execute(struct conn *k)
{
	struct err e = {0};
	int rc;

	/* asked again: others may have come in while the body was arriving */
	rc = on_execute_admit(k, &e) < 0 ? -1 : submit(k, &e);
	/* a command instead of code is how agent-sandbox asks */
	if (rc < 0 && strcmp(e.code, "code_required") == 0 && on_agent_execute(k))
		return;
	if (rc < 0)
		answer_error(k, &e);
}

void on_execute_gone(struct conn *k)
{
	uint64_t who = k->who;

	log_info("request.gone", LOG_IDS " ms=%llu", CONN_IDS(k),
		 (unsigned long long)((loop_now_ns() - k->request_ns) / 1000000));
	conn_unwait(k);
	session_forget(k->h->sessions, who);
	jobs_cancel(k->h->jobs, who);
}

/* ---- news of jobs ---- */

static void on_started(void *arg, uint64_t who)
{
	struct conn *k = conn_find(arg, who);

	if (k && k->stream != STREAM_NONE)
		stream_begin(k);
}

static void on_output(void *arg, uint64_t who, enum job_stream stream, const char *text,
		      size_t len)
{
	struct conn *k = conn_find(arg, who);
	struct buf data;

	if (!k || k->stream == STREAM_NONE || len == 0)
		return;
	buf_init(&data, ANSWER_CAP_BYTES);
	if (reply_output(&data, text, len) == 0)
		stream_event(k, stream == JOB_STDOUT ? "stdout" : "stderr", &data);
	else
		conn_close(k);
	buf_done(&data);
}

static void on_done(void *arg, uint64_t who, const struct result *r)
{
	struct conn *k = conn_find(arg, who);
	struct buf json;
	struct err e;

	if (on_session_over(arg, who, r, NULL) || !k)
		return;
	reply_store(k->h->artifacts, k->h->settings, r, k->request_id);
	conn_unwait(k); /* from here on nothing of the job may reach it */
	if (k->call)
		return on_mcp_done(k, r);
	buf_init(&json, ANSWER_CAP_BYTES);
	if ((k->tool ? k->tool->reply(&json, r) : reply_result(&json, r)) < 0) {
		err_errno(&e, "write the result");
		buf_done(&json);
		return answer_error(k, &e);
	}
	if (k->tool && !k->tool->output)
		return answer_plain(k, &json);
	if (k->stream == STREAM_NONE)
		return answer_json(k, 200, NULL, &json);
	stream_event(k, "result", &json);
	buf_done(&json);
	stream_end(k);
}

static void on_failed(void *arg, uint64_t who, const struct err *e)
{
	struct conn *k = conn_find(arg, who);
	struct buf json;

	if (on_session_over(arg, who, NULL, e) || !k)
		return;
	conn_unwait(k); /* from here on nothing of the job may reach it */
	if (k->call)
		return on_mcp_failed(k, e);
	if (k->state != CONN_STREAM)
		return answer_error(k, e);
	log_error("request.failed", LOG_IDS " code=%s error=\"%s\"", CONN_IDS(k), e->code,
		  e->text);
	tally_add(&k->h->refused, e->code);
	buf_init(&json, 4096);
	if (reply_error(&json, "error", e, k->request_id) == 0)
		stream_event(k, "error", &json);
	buf_done(&json);
	stream_end(k);
}

void on_execute_observe(struct http_server *h)
{
	h->observer = (struct job_observer){
		.arg = h,
		.on_output = on_output,
		.on_done = on_done,
		.on_failed = on_failed,
		.on_started = on_started,
	};
}
