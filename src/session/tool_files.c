/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tool_files.c - sandbox_fs_*: what inside.c is to do
 *
 * Runs in: the server.
 */
#include "session/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/request.h"
#include "base/base64.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#define FILES_SEC 60
#define FILE_BYTES (10u << 20)
#define SPARE_KB 64 /* of an answer of inside.c: its head, and the marker of a cut */
#define LIST_KB 8192
#define PATHS_BYTES (1u << 20) /* of all that sandbox_fs_write may have made */
#define WORDS 7

struct files_ask {
	const char *const *words; /* the operation, the path, and up to five more */
	uint64_t answer_kb;
	struct buf *input; /* NULL: none; else taken */
};

static int files_job(struct sessions *s, const struct session_request *q,
		     struct session *one, const struct files_ask *ask, struct err *e)
{
	const char *const *words = ask->words;
	const struct limits wanted = {.wall_ms = FILES_SEC * 1000};
	struct session_call *c = session_call_new(s, q->tool, one, q->who);
	struct run_request r;
	size_t n;

	session_job(s, one, SESSION_EXEC, &wanted, &r);
	r.row = s->files_row;
	r.limits.output_kb = (uint32_t)ask->answer_kb;
	r.args = mem_array(WORDS + 1, sizeof(*r.args));
	for (n = 0; n < WORDS && words[n]; n++)
		r.args[n] = mem_copy(words[n]);
	if (ask->input) {
		r.stdin_text = *ask->input;
		buf_init(ask->input, 0);
	}
	c->path = mem_copy(words[1]);
	c->raw = q->raw;
	c->offset = q->offset;
	session_ids(q, &r);
	return session_submit(s, c, &r, false, e);
}

/* "/work/a.txt"; usual: NULL, or what is meant when nothing is said. 1: it was written as
 * a directory's; 0, or -1 and *e */
static int get_path(const struct session_request *q, const char *usual,
		    char out[SESSION_PATH_MAX + 1], struct err *e)
{
	struct session_path p;
	struct session_text text;

	if (session_arg(q, "path", &q->path, &text, e) < 0)
		return -1;
	if (!text.p && usual)
		text = (struct session_text){usual, strlen(usual)};
	if (!text.p)
		return err_bad(e, "path is required");
	if (session_path_resolve(text.p, text.len, &p, e) < 0)
		return -1;
	if (q->kept && kept_path(p.text, out, SESSION_PATH_MAX + 1, e) < 0)
		return -1;
	if (!q->kept)
		snprintf(out, SESSION_PATH_MAX + 1, "/%s", p.text);
	return p.directory;
}

static int get_file_path(const struct session_request *q, char out[SESSION_PATH_MAX + 1],
			 struct err *e)
{
	const int rc = get_path(q, NULL, out, e);

	return rc <= 0 ? rc
		       : err_client(e, 400, "bad_path",
				    "a path with a slash at its end is a directory's");
}

static int get_content(const struct session_request *q, struct buf *out, struct err *e)
{
	struct session_text text, encoding;
	ssize_t len;

	if (q->bytes.p)
		return request_copy(out, q->bytes.p, q->bytes.len, e);
	if (session_arg(q, "content", NULL, &text, e) < 0 ||
	    session_arg(q, "encoding", NULL, &encoding, e) < 0)
		return -1;
	if (!text.p)
		return err_bad(e, "content is required");
	if (!encoding.p || session_text_is(encoding, "text"))
		return request_copy(out, text.p, text.len, e);
	if (!session_text_is(encoding, "base64"))
		return err_bad(e, "encoding must be text or base64");
	if (request_copy(out, text.p, text.len, e) < 0)
		return -1;
	len = text.len ? base64_decode(text.p, text.len, out->bytes) : 0;
	if (len < 0)
		return err_bad(e, "content is not base64");
	out->len = (size_t)len;
	return 0;
}

/* 0644, as a number or as the digits that people write */
static int get_mode(const struct session_request *q, unsigned *out, struct err *e)
{
	const struct json *v = q->args ? json_member(q->args, "mode") : NULL;
	const char *text = v ? json_text(v, NULL) : NULL;
	const size_t digits = text ? strspn(text, "01234567") : 0;
	double number = -1;

	*out = 0644;
	if (!v || json_is_null(v))
		return 0;
	if (json_is_number(v))
		number = json_double(v);
	else if (digits >= 1 && digits <= 5 && !text[digits])
		number = (double)strtoul(text, NULL, 8);
	if (!(number >= 0 && number <= 0777) || number != (unsigned)number)
		return err_bad(e, "mode must be \"0644\" or its like");
	*out = (unsigned)number;
	return 0;
}

/* what inside.c has from its stdin: the paths, then the file */
static int join(struct buf *paths, struct buf *content, struct err *e)
{
	struct buf both = {0};

	if (paths->len == 0)
		return 0;
	buf_init(&both, paths->len + content->len);
	if (buf_reserve(&both, both.cap_bytes) < 0 ||
	    buf_add(&both, paths->bytes, paths->len) < 0 ||
	    buf_add(&both, content->bytes, content->len) < 0) {
		buf_done(&both);
		return err_errno(e, "keep a file");
	}
	buf_done(content);
	*content = both;
	return 0;
}

struct write_ask {
	char path[SESSION_PATH_MAX + 1];
	unsigned mode;
	bool overwrite;
	struct buf content, paths;
};

