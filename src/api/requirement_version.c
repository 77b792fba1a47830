/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * requirement_version.c - a version as PEP 440 has it, in every spelling that it allows
 *
 *	1.4  v1.4  1!2.0  2.0rc1  2.0-alpha.1  1.0.post2  1.0-2  1.0.dev3  1.0+local.1
 */
#include <string.h>
#include <strings.h>

#include "api/requirement.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_mark(char c)
{
	return c == '-' || c == '_' || c == '.';
}

static const char *skip_digits(const char *at, const char *end)
{
	while (at < end && is_digit(*at))
		at++;
	return at;
}

static const char *skip_mark(const char *at, const char *end)
{
	return at < end && is_mark(*at) ? at + 1 : at;
}

/* numbers with dots between them; *out: how many */
static const char *skip_release(const char *at, const char *end, int *out)
{
	for (*out = 0; at < end && is_digit(*at); at++) {
		at = skip_digits(at, end);
		(*out)++;
		if (end - at < 2 || *at != '.' || !is_digit(at[1]))
			break;
	}
	return at;
}

/* one of these words and its number, as in "rc1", ".post2", "-dev.3"; or nothing */
static const char *skip_part(const char *at, const char *end, const char *const *words)
{
	const char *from = skip_mark(at, end);

	for (; *words; words++) {
		const size_t len = strlen(*words);

		if ((size_t)(end - from) >= len && strncasecmp(from, *words, len) == 0)
			return skip_digits(skip_mark(from + len, end), end);
	}
	return at;
}

/* "+local.1", whose parts are letters and digits with one mark between them */
static const char *skip_local(const char *at, const char *end)
{
	if (at == end || *at != '+')
		return at;
	for (at++; at < end && (is_alnum(*at) || (is_mark(*at) && is_alnum(at[-1])));)
		at++;
	return is_alnum(at[-1]) ? at : at - 1;
}

bool requirement_version(const char *at, const char *end, int least)
{
	/* of two that begin alike the longer one first */
	static const char *const pre[] = {"alpha", "a",  "beta", "b", "preview",
					  "pre",   "rc", "c",    NULL};
	static const char *const post[] = {"post", "rev", "r", NULL};
	static const char *const dev[] = {"dev", NULL};
	int numbers;

	if (at < end && (*at == 'v' || *at == 'V'))
		at++;
	at = skip_release(at, end, &numbers);
	if (numbers == 1 && at < end && *at == '!')
		at = skip_release(at + 1, end, &numbers);
	at = skip_part(at, end, pre);
	if (end - at > 1 && *at == '-' && is_digit(at[1]))
		at = skip_digits(at + 1, end);
	else
		at = skip_part(at, end, post);
	at = skip_local(skip_part(at, end, dev), end);
	return numbers >= least && at == end;
}
