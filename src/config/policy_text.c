/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * policy_text.c - the JSON of a policy file, token by token, each with its line
 */
#include "config/policy_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void policy_text_init(struct policy_text *t, const char *file, const char *text,
		      size_t len, struct err *e)
{
	t->file = file;
	t->at = text;
	t->end = text + len;
	t->line = 1;
	t->token_line = 1;
	t->e = e;
}

int policy_text_fail(struct policy_text *t, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_bad(t->e, "%s:%u: %s", t->file, t->token_line, what);
}

/* the next byte that is not white space, -1 at the end; it is not consumed */
static int peek(struct policy_text *t)
{
	for (; t->at < t->end; t->at++) {
		if (*t->at == '\n')
			t->line++;
		else if (*t->at != ' ' && *t->at != '\t' && *t->at != '\r')
			break;
	}
	t->token_line = t->line;
	return t->at < t->end ? (unsigned char)*t->at : -1;
}

static int unexpected(struct policy_text *t, const char *wanted)
{
	int c = peek(t);

	if (c < 0)
		return policy_text_fail(t, "expected %s, not the end of the file",
					wanted);
	if (c < 0x20 || c > 0x7e)
		return policy_text_fail(t, "expected %s, not byte 0x%02x", wanted,
					(unsigned)c);
	return policy_text_fail(t, "expected %s, not '%c'", wanted, c);
}

int policy_text_expect(struct policy_text *t, char c)
{
	char wanted[] = {'\'', c, '\'', 0};

	if (peek(t) != (unsigned char)c)
		return unexpected(t, wanted);
	t->at++;
	return 0;
}

int policy_text_next(struct policy_text *t, char close, bool *first)
{
	char wanted[] = {'\'', ',', '\'', ' ', 'o', 'r', ' ', '\'', close, '\'', 0};
	bool was_first = *first;
	int c = peek(t);

	*first = false;
	if (c == (unsigned char)close) {
		t->at++;
		return 0;
	}
	if (was_first)
		return 1;
	if (c != ',')
		return unexpected(t, wanted);
	t->at++;
	if (peek(t) == (unsigned char)close)
		return policy_text_fail(t, "a comma before '%c'", close);
	return 1;
}

/* the byte that a backslash and `c` stand for, -1 when this reader has no use for it */
static int unescape(int c)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *p = c ? strchr(from, c) : NULL;

	return p ? to[p - from] : -1;
}

int policy_text_string(struct policy_text *t, char *out, size_t room)
{
	size_t len = 0;
	int c;

	if (peek(t) != '"')
		return unexpected(t, "a string");
	for (t->at++; t->at < t->end && *t->at != '"'; t->at++) {
		c = (unsigned char)*t->at;
		if (c < 0x20)
			return policy_text_fail(t, "a control character in a string");
		if (c == '\\') {
			t->at++;
			c = t->at < t->end ? unescape((unsigned char)*t->at) : -1;
			if (c < 0)
				return policy_text_fail(
					t, "an escape that is not supported");
		}
		if (len + 1 >= room)
			return policy_text_fail(t, "a string of more than %zu bytes",
						room - 1);
		out[len++] = (char)c;
	}
	if (t->at >= t->end)
		return policy_text_fail(t, "a string without an end");
	t->at++;
	out[len] = 0;
	return 0;
}

int policy_text_u64(struct policy_text *t, uint64_t most, uint64_t *out_n)
{
	uint64_t n = 0;
	unsigned digit;
	int c = peek(t);

	if (c < '0' || c > '9')
		return unexpected(t, "a number from 0");
	if (c == '0' && t->at + 1 < t->end && t->at[1] >= '0' && t->at[1] <= '9')
		return policy_text_fail(t, "a number that begins with 0");
	for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
		digit = (unsigned)(*t->at - '0');
		if (n > (most - digit) / 10 || digit > most)
			return policy_text_fail(t, "a number above %" PRIu64, most);
		n = n * 10 + digit;
	}
	if (t->at < t->end && strchr(".eE", *t->at) && *t->at)
		return policy_text_fail(t, "a number that is not whole");
	*out_n = n;
	return 0;
}

int policy_text_end(struct policy_text *t)
{
	return peek(t) < 0 ? 0 : unexpected(t, "the end of the file");
}
