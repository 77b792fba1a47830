/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * options.c - what a request says of a file beside its path
 */
#include "http/options.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/num.h"

#define OPTION_BYTES (8 * 1024) /* a cursor is a path in base64 */

enum kind { TEXT, FLAG, NUMBER };
static const struct {
	const char *name;
	enum kind kind;
} options[] = {{"recursive", FLAG},    {"overwrite", FLAG},   {"cursor", TEXT},
	       {"mode", TEXT},         {"max_bytes", NUMBER}, {"encoding", TEXT},
	       {"checkpoint_id", TEXT}};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

static int decode(struct span value, char text[OPTION_BYTES], size_t *out_len)
{
	size_t n = 0;

	for (size_t at = 0; at < value.len; at++, n++) {
		char two[3] = "";

		text[n] = value.p[at];
		if (value.p[at] != '%')
			continue;
		if (value.len - at < 3)
			return -1;
		memcpy(two, value.p + at + 1, 2);
		if (!isxdigit((unsigned char)two[0]) || !isxdigit((unsigned char)two[1]))
			return -1;
		text[n] = (char)strtoul(two, NULL, 16);
		at += 2;
	}
	text[n] = '\0';
	*out_len = n;
	return 0;
}

static int check(size_t i, const char *text, struct err *e)
{
	uint64_t n;

	if (options[i].kind == FLAG && strcmp(text, "true") != 0 &&
	    strcmp(text, "false") != 0)
		return err_bad(e, "%s must be true or false", options[i].name);
	if (options[i].kind == NUMBER && num_u64(text, &n) < 0)
		return err_bad(e, "%s must be a whole number", options[i].name);
	return 0;
}

static int add_option(struct buf *b, struct span name, struct span value, struct err *e)
{
	char text[OPTION_BYTES];
	size_t i = 0, n;

	while (i < OPTIONS && !span_is(name, options[i].name))
		i++;
	if (i == OPTIONS)
		return 0;
	if (value.len >= sizeof(text))
		return err_bad(e, "%s is too long", options[i].name);
	if (decode(value, text, &n) < 0)
		return err_bad(e, "%s has a %% without two digits", options[i].name);
	if (check(i, text, e) < 0)
		return -1;
	if (buf_printf(b, "%s\"%s\":", b->len > 1 ? "," : "", options[i].name) < 0 ||
	    (options[i].kind == TEXT ? buf_json_string(b, text, n) : buf_puts(b, text)) <
		    0)
		return err_errno(e, "read the query");
	return 0;
}

int options_read(struct span query, struct json **out, struct err *e)
{
	struct buf b;
	int rc;

	buf_init(&b, 8 * OPTION_BYTES);
	rc = buf_puts(&b, "{");
	while (rc == 0 && query.len) {
		const char *end = memchr(query.p, '&', query.len);
		const size_t len = end ? (size_t)(end - query.p) : query.len;
		const char *is = memchr(query.p, '=', len);
		const size_t n = is ? (size_t)(is - query.p) : len;

		if (is)
			rc = add_option(&b, (struct span){query.p, n},
					(struct span){is + 1, len - n - 1}, e);
		query.p += len + (end ? 1 : 0);
		query.len -= len + (end ? 1 : 0);
	}
	if (rc == 0 && buf_puts(&b, "}") == 0)
		*out = json_parse(b.bytes, b.len, &json_request_limits, e);
	buf_done(&b);
	return *out ? 0 : -1;
}

bool options_range(struct span range, struct options_range *out)
{
	struct options_range r = {0};
	uint64_t last = 0;
	char text[64];
	char *dash;

	if (!range.p || range.len < 7 || range.len >= sizeof(text) ||
	    memcmp(range.p, "bytes=", 6) != 0)
		return false;
	memcpy(text, range.p + 6, range.len - 6);
	text[range.len - 6] = '\0';
	dash = strchr(text, '-');
	if (!dash)
		return false;
	*dash = '\0';
	r.from_end = dash == text;
	if (num_u64(r.from_end ? dash + 1 : text, &r.first) < 0)
		return false;
	if (!r.from_end && dash[1]) {
		if (num_u64(dash + 1, &last) < 0 || last < r.first)
			return false;
		r.count = last - r.first + 1;
	}
	*out = r;
	return true;
}
