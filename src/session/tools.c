/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tools.c - a tool's arguments to a job, or to an answer at once
 *
 * Runs in: the server. Which session a call means is decided here, and what of it the
 * session allows; what is then done happens inside the session, by a job.
 */
#include "session/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/api.h"
#include "api/request.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/settings.h"

static const char *const names[TOOL_COUNT] = {
	[TOOL_OPEN] = "sandbox_open",      [TOOL_EXEC] = "sandbox_exec",
	[TOOL_WRITE] = "sandbox_fs_write", [TOOL_READ] = "sandbox_fs_read",
	[TOOL_LIST] = "sandbox_fs_list",   [TOOL_DELETE] = "sandbox_fs_delete",
	[TOOL_CLOSE] = "sandbox_close",
};

enum session_tool session_tool_find(const char *name, size_t len)
{
	int i = 0;

	while (i < TOOL_COUNT &&
	       (strlen(names[i]) != len || memcmp(names[i], name, len) != 0))
		i++;
	return (enum session_tool)i;
}

const char *session_tool_name(enum session_tool tool)
{
	return tool < TOOL_COUNT ? names[tool] : "";
}

/* ---- calls ---- */

struct session_call *session_call_find(const struct sessions *s, uint64_t who)
{
	struct session_call *c = s->calls;

	while (c && c->who != who)
		c = c->next;
	return c;
}

struct session_call *session_call_new(struct sessions *s, enum session_tool tool,
				      struct session *one, uint64_t who)
{
	struct session_call *c = mem_zero(sizeof(*c));

	c->tool = tool;
	c->who = who;
	snprintf(c->id, sizeof(c->id), "%s", one->id);
	snprintf(c->owner, sizeof(c->owner), "%s", one->owner);
	c->kept = one == s->kept;
	c->next = s->calls;
	s->calls = c;
	one->busy++;
	return c;
}

struct session_call *session_call_own(struct sessions *s, enum session_tool tool,
				      struct session *one,
				      const struct session_request *q)
{
	struct session_call *c = session_call_new(s, tool, one, OWN_WHO | ++s->last_own);

	c->waiter = q ? q->who : 0;
	return c;
}

void session_call_free(struct sessions *s, struct session_call *c)
{
	struct session *one = store_of(s, c);
	struct session_call **at = &s->calls;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (one) {
		one->busy -= one->busy > 0; /* it may be another one of that name */
		one->used_sec = store_now_sec();
	}
	free(c->path);
	free(c);
}

bool session_owns(const struct sessions *s, uint64_t who)
{
	return s && session_call_find(s, who);
}

void session_forget(struct sessions *s, uint64_t who)
{
	struct session_call *c = s ? session_call_find(s, who) : NULL;

	if (c)
		session_call_free(s, c);
	for (c = s ? s->calls : NULL; c; c = c->next)
		if (c->waiter == who)
			c->waiter = 0; /* what it asked for is done all the same */
}

/* ---- which session ---- */

/* an argument, where the URL says nothing */
int session_arg(const struct session_request *q, const char *name,
		const struct session_text *given, struct session_text *out, struct err *e)
{
	*out = (struct session_text){NULL, 0};
	if (given && given->p) {
		*out = *given;
		return 0;
	}
	return q->args && json_get_string(q->args, name, &out->p, &out->len, e) < 0 ? -1
										    : 0;
}

static bool scope_id_ok(struct session_text t)
{
	static const char fit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789._-";

	for (size_t i = 0; i < t.len; i++)
		if (!memchr(fit, t.p[i], sizeof(fit) - 1))
			return false;
	return t.len >= 1 && t.len <= 128;
}

bool session_text_is(struct session_text t, const char *word)
{
	return t.p && t.len == strlen(word) && memcmp(t.p, word, t.len) == 0;
}

/* 1: a scope; 0: none is named; -1 and *e */
int session_scope(const struct session_request *q, struct session_text *type,
		  struct session_text *id, struct err *e)
{
	if (session_arg(q, "scope_type", &q->scope_type, type, e) < 0 ||
	    session_arg(q, "scope_id", &q->scope_id, id, e) < 0)
		return -1;
	if (!type->p && !id->p && (q->workflow_run.p || q->agent_run.p)) {
		*type = q->workflow_run.p ? (struct session_text){"workflow", 8}
					  : (struct session_text){"agent", 5};
		*id = q->workflow_run.p ? q->workflow_run : q->agent_run;
	}
	if (!type->p && !id->p)
		return 0;
	if (!session_text_is(*type, "workflow") && !session_text_is(*type, "agent"))
		return err_client(e, 400, "bad_scope",
				  "scope_type must be workflow or agent");
	if (!id->p || !scope_id_ok(*id))
		return err_client(e, 400, "bad_scope",
				  "scope_id must be 1 to 128 letters, digits, dots, "
				  "underscores and hyphens");
	return 1;
}

