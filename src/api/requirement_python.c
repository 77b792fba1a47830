/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * requirement_python.c - one element of `requirements` for python (PEP 508, PEP 440)
 *
 *	name [extra, extra] >= 1.0, < 2 ; python_version < "3.12" and os_name == "posix"
 *
 * "name @ address" is part of PEP 508 and refused: packages come from the index. Names
 * are compared as PEP 503 says, so that is how they are written.
 */
#include "api/requirement.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define NAME_MOST 100
#define PARTS_MOST 16 /* extras, or versions, of one element */
#define DEPTH_MOST 8  /* of parentheses in a marker */

struct scan {
	const char *at, *end;
	char *out; /* as much room as any text of REQUIREMENT_MOST bytes can need */
	size_t len;
	const char *why;
};

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int requirement_refuse(const char *text, size_t len, const char *why, struct err *e)
{
	char shown[120];
	size_t n = 0;

	for (; n < len && n < sizeof(shown) - 1; n++)
		shown[n] = text[n] >= 0x20 && text[n] < 0x7f ? text[n] : '?';
	shown[n] = '\0';
	return err_client(e, 400, "bad_requirement", "bad requirement \"%s\"%s: %s",
			  shown, n < len ? " (cut)" : "", why);
}

static int fail(struct scan *s, const char *why)
{
	if (!s->why)
		s->why = why;
	return -1;
}

static void skip_space(struct scan *s)
{
	while (s->at < s->end && (*s->at == ' ' || *s->at == '\t'))
		s->at++;
}

static bool next_is(const struct scan *s, char c)
{
	return s->at < s->end && *s->at == c;
}

static void put(struct scan *s, const char *bytes, size_t len)
{
	memcpy(s->out + s->len, bytes, len);
	s->len += len;
}

static void put_char(struct scan *s, char c)
{
	s->out[s->len++] = c;
}

/* lower case, every run of "-", "_" and "." one "-" */
static int take_name(struct scan *s, const char *what)
{
	const char *from = s->at;
	bool dash = false;

	while (s->at < s->end && (is_alnum(*s->at) || strchr("-_.", *s->at)) && *s->at)
		s->at++;
	if (s->at == from || !is_alnum(*from) || !is_alnum(s->at[-1]) ||
	    s->at - from > NAME_MOST)
		return fail(s, what);
	for (; from < s->at; from++) {
		if (!is_alnum(*from)) {
			dash = true;
			continue;
		}
		if (dash)
			put_char(s, '-');
		dash = false;
		put_char(s, *from >= 'A' && *from <= 'Z' ? (char)(*from | 0x20) : *from);
	}
	return 0;
}

struct part {
	size_t at, len; /* in the output */
};

static const char *sorted_text; /* for by_text; the server has one thread */

static int by_text(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	const size_t n = x->len < y->len ? x->len : y->len;
	const int order = memcmp(sorted_text + x->at, sorted_text + y->at, n);

	if (order)
		return order;
	return x->len < y->len ? -1 : x->len > y->len;
}

/* the parts, which stand behind one another from the first on, in order, each once */
static void put_sorted(struct scan *s, struct part *parts, size_t count)
{
	char copy[REQUIREMENT_ROOM];
	const size_t from = parts[0].at;

	memcpy(copy, s->out, s->len);
	sorted_text = copy;
	qsort(parts, count, sizeof(*parts), by_text);
	s->len = from;
	for (size_t i = 0; i < count; i++) {
		if (i > 0 && by_text(&parts[i - 1], &parts[i]) == 0)
			continue;
		if (i > 0)
			put_char(s, ',');
		put(s, copy + parts[i].at, parts[i].len);
	}
	sorted_text = NULL;
}

