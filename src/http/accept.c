/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * accept.c - which of our types an Accept header would rather have (RFC 9110, 12.5.1)
 */
#include "http/accept.h"

#include <string.h>
#include <strings.h>

enum { NOT_MATCHED, ALL_TYPES, ALL_OF_A_KIND, NAMED };

/* what a header says of one type: by the item that means it most closely */
struct choice {
	int match;   /* of the above */
	unsigned q;  /* in thousandths */
	unsigned at; /* which item it was */
};

static struct span trim(struct span s)
{
	while (s.len && (s.p[0] == ' ' || s.p[0] == '\t'))
		s.p++, s.len--;
	while (s.len && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* up to the next semicolon, and *rest behind it */
static struct span part(struct span *rest)
{
	const char *end = memchr(rest->p, ';', rest->len);
	const size_t len = end ? (size_t)(end - rest->p) : rest->len;
	const struct span out = {rest->p, len};

	rest->p += len + (end ? 1 : 0);
	rest->len -= len + (end ? 1 : 0);
	return trim(out);
}

/* "0.5"; what is none makes the item one that nobody asked for */
static unsigned thousandths(struct span s)
{
	unsigned q = 0, weight = 1000;

	for (size_t i = 0; i < s.len; i++) {
		if (i == 1 && s.p[i] == '.')
			continue;
		if (s.p[i] < '0' || s.p[i] > '9' || i == 1 || i > 4)
			return 0;
		q += (unsigned)(s.p[i] - '0') * weight;
		weight /= 10;
	}
	return q <= 1000 ? q : 0;
}

static unsigned quality(struct span params)
{
	while (params.len) {
		const struct span p = part(&params);

		if (p.len >= 2 && (p.p[0] | 0x20) == 'q' && p.p[1] == '=')
			return thousandths((struct span){p.p + 2, p.len - 2});
	}
	return 1000;
}

static int matches(struct span range, const char *type)
{
	const size_t kind = strcspn(type, "/") + 1;

	if (span_is(range, type))
		return NAMED;
	if (range.len == kind + 1 && range.p[kind] == '*' &&
	    strncasecmp(range.p, type, kind) == 0)
		return ALL_OF_A_KIND;
	return span_is(range, "*/*") ? ALL_TYPES : NOT_MATCHED;
}

static struct choice look(struct span accept, const char *type)
{
	struct choice best = {NOT_MATCHED, 0, 0};
	struct span item;

	for (unsigned at = 0; span_next(&accept, &item); at++) {
		const int match = matches(part(&item), type);

		if (match > best.match)
			best = (struct choice){match, quality(item), at};
	}
	return best;
}

/* a: of one that must be named */
static bool is_better(struct choice a, struct choice b)
{
	if (a.match != NAMED || a.q == 0 || a.q != b.q)
		return a.match == NAMED && a.q > b.q;
	return b.match != NAMED || a.at < b.at;
}

size_t accept_best(struct span accept, const char *const types[])
{
	struct choice best = look(accept, types[0]);
	size_t found = 0;

	for (size_t i = 1; types[i]; i++) {
		const struct choice c = look(accept, types[i]);

		if (is_better(c, best)) {
			best = c;
			found = i;
		}
	}
	return found;
}

bool accept_names(struct span accept, const char *type)
{
	const struct choice c = look(accept, type);

	return c.match == NAMED && c.q > 0;
}
