/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_buf.c - the cap holds, and a failure adds nothing
 */
#include "base/buf.h"

#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "../tap.h"

/* under the sanitizer too, memory that is not there is NULL */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int holds(struct buf *b, const char *text, size_t len)
{
	return b->len == len && !memcmp(b->bytes, text, len);
}

TEST(the_cap_is_exact)
{
	struct buf b;

	buf_init(&b, 10);
	CHECK(buf_add(&b, "0123456789", 10) == 0);
	CHECK(buf_text(&b) == 0 && b.bytes[10] == 0 && b.room <= 11);
	errno = 0;
	CHECK(buf_add(&b, "x", 1) == -1 && errno == ENOSPC);
	CHECK(buf_puts(&b, "x") == -1 && buf_printf(&b, "%d", 1) == -1);
	CHECK(buf_json_string(&b, "", 0) == -1 && buf_base64(&b, "a", 1) == -1);
	CHECK(buf_add(&b, NULL, 0) == 0);
	CHECK(holds(&b, "0123456789", 10));
	CHECK(buf_reserve(&b, SIZE_MAX) == -1 && errno == ENOSPC);
	buf_done(&b);
	CHECK(buf_puts(&b, "again") == 0 && holds(&b, "again", 5));
	buf_done(&b);
	buf_done(NULL);
}

TEST(no_cap_at_all_is_a_cap_too)
{
	struct buf b;

	buf_init(&b, SIZE_MAX);
	CHECK(buf_puts(&b, "x") == 0);
	CHECK(buf_reserve(&b, SIZE_MAX) == -1 && errno == ENOSPC);
	CHECK(buf_reserve(&b, SIZE_MAX / 8) == -1 && errno == ENOMEM);
	CHECK(holds(&b, "x", 1));
	buf_done(&b);
}

TEST(growth_doubles_below_the_cap)
{
	struct buf b;
	unsigned grown = 0;
	size_t room = 0;

	buf_init(&b, 1000000);
	for (int i = 0; i < 1000000; i++) {
		CHECK(buf_add(&b, "x", 1) == 0);
		CHECK(b.room > b.len && b.room <= 1000001);
		grown += b.room != room;
		room = b.room;
	}
	CHECK(grown < 30);
	CHECK(buf_add(&b, "x", 1) == -1 && b.len == 1000000);
	buf_done(&b);
}

TEST(printf_fits_or_adds_nothing)
{
	struct buf b;

	buf_init(&b, 200);
	CHECK(buf_printf(&b, "%s=%d", "a", 1) == 0 && holds(&b, "a=1", 3));
	CHECK(buf_printf(&b, "%0150d", 7) == 0 && b.len == 153 && b.bytes[152] == '7');
	CHECK(buf_printf(&b, "%0150d", 7) == -1 && errno == ENOSPC && b.len == 153);
	CHECK(buf_printf(&b, "%047d", 8) == 0 && b.len == 200 && b.bytes[199] == '8');
	buf_done(&b);
}

TEST(drop_keeps_the_rest)
{
	struct buf b;

	buf_init(&b, 100);
	buf_drop(&b, 5);
	buf_puts(&b, "abcdef");
	buf_drop(&b, 2);
	CHECK(holds(&b, "cdef", 4));
	buf_drop(&b, 0);
	CHECK(holds(&b, "cdef", 4));
	buf_drop(&b, 99);
	CHECK(b.len == 0);
	buf_done(&b);
}

static void json_is(const char *in, size_t len, const char *want)
{
	struct buf b;

	buf_init(&b, 1000);
	CHECK(buf_json_string(&b, in, len) == 0);
	CHECK(holds(&b, want, strlen(want)));
	buf_done(&b);
	/* one byte less must fail, and must leave what was there */
	buf_init(&b, strlen(want));
	buf_puts(&b, "!");
	CHECK(buf_json_string(&b, in, len) == -1 && errno == ENOSPC && holds(&b, "!", 1));
	buf_done(&b);
}

TEST(json_strings_are_escaped)
{
	json_is("", 0, "\"\"");
	json_is("plain text of more than eight bytes", 35,
		"\"plain text of more than eight bytes\"");
	json_is("\"\\/\b\f\n\r\t", 8, "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
	json_is("a\0b\x1f\x7f", 5, "\"a\\u0000b\\u001f\x7f\"");
	json_is("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
		"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

TEST(what_is_not_utf8_is_replaced_sequence_by_sequence)
{
	/* the example of table 3-8 of the Unicode standard, 15 */
	json_is("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9,
		"\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x41\"");
	json_is("\xff\xfe", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	json_is("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	json_is("ok\xe2\x82", 4, "\"ok\xef\xbf\xbd\"");
}

TEST(ten_megabytes_take_no_time)
{
	const size_t len = 10 << 20;
	char *text = malloc(len);
	struct buf b;
	double start;

	buf_init(&b, 7 * len);
	memset(text, 'a', len);
	start = now_s();
	CHECK(buf_json_string(&b, text, len) == 0 && b.len == len + 2);
	CHECK(now_s() - start < 0.1 * (getenv("TESTS_SLOW") ? 10 : 1));
	b.len = 0;
	memset(text, 1, len);
	start = now_s();
	CHECK(buf_json_string(&b, text, len) == 0 && b.len == 6 * len + 2);
	CHECK(now_s() - start < 1.0 * (getenv("TESTS_SLOW") ? 10 : 1));
	free(text);
	buf_done(&b);
}

TEST(base64_is_appended)
{
	struct buf b;

	buf_init(&b, 9);
	buf_puts(&b, "=");
	CHECK(buf_base64(&b, "fooba", 5) == 0 && holds(&b, "=Zm9vYmE=", 9));
	CHECK(buf_base64(&b, "", 0) == 0 && b.len == 9);
	buf_done(&b);
}

TEST(what_is_not_needed_is_given_back)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	buf_fit(&b);
	CHECK(b.room == 0);
	CHECK(buf_reserve(&b, 5000) == 0 && buf_puts(&b, "some text") == 0);
	buf_fit(&b);
	CHECK(b.room == 10 && buf_text(&b) == 0 && strcmp(b.bytes, "some text") == 0);
	CHECK(buf_puts(&b, " and more") == 0 && b.len == 18);
	buf_done(&b);
}
