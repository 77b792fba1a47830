/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * on_execute.c - POST /execute: a body to a job, news of the job to the client
 *
 * Busy is said before the body is read. A client that goes away, or only shuts down its
 * sending side, cancels its run.
 */
#include <string.h>

#include "api/api.h"
#include "base/defer.h"
#include "base/log.h"
#include "config/settings.h"
#include "http/conn.h"
#include "job/artifacts.h"

static void store(struct conn *k, const struct result *r)
{
	const uint64_t which = k->h->settings->store_code;
	struct buf json;

	if (!k->h->artifacts || which == STORE_NEVER ||
	    (which != STORE_ALWAYS && r->exit_code == 0))
		return;
	buf_init(&json, ANSWER_CAP_BYTES);
	if (reply_result_stored(&json, r) == 0) {
		struct artifact a = {
			.code = r->request->code.bytes,
			.code_len = r->request->code.len,
			.env = r->request->env,
			.result_json = json.bytes,
			.result_len = json.len,
			.request_id = k->request_id,
		};
		artifacts_store(k->h->artifacts, &a);
	}
	buf_done(&json);
}

int on_execute_admit(struct conn *k, struct err *e)
{
	struct http_server *h = k->h;

	if (auth_json_body(&k->req, e) < 0)
		return -1;
	if (h->draining)
		return err_client(e, 503, "draining", "the server is shutting down");
	if (!h->jobs)
		return err_client(e, 503, "not_ready", "the server is starting");
	if (h->unsent_bytes > h->unsent_budget)
		return err_client(e, 503, "busy",
				  "too many answers have not been read yet");
	return jobs_may_admit(h->jobs, e);
}

static int submit(struct conn *k, struct err *e)
{
	struct http_server *h = k->h;
	struct run_request r = {0};

	if (request_parse(k->body.bytes, k->body.len, h->settings, h->modes, &r, e) < 0) {
		request_done(&r);
		return -1;
	}
	buf_done(&k->body);
	memcpy(r.request_id, k->request_id,
	       strnlen(k->request_id, sizeof(r.request_id) - 1));
	auth_traceparent(k->req.traceparent, r.traceparent);
	k->stream = stream_wanted(k->req.accept);
	conn_wait(k);
	if (jobs_submit(h->jobs, k->who, &r, k->stream != STREAM_NONE, e) == 0)
		return 0;
	conn_unwait(k);
	return -1;
}

void on_execute(struct conn *k)
{
	struct err e;

	/* asked again: others may have come in while the body was arriving */
	if (on_execute_admit(k, &e) < 0 || submit(k, &e) < 0)
		answer_error(k, &e);
}

void on_execute_gone(struct conn *k)
{
	uint64_t who = k->who;

	log_info("request.gone", "id=%s ms=%llu", k->request_id,
		 (unsigned long long)((loop_now_ns() - k->request_ns) / 1000000));
	conn_unwait(k);
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

	if (!k)
		return;
	store(k, r);
	conn_unwait(k); /* from here on nothing of the job may reach it */
	buf_init(&json, ANSWER_CAP_BYTES);
	if (reply_result(&json, r) < 0) {
		err_errno(&e, "write the result");
		buf_done(&json);
		return answer_error(k, &e);
	}
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

	if (!k)
		return;
	conn_unwait(k); /* from here on nothing of the job may reach it */
	if (k->state != CONN_STREAM)
		return answer_error(k, e);
	log_error("request.failed", "id=%s code=%s error=\"%s\"", k->request_id, e->code,
		  e->text);
	buf_init(&json, 4096);
	if (reply_error(&json, e, k->request_id) == 0)
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
