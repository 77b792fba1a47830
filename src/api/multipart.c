/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * multipart.c - a file in a form, as RFC 7578 has it
 *
 * One pass over the body, by the boundary that its Content-Type names. Nothing of it is
 * copied but the file's name.
 */
#include "api/multipart.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

enum { BOUNDARY_MOST = 70 };

static int bad(struct err *e, const char *what)
{
	return err_client(e, 400, "bad_form", "the form %s", what);
}

static bool is_word(struct multipart_text t, const char *word)
{
	return t.len == strlen(word) && strncasecmp(t.p, word, t.len) == 0;
}

static void trim(struct multipart_text *t)
{
	while (t->len && (t->p[0] == ' ' || t->p[0] == '\t'))
		t->p++, t->len--;
	while (t->len && (t->p[t->len - 1] == ' ' || t->p[t->len - 1] == '\t'))
		t->len--;
}

/* up to a mark outside of quotes; the rest begins behind it */
static struct multipart_text until(struct multipart_text *rest, char mark)
{
	struct multipart_text first = {rest->p, 0};
	bool quoted = false;

	while (first.len < rest->len && (quoted || first.p[first.len] != mark)) {
		if (first.p[first.len] == '"' &&
		    !(quoted && first.p[first.len - 1] == '\\'))
			quoted = !quoted;
		first.len++;
	}
	rest->p += first.len;
	rest->len -= first.len;
	if (rest->len)
		rest->p++, rest->len--;
	trim(&first);
	return first;
}

/* NAME=VALUE among those behind the first semicolon; its quotes stay */
static bool parameter(struct multipart_text header, const char *name,
		      struct multipart_text *out)
{
	(void)until(&header, ';');
	while (header.len) {
		struct multipart_text value = until(&header, ';');
		struct multipart_text key = until(&value, '=');

		if (!is_word(key, name))
			continue;
		trim(&value);
		*out = value;
		return true;
	}
	return false;
}

static bool is_quoted(struct multipart_text t)
{
	return t.len >= 2 && t.p[0] == '"' && t.p[t.len - 1] == '"';
}

/* what browsers and requests write instead of what would end a name */
static const struct {
	const char *code;
	char is;
} codes[] = {{"%22", '"'}, {"%0D", '\r'}, {"%0A", '\n'}, {"\\\"", '"'}};

static int take_name(struct multipart_text t, struct multipart_file *out, struct err *e)
{
	size_t n = 0;

	if (is_quoted(t))
		t.p++, t.len -= 2;
	if (t.len == 0 || t.len > sizeof(out->name))
		return bad(e, "has a file without a name, or with one that is too long");
	for (size_t i = 0; i < t.len; i++) {
		char c = t.p[i];

		for (size_t k = 0; k < sizeof(codes) / sizeof(codes[0]); k++) {
			size_t len = strlen(codes[k].code);

			if (t.len - i >= len &&
			    strncasecmp(t.p + i, codes[k].code, len) == 0) {
				c = codes[k].is;
				i += len - 1;
				break;
			}
		}
		out->name[n++] = c;
	}
	out->name_len = n;
	return 0;
}

/* 1: it is the part; 0: another one; -1 and *e */
static int read_headers(struct multipart_text head, const char *part,
			struct multipart_file *out, struct err *e)
{
	while (head.len) {
		const char *end = memmem(head.p, head.len, "\r\n", 2);
		size_t n = end ? (size_t)(end - head.p) : head.len;
		struct multipart_text line = {head.p, n}, name, value = {0};

		head.p += end ? n + 2 : n;
		head.len -= end ? n + 2 : n;
		name = until(&line, ':');
		if (!is_word(name, "Content-Disposition") ||
		    !parameter(line, "name", &value))
			continue;
		if (is_quoted(value))
			value.p++, value.len -= 2;
		if (value.len != strlen(part) || memcmp(value.p, part, value.len) != 0)
			return 0;
		if (!parameter(line, "filename", &value))
			return bad(e, "has no file where one is wanted");
		return take_name(value, out, e) < 0 ? -1 : 1;
	}
	return 0;
}

/* CRLF and "--BOUNDARY" into out; its length, or -1 and *e */
static int delimiter(struct multipart_text type, char out[BOUNDARY_MOST + 4],
		     struct err *e)
{
	struct multipart_text rest = type, kind = until(&rest, ';'), value;

	if (!type.p || !is_word(kind, "multipart/form-data"))
		return err_client(e, 415, "unsupported_media_type",
				  "the body must be multipart/form-data");
	if (!parameter(type, "boundary", &value))
		return bad(e, "names no boundary");
	if (is_quoted(value))
		value.p++, value.len -= 2;
	if (value.len == 0 || value.len > BOUNDARY_MOST)
		return bad(e, "has a boundary of no length, or of more than 70");
	memcpy(out, "\r\n--", 4);
	memcpy(out + 4, value.p, value.len);
	return (int)value.len + 4;
}

/* behind these bytes, if they are there */
static bool skip_past(struct multipart_text *rest, struct multipart_text line)
{
	const char *at = rest->len ? memmem(rest->p, rest->len, line.p, line.len) : NULL;

	if (!at)
		return false;
	at += line.len;
	rest->len -= (size_t)(at - rest->p);
	rest->p = at;
	return true;
}

/* parts: what follows the first delimiter */
static int find_part(struct multipart_text rest, struct multipart_text line,
		     const char *part, struct multipart_file *out, struct err *e)
{
	static const struct multipart_text crlf = {"\r\n", 2}, blank = {"\r\n\r\n", 4};

	while (rest.len >= 2 && memcmp(rest.p, "--", 2) != 0) {
		struct multipart_text head, body;
		int found;

		head = body = rest;
		if (!skip_past(&body, blank))
			break;
		rest = body;
		if (!skip_past(&rest, line) || !skip_past(&head, crlf))
			break;
		body.len = (size_t)(rest.p - body.p) - line.len;
		/* without any header the blank line is all there is of it */
		head.len = head.p < body.p - 4 ? (size_t)(body.p - 4 - head.p) : 0;
		found = read_headers(head, part, out, e);
		if (found < 0)
			return -1;
		out->bytes = body.p;
		out->len = body.len;
		if (found)
			return 0;
	}
	return err_client(e, 400, "bad_form", "the form has no whole part \"%s\"", part);
}

int multipart_find(struct multipart_text type, struct multipart_text body,
		   const char *part, struct multipart_file *out, struct err *e)
{
	char text[BOUNDARY_MOST + 4];
	struct multipart_text line = {text, 0};
	const int len = delimiter(type, text, e);

	if (len < 0)
		return -1;
	line.len = (size_t)len;
	if (body.len >= line.len - 2 && memcmp(body.p, text + 2, line.len - 2) == 0)
		body.p += line.len - 2, body.len -= line.len - 2;
	else if (!skip_past(&body, line))
		return bad(e, "does not have its boundary");
	return find_part(body, line, part, out, e);
}
