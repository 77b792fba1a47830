/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * json_check.c - RFC 8259 and nothing more, in one linear pass
 *
 * It stops at the first thing that is wrong or too much, so what a text costs is bounded
 * by the limits and by its length once. No recursion: a bit for each open bracket.
 */
#include "base/json_check.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

enum {
	DEPTH_MOST = 1024, /* whatever the limits say: parson recurses */
	NUMBER_MOST = 300, /* characters; without an exponent that is always finite */
};

enum state { VALUE, FIRST_VALUE, KEY, FIRST_KEY, COLON, AFTER };

struct check {
	char *p, *end;
	const struct json_limits *limits;
	unsigned depth, members, values;
	enum state state;
	const char *why;
	uint64_t objects[DEPTH_MOST / 64]; /* bit n: level n is an object, not an array */
};

static bool wrong(struct check *c, const char *why)
{
	c->why = why;
	return false;
}

static bool in_object(const struct check *c)
{
	unsigned level = c->depth - 1;

	return c->objects[level / 64] >> level % 64 & 1;
}

static bool count(struct check *c, bool member)
{
	if (member && ++c->members > c->limits->members)
		return wrong(c, "too many members");
	if (++c->values > c->limits->values)
		return wrong(c, "too many values");
	return true;
}

static bool open_bracket(struct check *c)
{
	uint64_t bit = UINT64_C(1) << c->depth % 64;

	if (c->depth >= c->limits->depth || c->depth >= DEPTH_MOST)
		return wrong(c, "nested too deeply");
	if (*c->p == '{')
		c->objects[c->depth / 64] |= bit;
	else
		c->objects[c->depth / 64] &= ~bit;
	c->state = *c->p == '{' ? FIRST_KEY : FIRST_VALUE;
	c->depth++;
	c->p++;
	return true;
}

static bool close_bracket(struct check *c)
{
	if (*c->p != (in_object(c) ? '}' : ']'))
		return wrong(c, "brackets do not match");
	c->depth--;
	c->p++;
	c->state = AFTER;
	return true;
}

/* four hex digits at p; -1 when they are not there */
static int hex4(const struct check *c, const char *p)
{
	int n = 0;

	if (c->end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		const char *digit = memchr("0123456789abcdefABCDEF", p[i], 22);

		if (!digit)
			return -1;
		n = n * 16 + (p[i] <= '9' ? p[i] - '0' : (p[i] | 0x20) - 'a' + 10);
	}
	return n;
}

/* at "\u"; a surrogate only as the first of a pair with the second behind it */
static bool unicode_escape(struct check *c, bool key)
{
	int n = hex4(c, c->p + 2), low;

	if (n < 0)
		return wrong(c, "malformed escape");
	if (n == 0 && key)
		return wrong(c, "NUL in a member name");
	c->p += 6;
	if (n < 0xd800 || n > 0xdfff)
		return true;
	if (n > 0xdbff || c->end - c->p < 6 || c->p[0] != '\\' || c->p[1] != 'u')
		return wrong(c, "lone surrogate");
	low = hex4(c, c->p + 2);
	if (low < 0xdc00 || low > 0xdfff)
		return wrong(c, "lone surrogate");
	c->p += 6;
	return true;
}

static bool escape(struct check *c, bool key)
{
	if (c->end - c->p < 2)
		return wrong(c, "string without an end");
	if (c->p[1] == 'u')
		return unicode_escape(c, key);
	if (!memchr("\"\\/bfnrt", c->p[1], 8))
		return wrong(c, "malformed escape");
	c->p += 2;
	return true;
}

/* at the quote */
static bool string(struct check *c, bool key)
{
	c->p++;
	for (;;) {
		c->p += utf8_plain(c->p, (size_t)(c->end - c->p));
		if (c->p == c->end)
			return wrong(c, "string without an end");
		if (*c->p == '"')
			break;
		if (*c->p == '\\') {
			if (!escape(c, key))
				return false;
			continue;
		}
		if ((unsigned char)*c->p < 0x20)
			return wrong(c, "control character in a string");
		return wrong(c, "invalid UTF-8");
	}
	c->p++;
	return true;
}

