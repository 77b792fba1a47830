/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * requirement_npm.c - one element of `requirements` for node
 *
 *	name  @scope/name  name@1.2.3  name@^1.2 || >=3 <4  name@1.0 - 2.0  name@beta
 *
 * npm takes far more behind the second @: addresses, repositories, aliases, paths, and
 * whatever ends like an archive is a file. None of that is a version, a range or a tag.
 */
#include "api/requirement.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

#define NAME_MOST 214 /* npm's own bound, scope and all */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* not strchr alone: that finds a NUL too */
static bool is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

static bool in_name(char c)
{
	return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-' ||
	       c == '~';
}

/* how long the name at this place is; 0: there is none. A first "-" would be an option,
 * a first "." a path. */
static size_t name_len(const char *at, const char *end)
{
	const char *from = at;

	if (at == end || (!is_letter(*at) && !is_digit(*at)))
		return 0;
	while (at < end && in_name(*at))
		at++;
	return (size_t)(at - from);
}

/* npm takes such a word for a file */
static bool is_archive(const char *text, size_t len)
{
	static const char *const ends[] = {".tgz", ".tar", ".tar.gz"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const size_t n = strlen(ends[i]);

		if (len >= n && strncasecmp(text + len - n, ends[i], n) == 0)
			return true;
	}
	return false;
}

/* a letter first, and nothing that a range has; "v1" is a version */
static bool is_tag(const char *text, size_t len)
{
	if (len == 0 || !is_letter(text[0]) || is_archive(text, len))
		return false;
	if (text[0] == 'v' && len > 1 && is_digit(text[1]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_letter(text[i]) && !is_digit(text[i]) &&
		    !is_one_of(text[i], "._-"))
			return false;
	return true;
}

/* 1, 1.2, 1.2.3, 1.x, *, v1.2.3-rc.1+build; the end of it, or NULL */
static const char *take_version(const char *at, const char *end)
{
	const char *tail;
	int numbers = 0;

	if (at < end && *at == 'v')
		at++;
	for (;; at++) {
		const char *from = at;

		if (at < end && (*at == 'x' || *at == 'X' || *at == '*'))
			at++;
		else
			while (at < end && is_digit(*at) && at - from < 16)
				at++;
		if (at == from)
			return NULL;
		if (++numbers == 3 || at == end || *at != '.')
			break;
	}
	for (; at < end && (*at == '-' || *at == '+'); at = tail) {
		if (numbers < 3)
			return NULL;
		for (tail = at + 1; tail < end && (is_letter(*tail) || is_digit(*tail) ||
						   *tail == '.' || *tail == '-');
		     tail++)
			;
		if (tail == at + 1)
			return NULL;
	}
	return at;
}

/* words of a range, one space between them; the length in out, or 0: it is none */
static size_t take_range(const char *at, const char *end, char *out)
{
	bool need_version = true; /* so far nothing that could stand alone */
	size_t len = 0;

	while (at < end) {
		const char *from = at, *behind = at;

		if (*at == ' ') {
			at++;
			continue;
		}
		if (end - at >= 2 && memcmp(at, "||", 2) == 0) {
			behind = at + 2;
			if (need_version)
				return 0;
			need_version = true;
		} else if (*at == '-' && at + 1 < end && at[1] == ' ') {
			behind = at + 1;
			if (need_version)
				return 0;
			need_version = true;
		} else {
			while (behind < end && is_one_of(*behind, "<>=~^") &&
			       behind - at < 2)
				behind++;
			while (behind < end && *behind == ' ')
				behind++;
			behind = take_version(behind, end);
			if (!behind || (behind < end && *behind != ' ' && *behind != '|'))
				return 0;
			need_version = false;
		}
		if (len > 0)
			out[len++] = ' ';
		for (; from < behind; from++)
			if (*from != ' ')
				out[len++] = *from;
		at = behind;
	}
	return need_version ? 0 : len;
}

/* "name" or "@scope/name"; its length, or 0 */
static size_t take_name(const char *text, size_t len, const char **out_why)
{
	const char *end = text + len;
	size_t n, scope;

	*out_why = "a requirement begins with the name of a package, or @scope/name";
	if (len == 0 || text[0] != '@') {
		n = name_len(text, end);
	} else {
		scope = name_len(text + 1, end);
		if (scope == 0 || text + 1 + scope == end || text[1 + scope] != '/')
			return 0;
		n = name_len(text + 2 + scope, end);
		n = n ? n + 2 + scope : 0;
	}
	if (n > NAME_MOST || (n && is_archive(text, n)))
		return 0;
	return n;
}

int requirement_npm(const char *text, size_t len, char out[REQUIREMENT_ROOM],
		    struct err *e)
{
	char range[REQUIREMENT_ROOM];
	const char *why, *at;
	size_t n, more;

	if (len > REQUIREMENT_MOST)
		return requirement_refuse(text, len, "it is too long", e);
	n = take_name(text, len, &why);
	if (n == 0)
		return requirement_refuse(text, len, why, e);
	at = text + n;
	if (n < len && *at != '@')
		return requirement_refuse(text, len,
					  "behind the name stands @ and a version", e);
	more = n < len ? len - n - 1 : 0;
	if (n < len && is_tag(at + 1, more)) {
		memcpy(range, at + 1, more);
	} else if (n < len) {
		more = take_range(at + 1, text + len, range);
		if (more == 0)
			return requirement_refuse(
				text, len, "what follows is no version, range or tag", e);
	}
	memcpy(out, text, n);
	if (more) {
		out[n++] = '@';
		memcpy(out + n, range, more);
	}
	out[n + more] = '\0';
	return 0;
}
