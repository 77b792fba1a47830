/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_json.c - JSON texts
 *
 * What is taken keeps every limit, holds valid UTF-8 and finite numbers only, and each of
 * its strings, written out by us, is read back the same. White space around a text
 * changes nothing, anything else behind it makes it no text.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	unsigned members, values;
};

static void same_when_written(const char *text, size_t len)
{
	struct json *doc;
	struct buf b;
	size_t back_len = 0;
	const char *back;

	buf_init(&b, len * 6 + 2);
	assert(buf_json_string(&b, text, len) == 0);
	doc = json_parse(b.bytes, b.len, &json_request_limits, NULL);
	back = json_text(doc, &back_len);
	assert(back && back_len == len && memcmp(back, text, len) == 0);
	json_free(doc);
	buf_done(&b);
}

static void walk(const struct json *v, unsigned depth, struct seen *seen)
{
	const char *text;
	size_t len;

	assert(json_is_object(v) + json_is_array(v) + json_is_string(v) +
		       json_is_number(v) + json_is_bool(v) + json_is_null(v) ==
	       1);
	assert(!json_is_number(v) || isfinite(json_double(v)));
	text = json_text(v, &len);
	if (text) {
		assert(utf8_valid(text, len));
		same_when_written(text, len);
	}
	for (size_t i = 0; i < json_count(v); i++) {
		const char *name = json_key(v, i);
		const struct json *inner = name ? json_value(v, i) : json_item(v, i);

		assert(depth < json_request_limits.depth && inner);
		assert(!name || json_member(v, name) == inner);
		assert(!name || utf8_valid(name, strlen(name)));
		seen->members += name != NULL;
		seen->values++;
		walk(inner, depth + 1, seen);
	}
}

/* before and behind the text stands something of ours */
static int taken_within(const char *before, const uint8_t *data, size_t size,
			const char *behind)
{
	struct json *doc;
	struct buf b;

	buf_init(&b, size + 16);
	assert(buf_puts(&b, before) == 0 && buf_add(&b, data, size) == 0 &&
	       buf_puts(&b, behind) == 0);
	doc = json_parse(b.bytes, b.len, &json_request_limits, NULL);
	json_free(doc);
	buf_done(&b);
	return doc != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = {0};
	struct json *doc = json_parse((const char *)data, size, &json_request_limits, &e);
	struct seen seen = {0};

	if (!doc) {
		assert(e.kind == ERR_THEIRS && !strcmp(e.code, "invalid_json"));
		/* a byte order mark may stand first only */
		assert(!taken_within("\n", data, size, " "));
		return 0;
	}
	walk(doc, 0, &seen);
	assert(seen.members <= json_request_limits.members);
	assert(seen.values <= json_request_limits.values);
	json_free(doc);
	assert(taken_within(" \t\r\n", data, size, "\n"));
	assert(!taken_within("", data, size, " x"));
	assert(!taken_within("", data, size, " 1"));
	assert(!taken_within("]", data, size, ""));
	return 0;
}