static int write_job(struct sessions *s, const struct session_request *q,
		     struct session *one, struct write_ask *w, struct err *e)
{
	char mode[16], size[24], need[24], listed[24];
	const char *const words[WORDS] = {
		"write", w->path, mode, w->overwrite ? "any" : "new", size, need, listed};
	uint64_t missing = 0;

	if (w->content.len > one->max_file_bytes)
		return err_client(e, 413, "file_too_large",
				  "a file may have %llu bytes in this session",
				  (unsigned long long)one->max_file_bytes);
	snprintf(mode, sizeof(mode), "%o", w->mode);
	snprintf(size, sizeof(size), "%zu", w->content.len);
	/* one that is there already may always be written */
	if (!q->uncounted)
		missing = written_need(s, one, w->path, &w->paths);
	snprintf(need, sizeof(need), "%llu", (unsigned long long)missing);
	snprintf(listed, sizeof(listed), "%zu", w->paths.len);
	if (join(&w->paths, &w->content, e) < 0)
		return -1;
	if (files_job(s, q, one,
		      &(struct files_ask){words, SPARE_KB + w->paths.len / 1024,
					  &w->content},
		      e) < 0)
		return -1;
	s->calls->uncounted = q->uncounted;
	return 1;
}

int tool_write(struct sessions *s, const struct session_request *q, struct session *one,
	       struct err *e)
{
	struct write_ask w = {.overwrite = true};
	int rc = -1;

	buf_init(&w.content, 0);
	buf_init(&w.paths, PATHS_BYTES);
	if (get_file_path(q, w.path, e) == 0 && get_mode(q, &w.mode, e) == 0 &&
	    (!q->args || json_get_bool(q->args, "overwrite", &w.overwrite, e) >= 0) &&
	    get_content(q, &w.content, e) == 0)
		rc = write_job(s, q, one, &w, e);
	buf_done(&w.content);
	buf_done(&w.paths);
	return rc;
}

int tool_read(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e)
{
	char path[SESSION_PATH_MAX + 1], offset[24], most[24];
	const char *const words[WORDS] = {"read", path, offset, most};
	struct files_ask ask = {words, SPARE_KB, NULL};
	double wanted = FILE_BYTES;
	struct session_text encoding;

	if (get_file_path(q, path, e) < 0 ||
	    session_arg(q, "encoding", NULL, &encoding, e) < 0 ||
	    (q->args && json_get_number(q->args, "max_bytes", &wanted, e) < 0))
		return -1;
	if (encoding.p && !session_text_is(encoding, "text") &&
	    !session_text_is(encoding, "base64"))
		return err_bad(e, "encoding must be text or base64");
	if (!(wanted >= 0))
		return err_bad(e, "max_bytes must not be negative");
	if (q->most)
		wanted = (double)q->most;
	if (wanted > FILE_BYTES)
		wanted = FILE_BYTES;
	if (wanted != (double)(unsigned)wanted)
		return err_bad(e, "max_bytes must be a whole number");
	snprintf(offset, sizeof(offset), "%s%llu", q->from_end ? "-" : "",
		 (unsigned long long)q->offset);
	snprintf(most, sizeof(most), "%.0f", wanted);
	ask.answer_kb += (uint64_t)wanted / 1024;
	if (files_job(s, q, one, &ask, e) < 0)
		return -1;
	s->calls->want_base64 = session_text_is(encoding, "base64");
	s->calls->from_end = q->from_end;
	return 1;
}

/* where a page begins: behind this name, which need not be text */
static int get_cursor(const struct session_request *q, char **out, struct err *e)
{
	struct session_text cursor;
	ssize_t len = 0;

	if (session_arg(q, "cursor", NULL, &cursor, e) < 0)
		return -1;
	*out = mem_zero(SESSION_PATH_MAX + 4);
	if (cursor.p && cursor.len)
		len = cursor.len > base64_room(SESSION_PATH_MAX)
			      ? -1
			      : base64_decode(cursor.p, cursor.len, *out);
	if (len < 0 || memchr(*out, 0, (size_t)len))
		return err_bad(e, "cursor is not what a listing gave as next");
	return 0;
}

int tool_list(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e)
{
	char path[SESSION_PATH_MAX + 1];
	bool recursive = false;
	auto_free char *behind = NULL;
	const char *words[WORDS] = {"list", path, "one"};

	if (get_path(q, ".", path, e) < 0 || get_cursor(q, &behind, e) < 0 ||
	    (q->args && json_get_bool(q->args, "recursive", &recursive, e) < 0))
		return -1;
	words[3] = behind;
	if (recursive)
		words[2] = "all";
	return files_job(s, q, one, &(struct files_ask){words, LIST_KB, NULL}, e);
}

int tool_delete(struct sessions *s, const struct session_request *q, struct session *one,
		struct err *e)
{
	char path[SESSION_PATH_MAX + 1];
	const char *words[WORDS] = {"delete", path, "one", "any"};
	bool recursive = false;
	const int rc = get_path(q, NULL, path, e);

	if (rc < 0 || (q->args && json_get_bool(q->args, "recursive", &recursive, e) < 0))
		return -1;
	if (recursive)
		words[2] = "all";
	if (rc > 0)
		words[3] = "directory";
	return files_job(s, q, one, &(struct files_ask){words, SPARE_KB, NULL}, e);
}
