/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * answer.c - a job's result to the tool's answer
 *
 * Runs in: the server. What inside.c says comes out of a session, so it is read as if
 * anybody had written it.
 */
#include "session/store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

static const struct inside_failure failures[] = {
	{INSIDE_NOT_FOUND, 404, "no_such_file", "there is no such file or directory"},
	{INSIDE_BLOCKED, 403, "blocked_path", "this path is not the session's own"},
	{INSIDE_NOT_A_FILE, 400, "not_a_file", "this is not a regular file"},
	{INSIDE_NOT_A_DIRECTORY, 400, "not_a_directory", "this is not a directory"},
	{INSIDE_IS_A_DIRECTORY, 409, "is_a_directory", "this is a directory"},
	{INSIDE_EXISTS, 409, "file_exists", "this file is there already"},
	{INSIDE_NOT_EMPTY, 409, "not_empty",
	 "this directory is not empty; recursive removes it"},
	{INSIDE_TOO_MANY, 409, "too_many_files",
	 "this session has as many files as it may be given"},
	{INSIDE_NO_SPACE, 507, "disk_full", "there is no room left for it"},
	{INSIDE_BAD, 400, "bad_path", "this path cannot be used"},
};

static int inside_failed(const struct result *r, struct err *e)
{
	if (r->outcome.verdict == VERDICT_TIMEOUT)
		return err_server(e, 504, "timeout", "this took too long");
	if (r->outcome.verdict == VERDICT_DISK_FULL)
		return err_server(e, 507, "disk_full",
				  "this session has as much on disk as it may have");
	/* its session was closed or frozen meanwhile, or somebody in it did that */
	if (r->outcome.verdict == VERDICT_SIGNAL)
		return err_client(e, 409, "session_busy",
				  "this was ended on the way; try again");
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
		if (failures[i].exit_code == r->exit_code)
			return err_client(e, failures[i].status, failures[i].code, "%s",
					  failures[i].text);
	return err_server(e, 500, "session_fault",
			  "the session could not do that (%s, exit code %d)",
			  verdict_name(r->outcome.verdict), r->exit_code);
}

static int add_text(struct buf *b, const char *name, const char *text)
{
	return buf_printf(b, "\"%s\":", name) < 0
		       ? -1
		       : buf_json_string(b, text, strlen(text));
}

static const char *yes(bool flag)
{
	return flag ? "true" : "false";
}

/* ,"disk":... */
static int add_disk(const struct session *one, struct buf *b)
{
	static const char *const kinds[DISK_KINDS] = {
		[DISK_MEASURED] = "measured",
		[DISK_PROJECT_QUOTA] = "project_quota",
	};

	if (!one->disk)
		return buf_puts(b, ",\"disk\":null");
	return buf_printf(b,
			  ",\"disk\":{\"limit_mb\":%" PRIu64 ",\"used_mb\":%.1f,"
			  "\"enforced\":\"%s\"}",
			  one->disk_limit_bytes >> 20,
			  (double)one->disk_used_bytes / (1 << 20), kinds[one->disk]);
}

/* what a job came to know of it */
static void take_disk(struct session *one, const struct outcome *o)
{
	if (!one || !o->disk || o->disk >= DISK_KINDS)
		return;
	one->disk = o->disk;
	one->disk_limit_bytes = o->disk_limit_bytes;
	one->disk_used_bytes = o->disk_used_bytes;
}

const char *session_user(const struct session *one)
{
	return one && one->root ? "root" : "sandbox";
}