/* parts with commas between them, up to what `ends` stands for; how many, or -1 */
static int take_list(struct scan *s, int (*take)(struct scan *s), struct part *parts)
{
	size_t count = 0;

	for (;;) {
		skip_space(s);
		if (count == PARTS_MOST)
			return fail(s, "it has too many parts");
		parts[count].at = s->len;
		if (take(s) < 0)
			return -1;
		parts[count].len = s->len - parts[count].at;
		count++;
		skip_space(s);
		if (!next_is(s, ','))
			return (int)count;
		s->at++;
	}
}

static int take_extra(struct scan *s)
{
	return take_name(s, "an extra is a name");
}

static int take_extras(struct scan *s)
{
	struct part parts[PARTS_MOST];
	int count;

	skip_space(s);
	if (!next_is(s, '['))
		return 0;
	s->at++;
	skip_space(s);
	if (next_is(s, ']')) {
		s->at++;
		return 0;
	}
	put_char(s, '[');
	count = take_list(s, take_extra, parts);
	if (count < 0)
		return -1;
	if (!next_is(s, ']'))
		return fail(s, "the extras have no end");
	s->at++;
	put_sorted(s, parts, (size_t)count);
	put_char(s, ']');
	return 0;
}

/* the operator at this place, the longest first; 0: none */
static size_t operator_len(const struct scan *s)
{
	static const char *const operators[] = {
		"===", "~=", "==", "!=", "<=", ">=", "<", ">"};

	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
		const size_t len = strlen(operators[i]);

		if ((size_t)(s->end - s->at) >= len &&
		    memcmp(s->at, operators[i], len) == 0)
			return len;
	}
	return 0;
}

/* "==1.0.*"; a star only there; behind "===" stands what an index happens to have */
static int take_version(struct scan *s)
{
	const size_t op = operator_len(s);
	const char *from = s->at;
	const bool star_fits = op == 2 && (*from == '=' || *from == '!');
	const bool compatible = op == 2 && *from == '~';
	const char *end;

	if (op == 0)
		return fail(s, "a version begins with ~=, ==, !=, <=, >=, < or >");
	put(s, from, op);
	s->at += op;
	skip_space(s);
	from = s->at;
	while (s->at < s->end && (is_alnum(*s->at) || strchr("._+!-", *s->at)) && *s->at)
		s->at++;
	if (s->at == from || !is_alnum(*from))
		return fail(s, "a version has letters, digits and . _ + ! -");
	end = s->at;
	if (next_is(s, '*')) {
		if (!star_fits || s->at[-1] != '.')
			return fail(s, "a star stands at the end of == or !=, as in 1.*");
		s->at++;
		end--;
	} else if (!is_alnum(s->at[-1])) {
		return fail(s, "a version ends with a letter or a digit");
	}
	if (op < 3 && !requirement_version(from, end, compatible ? 2 : 1))
		return fail(s, compatible ? "behind ~= stands a version of two numbers "
					    "or more, as in 1.4"
					  : "this is no version, as 1.4, 2.0rc1 or "
					    "1.0.post2");
	put(s, from, (size_t)(s->at - from));
	return 0;
}

static int take_versions(struct scan *s)
{
	struct part parts[PARTS_MOST];
	bool closed;
	int count;

	skip_space(s);
	closed = next_is(s, '(');
	if (!closed && operator_len(s) == 0)
		return 0;
	s->at += closed;
	count = take_list(s, take_version, parts);
	if (count < 0)
		return -1;
	if (closed && !next_is(s, ')'))
		return fail(s, "the versions have no end");
	s->at += closed;
	put_sorted(s, parts, (size_t)count);
	return 0;
}

/* the word at this place, without going over it */
static size_t word_len(const struct scan *s)
{
	const char *at = s->at;

	while (at < s->end && ((*at >= 'a' && *at <= 'z') || *at == '_'))
		at++;
	return (size_t)(at - s->at);
}

static bool take_word(struct scan *s, const char *word)
{
	skip_space(s);
	if (word_len(s) != strlen(word) || memcmp(s->at, word, strlen(word)) != 0)
		return false;
	s->at += strlen(word);
	return true;
}

