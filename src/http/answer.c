/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * answer.c - bytes out: answers, refusals, what the client has not read yet
 *
 * An answer is written straight from its own buffer. Only when the socket takes no more
 * is a slice given to mongoose, which then waits for room: its buffer moves all its bytes
 * at every write and clears what it frees, so a large answer in it costs quadratic time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <mongoose.h>

#include "api/api.h"
#include "base/err.h"
#include "base/log.h"
#include "http/clients.h"
#include "http/conn.h"
#include "http/routes.h"

enum {
	LOGGED_BYTES = 64,
};

static const struct {
	int status;
	const char *phrase;
} phrases[] = {
	{200, "OK"},
	{202, "Accepted"},
	{206, "Partial Content"},
	{304, "Not Modified"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{408, "Request Timeout"},
	{409, "Conflict"},
	{411, "Length Required"},
	{413, "Content Too Large"},
	{415, "Unsupported Media Type"},
	{416, "Range Not Satisfiable"},
	{417, "Expectation Failed"},
	{421, "Misdirected Request"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{503, "Service Unavailable"},
	{504, "Gateway Timeout"},
	{505, "HTTP Version Not Supported"},
	{507, "Insufficient Storage"},
};

static const char *phrase_of(int status)
{
	for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
		if (phrases[i].status == status)
			return phrases[i].phrase;
	return "Other"; /* clients go by the number */
}

/* so much of what a client calls itself */
static const char *logged(struct span s, char out[LOGGED_BYTES + 1])
{
	const size_t len = s.len < LOGGED_BYTES ? s.len : LOGGED_BYTES;

	if (s.p)
		memcpy(out, s.p, len);
	out[s.p ? len : 0] = '\0';
	return out;
}

void answer_log(const struct conn *k, int status)
{
	enum log_level level = k->route && !(k->route->flags & ROUTE_QUIET) ? LOG_INFO
									    : LOG_DEBUG;
	char agent[LOGGED_BYTES + 1], environment[LOGGED_BYTES + 1];

	k->h->answers[status / 100 < METRICS_CLASSES ? status / 100 : 0]++;
	log_event(level, "request.done",
		  LOG_IDS " status=%d route=%s ms=%llu token?=%s agent?=\"%s\" "
			  "environment?=\"%s\"",
		  CONN_IDS(k), status, k->route ? k->route->path : "-",
		  (unsigned long long)((loop_now_ns() - k->request_ns) / 1000000),
		  k->client ? k->client->name : "", logged(k->req.agent_name, agent),
		  logged(k->req.environment, environment));
}

size_t answer_unsent(const struct conn *k)
{
	return k->out.len - k->out_sent + k->tail.len - k->tail_sent + k->c->send.len;
}

void answer_forget(struct conn *k)
{
	buf_done(&k->out);
	buf_done(&k->tail);
	k->out_sent = k->tail_sent = 0;
	unread_drop(k);
}

/* the next bytes that nobody has taken yet */
static size_t piece(const struct conn *k, const char **out_p)
{
	if (k->out_sent < k->out.len) {
		*out_p = k->out.bytes + k->out_sent;
		return k->out.len - k->out_sent;
	}
	*out_p = k->tail.bytes + k->tail_sent;
	return k->tail.len - k->tail_sent;
}

static void advance(struct conn *k, size_t n)
{
	if (k->out_sent < k->out.len)
		k->out_sent += n;
	else
		k->tail_sent += n;
	if (k->out_sent == k->out.len && k->state == CONN_STREAM)
		k->out_sent = k->out.len = 0;
}

void answer_flush(struct conn *k)
{
	struct mg_connection *c = k->c;
	const char *p;
	size_t n;

	while (!c->is_closing && c->send.len == 0 && (n = piece(k, &p)) > 0) {
		long sent = mg_io_send(c, p, n);

		if (sent == MG_IO_WAIT) {
			n = n < SLICE_BYTES ? n : SLICE_BYTES;
			if (!mg_send(c, p, n))
				return conn_close(k);
			k->h->dirty = true; /* it asks for EPOLLOUT when it looks again */
			sent = (long)n;
		} else if (sent <= 0) {
			return conn_close(k);
		} else {
			k->progress_ns = loop_now_ns();
		}
		advance(k, (size_t)sent);
	}
	if (k->state == CONN_WRITE && !c->is_closing && answer_unsent(k) == 0)
		conn_next(k);
}

int answer_add(struct conn *k, const void *bytes, size_t len)
{
	if (k->out_sent >= SLICE_BYTES && k->out_sent >= k->out.len / 2) {
		buf_drop(&k->out, k->out_sent);
		k->out_sent = 0;
	}
	if (buf_add(&k->out, bytes, len) == 0)
		return 0;
	conn_close(k);
	return -1;
}

const char *answer_date(char out[DATE_ROOM])
{
	time_t now = time(NULL);
	struct tm tm;

	if (!gmtime_r(&now, &tm) ||
	    !strftime(out, DATE_ROOM, "%a, %d %b %Y %H:%M:%S GMT", &tm))
		out[0] = 0;
	return out;
}

struct media {
	const char *type, *cache;
};

static int put_head(struct conn *k, int status, const struct media *m, const char *extra,
		    size_t body_len)
{
	bool close = k->close_after || k->h->draining;
	char date[DATE_ROOM], again[40] = "";

	if (status == 429 || status == 503)
		snprintf(again, sizeof(again), "Retry-After: %u\r\n",
			 k->retry_sec ? k->retry_sec : 1);
	buf_init(&k->out, ANSWER_CAP_BYTES);
	return buf_printf(&k->out,
			  "HTTP/1.1 %d %s\r\n"
			  "Date: %s\r\n"
			  "Content-Type: %s\r\n"
			  "Content-Length: %zu\r\n"
			  "Cache-Control: %s\r\n"
			  "X-Content-Type-Options: nosniff\r\n"
			  "X-Request-Id: %s\r\n"
			  "%s%s%s\r\n",
			  status, phrase_of(status), answer_date(date), m->type, body_len,
			  m->cache, k->request_id, close ? "Connection: close\r\n" : "",
			  again, extra ? extra : "");
}

static void answer(struct conn *k, int status, const struct media *m, const char *extra,
		   struct buf *body)
{
	bool no_body = k->req.method == METHOD_HEAD || status == 304;

	answer_forget(k);
	if (put_head(k, status, m, extra, body->len) < 0 ||
	    (!no_body && body->len <= COPIED_BODY_BYTES &&
	     buf_add(&k->out, body->bytes, body->len) < 0)) {
		log_error("request.failed", LOG_IDS " error=\"no memory for the answer\"",
			  CONN_IDS(k));
		buf_done(body);
		return conn_close(k);
	}
	if (!no_body && body->len > COPIED_BODY_BYTES) {
		buf_fit(body); /* it has up to twice its bytes, and may be read slowly */
		k->tail = *body;
		buf_init(body, 0);
		unread_hold(k, k->tail.room);
	}
	buf_done(body);
	answer_log(k, status);
	k->state = CONN_WRITE;
	k->since_ns = k->progress_ns = loop_now_ns();
	answer_flush(k);
}

void answer_json(struct conn *k, int status, const char *extra, struct buf *body)
{
	static const struct media json = {"application/json", "no-store"};

	answer(k, status, &json, extra, body);
}

void answer_plain(struct conn *k, struct buf *text)
{
	static const struct media plain = {"text/plain; charset=utf-8", "no-store"};

	answer(k, 200, &plain, NULL, text);
}

void answer_metrics(struct conn *k, struct buf *text)
{
	static const struct media metrics = {"text/plain; version=0.0.4; charset=utf-8",
					     "no-store"};

	answer(k, 200, &metrics, NULL, text);
}

void answer_bytes(struct conn *k, int status, const char *extra, struct buf *body)
{
	static const struct media bytes = {"application/octet-stream", "no-store"};

	answer(k, status, &bytes, extra, body);
}

void answer_constant(struct conn *k, const struct constant *c)
{
	const struct media kept = {c->type, "no-cache"}; /* kept, but asked about */
	struct span known = k->req.if_none_match, tag;
	struct buf body;
	bool same = false;

	while (span_next(&known, &tag)) {
		if (tag.len > 2 && memcmp(tag.p, "W/", 2) == 0)
			tag.p += 2, tag.len -= 2;
		same = same || span_is(tag, "*") || span_is(tag, c->etag);
	}
	buf_init(&body, c->body.len);
	(void)buf_add(&body, c->body.bytes, c->body.len); /* or an empty answer */
	answer(k, same ? 304 : 200, &kept, c->extra, &body);
}

void answer_text(struct conn *k, int status, const char *json)
{
	struct buf body;

	buf_init(&body, strlen(json));
	(void)buf_puts(&body,
		       json); /* without memory the body is empty, the status stays */
	answer_json(k, status, NULL, &body);
}

void answer_error(struct conn *k, const struct err *e)
{
	int status = err_status(e);
	char extra[64] = "";
	struct buf body;

	tally_add(&k->h->refused, e->code);
	buf_init(&body, 4096);
	if (reply_error(&body, k->agent ? "message" : "error", e, k->request_id) < 0)
		body.len = 0;
	if (status == 401)
		snprintf(extra, sizeof(extra), "WWW-Authenticate: Bearer\r\n");
	else if (status == 405)
		snprintf(extra, sizeof(extra), "Allow: %s\r\n",
			 k->allow ? k->allow : routes_allow(k->req.path));
	if (e->kind == ERR_OURS)
		log_error("request.failed", LOG_IDS " code=%s error=\"%s\"", CONN_IDS(k),
			  e->code, e->text);
	else
		log_debug("request.refused", LOG_IDS " code=%s error=\"%s\"", CONN_IDS(k),
			  e->code, e->text);
	answer_json(k, status, extra, &body);
}

void answer_refusal(struct conn *k, const struct err *e)
{
	k->close_after = true;
	k->discard = true;
	k->swallowed = 0;
	answer_error(k, e);
}
