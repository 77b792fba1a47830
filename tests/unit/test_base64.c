/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_base64.c - every length both ways, and what is refused
 */
#include "base/base64.h"

#include <errno.h>
#include <stdint.h>

#include "../tap.h"

TEST(vectors_of_the_rfc)
{
	static const char *const v[][2] = {{"", ""},
					   {"f", "Zg=="},
					   {"fo", "Zm8="},
					   {"foo", "Zm9v"},
					   {"foob", "Zm9vYg=="},
					   {"fooba", "Zm9vYmE="},
					   {"foobar", "Zm9vYmFy"}};
	char out[16];

	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		size_t len = strlen(v[i][0]), coded = strlen(v[i][1]);

		CHECK(base64_room(len) == coded);
		base64_encode(v[i][0], len, out);
		CHECK(!memcmp(out, v[i][1], coded));
		CHECK(base64_decode(v[i][1], coded, out) == (ssize_t)len);
		CHECK(!memcmp(out, v[i][0], len));
	}
}

TEST(all_bytes_come_back)
{
	unsigned char bytes[300], back[300];
	char coded[400];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 7 + i / 256);
	for (size_t len = 0; len <= sizeof(bytes); len++) {
		size_t room = base64_room(len);

		base64_encode(bytes, len, coded);
		memset(back, 0xee, sizeof(back));
		CHECK(base64_decode(coded, room, back) == (ssize_t)len);
		CHECK(!memcmp(back, bytes, len));
		CHECK(len == sizeof(back) || room / 4 * 3 > len || back[len] == 0xee);
	}
}

TEST(only_standard_text_is_taken)
{
	static const char *const bad[] = {
		"Z",      "Zg",   "Zg=",      "Zg===", "=",          "==",
		"====",   "Z===", "Zh==",     "Zm9=",  "Zm9",        "Zg==Zg==",
		"Zm9v\n", "Zm 9", "Zm9v Zm9", "Zm-_",  "Zm9v====",   "Zm9vZg==\n",
		"Zm=v",   "=m9v", "Zm9\x80",  "Zg=a",  "\xc3\xa9==",
	};
	unsigned char out[32];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK(base64_decode(bad[i], strlen(bad[i]), out) == -1 &&
		      errno == EINVAL);
	}
	CHECK(base64_decode("Zm\0v", 4, out) == -1);
}

TEST(every_foreign_byte_is_refused_in_every_place)
{
	static const char ok[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				 "0123456789+/";
	unsigned char out[6];
	char text[8];

	for (unsigned c = 0; c < 256; c++) {
		for (size_t at = 0; at < 7; at++) {
			memcpy(text, "AAAAAAAA", 8);
			text[at] = (char)c;
			CHECK((base64_decode(text, 8, out) == 6) ==
			      (memchr(ok, (int)c, 64) != NULL));
		}
	}
}

TEST(room_does_not_wrap)
{
	CHECK(base64_room(SIZE_MAX) == SIZE_MAX);
	CHECK(base64_room(SIZE_MAX - 1) == SIZE_MAX);
	CHECK(base64_room(SIZE_MAX / 4 * 3) >= SIZE_MAX / 4 * 3);
}