static int take_marker_string(struct scan *s)
{
	const char quote = *s->at++;

	put_char(s, '"');
	while (s->at < s->end && *s->at &&
	       (is_alnum(*s->at) || strchr(" ._*+!-", *s->at)))
		put_char(s, *s->at++);
	if (!next_is(s, quote))
		return fail(s, "a value in a marker has letters, digits, spaces and "
			       ". _ * + ! - between quotes");
	s->at++;
	put_char(s, '"');
	return 0;
}

/* a value, or a name of the environment; *out_named: the latter */
static int take_marker_side(struct scan *s, bool *out_named)
{
	static const char *const names[] = {"os_name",
					    "sys_platform",
					    "platform_machine",
					    "platform_python_implementation",
					    "platform_release",
					    "platform_system",
					    "platform_version",
					    "python_version",
					    "python_full_version",
					    "implementation_name",
					    "implementation_version",
					    "extra"};

	skip_space(s);
	*out_named = false;
	if (next_is(s, '"') || next_is(s, '\''))
		return take_marker_string(s);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (take_word(s, names[i])) {
			put(s, names[i], strlen(names[i]));
			*out_named = true;
			return 0;
		}
	return fail(s, "a marker compares python_version, sys_platform and the like");
}

static int take_marker_operator(struct scan *s)
{
	size_t op;

	skip_space(s);
	put_char(s, ' ');
	op = operator_len(s);
	if (op > 0) {
		put(s, s->at, op);
		s->at += op;
	} else if (take_word(s, "in")) {
		put(s, "in", 2);
	} else if (take_word(s, "not") && take_word(s, "in")) {
		put(s, "not in", 6);
	} else {
		return fail(s, "a marker lacks its comparison");
	}
	put_char(s, ' ');
	return 0;
}

static int take_comparison(struct scan *s)
{
	bool left, right;

	if (take_marker_side(s, &left) < 0 || take_marker_operator(s) < 0 ||
	    take_marker_side(s, &right) < 0)
		return -1;
	return left || right ? 0 : fail(s, "a marker compares two values");
}

/* comparisons and parentheses with "and" or "or" between them: who reads it afterwards
 * knows which binds more */
static int take_marker(struct scan *s, unsigned depth)
{
	for (;;) {
		skip_space(s);
		if (next_is(s, '(')) {
			if (depth == DEPTH_MOST)
				return fail(s, "a marker is too deep");
			s->at++;
			put_char(s, '(');
			if (take_marker(s, depth + 1) < 0)
				return -1;
			if (!next_is(s, ')'))
				return fail(s, "a marker has no end");
			s->at++;
			put_char(s, ')');
		} else if (take_comparison(s) < 0) {
			return -1;
		}
		skip_space(s);
		if (take_word(s, "and"))
			put(s, " and ", 5);
		else if (take_word(s, "or"))
			put(s, " or ", 4);
		else
			return 0;
	}
}

static int take_all(struct scan *s)
{
	skip_space(s);
	if (take_name(s, "a requirement begins with the name of a package") < 0 ||
	    take_extras(s) < 0 || take_versions(s) < 0)
		return -1;
	skip_space(s);
	if (next_is(s, ';')) {
		s->at++;
		put(s, " ; ", 3);
		if (take_marker(s, 0) < 0)
			return -1;
	}
	skip_space(s);
	if (next_is(s, '@'))
		return fail(s, "packages come from the index, not from an address");
	return s->at == s->end ? 0
			       : fail(s, "what follows is no extra, version or marker");
}

int requirement_python(const char *text, size_t len, char out[REQUIREMENT_ROOM],
		       struct err *e)
{
	char room[REQUIREMENT_ROOM];
	struct scan s = {.at = text, .end = text + len, .out = room};

	if (len > REQUIREMENT_MOST)
		return requirement_refuse(text, len, "it is too long", e);
	if (take_all(&s) < 0)
		return requirement_refuse(text, len, s.why, e);
	memcpy(out, room, s.len);
	out[s.len] = '\0';
	return 0;
}