int session_describe(const struct sessions *s, const struct session *one, struct buf *b)
{
	const uint64_t idle = s->idle_sec ? one->used_sec + s->idle_sec : UINT64_MAX;
	const uint64_t old = s->lifetime_sec ? one->created_sec + s->lifetime_sec
					     : UINT64_MAX;
	const uint64_t end = idle < old ? idle : old;
	char expires[24] = "null";

	if (end != UINT64_MAX)
		snprintf(expires, sizeof(expires), "%" PRIu64, end);
	return buf_printf(b,
			  "{\"session_id\":\"%s\",\"scope_type\":\"%s\","
			  "\"scope_id\":\"%s\",\"image\":\"%s\",\"workdir\":\"/work\","
			  "\"user\":\"%s\",\"status\":\"%s\",\"created_at\":%" PRIu64
			  ",\"last_used_at\":%" PRIu64
			  ",\"expires_at\":%s,\"commands\":%u",
			  one->id, one->scope_type, one->scope_id, one->image,
			  session_user(one), one->closing ? "closing" : "ready",
			  one->created_sec, one->used_sec, expires, one->busy) < 0 ||
			       session_network_describe(s, one, b) < 0 ||
			       add_disk(one, b) < 0
		       ? -1
		       : buf_puts(b, "}");
}

int session_opened(const struct session *one, bool created, struct buf *b)
{
	return buf_printf(b,
			  "{\"session_id\":\"%s\",\"image\":\"%s\",\"workdir\":\"/work\","
			  "\"user\":\"%s\",\"status\":\"ready\",\"created\":%s",
			  one->id, one->image, session_user(one), yes(created)) < 0 ||
			       (one->disk && add_disk(one, b) < 0)
		       ? -1
		       : buf_puts(b, "}");
}

static int answer_open(const struct sessions *s, const struct session_call *c,
		       struct buf *b, struct err *e)
{
	const struct session *one = store_of(s, c);

	return one ? session_opened(one, c->created, b)
		   : err_client(e, 404, "not_found", "the session was closed meanwhile");
}

static int answer_exec(const struct result *r, struct buf *b)
{
	if (buf_printf(b, "{\"exit_code\":%d,\"stdout\":", r->exit_code) < 0 ||
	    buf_json_string(b, r->out.kept.bytes, r->out.kept.len) < 0 ||
	    buf_puts(b, ",\"stderr\":") < 0 ||
	    buf_json_string(b, r->err.kept.bytes, r->err.kept.len) < 0 ||
	    buf_printf(b,
		       ",\"duration_ms\":%" PRIu64 ",\"truncated\":%s,\"timed_out\":%s",
		       (r->outcome.wall_us + 500) / 1000,
		       yes(r->out.truncated || r->err.truncated),
		       yes(r->outcome.verdict == VERDICT_TIMEOUT)) < 0 ||
	    reply_meta(b, r) < 0)
		return -1;
	return buf_puts(b, "}");
}

/* the first line: a number */
static bool take_number(const char **at, size_t *left, char end, uint64_t *out)
{
	const char *stop = memchr(*at, end, *left);
	char digits[24];
	size_t len;

	if (!stop || (size_t)(stop - *at) >= sizeof(digits))
		return false;
	len = (size_t)(stop - *at);
	memcpy(digits, *at, len);
	digits[len] = '\0';
	*at = stop + 1;
	*left -= len + 1;
	return num_u64(digits, out) == 0;
}

/* which files there are now, of those that count; kept in mind, and on the disk */
static void take_written(struct sessions *s, const struct session_call *c,
			 struct session_text gone, bool made)
{
	struct session *one = store_of(s, c);
	struct err e;

	made = made && !c->uncounted;
	if (!one || (!made && !gone.len))
		return;
	written_change(one, gone.p, gone.len, made ? c->path : NULL);
	/* the file is there: who wrote it is not told that it is not */
	if (!one->closing && !c->kept && store_save(s, one, &e) < 0)
		log_warn("session.index", "session=%s error=\"%s\"", one->id, e.text);
}

