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

struct files_ask {
	const char *const *words; /* the operation, the path, and up to three more */
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
	r.args = mem_array(6, sizeof(*r.args));
	for (n = 0; n < 5 && words[n]; n++)
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

/* "/work/a.txt"; usual: NULL, or what is meant when nothing is said */
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
	snprintf(out, SESSION_PATH_MAX + 1, "/%s", p.text);
	return 0;
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

int tool_write(struct sessions *s, const struct session_request *q, struct session *one,
	       struct err *e)
{
	char path[SESSION_PATH_MAX + 1], digits[16], how[16], size[24];
	const char *const words[5] = {"write", path, digits, how, size};
	bool overwrite = true;
	struct buf content;
	unsigned mode;
	int rc = -1;

	buf_init(&content, 0);
	if (get_path(q, NULL, path, e) < 0 || get_mode(q, &mode, e) < 0 ||
	    (q->args && json_get_bool(q->args, "overwrite", &overwrite, e) < 0) ||
	    get_content(q, &content, e) < 0) {
		buf_done(&content);
		return -1;
	}
	snprintf(digits, sizeof(digits), "%o", mode);
	/* one that is there already may always be written */
	snprintf(how, sizeof(how), "%s",
		 one->written >= one->max_files ? "existing"
		 : overwrite                    ? "any"
						: "new");
	snprintf(size, sizeof(size), "%zu", content.len);
	if (content.len > one->max_file_bytes)
		(void)err_client(e, 413, "file_too_large",
				 "a file may have %llu bytes in this session",
				 (unsigned long long)one->max_file_bytes);
	else if (one->written >= one->max_files && !overwrite)
		(void)err_client(e, 409, "too_many_files",
				 "this session has its %llu files already",
				 (unsigned long long)one->max_files);
	else
		rc = files_job(s, q, one, &(struct files_ask){words, SPARE_KB, &content},
			       e);
	buf_done(&content);
	return rc;
}

int tool_read(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e)
{
	char path[SESSION_PATH_MAX + 1], offset[24], most[24];
	const char *const words[5] = {"read", path, offset, most, NULL};
	struct files_ask ask = {words, SPARE_KB, NULL};
	double wanted = FILE_BYTES;
	struct session_text encoding;

	if (get_path(q, NULL, path, e) < 0 ||
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
	snprintf(offset, sizeof(offset), "%llu", (unsigned long long)q->offset);
	snprintf(most, sizeof(most), "%.0f", wanted);
	ask.answer_kb += (uint64_t)wanted / 1024;
	if (files_job(s, q, one, &ask, e) < 0)
		return -1;
	s->calls->want_base64 = session_text_is(encoding, "base64");
	return 1;
}

int tool_list(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e)
{
	char path[SESSION_PATH_MAX + 1];
	struct session_text cursor;
	bool recursive = false;
	auto_free char *behind = NULL;
	const char *words[5] = {"list", path, "one", NULL, NULL};

	if (get_path(q, ".", path, e) < 0 ||
	    session_arg(q, "cursor", NULL, &cursor, e) < 0 ||
	    (q->args && json_get_bool(q->args, "recursive", &recursive, e) < 0))
		return -1;
	if (cursor.p &&
	    (cursor.len > SESSION_PATH_MAX || memchr(cursor.p, 0, cursor.len)))
		return err_bad(e, "cursor is not what a listing gave as next");
	behind = mem_copy_n(cursor.p ? cursor.p : "", cursor.len);
	words[3] = behind;
	if (recursive)
		words[2] = "all";
	return files_job(s, q, one, &(struct files_ask){words, LIST_KB, NULL}, e);
}

int tool_delete(struct sessions *s, const struct session_request *q, struct session *one,
		struct err *e)
{
	char path[SESSION_PATH_MAX + 1];
	const char *words[5] = {"delete", path, "one", NULL, NULL};
	bool recursive = false;

	if (get_path(q, NULL, path, e) < 0 ||
	    (q->args && json_get_bool(q->args, "recursive", &recursive, e) < 0))
		return -1;
	if (recursive)
		words[2] = "all";
	return files_job(s, q, one, &(struct files_ask){words, SPARE_KB, NULL}, e);
}
