/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_chunked.c - the chunked transfer coding
 */
#include "http/chunked.h"

#include "../tap.h"
#include "base/buf.h"
#include "base/err.h"

/* feeds in pieces of `step`: the status of a refusal, 0 when complete, 100 when not yet
 */
static int decode(const char *text, size_t len, size_t step, struct buf *out,
		  size_t *out_used)
{
	struct chunked d = {0};
	struct err e = {0};
	size_t used = 0;

	while (used < len && !chunked_done(&d)) {
		size_t n = len - used < step ? len - used : step;
		ssize_t got = chunked_feed(&d, text + used, n, out, &e);

		if (got < 0)
			return err_status(&e);
		CHECK((size_t)got == n || chunked_done(&d));
		used += (size_t)got;
	}
	*out_used = used;
	return chunked_done(&d) ? 0 : 100;
}

static int status(const char *text, size_t cap)
{
	int first = -1;

	for (size_t step = 1; step < 40; step += 13) {
		struct buf out;
		size_t used;
		int s;

		buf_init(&out, cap);
		s = decode(text, strlen(text), step, &out, &used);
		buf_done(&out);
		CHECK(first == -1 || first == s);
		first = s;
	}
	return first;
}

TEST(a_body_is_the_same_however_it_arrives)
{
	static const char text[] =
		"5\r\nhello\r\n0A\r\n, wonderfu\r\n1\r\nl\r\n0\r\n\r\nGET /";

	for (size_t step = 1; step < sizeof(text); step++) {
		struct buf out;
		size_t used = 0;

		buf_init(&out, 100);
		CHECK(decode(text, sizeof(text) - 1, step, &out, &used) == 0);
		CHECK(out.len == 16 && memcmp(out.bytes, "hello, wonderful", 16) == 0);
		CHECK(strcmp(text + used, "GET /") == 0);
		buf_done(&out);
	}
}

TEST(an_empty_body_is_complete)
{
	CHECK(status("0\r\n\r\n", 10) == 0);
	CHECK(status("00000000\r\n\r\n", 10) == 0);
}

TEST(an_incomplete_body_is_not_complete)
{
	CHECK(status("", 10) == 100);
	CHECK(status("5\r\nhell", 10) == 100);
	CHECK(status("5\r\nhello\r\n0\r\n", 10) == 100);
	CHECK(status("5\r\nhello\r\n0\r\n\r", 10) == 100);
}

TEST(too_much_is_known_by_its_size_alone)
{
	CHECK(status("a\r\n", 10) == 100);
	CHECK(status("b\r\n", 10) == 413);
	CHECK(status("5\r\nhello\r\n6\r\n", 10) == 413);
	CHECK(status("ffffffff\r\n", 10) == 413);
}

TEST(sizes_are_hex_digits_and_nothing_else)
{
	static const char *const bad[] = {
		"\r\n",          "-1\r\n",    "+1\r\n",      " 1\r\n",   "1 \r\n",
		"0x1\r\n",       "1;a=b\r\n", "1;\r\n",      "g\r\n",    "100000000\r\n",
		"1\n",           "1\rx",      "1\r\nab\r\n", "1\r\na\n", "1\r\na\rx",
		"0\r\nX: y\r\n", "0\r\n\n",   "0\r\n0\r\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(status(bad[i], 100) == 400);
}

TEST(a_million_chunks_of_one_byte_take_linear_time)
{
	enum { COUNT = 1000000 };
	static char text[6 * COUNT + 5];
	struct buf out;
	size_t used;

	for (size_t i = 0; i < COUNT; i++)
		memcpy(text + 6 * i, "1\r\nx\r\n", 6);
	memcpy(text + 6 * COUNT, "0\r\n\r\n", 5);
	buf_init(&out, COUNT);
	CHECK(decode(text, sizeof(text), 1000, &out, &used) == 0);
	CHECK(out.len == COUNT && used == sizeof(text));
	buf_done(&out);
}