static int no_session(struct err *e)
{
	return err_client(e, 404, "not_found", "there is no such session");
}

void session_name(struct session_text type, struct session_text scope, char *out)
{
	unsigned char random[16];

	if (type.p) {
		snprintf(out, SESSION_ID, "%.*s_%.*s_sandbox", (int)type.len, type.p,
			 (int)scope.len, scope.p);
		return;
	}
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		abort(); /* never happens once the kernel's pool is ready */
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(out + 2 * i, 3, "%02x", random[i]);
}

void sessions_have_own(struct sessions *s)
{
	session_name((struct session_text){0}, (struct session_text){0}, s->own);
}

/* the id of the session that is meant; 0, or -1 and *e */
static int which(const struct sessions *s, const struct session_request *q,
		 char name[SESSION_ID], struct session_text *id, struct err *e)
{
	struct session_text type, scope;
	int rc;

	if (session_arg(q, "session_id", &q->id, id, e) < 0)
		return -1;
	if (id->p)
		return 0;
	rc = session_scope(q, &type, &scope, e);
	if (rc < 0)
		return -1;
	if (rc > 0)
		session_name(type, scope, name);
	else if (s->own[0])
		memcpy(name, s->own, SESSION_ID);
	else
		return err_client(e, 400, "session_required",
				  "name a session: session_id, or scope_type and "
				  "scope_id");
	*id = (struct session_text){name, strlen(name)};
	return 0;
}

bool session_own_wanted(const struct sessions *s, const struct session_request *q)
{
	struct session_text id;
	char name[SESSION_ID];

	if (!s->own[0] || q->tool == TOOL_OPEN || q->tool == TOOL_CLOSE)
		return false;
	return which(s, q, name, &id, NULL) == 0 && id.p == name &&
	       session_text_is(id, s->own) && !store_find(s, q->owner, id.p, id.len);
}

static struct session *find(struct sessions *s, const struct session_request *q,
			    struct err *e)
{
	struct session_text id;
	char name[SESSION_ID];
	struct session *one;

	if (which(s, q, name, &id, e) < 0)
		return NULL;
	one = store_find(s, q->owner, id.p, id.len);
	if (!one || one->closing) {
		no_session(e);
		return NULL;
	}
	one->used_sec = store_now_sec();
	return one;
}

/* ---- jobs ---- */

void session_job(const struct sessions *s, const struct session *one,
		 enum plan_session how, const struct limits *wanted,
		 struct run_request *r)
{
	memset(r, 0, sizeof(*r));
	r->mode = s->mode;
	r->row = strcmp(one->image, IMAGE_HOST) == 0 ? s->exec_row : s->image_row;
	r->session.how = how;
	memcpy(r->session.key, one->key, SESSION_KEY);
	memcpy(r->token, one->owner, sizeof(r->token));
	job_limits(s->settings, s->mode, wanted, &r->limits);
	r->session.image = r->row == s->image_row;
	if (one == s->kept) {
		r->session.how = SESSION_NOT;
		r->session.kept = true;
	} else if (how == SESSION_OPEN || how == SESSION_EXEC) {
		session_network_add(s, one, r);
	}
}

void session_ids(const struct session_request *q, struct run_request *r)
{
	snprintf(r->request_id, sizeof(r->request_id), "%s", q->request_id);
	snprintf(r->traceparent, sizeof(r->traceparent), "%s",
		 q->traceparent ? q->traceparent : "");
}

/* 1, or -1 and *e */
int session_submit(struct sessions *s, struct session_call *c, struct run_request *r,
		   bool live, struct err *e)
{
	if (!s->jobs) {
		request_done(r);
		session_call_free(s, c);
		return err_client(e, 503, "not_ready", "the server is starting");
	}
	if (jobs_submit(s->jobs, c->who, r, live, e) == 0)
		return 1;
	session_call_free(s, c);
	return -1;
}

int session_close_one(struct sessions *s, struct session *one,
		      const struct session_request *q, struct err *e)
{
	const struct limits usual = {0};
	struct session_call *c;
	struct run_request r;

	c = session_call_own(s, TOOL_CLOSE, one, q);
	session_job(s, one, SESSION_CLOSE, &usual, &r);
	if (q)
		session_ids(q, &r);
	if (session_submit(s, c, &r, false, e) < 0)
		return -1;
	one->closing = true;
	return 1;
}