static int answer_write(struct sessions *s, const struct session_call *c,
			const struct result *r, struct buf *b)
{
	const char *at = r->out.kept.bytes;
	size_t left = r->out.kept.len;
	uint64_t size, created;

	if (!take_number(&at, &left, ' ', &size) ||
	    !take_number(&at, &left, '\n', &created))
		return -1;
	take_written(s, c, (struct session_text){at, left}, created);
	if (buf_puts(b, "{") < 0 || add_text(b, "path", c->path) < 0)
		return -1;
	return buf_printf(b, ",\"size_bytes\":%" PRIu64 "}", size);
}

static int answer_read(const struct session_call *c, const struct result *r,
		       struct session_answer *a, struct buf *b)
{
	const char *at = r->out.kept.bytes;
	size_t left = r->out.kept.len, whole;
	uint64_t size;
	bool text;

	if (!take_number(&at, &left, '\n', &size))
		return -1;
	a->raw = c->raw;
	a->size = size;
	a->offset = c->offset;
	if (c->from_end)
		a->offset = c->offset < size ? size - c->offset : 0;
	if (c->raw)
		return buf_add(b, at, left);
	/* a character that was cut is left out: for that alone it is not base64 */
	whole = left < size ? utf8_whole(at, left) : left;
	text = !c->want_base64 && utf8_valid(at, whole);
	if (text)
		left = whole;
	if (buf_puts(b, "{") < 0 || add_text(b, "path", c->path) < 0 ||
	    buf_puts(b, ",\"content\":") < 0)
		return -1;
	if (text ? buf_json_string(b, at, left) < 0
		 : buf_puts(b, "\"") < 0 || buf_base64(b, at, left) < 0 ||
			    buf_puts(b, "\"") < 0)
		return -1;
	return buf_printf(
		b, ",\"encoding\":\"%s\",\"size_bytes\":%" PRIu64 ",\"truncated\":%s}",
		text ? "text" : "base64", size, yes(left < size));
}

/* "TYPE SIZE MODE MTIME NAME", each with its NUL */
static int add_entry(struct buf *b, const char **at, size_t *left,
		     struct session_text *name)
{
	static const struct {
		char letter;
		const char *name;
	} types[] = {{'f', "file"}, {'d', "directory"}, {'l', "symlink"},
		     {'p', "fifo"}, {'s', "socket"},    {'c', "device"}};
	uint64_t size, mode, mtime;
	const char *end;
	size_t i = 0, len;

	if (*left < 2 || (*at)[1] != ' ')
		return -1;
	while (i < sizeof(types) / sizeof(types[0]) && types[i].letter != (*at)[0])
		i++;
	*at += 2;
	*left -= 2;
	if (i == sizeof(types) / sizeof(types[0]) || !take_number(at, left, ' ', &size) ||
	    !take_number(at, left, ' ', &mode) || !take_number(at, left, ' ', &mtime) ||
	    !(end = memchr(*at, 0, *left)))
		return -1;
	len = (size_t)(end - *at);
	if (buf_puts(b, name->p ? ",{\"name\":" : "{\"name\":") < 0 ||
	    buf_json_string(b, *at, len) < 0 ||
	    buf_printf(b, ",\"type\":\"%s\"", types[i].name) < 0 ||
	    (i == 0 && buf_printf(b, ",\"size_bytes\":%" PRIu64, size) < 0) ||
	    buf_printf(b, ",\"mode\":\"%04o\",\"mtime\":%" PRIu64 "}",
		       (unsigned)mode & 07777, mtime) < 0)
		return -1;
	*name = (struct session_text){*at, len};
	*at += len + 1;
	*left -= len + 1;
	return 0;
}

