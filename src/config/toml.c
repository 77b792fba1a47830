/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * toml.c - the part of TOML that settings of uv are written in
 *
 * What is not of that part is an error and not passed over: an index that was misread is
 * one that strangers can fill.
 */
#include "config/toml.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define NAME_MOST 256
#define VALUE_MOST 4096
#define DEPTH_MOST 16

struct cursor {
	const char *at;
	unsigned line;
	unsigned depth; /* of arrays and inline tables */
	toml_take *take;
	void *self;
	struct err *e;
};

static int wrong(const struct cursor *c, const char *what)
{
	return err_bad(c->e, "line %u: %s", c->line, what);
}

static void skip_blanks(struct cursor *c)
{
	c->at += strspn(c->at, " \t");
}

/* blanks, comments and ends of lines, which may stand between elements of an array */
static void skip_lines(struct cursor *c)
{
	for (skip_blanks(c); *c->at && strchr("#\r\n", *c->at); skip_blanks(c)) {
		if (*c->at == '#')
			c->at += strcspn(c->at, "\n");
		else if (*c->at++ == '\n')
			c->line++;
	}
}

static bool eat(struct cursor *c, char what)
{
	skip_blanks(c);
	if (*c->at != what)
		return false;
	c->at++;
	return true;
}

static int end_line(struct cursor *c)
{
	skip_blanks(c);
	if (*c->at && !strchr("#\r\n", *c->at))
		return wrong(c, "more than one value");
	skip_lines(c);
	return 0;
}

/* "..." or '...'; of escapes those of one character */
static int read_string(struct cursor *c, char *out, size_t room)
{
	static const char escapes[] = "btnfr\"\\", means[] = "\b\t\n\f\r\"\\";
	const char quote = *c->at++;
	size_t len = 0;

	if (c->at[0] == quote && c->at[1] == quote)
		return wrong(c, "a string of several lines");
	for (; *c->at != quote; c->at++) {
		char byte = *c->at;

		if (!byte || byte == '\n')
			return wrong(c, "a string without an end");
		if (byte == '\\' && quote == '"') {
			const char *which = c->at[1] ? strchr(escapes, c->at[1]) : NULL;

			if (!which)
				return wrong(c, "an escape that is not known");
			byte = means[which - escapes];
			c->at++;
		}
		if (len + 1 >= room)
			return wrong(c, "too long");
		out[len++] = byte;
	}
	out[len] = '\0';
	c->at++;
	return 0;
}

static int read_word(struct cursor *c, const char *of, char *out, size_t room)
{
	const size_t len = strspn(c->at, of);

	if (len == 0)
		return wrong(c, "something else than a name or a value");
	if (len >= room)
		return wrong(c, "too long");
	memcpy(out, c->at, len);
	out[len] = '\0';
	c->at += len;
	return 0;
}

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

static int read_part(struct cursor *c, char *out, size_t room)
{
	skip_blanks(c);
	if (*c->at == '"' || *c->at == '\'')
		return read_string(c, out, room);
	return read_word(c, LETTERS, out, room);
}

/* a key of `table`, perhaps a dotted one, as a whole name */
static int read_name(struct cursor *c, const char *table, char out[NAME_MOST])
{
	char part[NAME_MOST];
	size_t len = strlen(table);

	memcpy(out, table, len + 1);
	do {
		if (read_part(c, part, sizeof(part)) < 0)
			return -1;
		if (len + strlen(part) + 2 > NAME_MOST)
			return wrong(c, "a name that is too long");
		len += (size_t)snprintf(out + len, NAME_MOST - len, "%s%s",
					len ? "." : "", part);
	} while (eat(c, '.'));
	return 0;
}

static int read_value(struct cursor *c, const char *name);

static int read_pair(struct cursor *c, const char *table)
{
	char name[NAME_MOST];

	if (read_name(c, table, name) < 0)
		return -1;
	if (!eat(c, '='))
		return wrong(c, "a name without a value");
	return read_value(c, name);
}

static int read_inline(struct cursor *c, const char *name)
{
	c->take(c->self, name, NULL);
	if (eat(c, '}'))
		return 0;
	do {
		if (read_pair(c, name) < 0)
			return -1;
	} while (eat(c, ','));
	return eat(c, '}') ? 0 : wrong(c, "a table without an end");
}

static int read_array(struct cursor *c, const char *name)
{
	do {
		skip_lines(c);
		if (*c->at == ']')
			break;
		if (read_value(c, name) < 0)
			return -1;
		skip_lines(c);
	} while (eat(c, ','));
	return eat(c, ']') ? 0 : wrong(c, "an array without an end");
}

static int read_nested(struct cursor *c, const char *name,
		       int (*read)(struct cursor *, const char *))
{
	int rc;

	if (++c->depth > DEPTH_MOST)
		return wrong(c, "too deep");
	c->at++;
	rc = read(c, name);
	c->depth--;
	return rc;
}

static int read_value(struct cursor *c, const char *name)
{
	char value[VALUE_MOST];

	skip_blanks(c);
	if (*c->at == '[')
		return read_nested(c, name, read_array);
	if (*c->at == '{')
		return read_nested(c, name, read_inline);
	if (*c->at == '"' || *c->at == '\'') {
		if (read_string(c, value, sizeof(value)) < 0)
			return -1;
	} else if (read_word(c, LETTERS "+.:", value, sizeof(value)) < 0) {
		return -1;
	}
	c->take(c->self, name, value);
	return 0;
}

/* "[name]" or "[[name]]", which both begin a table */
static int read_header(struct cursor *c, char table[NAME_MOST])
{
	bool twice;

	c->at++;
	twice = *c->at == '[';
	c->at += twice;
	if (read_name(c, "", table) < 0)
		return -1;
	if (!eat(c, ']') || (twice && *c->at++ != ']'))
		return wrong(c, "a table's name without an end");
	c->take(c->self, table, NULL);
	return 0;
}

int toml_read(const char *text, toml_take *take, void *self, struct err *e)
{
	struct cursor c = {.at = text, .line = 1, .take = take, .self = self, .e = e};
	char table[NAME_MOST] = "";

	if (strncmp(c.at, "\xef\xbb\xbf", 3) == 0) /* as editors elsewhere begin a text */
		c.at += 3;
	skip_lines(&c);
	while (*c.at) {
		const bool header = *c.at == '[';

		if ((header ? read_header(&c, table) : read_pair(&c, table)) < 0 ||
		    end_line(&c) < 0)
			return -1;
	}
	return 0;
}
