/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * on_sessions.c - /sessions and /scopes: sessions by REST
 *
 * A URL and a body become a tool's call; what the tool does is session/'s business. Files
 * come and go as they are, or as JSON when that is the content type.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/json.h"
#include "http/accept.h"
#include "http/clients.h"
#include "http/conn.h"
#include "http/options.h"
#include "http/routes.h"
#include "session/session.h"

#define BIT(method) (1U << (method))
#define LIST_CAP (64u << 20)

/* one request on its way to a call */
struct asked {
	struct session_request q;
	struct json *args;
	char path[SESSION_PATH_MAX];
};

static struct session_text text_of(struct span s)
{
	return (struct session_text){s.p, s.len};
}

/* of GET: its bytes, unless JSON is what is wanted */
static bool wants_json(struct span accept)
{
	static const char *const types[] = {"application/octet-stream",
					    "application/json", NULL};

	return accept_best(accept, types) == 1;
}

static int body_args(const struct conn *k, struct json **out, struct err *e)
{
	if (k->body.len == 0)
		return 0;
	if (auth_json_body(&k->req, e) < 0)
		return -1;
	*out = json_parse(k->body.bytes, k->body.len, &json_request_limits, e);
	if (!*out)
		return -1;
	return json_is_object(*out) ? 0 : err_bad(e, "the body must be a JSON object");
}

/* ---- which tool ---- */

static int wrong_method(struct conn *k, const char *allow, struct err *e)
{
	k->allow = allow;
	return err_client(e, 405, "method_not_allowed",
			  "this path does not answer to that method");
}

static int for_files(struct conn *k, struct asked *a, struct span rest, struct err *e)
{
	const bool json = k->req.content_type.p && auth_json_body(&k->req, NULL) == 0;
	struct options_range range;
	size_t len;

	if (rest.len > sizeof(a->path) ||
	    session_path_decode(rest.p, rest.len, a->path, &len, e) < 0)
		return -1;
	a->q.path = (struct session_text){a->path, len};
	if (len == 0)
		a->q.path = (struct session_text){".", 1};
	switch (k->req.method) {
	case METHOD_PUT:
		a->q.tool = TOOL_WRITE;
		if (json)
			return body_args(k, &a->args, e);
		a->q.bytes = (struct session_text){k->body.len ? k->body.bytes : "",
						   k->body.len};
		break;
	case METHOD_GET:
	case METHOD_HEAD:
		a->q.tool = len == 0 || a->path[len - 1] == '/' ? TOOL_LIST : TOOL_READ;
		a->q.raw = a->q.tool == TOOL_READ && !wants_json(k->req.accept);
		if (a->q.raw && options_range(k->req.range, &range)) {
			a->q.offset = range.first;
			a->q.most = range.count;
			a->q.from_end = range.from_end;
		}
		break;
	case METHOD_DELETE:
		a->q.tool = TOOL_DELETE;
		break;
	default:
		return wrong_method(k, "GET, HEAD, PUT, DELETE", e);
	}
	return options_read(k->req.query, &a->args, e);
}

static enum session_tool version_of(struct span rest)
{
	static const struct {
		const char *path;
		enum session_tool tool;
	} versions[] = {
		{"/fork", TOOL_FORK},
		{"/checkpoints", TOOL_CHECKPOINT},
		{"/restore", TOOL_RESTORE},
		{"/diff", TOOL_DIFF},
	};
	size_t i = 0;

	while (i < sizeof(versions) / sizeof(versions[0]) &&
	       !span_is(rest, versions[i].path))
		i++;
	return i < sizeof(versions) / sizeof(versions[0]) ? versions[i].tool : TOOL_END;
}

static int for_version(struct conn *k, struct asked *a, enum session_tool tool,
		       struct err *e)
{
	const bool gets = k->req.method == METHOD_GET || k->req.method == METHOD_HEAD;

	a->q.tool = tool;
	if (tool == TOOL_DIFF)
		return gets ? options_read(k->req.query, &a->args, e)
			    : wrong_method(k, "GET, HEAD", e);
	return k->req.method == METHOD_POST ? body_args(k, &a->args, e)
					    : wrong_method(k, "POST", e);
}

