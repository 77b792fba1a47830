/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_utf8.c - against a second, slow implementation, and the examples of the standard
 */
#include "base/utf8.h"

#include <stdint.h>

#include "../tap.h"

/* written from the definition: decode, then look at the value */
static size_t slow_char(const unsigned char *p, size_t len)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t size = p[0] < 0x80             ? 1
		      : (p[0] & 0xe0) == 0xc0 ? 2
		      : (p[0] & 0xf0) == 0xe0 ? 3
		      : (p[0] & 0xf8) == 0xf0 ? 4
					      : 0;
	uint32_t value = size == 1 ? p[0] : p[0] & (0x7fu >> size);

	if (size == 0 || size > len)
		return 0;
	for (size_t i = 1; i < size; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (p[i] & 0x3f);
	}
	if (value < least[size] || value > 0x10ffff ||
	    (value >= 0xd800 && value <= 0xdfff))
		return 0;
	return size;
}

/* every beginning of a well-formed character, by trying all ends */
static bool slow_begins(const unsigned char *p, size_t n)
{
	unsigned char c[4] = {0};

	memcpy(c, p, n);
	for (unsigned a = 0x80; a < 0xc0; a++) {
		for (unsigned b = 0x80; b < (n < 3 ? 0xc0 : 0x81); b++) {
			if (n < 4)
				c[n] = (unsigned char)a;
			if (n < 3)
				c[n + 1] = (unsigned char)b;
			if (n == 1)
				c[3] = 0x80;
			if (slow_char(c, 4) > n || (n == 1 && slow_char(c, 4) > 1))
				return true;
		}
	}
	return false;
}

TEST(characters_match_the_definition)
{
	static const unsigned char edges[] = {
		0,    0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2,
		0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff};
	enum { N = sizeof(edges) };
	unsigned char c[4];

	for (unsigned i = 0; i < 256 * N * N * N; i++) {
		c[0] = (unsigned char)(i / (N * N * N));
		c[1] = edges[i / (N * N) % N];
		c[2] = edges[i / N % N];
		c[3] = edges[i % N];
		for (size_t len = 1; len <= 4; len++)
			CHECK(utf8_char((char *)c, len) == slow_char(c, len));
	}
	CHECK(utf8_char("", 0) == 0);
}

TEST(ill_formed_sequences_are_maximal)
{
	unsigned char c[3];
	size_t n;

	for (unsigned i = 0; i < 256 * 256; i++) {
		c[0] = (unsigned char)(i >> 8);
		c[1] = (unsigned char)i;
		c[2] = 'x';
		if (utf8_char((char *)c, 3))
			continue;
		n = utf8_bad((char *)c, 3);
		CHECK(n == 1 || n == 2);
		CHECK((n == 2) == (slow_begins(c, 1) && slow_begins(c, 2)));
	}
	CHECK(utf8_bad("\xf0\x90\x80x", 4) == 3);
	CHECK(utf8_bad("\xf0\x90\x80", 3) == 3);
	CHECK(utf8_bad("\xe2\x82", 2) == 2);
	CHECK(utf8_bad("\xe0\x80\x80", 3) == 1);
	CHECK(utf8_bad("\xed\xa0\x80", 3) == 1);
	CHECK(utf8_bad("\xff", 1) == 1);
}

TEST(valid_looks_at_every_byte)
{
	char text[64];

	for (size_t at = 0; at < sizeof(text); at++) {
		memset(text, 'a', sizeof(text));
		CHECK(utf8_valid(text, sizeof(text)));
		text[at] = (char)0x80;
		CHECK(!utf8_valid(text, sizeof(text)));
		CHECK(utf8_valid(text, at));
	}
	CHECK(utf8_valid("", 0));
	CHECK(utf8_valid("a\0b", 3));
	CHECK(utf8_valid("\xf0\x9f\x98\x80 \xe2\x82\xac \xc3\xa9", 11));
	CHECK(!utf8_valid("\xf0\x9f\x98\x80", 3));
}

TEST(cut_splits_no_character)
{
	const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"; /* 1 2 3 4 1 */
	static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};

	for (size_t most = 0; most < sizeof(want) / sizeof(want[0]); most++)
		CHECK(utf8_cut(text, 11, most) == want[most]);
}

TEST(cut_may_split_what_is_no_character)
{
	CHECK(utf8_cut("\x80\x80\x80\x80", 4, 2) == 2);
	CHECK(utf8_cut("\xe2\x82xx", 4, 1) == 1);
	CHECK(utf8_cut("\xe2\x82", 2, 1) == 1);
}

TEST(plain_stops_at_what_json_escapes)
{
	char text[40];

	for (unsigned c = 0; c < 0x80; c++) {
		for (size_t at = 0; at < 20; at++) {
			memset(text, 'a', sizeof(text));
			text[at] = (char)c;
			CHECK(utf8_plain(text, sizeof(text)) ==
			      (c < 0x20 || c == '"' || c == '\\' ? at : sizeof(text)));
		}
	}
	CHECK(utf8_plain("abc\xc3\xa9z\xff", 7) == 6);
	CHECK(utf8_plain("abcdefg\xc3", 8) == 7);
	CHECK(utf8_plain("", 0) == 0);
}

TEST(what_only_begins_is_left_out)
{
	static const struct {
		const char *text;
		size_t whole;
	} rows[] = {
		{"", 0},
		{"ab", 2},
		{"a\xc3", 1},
		{"a\xc3\xa9", 3},
		{"a\xe2\x82", 1},
		{"\xf0\x9f\x98", 0},
		{"\xf0\x9f\x98\x80", 4},
		/* no beginning of anything */
		{"a\x80", 2},
		{"a\xc0", 2},
		{"a\xe0\x80", 3},
		{"a\xed\xa0", 3},
		{"a\xff", 2},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(utf8_whole(rows[i].text, strlen(rows[i].text)) == rows[i].whole);
}
