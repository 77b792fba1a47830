/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stream.c - live output: server-sent events, or one JSON object a line
 *
 * The head waits until the program runs, so that a run that cannot start is a plain HTTP
 * error, and no longer: clients give up on a head that does not come. HTTP/1.1 gets a
 * chunk an event; for HTTP/1.0 the end of the connection ends the stream.
 */
#include "http/stream.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "http/accept.h"
#include "http/conn.h"
#include "http/routes.h"

enum stream_kind stream_wanted(struct span accept)
{
	static const char *const types[] = {[STREAM_NONE] = "application/json",
					    [STREAM_SSE] = "text/event-stream",
					    [STREAM_LINES] = "application/x-ndjson",
					    NULL};

	return (enum stream_kind)accept_best(accept, types);
}

static int put_head(struct conn *k)
{
	char head[512], date[DATE_ROOM];
	int n;

	answer_forget(k);
	buf_init(&k->out, ANSWER_CAP_BYTES);
	k->state = CONN_STREAM;
	k->progress_ns = loop_now_ns();
	n = snprintf(head, sizeof(head),
		     "HTTP/1.1 200 OK\r\n"
		     "Date: %s\r\n"
		     "Content-Type: %s\r\n"
		     "Cache-Control: no-store\r\n"
		     "X-Accel-Buffering: no\r\n"
		     "X-Content-Type-Options: nosniff\r\n"
		     "X-Request-Id: %s\r\n"
		     "%s%s\r\n",
		     answer_date(date),
		     k->stream == STREAM_SSE ? "text/event-stream"
					     : "application/x-ndjson",
		     k->request_id, k->req.http10 ? "" : "Transfer-Encoding: chunked\r\n",
		     k->close_after || k->h->draining ? "Connection: close\r\n" : "");
	return answer_add(k, head, (size_t)n);
}

void stream_begin(struct conn *k)
{
	if (k->state != CONN_STREAM && put_head(k) == 0)
		answer_flush(k);
}

void stream_event(struct conn *k, const char *event, const struct buf *data)
{
	const char *close = k->stream == STREAM_SSE ? "\n\n" : "}\n";
	char open[64], size[32] = "";
	size_t n;

	if (k->state != CONN_STREAM && put_head(k) < 0)
		return;
	if (!answer_unsent(k))
		k->progress_ns = loop_now_ns();
	snprintf(open, sizeof(open),
		 k->stream == STREAM_SSE ? "event: %s\ndata: "
					 : "{\"event\":\"%s\",\"data\":",
		 event);
	n = strlen(open) + data->len + strlen(close);
	if (!k->req.http10)
		snprintf(size, sizeof(size), "%zx\r\n", n);
	if (answer_add(k, size, strlen(size)) < 0 ||
	    answer_add(k, open, strlen(open)) < 0 ||
	    answer_add(k, data->bytes, data->len) < 0 ||
	    answer_add(k, close, strlen(close)) < 0 ||
	    answer_add(k, "\r\n", k->req.http10 ? 0 : 2) < 0)
		return;
	answer_flush(k);
	stream_balance(k);
}

void stream_end(struct conn *k)
{
	if (k->state != CONN_STREAM ||
	    answer_add(k, "0\r\n\r\n", k->req.http10 ? 0 : 5) < 0)
		return;
	answer_log(k, 200);
	k->close_after = k->close_after || k->req.http10;
	k->state = CONN_WRITE;
	k->since_ns = k->progress_ns = loop_now_ns();
	if (answer_unsent(k) > COPIED_BODY_BYTES) {
		buf_fit(&k->out);
		unread_hold(k, k->out.room);
	}
	answer_flush(k);
}

void stream_balance(struct conn *k)
{
	size_t unsent = answer_unsent(k);
	bool pause = unsent > (k->paused ? UNSENT_LOW_BYTES : UNSENT_HIGH_BYTES);

	if (!k->who || pause == k->paused)
		return;
	k->paused = pause;
	jobs_pause(k->h->jobs, k->who, pause);
}
