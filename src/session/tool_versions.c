/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tool_versions.c - sessions with the same files, and files as they were
 *
 * Runs in: the server. What the launcher does for these is done, or not, before anything
 * of it is kept here: files that nobody has a name for are removed at its next start.
 */
#include "session/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/request.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"

#define CHECKPOINTS 64

static void new_key(uint8_t out[SESSION_KEY])
{
	if (getrandom(out, SESSION_KEY, 0) != SESSION_KEY)
		abort(); /* never happens once the kernel's pool is ready */
}

static void key_text(const uint8_t key[SESSION_KEY], char out[2 * SESSION_KEY + 1])
{
	for (size_t i = 0; i < SESSION_KEY; i++)
		snprintf(out + 2 * i, 3, "%02x", key[i]);
}

static int submit(struct sessions *s, const struct session_request *q,
		  struct session *one, struct session_call *c, struct err *e)
{
	static const enum plan_session hows[] = {[TOOL_FORK] = SESSION_FORK,
						 [TOOL_CHECKPOINT] = SESSION_CHECKPOINT,
						 [TOOL_RESTORE] = SESSION_RESTORE,
						 [TOOL_DIFF] = SESSION_DIFF};
	const struct limits usual = {0};
	struct run_request r;

	session_job(s, one, hows[q->tool], &usual, &r);
	memcpy(r.session.other_key, c->other_key, SESSION_KEY);
	r.session.count = c->count;
	r.session.force = c->force;
	session_ids(q, &r);
	return session_submit(s, c, &r, false, e);
}

static int get_force(const struct session_request *q, bool *out, struct err *e)
{
	*out = false;
	return q->args && json_get_bool(q->args, "force", out, e) < 0 ? -1 : 0;
}

int tool_fork(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e)
{
	struct session_call *c;
	double count = 1;
	bool force;

	if (get_force(q, &force, e) < 0 ||
	    (q->args && json_get_number(q->args, "count", &count, e) < 0))
		return -1;
	if (!(count >= 1 && count <= SESSION_FORKS) || count != (double)(unsigned)count)
		return err_bad(e, "count must be a whole number from 1 to %d",
			       SESSION_FORKS);
	if (store_room(s, q, (size_t)count, e) < 0)
		return -1;
	c = session_call_own(s, TOOL_FORK, one, q);
	new_key(c->other_key);
	c->other_key[SESSION_KEY - 1] = 0; /* theirs differ in it */
	c->count = (uint32_t)count;
	c->force = force;
	return submit(s, q, one, c, e);
}

int tool_checkpoint(struct sessions *s, const struct session_request *q,
		    struct session *one, struct err *e)
{
	struct session_call *c;
	bool force;

	if (get_force(q, &force, e) < 0)
		return -1;
	if (one->checkpoint_count >= CHECKPOINTS)
		return err_client(e, 409, "too_many_checkpoints",
				  "the session has %d checkpoints already", CHECKPOINTS);
	c = session_call_own(s, TOOL_CHECKPOINT, one, q);
	new_key(c->other_key);
	c->force = force;
	return submit(s, q, one, c, e);
}

/* 1: it names one; 0: it names none; -1 and *e */
static int find_checkpoint(const struct session_request *q, const struct session *one,
			   const char *name, uint8_t out[SESSION_KEY], struct err *e)
{
	struct session_text wanted;
	char text[2 * SESSION_KEY + 1];

	if (session_arg(q, name, NULL, &wanted, e) < 0)
		return -1;
	if (!wanted.p || !wanted.len)
		return 0;
	if (session_text_is(wanted, "latest") && one->checkpoint_count) {
		memcpy(out, one->checkpoint[one->checkpoint_count - 1].key, SESSION_KEY);
		return 1;
	}
	for (size_t i = 0; i < one->checkpoint_count; i++) {
		key_text(one->checkpoint[i].key, text);
		if (session_text_is(wanted, text)) {
			memcpy(out, one->checkpoint[i].key, SESSION_KEY);
			return 1;
		}
	}
	return err_client(e, 404, "no_such_checkpoint",
			  "the session has no such checkpoint");
}

int tool_restore(struct sessions *s, const struct session_request *q, struct session *one,
		 struct err *e)
{
	uint8_t key[SESSION_KEY];
	struct session_call *c;
	bool force;
	int rc;

	if (get_force(q, &force, e) < 0)
		return -1;
	rc = find_checkpoint(q, one, "checkpoint_id", key, e);
	if (rc <= 0)
		return rc < 0 ? -1 : err_bad(e, "checkpoint_id is required");
	c = session_call_own(s, TOOL_RESTORE, one, q);
	memcpy(c->other_key, key, SESSION_KEY);
	c->force = force;
	return submit(s, q, one, c, e);
}

int tool_diff(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e)
{
	uint8_t key[SESSION_KEY] = {0};
	struct session_call *c;

	if (find_checkpoint(q, one, "checkpoint_id", key, e) < 0)
		return -1;
	c = session_call_new(s, TOOL_DIFF, one, q->who);
	memcpy(c->other_key, key, SESSION_KEY);
	return submit(s, q, one, c, e);
}

/* ---- answers ---- */