/* ---- all of them ---- */

static int list_all(const struct sessions *s, const char *owner, struct buf *out,
		    struct err *e)
{
	const struct session *one;
	const char *comma = "";
	int rc = buf_puts(out, "{\"sessions\":[");

	for (one = s->first; rc == 0 && one; one = one->next) {
		if (!store_owned(one, owner))
			continue;
		rc = buf_puts(out, comma);
		comma = ",";
		if (rc == 0)
			rc = session_describe(s, one, out);
	}
	if (rc < 0 || buf_puts(out, "]}") < 0)
		return err_errno(e, "list the sessions");
	return 0;
}

/* a fork is of the scope that its source is of */
static struct session *of_scope(const struct sessions *s, const char *owner,
				struct session_text type, struct session_text id)
{
	struct session *one = s->first;

	while (one && (one->closing || !session_text_is(type, one->scope_type) ||
		       !session_text_is(id, one->scope_id) || !store_owned(one, owner)))
		one = one->next;
	return one;
}

/* One after the other, so that they take no more than one place of commands, and a fork
 * that is made meanwhile is closed too. */
int session_close_next(struct sessions *s, const struct session_call *c, struct err *e)
{
	const struct session *last = store_of(s, c);
	struct session *one =
		last ? of_scope(s, c->owner,
				(struct session_text){last->scope_type,
						      strlen(last->scope_type)},
				(struct session_text){last->scope_id,
						      strlen(last->scope_id)})
		     : NULL;

	if (!one)
		return 0;
	if (session_close_one(s, one, NULL, e) < 0)
		return -1;
	s->calls->tool = TOOL_SCOPE;
	s->calls->waiter = c->waiter;
	s->calls->closed = c->closed + 1;
	return 1;
}

static int close_scope(struct sessions *s, const struct session_request *q,
		       struct buf *out, struct err *e)
{
	struct session_text type, scope;
	struct session *one;

	if (session_scope(q, &type, &scope, e) <= 0)
		return -1;
	one = of_scope(s, q->owner, type, scope);
	if (!one)
		return buf_puts(out, "{\"closed\":0}");
	if (session_close_one(s, one, q, e) < 0)
		return -1;
	s->calls->tool = TOOL_SCOPE;
	return 1;
}

int sessions_admit(const struct sessions *s, struct err *e)
{
	const struct report *found = s->jobs ? jobs_report(s->jobs) : NULL;

	if (s->settings->docker)
		return err_client(e, 400, "sessions_need_local",
				  "sessions need SANDBOX_TYPE=local");
	if (s->why[0])
		return err_client(e, 501, "sessions_unavailable", "%s", s->why);
	if (s->jobs && !found)
		return err_client(e, 503, "not_ready", "the launcher is starting");
	if (found && found->level && !found->sessions)
		return err_client(e, 501, "sessions_unavailable",
				  "%s; sandbox-server check says what is missing",
				  found->sessions_why);
	return 0;
}

int session_begin(struct sessions *s, const struct session_request *q, struct buf *out,
		  struct err *e)
{
	static int (*const in_one[TOOL_END])(struct sessions *,
					     const struct session_request *,
					     struct session *, struct err *) = {
		[TOOL_EXEC] = tool_exec,
		[TOOL_WRITE] = tool_write,
		[TOOL_READ] = tool_read,
		[TOOL_LIST] = tool_list,
		[TOOL_DELETE] = tool_delete,
		[TOOL_FORK] = tool_fork,
		[TOOL_RESTORE] = tool_restore,
		[TOOL_DIFF] = tool_diff,
		[TOOL_CHECKPOINT] = tool_checkpoint,
	};
	struct session *one;

	if (q->kept) {
		one = kept_find(s, q, e);
		return one ? in_one[q->tool](s, q, one, e) : -1;
	}
	if (sessions_admit(s, e) < 0)
		return -1;
	if (q->tool == TOOL_OPEN)
		return tool_open(s, q, e);
	if (q->tool == TOOL_ALL)
		return list_all(s, q->owner, out, e);
	if (q->tool == TOOL_SCOPE)
		return close_scope(s, q, out, e);
	one = find(s, q, e);
	if (!one)
		return -1;
	if (q->tool == TOOL_GET)
		return session_describe(s, one, out) < 0
			       ? err_errno(e, "tell of a session")
			       : 0;
	if (q->tool == TOOL_CLOSE)
		return session_close_one(s, one, q, e);
	return in_one[q->tool](s, q, one, e);
}
