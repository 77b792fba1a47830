/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * on_agent.c - what the SDK of agent-sandbox asks of a runtime, done in one session
 *
 *	POST /execute {"command":...}   {"stdout","stderr","exit_code","timed_out",...}
 *	POST /upload                    a form whose part "file" is one, its name a path
 *	GET /download/PATH              its bytes
 *	GET /list/PATH                  [{"name","size","type","mod_time"},...]
 *	GET /exists/PATH                {"path","exists"}
 *
 * All of them share a session, which the first makes. Paths are below its /work,
 * percent-encoded with their slashes. A refusal has "message" where ours have "error".
 * Where there are no sessions it is a directory that stays, of session/kept.c.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/multipart.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "http/conn.h"
#include "session/session.h"

#define SCOPE_TYPE "agent"
#define SCOPE_ID "agent-sandbox"
#define SESSION_NAME SCOPE_TYPE "_" SCOPE_ID "_sandbox"
#define LIST_CAP (64u << 20)

struct agent_call {
	enum agent_what {
		AGENT_EXEC,
		AGENT_UPLOAD,
		AGENT_DOWNLOAD,
		AGENT_LIST,
		AGENT_EXISTS
	} what;
	bool kept;    /* there are no sessions */
	bool opening; /* the session is being made; then comes the call */
	struct json *args;
	struct multipart_file file;
	char path[SESSION_PATH_MAX];
	size_t path_len;
	struct buf list; /* entries of the pages so far */
};

void on_agent_forget(struct conn *k)
{
	if (!k->agent)
		return;
	json_free(k->agent->args);
	buf_done(&k->agent->list);
	free(k->agent);
	k->agent = NULL;
}

/* ---- what is wanted ---- */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* what follows "/list": decoded, slashes too, and below /work whatever it begins with */
static int read_path(const struct conn *k, struct agent_call *a, size_t skip,
		     struct err *e)
{
	struct span rest = {k->req.path.p + skip, k->req.path.len - skip};

	for (size_t i = 0; i < rest.len; i++) {
		char c = rest.p[i];

		if (c == '%') {
			const int high = rest.len - i > 2 ? hex(rest.p[i + 1]) : -1;
			const int low = rest.len - i > 2 ? hex(rest.p[i + 2]) : -1;

			if (high < 0 || low < 0 || (high == 0 && low == 0))
				return err_client(e, 400, "bad_path",
						  "the path is not well encoded");
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (c == '/' && a->path_len == 0)
			continue;
		if (a->path_len == sizeof(a->path))
			return err_client(e, 400, "bad_path", "the path is too long");
		a->path[a->path_len++] = c;
	}
	while (a->path_len && a->path[a->path_len - 1] == '/')
		a->path_len--;
	if (a->path_len == 0)
		a->path[a->path_len++] = '.';
	return 0;
}

static int read_form(const struct conn *k, struct agent_call *a, struct err *e)
{
	const struct multipart_text type = {k->req.content_type.p,
					    k->req.content_type.len};
	const struct multipart_text body = {k->body.bytes, k->body.len};
	size_t from = 0;

	if (multipart_find(type, body, "file", &a->file, e) < 0)
		return -1;
	while (from < a->file.name_len && a->file.name[from] == '/')
		from++;
	a->path_len = a->file.name_len - from;
	if (a->path_len == 0 || a->path_len > sizeof(a->path))
		return err_client(e, 400, "bad_path", "the file's name is no path");
	memcpy(a->path, a->file.name + from, a->path_len);
	return 0;
}

/* of a cursor, for the next page */
static struct json *page_args(const char *cursor, size_t len, struct err *e)
{
	struct json *args = NULL;
	struct buf b;