static struct session *copy_of(struct sessions *s, const struct session *from,
			       const struct session_call *c, uint32_t n)
{
	const struct session_text none = {NULL, 0};
	struct session *one;
	char id[SESSION_ID];
	size_t words = 0;

	session_name(none, none, id);
	one = store_add(s, from->owner, id);
	memcpy(one->key, c->other_key, SESSION_KEY);
	one->key[SESSION_KEY - 1] = (uint8_t)n;
	memcpy(one->image, from->image, sizeof(one->image));
	one->read_only = from->read_only;
	one->root = from->root;
	one->allow_network = from->allow_network ? mem_copy(from->allow_network) : NULL;
	one->timeout_ms = from->timeout_ms;
	one->max_file_bytes = from->max_file_bytes;
	one->max_files = from->max_files;
	written_copy(from, one);
	/* it goes with the others of a scope, and is not found by it */
	memcpy(one->scope_type, from->scope_type, sizeof(one->scope_type));
	memcpy(one->scope_id, from->scope_id, sizeof(one->scope_id));
	/* the same files, with the same bound */
	one->disk = from->disk;
	one->disk_limit_bytes = from->disk_limit_bytes;
	one->disk_used_bytes = from->disk_used_bytes;
	while (from->env && from->env[words])
		words++;
	one->env = mem_array(words + 1, sizeof(*one->env));
	for (size_t i = 0; i < words; i++)
		one->env[i] = mem_copy(from->env[i]);
	return one;
}

/* whoever was made and cannot be kept goes again */
static int undo(struct sessions *s, struct session **made, uint32_t count)
{
	struct err e;

	for (uint32_t i = 0; i < count; i++)
		if (session_close_one(s, made[i], NULL, &e) < 0)
			log_error("session.undo", "error=\"%s\"", e.text);
	return -1;
}

int answer_fork(struct sessions *s, const struct session_call *c, struct buf *b,
		struct err *e)
{
	struct session *from = store_of(s, c), *made[SESSION_FORKS];
	uint32_t i;

	if (!from)
		return err_client(e, 404, "not_found",
				  "the session was closed meanwhile");
	for (i = 0; i < c->count; i++)
		made[i] = copy_of(s, from, c, i);
	for (i = 0; i < c->count; i++)
		if (store_save(s, made[i], e) < 0)
			return undo(s, made, c->count);
	for (i = 0; i < c->count; i++)
		if (buf_puts(b, i ? "," : "{\"sessions\":[") < 0 ||
		    session_opened(made[i], true, b) < 0)
			return err_errno(e, "tell of new sessions");
	return buf_puts(b, "]}") < 0 ? err_errno(e, "tell of new sessions") : 0;
}

int answer_checkpoint(struct sessions *s, const struct session_call *c, struct buf *b,
		      struct err *e)
{
	struct session *one = store_of(s, c);
	struct session_checkpoint *all, *last;
	char text[2 * SESSION_KEY + 1];

	if (!one)
		return err_client(e, 404, "not_found",
				  "the session was closed meanwhile");
	all = mem_array(one->checkpoint_count + 1, sizeof(*all));
	if (one->checkpoint_count)
		memcpy(all, one->checkpoint, one->checkpoint_count * sizeof(*all));
	free(one->checkpoint);
	one->checkpoint = all;
	last = &all[one->checkpoint_count++];
	memcpy(last->key, c->other_key, SESSION_KEY);
	last->created_sec = store_now_sec();
	if (store_save(s, one, e) < 0) {
		one->checkpoint_count--;
		return -1;
	}
	key_text(last->key, text);
	return buf_printf(b,
			  "{\"session_id\":\"%s\",\"checkpoint_id\":\"%s\","
			  "\"created_at\":%llu}",
			  one->id, text, (unsigned long long)last->created_sec) < 0
		       ? err_errno(e, "tell of a checkpoint")
		       : 0;
}

int answer_restore(const struct session_call *c, struct buf *b)
{
	char text[2 * SESSION_KEY + 1];

	key_text(c->other_key, text);
	return buf_printf(b,
			  "{\"session_id\":\"%s\",\"checkpoint_id\":\"%s\","
			  "\"restored\":true}",
			  c->id, text);
}

/* "A path NUL"... of launcher/session_diff.c */
static int put_paths(struct buf *b, const char *name, char what, const char *text,
		     size_t len)
{
	const char *const end = text + len;
	bool first = true;

	if (buf_printf(b, "\"%s\":[", name) < 0)
		return -1;
	for (const char *at = text; at < end; at += strnlen(at, (size_t)(end - at)) + 1) {
		if (*at != what)
			continue;
		if ((!first && buf_puts(b, ",") < 0) ||
		    buf_json_string(b, at + 1, strnlen(at + 1, (size_t)(end - at) - 1)) <
			    0)
			return -1;
		first = false;
	}
	return buf_puts(b, "],");
}

int answer_diff(const struct result *r, struct buf *b)
{
	const char *text = r->file_count == 1 ? r->files[0].bytes : NULL;
	const size_t len = text ? r->files[0].len : 0;

	if (!text || (len && text[len - 1]))
		return -1;
	if (buf_puts(b, "{") < 0 || put_paths(b, "added", 'A', text, len) < 0 ||
	    put_paths(b, "modified", 'M', text, len) < 0 ||
	    put_paths(b, "deleted", 'D', text, len) < 0)
		return -1;
	return buf_printf(b, "\"truncated\":%s}",
			  len >= 2 && text[len - 2] == 'T' && (len == 2 || !text[len - 3])
				  ? "true"
				  : "false");
}