static int answer_list(const struct result *r, struct buf *b)
{
	struct session_text last = {NULL, 0};
	const char *at = r->out.kept.bytes;
	size_t left = r->out.kept.len;
	uint64_t more;

	if (!take_number(&at, &left, '\n', &more) || r->out.truncated ||
	    buf_puts(b, "{\"entries\":[") < 0)
		return -1;
	while (left)
		if (add_entry(b, &at, &left, &last) < 0)
			return -1;
	if (buf_puts(b, "]") < 0)
		return -1;
	/* a name need not be text, and has to come back as it is */
	if (more && last.p &&
	    (buf_puts(b, ",\"next\":\"") < 0 || buf_base64(b, last.p, last.len) < 0 ||
	     buf_puts(b, "\"") < 0))
		return -1;
	return buf_puts(b, "}");
}

static int answer_delete(const struct session_call *c, struct buf *b)
{
	if (buf_puts(b, "{\"deleted\":true,") < 0 || add_text(b, "path", c->path) < 0)
		return -1;
	return buf_puts(b, "}");
}

static int answer(struct sessions *s, const struct session_call *c,
		  const struct result *r, struct session_answer *a, struct buf *b,
		  struct err *e)
{
	switch (c->tool) {
	case TOOL_OPEN:
		return answer_open(s, c, b, e);
	case TOOL_EXEC:
		return answer_exec(r, b);
	case TOOL_WRITE:
		return answer_write(s, c, r, b);
	case TOOL_READ:
		return answer_read(c, r, a, b);
	case TOOL_LIST:
		return answer_list(r, b);
	case TOOL_DELETE:
		return answer_delete(c, b);
	case TOOL_CLOSE:
		return buf_printf(b, "{\"closed\":true,\"session_id\":\"%s\"}", c->id);
	case TOOL_SCOPE:
		return buf_printf(b, "{\"closed\":%u}", c->closed + 1);
	case TOOL_FORK:
		return answer_fork(s, c, b, e);
	case TOOL_CHECKPOINT:
		return answer_checkpoint(s, c, b, e);
	case TOOL_RESTORE:
		return answer_restore(c, b);
	case TOOL_DIFF:
		return answer_diff(r, b);
	default:
		return -1;
	}
}

/* what the store has to know, whoever waits for it */
static void settle(struct sessions *s, const struct session_call *c, bool failed)
{
	struct session *one = store_of(s, c);

	if (!one)
		return;
	if (c->tool == TOOL_CLOSE || c->tool == TOOL_SCOPE) {
		one->closing = false;
		if (!failed)
			store_remove(s, one);
	} else if (c->tool == TOOL_OPEN && c->created && failed && one->busy == 1) {
		store_remove(s, one); /* it never was, and nobody else has it */
	}
}

static bool changes_nothing(enum session_tool tool)
{
	return tool == TOOL_READ || tool == TOOL_LIST || tool == TOOL_DIFF;
}

int session_over(struct sessions *s, uint64_t who, const struct session_end *end,
		 struct session_answer *a, struct buf *out, struct err *e)
{
	const struct result *r = end->r;
	struct session_call *c = session_call_find(s, who);
	const bool files = c && c->tool >= TOOL_WRITE && c->tool <= TOOL_DELETE;
	bool failed;
	int rc;

	assert(c);
	*a = (struct session_answer){.who = c->who & OWN_WHO ? c->waiter : c->who,
				     .again = changes_nothing(c->tool)};
	if (!r) {
		*e = *end->failed;
		rc = -1;
	} else if (files && (r->outcome.verdict != VERDICT_OK || r->exit_code != 0)) {
		rc = inside_failed(r, e);
	} else {
		e->kind = ERR_NONE;
		take_disk(store_of(s, c), &r->outcome);
		rc = answer(s, c, r, a, out, e);
		if (rc < 0 && e->kind == ERR_NONE)
			(void)err_server(e, 500, "session_fault",
					 "the session said what nobody understands");
	}
	failed = rc < 0;
	if (!failed && c->tool == TOOL_SCOPE)
		rc = session_close_next(s, c, e);
	if (rc > 0)
		a->who = 0; /* who waits is told when all are closed */
	settle(s, c, failed);
	session_call_free(s, c);
	return rc < 0 ? -1 : 0;
}
