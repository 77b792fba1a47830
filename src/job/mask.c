/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mask.c - take secrets out of JSON text
 *
 * Runs in: the server, on its loop. Every value costs one linear search through the text;
 * WORK_BYTES bounds values times text.
 */
#include "job/mask.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

#define VALUE_LEAST 8
#define WORK_BYTES (16u << 20) /* a tenth of a second at the worst */
#define STARS "***"

struct pattern {
	struct buf text; /* escaped, without quotes */
	size_t hit;      /* where it is next; SIZE_MAX: nowhere */
};

struct mask {
	struct pattern *pattern;
	size_t count;
};

static int add_pattern(struct mask *m, const char *value)
{
	struct pattern *p = &m->pattern[m->count++];

	buf_init(&p->text, strlen(value) * 6 + 2);
	if (buf_json_string(&p->text, value, strlen(value)) < 0)
		return -1;
	p->text.len--;
	buf_drop(&p->text, 1);
	return 0;
}

struct mask *mask_new(char *const *env)
{
	struct mask *m = mem_zero(sizeof(*m));
	size_t count = 0;

	while (env && env[count])
		count++;
	m->pattern = mem_array(count + 1, sizeof(*m->pattern));
	for (size_t i = 0; i < count; i++) {
		const char *value = strchr(env[i], '=');

		if (!value || strlen(value + 1) < VALUE_LEAST)
			continue;
		if (add_pattern(m, value + 1) < 0) {
			mask_free(m);
			errno = ENOMEM;
			return NULL;
		}
	}
	return m;
}

void mask_free(struct mask *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->count; i++)
		buf_done(&m->pattern[i].text);
	free(m->pattern);
	free(m);
}

/* bytes of one character of a JSON string as it is written: \n and \u000a are units */
static size_t unit(const char *p, size_t len)
{
	size_t n = p[0] != '\\' ? 1 : len > 1 && p[1] == 'u' ? 6 : 2;

	return n < len ? n : len;
}

/* the first pattern at or after `from`, the longest one where several begin; NULL: none
 */
static const struct pattern *next_hit(const struct mask *m, const char *text, size_t len,
				      size_t from)
{
	const struct pattern *best = NULL;

	for (size_t i = 0; i < m->count; i++) {
		struct pattern *p = &m->pattern[i];

		if (p->hit < from) {
			const char *at = memmem(text + from, len - from, p->text.bytes,
						p->text.len);

			p->hit = at ? (size_t)(at - text) : SIZE_MAX;
		}
		if (p->hit == SIZE_MAX)
			continue;
		if (!best || p->hit < best->hit ||
		    (p->hit == best->hit && p->text.len > best->text.len))
			best = p;
	}
	return best;
}

/* the inside of one string */
static int mask_values(const struct mask *m, struct buf *out, const char *text,
		       size_t len)
{
	const struct pattern *p;
	size_t done = 0, at = 0;

	for (size_t i = 0; i < m->count; i++) {
		const char *first = memmem(text, len, m->pattern[i].text.bytes,
					   m->pattern[i].text.len);

		m->pattern[i].hit = first ? (size_t)(first - text) : SIZE_MAX;
	}
	while ((p = next_hit(m, text, len, at))) {
		/* a hit that begins inside an escape is none: the n of \n */
		while (at < p->hit)
			at += unit(text + at, len - at);
		if (at > p->hit)
			continue;
		if (buf_add(out, text + done, at - done) < 0 || buf_puts(out, STARS) < 0)
			return -1;
		done = at += p->text.len;
	}
	return buf_add(out, text + done, len - done);
}

static bool ends_authority(char c)
{
	return c == '/' || c == '?' || c == '#' || c == '\\' || c == '"' || c == '\'' ||
	       c == '<' || c == '>' || c == '`' || (unsigned char)c <= ' ';
}

/* the inside of one string onto out, with stars between scheme:// and @ */
static int mask_userinfo(struct buf *out, const char *text, size_t len)
{
	size_t done = 0, at = 0;

	while (at < len) {
		const char *hit = memmem(text + at, len - at, "://", 3);
		size_t from, end, sign = 0;

		if (!hit)
			break;
		from = (size_t)(hit - text) + 3;
		for (end = from; end < len && !ends_authority(text[end]); end++)
			if (text[end] == '@')
				sign = end;
		at = from;
		if (!sign)
			continue;
		if (buf_add(out, text + done, from - done) < 0 ||
		    buf_puts(out, STARS) < 0)
			return -1;
		done = at = sign;
	}
	return buf_add(out, text + done, len - done);
}

/* where the string that begins behind `from` ends: at its closing quote */
static size_t string_end(const char *json, size_t len, size_t from)
{
	while (from < len && json[from] != '"')
		from += unit(json + from, len - from);
	return from;
}

int mask_json(const struct mask *m, struct buf *out, const char *json, size_t len)
{
	struct buf values;
	size_t done = 0, at = 0;
	int rc = 0;

	if (m->count && len > WORK_BYTES / m->count) {
		errno = E2BIG;
		return -1;
	}
	buf_init(&values, len * 2);
	while (rc == 0 && at < len) {
		const char *quote = memchr(json + at, '"', len - at);
		size_t from, end;

		if (!quote)
			break;
		from = (size_t)(quote - json) + 1;
		end = string_end(json, len, from);
		at = end + 1 < len ? end + 1 : len;
		if (at < len && json[at] == ':') /* a key */
			continue;
		values.len = 0;
		if (buf_add(out, json + done, from - done) < 0 ||
		    mask_values(m, &values, json + from, end - from) < 0 ||
		    mask_userinfo(out, values.bytes, values.len) < 0)
			rc = -1;
		done = end;
	}
	buf_done(&values);
	return rc < 0 ? -1 : buf_add(out, json + done, len - done);
}