/* routes.c has looked at the form of what follows /sessions */
static int for_session(struct conn *k, struct asked *a, struct err *e)
{
	struct span rest = {k->req.path.p + strlen("/sessions"),
			    k->req.path.len - strlen("/sessions")};
	const unsigned method = BIT(k->req.method);
	const char *slash;

	if (rest.len <= 1) {
		if (method & BIT(METHOD_POST)) {
			a->q.tool = TOOL_OPEN;
			return body_args(k, &a->args, e);
		}
		a->q.tool = TOOL_ALL;
		return method & (BIT(METHOD_GET) | BIT(METHOD_HEAD))
			       ? 0
			       : wrong_method(k, "GET, HEAD, POST", e);
	}
	rest.p++;
	rest.len--;
	slash = memchr(rest.p, '/', rest.len);
	a->q.id = (struct session_text){rest.p,
					slash ? (size_t)(slash - rest.p) : rest.len};
	if (!slash) {
		a->q.tool = method & BIT(METHOD_DELETE) ? TOOL_CLOSE : TOOL_GET;
		return method & (BIT(METHOD_DELETE) | BIT(METHOD_GET) | BIT(METHOD_HEAD))
			       ? 0
			       : wrong_method(k, "GET, HEAD, DELETE", e);
	}
	rest = (struct span){slash, rest.len - a->q.id.len};
	if (version_of(rest) != TOOL_END)
		return for_version(k, a, version_of(rest), e);
	if (span_is(rest, "/exec")) {
		a->q.tool = TOOL_EXEC;
		k->stream = stream_wanted(k->req.accept);
		return method & BIT(METHOD_POST) ? body_args(k, &a->args, e)
						 : wrong_method(k, "POST", e);
	}
	return for_files(
		k, a,
		(struct span){rest.p + strlen("/files/"), rest.len - strlen("/files/")},
		e);
}

static int for_scope(struct conn *k, struct asked *a, struct err *e)
{
	struct span rest = {k->req.path.p + strlen("/scopes"),
			    k->req.path.len - strlen("/scopes")};
	const char *slash = rest.len > 1 ? memchr(rest.p + 1, '/', rest.len - 1) : NULL;

	if (!slash)
		return err_client(e, 404, "not_found", "there is nothing at this path");
	a->q.tool = TOOL_SCOPE;
	a->q.scope_type = (struct session_text){rest.p + 1, (size_t)(slash - rest.p) - 1};
	a->q.scope_id = (struct session_text){slash + 1,
					      rest.len - (size_t)(slash - rest.p) - 1};
	return k->req.method == METHOD_DELETE ? 0 : wrong_method(k, "DELETE", e);
}

static enum session_tool tool_of(const struct conn *k)
{
	const size_t skip = strlen("/tools/");

	return k->req.path.len > skip
		       ? session_tool_find(k->req.path.p + skip, k->req.path.len - skip)
		       : TOOL_COUNT;
}

bool on_session_names(const struct conn *k)
{
	return tool_of(k) != TOOL_COUNT;
}

static int for_tool(struct conn *k, struct asked *a, struct err *e)
{
	a->q.tool = tool_of(k);
	if (a->q.tool == TOOL_EXEC)
		k->stream = stream_wanted(k->req.accept);
	return body_args(k, &a->args, e);
}

/* ---- calls and answers ---- */

bool on_sessions_offered(const struct http_server *h)
{
	return h->sessions && sessions_admit(h->sessions, NULL) == 0;
}

static int admit(struct conn *k, struct err *e)
{
	const struct http_server *h = k->h;

	if (h->draining)
		return err_client(e, 503, "draining", "the server is shutting down");
	if (!h->sessions)
		return err_client(e, 503, "not_ready", "the server is starting");
	if (unread_admit(k, e) < 0)
		return -1;
	return client_may_run(k->client, e);
}

int on_sessions_admit(struct conn *k, struct err *e)
{
	return admit(k, e) < 0 ? -1 : sessions_admit(k->h->sessions, e);
}

int on_kept_admit(struct conn *k, bool *kept, struct err *e)
{
	if (admit(k, e) < 0)
		return -1;
	*kept = sessions_keep(k->h->sessions);
	return *kept ? 0 : sessions_admit(k->h->sessions, e);
}

int on_session_begin(struct conn *k, struct session_request *q, struct buf *out,
		     struct err *e)
{
	int rc;