	buf_init(&b, 8 * SESSION_PATH_MAX);
	if (buf_puts(&b, "{\"cursor\":") < 0 || buf_json_string(&b, cursor, len) < 0 ||
	    buf_puts(&b, "}") < 0)
		(void)err_errno(e, "ask for more of a list");
	else
		args = json_parse(b.bytes, b.len, &json_request_limits, e);
	buf_done(&b);
	return args;
}

/* ---- the session ---- */

/* 1: it goes on when the job is over; -1 and *e */
static int begin(struct conn *k, struct err *e)
{
	static const enum session_tool tools[] = {[AGENT_EXEC] = TOOL_EXEC,
						  [AGENT_UPLOAD] = TOOL_WRITE,
						  [AGENT_DOWNLOAD] = TOOL_READ,
						  [AGENT_LIST] = TOOL_LIST,
						  [AGENT_EXISTS] = TOOL_READ};
	struct agent_call *a = k->agent;
	struct session_request q = {
		.tool = a->opening ? TOOL_OPEN : tools[a->what],
		.args = a->opening ? NULL : a->args,
		.raw = a->what == AGENT_DOWNLOAD || a->what == AGENT_EXISTS,
		.most = a->what == AGENT_EXISTS,
		.kept = a->kept,
		.uncounted = true, /* its users upload whole projects */
	};
	struct buf out;
	int rc;

	if (a->opening) {
		q.scope_type = (struct session_text){SCOPE_TYPE, strlen(SCOPE_TYPE)};
		q.scope_id = (struct session_text){SCOPE_ID, strlen(SCOPE_ID)};
	} else {
		q.id = (struct session_text){SESSION_NAME, strlen(SESSION_NAME)};
		if (a->what != AGENT_EXEC)
			q.path = (struct session_text){a->path, a->path_len};
		if (a->what == AGENT_UPLOAD)
			q.bytes = (struct session_text){a->file.bytes, a->file.len};
	}
	buf_init(&out, LIST_CAP);
	rc = on_session_begin(k, &q, &out, e);
	buf_done(&out);
	return rc;
}

static bool is_open(struct conn *k)
{
	struct session_request q = {
		.tool = TOOL_GET,
		.id = {SESSION_NAME, strlen(SESSION_NAME)},
	};
	struct buf out;
	struct err e;
	int rc;

	buf_init(&out, LIST_CAP);
	rc = on_session_begin(k, &q, &out, &e);
	buf_done(&out);
	return rc == 0;
}

static void start(struct conn *k, int rc, struct err *e)
{
	if (rc == 0)
		rc = on_kept_admit(k, &k->agent->kept, e);
	if (rc == 0) {
		k->agent->opening = !k->agent->kept && !is_open(k);
		rc = begin(k, e);
	}
	if (rc < 0)
		answer_error(k, e);
}

static struct agent_call *new_call(struct conn *k, enum agent_what what)
{
	on_agent_forget(k);
	k->agent = mem_zero(sizeof(*k->agent));
	k->agent->what = what;
	buf_init(&k->agent->list, LIST_CAP);
	k->stream = STREAM_NONE;
	return k->agent;
}

int on_agent_admit(struct conn *k, struct err *e)
{
	/* from here on refusals are of its kind */
	return on_kept_admit(k, &new_call(k, AGENT_UPLOAD)->kept, e);
}

void on_upload(struct conn *k)
{
	struct err e = {0};

	start(k, read_form(k, new_call(k, AGENT_UPLOAD), &e), &e);
}

static void on_path(struct conn *k, enum agent_what what, const char *route)
{
	struct err e = {0};

	start(k, read_path(k, new_call(k, what), strlen(route), &e), &e);
}

void on_download(struct conn *k)
{
	on_path(k, AGENT_DOWNLOAD, "/download");
}

void on_list(struct conn *k)
{
	on_path(k, AGENT_LIST, "/list");
}

void on_exists(struct conn *k)
{
	on_path(k, AGENT_EXISTS, "/exists");
}

bool on_agent_execute(struct conn *k)
{
	struct err e = {0};
	struct json *body = json_parse(k->body.bytes, k->body.len, &json_request_limits,
				       &e);
	const bool ours = body && json_is_string(json_member(body, "command"));

	if (!ours) {
		json_free(body);
		return false;
	}
	new_call(k, AGENT_EXEC)->args = body;
	start(k, 0, &e);
	return true;
}

/* ---- and what came of it ---- */

static void tell(struct conn *k, int rc, struct buf *b)
{
	struct err e;

	if (rc == 0)
		return answer_json(k, 200, NULL, b);
	(void)err_errno(&e, "write the answer");
	buf_done(b);
	answer_error(k, &e);
}

static void tell_upload(struct conn *k)
{
	struct buf text, b;
	int rc;

	buf_init(&text, 2 * SESSION_PATH_MAX);
	buf_init(&b, 16 * SESSION_PATH_MAX);
	rc = buf_printf(&text, "File '%.*s' uploaded successfully.",
			(int)k->agent->path_len, k->agent->path);
	if (rc == 0)
		rc = buf_puts(&b, "{\"message\":");
	if (rc == 0)
		rc = buf_json_string(&b, text.bytes, text.len);
	buf_done(&text);
	tell(k, rc < 0 ? rc : buf_puts(&b, "}"), &b);
}

static void tell_exists(struct conn *k, bool there)
{
	struct buf b;
	int rc;

	buf_init(&b, 16 * SESSION_PATH_MAX);
	rc = buf_puts(&b, "{\"path\":");
	if (rc == 0)
		rc = buf_json_string(&b, k->agent->path, k->agent->path_len);
	if (rc == 0)
		rc = buf_printf(&b, ",\"exists\":%s}", there ? "true" : "false");
	tell(k, rc, &b);
}

/* a link, a socket and their like are files to the SDK, which knows two kinds */
static int add_entry(struct buf *b, const struct json *entry)
{
	size_t name_len, kind_len;
	const char *name = json_text(json_member(entry, "name"), &name_len);
	const char *kind = json_text(json_member(entry, "type"), &kind_len);
	const struct json *size = json_member(entry, "size_bytes");
	const struct json *mtime = json_member(entry, "mtime");
	const bool directory = kind && strcmp(kind, "directory") == 0;

	if (!name || buf_puts(b, b->len ? ",{\"name\":" : "{\"name\":") < 0 ||
	    buf_json_string(b, name, name_len) < 0)
		return -1;
	return buf_printf(b, ",\"size\":%.0f,\"type\":\"%s\",\"mod_time\":%.1f}",
			  size ? json_double(size) : 0.0,
			  directory ? "directory" : "file",
			  mtime ? json_double(mtime) : 0.0);
}

/* 1: there is another page, and it was asked for; 0: that was all; -1 and *e */
static int add_page(struct conn *k, const struct buf *out, struct err *e)
{
	static const struct json_limits wide = {8, 1 << 20, 1 << 20};
	struct agent_call *a = k->agent;
	struct json *page = json_parse(out->bytes, out->len, &wide, e);
	const struct json *entries = json_member(page, "entries");
	const char *next;
	size_t next_len;
	int rc = page ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < json_count(entries); i++)
		if (add_entry(&a->list, json_item(entries, i)) < 0)
			rc = err_errno(e, "write the list");
	next = rc == 0 ? json_text(json_member(page, "next"), &next_len) : NULL;
	if (next) {
		json_free(a->args);
		a->args = page_args(next, next_len, e);
		rc = a->args ? begin(k, e) : -1;
	}
	json_free(page);
	return rc;
}

