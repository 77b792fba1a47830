/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_sha256.c - the published examples, in pieces of every size
 */
#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

#include "../tap.h"

static void hash(const char *text, size_t piece, char out[2 * SHA256_BYTES + 1])
{
	uint8_t sum[SHA256_BYTES];
	const size_t len = strlen(text);
	struct sha256 s;

	sha256_begin(&s);
	for (size_t at = 0; at < len; at += piece)
		sha256_add(&s, text + at, len - at < piece ? len - at : piece);
	sha256_end(&s, sum);
	for (unsigned i = 0; i < SHA256_BYTES; i++)
		snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

TEST(sums_are_the_published_ones)
{
	static const struct {
		const char *text, *sum;
	} rows[] = {
		{"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"abc",
		 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
	};
	char sum[2 * SHA256_BYTES + 1];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t piece = 1; piece < 70; piece++) {
			hash(rows[i].text, piece, sum);
			CHECK(strcmp(sum, rows[i].sum) == 0);
		}
}

TEST(a_million_bytes_are_summed)
{
	char sum[2 * SHA256_BYTES + 1];
	char *text = malloc(1000001);

	CHECK(text);
	memset(text, 'a', 1000000);
	text[1000000] = '\0';
	hash(text, 4099, sum);
	CHECK(strcmp(sum, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112"
			  "cd0") == 0);
	free(text);
}