static bool is_digit(const struct check *c)
{
	return c->p < c->end && *c->p >= '0' && *c->p <= '9';
}

static bool digits(struct check *c)
{
	if (!is_digit(c))
		return wrong(c, "malformed number");
	while (is_digit(c))
		c->p++;
	return true;
}

/* a number with an exponent, from `start` to p */
static bool in_range(struct check *c, char *start, char *exponent)
{
	char text[NUMBER_MOST + 1];
	size_t len = (size_t)(c->p - start);

	memcpy(text, start, len);
	text[len] = 0;
	if (!isfinite(strtod(text, NULL)))
		return wrong(c, "number out of range");
	if (exponent[-1] == '0' && (exponent - 1 == start || exponent[-2] == '-'))
		memset(exponent, ' ', (size_t)(c->p - exponent));
	return true;
}

static bool number(struct check *c)
{
	char *start = c->p, *exponent = NULL;

	if (*c->p == '-')
		c->p++;
	if (c->p < c->end && *c->p == '0')
		c->p++;
	else if (!digits(c))
		return false;
	if (c->p < c->end && *c->p == '.') {
		c->p++;
		if (!digits(c))
			return false;
	}
	if (c->p < c->end && (*c->p == 'e' || *c->p == 'E')) {
		exponent = c->p++;
		if (c->p < c->end && (*c->p == '+' || *c->p == '-'))
			c->p++;
		if (!digits(c))
			return false;
	}
	if (is_digit(c) || (c->p < c->end && *c->p == '.')) /* 01, 1.2.3 */
		return wrong(c, "malformed number");
	if (c->p - start > NUMBER_MOST)
		return wrong(c, "number too long");
	return !exponent || in_range(c, start, exponent);
}

static bool word(struct check *c)
{
	static const char *const words[] = {"true", "false", "null"};
	size_t left = (size_t)(c->end - c->p);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t len = strlen(words[i]);

		if (left >= len && memcmp(c->p, words[i], len) == 0) {
			c->p += len;
			return true;
		}
	}
	if (!utf8_char(c->p, left))
		return wrong(c, "invalid UTF-8");
	return wrong(c, "a value was expected");
}

static bool value(struct check *c)
{
	if (c->depth && !in_object(c) && !count(c, false))
		return false;
	if (*c->p == '{' || *c->p == '[')
		return open_bracket(c);
	c->state = AFTER;
	if (*c->p == '"')
		return string(c, false);
	if (*c->p == '-' || is_digit(c))
		return number(c);
	return word(c);
}

static bool key(struct check *c)
{
	if (*c->p != '"')
		return wrong(c, "a member name was expected");
	c->state = COLON;
	return count(c, true) && string(c, true);
}

static bool after(struct check *c)
{
	if (c->depth == 0)
		return wrong(c, "data after the value");
	if (*c->p == '}' || *c->p == ']')
		return close_bracket(c);
	if (*c->p != ',')
		return wrong(c, "a comma or a closing bracket was expected");
	c->state = in_object(c) ? KEY : VALUE;
	c->p++;
	return true;
}

/* the next token; p is at its first character */
static bool step(struct check *c)
{
	switch (c->state) {
	case FIRST_VALUE:
		return *c->p == ']' ? close_bracket(c) : value(c);
	case VALUE:
		return value(c);
	case FIRST_KEY:
		return *c->p == '}' ? close_bracket(c) : key(c);
	case KEY:
		return key(c);
	case COLON:
		if (*c->p != ':')
			return wrong(c, "a colon was expected");
		c->state = VALUE;
		c->p++;
		return true;
	case AFTER:
		break;
	}
	return after(c);
}

const char *json_check(char *text, size_t len, const struct json_limits *limits)
{
	struct check c = {.p = text, .end = text + len, .limits = limits, .state = VALUE};

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		return "byte order mark";
	for (;;) {
		while (c.p < c.end && memchr(" \t\n\r", *c.p, 4))
			c.p++;
		if (c.p == c.end)
			break;
		if (!step(&c))
			return c.why;
	}
	if (c.state == AFTER && c.depth == 0)
		return NULL;
	return c.state == VALUE && c.depth == 0 ? "empty text"
						: "the text ends too early";
}