static void tell_list(struct conn *k, struct buf *out)
{
	struct err e = {0};
	int rc = add_page(k, out, &e);
	struct buf b;

	buf_done(out);
	if (rc < 0)
		return answer_error(k, &e);
	if (rc > 0)
		return; /* its next page is on its way */
	buf_init(&b, LIST_CAP);
	rc = buf_puts(&b, "[");
	if (rc == 0)
		rc = buf_add(&b, k->agent->list.bytes, k->agent->list.len);
	if (rc == 0)
		rc = buf_puts(&b, "]");
	tell(k, rc, &b);
}

static void tell_file(struct conn *k, const struct session_answer *a, struct buf *out)
{
	struct err e;

	if (out->len == a->size)
		return answer_bytes(k, 200, NULL, out);
	buf_done(out);
	err_client(&e, 413, "file_too_large", "the file has %llu bytes",
		   (unsigned long long)a->size);
	answer_error(k, &e);
}

static void tell_failed(struct conn *k, const struct err *e)
{
	const bool no_file = strcmp(e->code, "not_a_file") == 0 ||
			     strcmp(e->code, "is_a_directory") == 0;
	const bool none = strcmp(e->code, "no_such_file") == 0 ||
			  strcmp(e->code, "not_a_directory") == 0;
	struct err missing;

	if (k->agent->what == AGENT_EXISTS && !k->agent->opening && (none || no_file))
		return tell_exists(k, no_file);
	if (k->agent->what != AGENT_DOWNLOAD || !(none || no_file))
		return answer_error(k, e);
	err_client(&missing, 404, "no_such_file", "File not found");
	answer_error(k, &missing);
}

void on_agent_over(struct conn *k, const struct session_answer *a, struct buf *out,
		   const struct err *failed)
{
	struct agent_call *call = k->agent;
	struct err e;

	if (failed) {
		buf_done(out);
		return tell_failed(k, failed);
	}
	if (call->opening) {
		buf_done(out);
		call->opening = false;
		if (begin(k, &e) < 0)
			answer_error(k, &e);
		return;
	}
	switch (call->what) {
	case AGENT_EXEC:
		return answer_json(k, 200, NULL, out);
	case AGENT_DOWNLOAD:
		return tell_file(k, a, out);
	case AGENT_LIST:
		return tell_list(k, out);
	case AGENT_UPLOAD:
		buf_done(out);
		return tell_upload(k);
	case AGENT_EXISTS:
		buf_done(out);
		return tell_exists(k, true);
	}
}
