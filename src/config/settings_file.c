/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings_file.c - a file of settings, one SANDBOX_NAME=value a line
 *
 * A machine of states, byte by byte, as systemd has it: what it makes of a value must not
 * differ by who read it.
 */
#include "config/settings_file.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"

enum state {
	LINE_START, /* blanks before a name or a comment */
	COMMENT,
	KEY,
	BEFORE_VALUE, /* blanks after "=", and after a closing quote */
	VALUE,
	VALUE_ESCAPE,
	SINGLE,
	DOUBLE,
	DOUBLE_ESCAPE,
};

struct reader {
	const char *name;
	settings_file_fn *fn;
	void *arg;
	struct err *e;
	enum state state;
	unsigned line, key_line;
	char before; /* the byte before this one */
	struct buf key, value;
	size_t value_end; /* of the value without the blanks at its end */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static int wrong(struct reader *r, unsigned line, const char *what)
{
	return err_bad(r->e, "%s:%u: %s", r->name, line, what);
}

static int put(struct reader *r, struct buf *b, char c)
{
	return buf_add(b, &c, 1) == 0 ? 0 : err_errno(r->e, "read '%s'", r->name);
}

/* blanks that are quoted or escaped stay */
static int put_value(struct reader *r, char c, bool trim)
{
	if (put(r, &r->value, c) < 0)
		return -1;
	if (!trim)
		r->value_end = r->value.len;
	return 0;
}

static int assign(struct reader *r)
{
	while (r->key.len && is_blank(r->key.bytes[r->key.len - 1]))
		r->key.len--;
	r->value.len = r->value_end;
	if (r->key.len == 0)
		return wrong(r, r->key_line, "there is no name before '='");
	if (buf_text(&r->key) < 0 || buf_text(&r->value) < 0)
		return err_errno(r->e, "read '%s'", r->name);
	r->state = LINE_START;
	if (r->fn(r->arg, r->key_line, r->key.bytes, r->value.bytes, r->e) < 0)
		return -1;
	r->key.len = r->value.len = r->value_end = 0;
	return 0;
}

static int at_line_start(struct reader *r, char c)
{
	if (c == '\n' || is_blank(c))
		return 0;
	r->key_line = r->line;
	r->state = c == '#' || c == ';' ? COMMENT : KEY;
	if (c == '=')
		return wrong(r, r->line, "there is no name before '='");
	return r->state == KEY ? put(r, &r->key, c) : 0;
}

static int in_comment(struct reader *r, char c)
{
	if (c != '\n')
		return 0;
	r->state = LINE_START;
	/* to systemd the next line is a comment too, or is not: versions differ */
	return r->before == '\\' ? wrong(r, r->line, "a comment ends in a backslash") : 0;
}

static int in_key(struct reader *r, char c)
{
	if (c == '\n')
		return wrong(r, r->key_line, "is not NAME=value");
	if (c == '=')
		r->state = BEFORE_VALUE;
	return c == '=' ? 0 : put(r, &r->key, c);
}

static int before_value(struct reader *r, char c)
{
	if (c == '\n')
		return assign(r);
	if (is_blank(c))
		return 0;
	if (c == '\'' || c == '"' || c == '\\') {
		r->state = c == '\'' ? SINGLE : c == '"' ? DOUBLE : VALUE_ESCAPE;
		return 0;
	}
	r->state = VALUE;
	return put_value(r, c, false);
}

static int in_value(struct reader *r, char c)
{
	if (c == '\n')
		return assign(r);
	if (c == '\\') {
		r->state = VALUE_ESCAPE;
		r->value_end = r->value.len;
		return 0;
	}
	return put_value(r, c, is_blank(c));
}

static int in_value_escape(struct reader *r, char c)
{
	r->state = VALUE;
	return c == '\n' ? 0 : put_value(r, c, false);
}

static int in_single(struct reader *r, char c)
{
	if (c == '\'')
		r->state = BEFORE_VALUE;
	return c == '\'' ? 0 : put_value(r, c, false);
}

static int in_double(struct reader *r, char c)
{
	if (c == '"' || c == '\\') {
		r->state = c == '"' ? BEFORE_VALUE : DOUBLE_ESCAPE;
		return 0;
	}
	return put_value(r, c, false);
}

static int in_double_escape(struct reader *r, char c)
{
	r->state = DOUBLE;
	if (c == '\n')
		return 0;
	if (!strchr("\"\\`$", c) && put_value(r, '\\', false) < 0)
		return -1;
	return put_value(r, c, false);
}

static int (*const steps[])(struct reader *r, char c) = {
	[LINE_START] = at_line_start,
	[COMMENT] = in_comment,
	[KEY] = in_key,
	[BEFORE_VALUE] = before_value,
	[VALUE] = in_value,
	[VALUE_ESCAPE] = in_value_escape,
	[SINGLE] = in_single,
	[DOUBLE] = in_double,
	[DOUBLE_ESCAPE] = in_double_escape,
};

static int step(struct reader *r, char c)
{
	if (((unsigned char)c < ' ' && !is_blank(c) && c != '\n') || c == 0x7f)
		return wrong(r, r->line, "has a control character");
	if (c == '\n' && (r->state == SINGLE || r->state == DOUBLE))
		return wrong(r, r->line, "a quote is not closed before the line ends");
	if (steps[r->state](r, c) < 0)
		return -1;
	r->line += c == '\n';
	r->before = c;
	return 0;
}

/* the last line's end, where it has none */
static int finish(struct reader *r)
{
	while (r->state != LINE_START)
		if (step(r, '\n') < 0)
			return -1;
	return 0;
}

static int read_all(struct reader *r, const char *text, size_t len)
{
	for (size_t at = 0, n; at < len; at += n) {
		n = utf8_char(text + at, len - at);
		if (n == 0)
			return wrong(r, r->line, "is not UTF-8");
		for (size_t i = 0; i < n; i++)
			if (step(r, text[at + i]) < 0)
				return -1;
	}
	return finish(r);
}

int settings_file_parse(const char *name, const char *text, size_t len,
			settings_file_fn *fn, void *arg, struct err *e)
{
	struct reader r = {.name = name, .fn = fn, .arg = arg, .e = e, .line = 1};
	int rc;

	/* a value is never longer than its text; a name at the end has no line's end */
	buf_init(&r.key, len + 1);
	buf_init(&r.value, len + 1);
	rc = read_all(&r, text, len);
	buf_done(&r.key);
	buf_done(&r.value);
	return rc;
}