	q->request_id = k->request_id;
	q->traceparent = k->traceparent;
	q->owner = k->client ? k->client->name : NULL;
	q->owner_most = k->client ? k->client->sessions : 0;
	conn_wait(k);
	q->who = k->who;
	rc = session_begin(k->h->sessions, q, out, e);
	if (rc != 1)
		conn_unwait(k);
	return rc;
}

static void begin(struct conn *k,
		  int (*read)(struct conn *, struct asked *, struct err *))
{
	struct asked *a = calloc(1, sizeof(*a));
	struct err e = {0};
	struct buf out;
	int rc = -1;

	buf_init(&out, LIST_CAP);
	k->stream = STREAM_NONE;
	if (!a)
		(void)err_errno(&e, "read a request");
	else if (on_sessions_admit(k, &e) == 0)
		rc = read(k, a, &e);
	if (rc == 0) {
		a->q.args = a->args;
		a->q.workflow_run = text_of(k->req.workflow_run);
		a->q.agent_run = text_of(k->req.agent_run);
		a->q.live = k->stream != STREAM_NONE;
		rc = on_session_begin(k, &a->q, &out, &e);
	}
	if (a)
		json_free(a->args);
	free(a);
	if (rc == 0)
		answer_json(k, 200, NULL, &out);
	else if (rc < 0)
		answer_error(k, &e);
	buf_done(&out);
}

void on_sessions(struct conn *k)
{
	begin(k, for_session);
}

void on_scopes(struct conn *k)
{
	begin(k, for_scope);
}

void on_session_tool(struct conn *k)
{
	begin(k, for_tool);
}

static void answer_file(struct conn *k, const struct session_answer *a, struct buf *bytes)
{
	char extra[128];
	struct options_range range;
	const bool part = options_range(k->req.range, &range);
	struct err e;

	/* nothing: it is not as long as that, or not any more */
	if (part && !bytes->len) {
		buf_done(bytes);
		err_client(&e, 416, "range_not_satisfiable",
			   "the file has %" PRIu64 " bytes", a->size);
		return answer_error(k, &e);
	}
	snprintf(extra, sizeof(extra), "Accept-Ranges: bytes\r\n");
	if (part)
		snprintf(extra, sizeof(extra),
			 "Accept-Ranges: bytes\r\nContent-Range: bytes %" PRIu64
			 "-%" PRIu64 "/%" PRIu64 "\r\n",
			 a->offset, a->offset + bytes->len - 1, a->size);
	if (!part && bytes->len < a->size) {
		buf_done(bytes);
		err_client(&e, 413, "file_too_large",
			   "the file has %" PRIu64 " bytes; ask for a Range of it",
			   a->size);
		return answer_error(k, &e);
	}
	answer_bytes(k, part ? 206 : 200, extra, bytes);
}

bool on_session_over(struct http_server *h, uint64_t who, const struct result *r,
		     const struct err *failed)
{
	const struct session_end end = {r, failed};
	struct session_answer a;
	struct conn *k;
	struct buf out;
	struct err e;
	int rc;

	if (!session_owns(h->sessions, who))
		return false;
	buf_init(&out, ANSWER_CAP_BYTES);
	rc = session_over(h->sessions, who, &end, &a, &out, &e);
	k = a.who ? conn_find(h, a.who) : NULL;
	if (!k) {
		buf_done(&out);
		return true;
	}
	conn_unwait(k);
	if (rc == 0 && a.again)
		rc = unread_room(k, out.len, &e);
	if (k->agent) {
		on_agent_over(k, &a, &out, rc < 0 ? &e : NULL);
	} else if (k->call && rc == 0) {
		on_mcp_told(k, &out);
	} else if (k->call) {
		buf_done(&out);
		on_mcp_failed(k, &e);
	} else if (k->state == CONN_STREAM || (rc == 0 && k->stream != STREAM_NONE)) {
		if (rc < 0) {
			tally_add(&k->h->refused, e.code);
			(void)reply_error(&out, "error", &e, k->request_id);
		}
		stream_event(k, rc < 0 ? "error" : "result", &out);
		buf_done(&out);
		stream_end(k);
	} else if (rc < 0) {
		buf_done(&out);
		answer_error(k, &e);
	} else if (a.raw) {
		answer_file(k, &a, &out);
	} else {
		answer_json(k, 200, NULL, &out);
	}
	return true;
}
