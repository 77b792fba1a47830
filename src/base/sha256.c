/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sha256.c - names for things by what they are made of (FIPS 180-4)
 */
#include "base/sha256.h"

#include <string.h>

static const uint32_t round_words[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void take_block(struct sha256 *s, const uint8_t *b)
{
	uint32_t w[64], v[8];

	for (unsigned i = 0; i < 16; i++, b += 4)
		w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 |
		       b[3];
	for (unsigned i = 16; i < 64; i++) {
		const uint32_t a = w[i - 15], c = w[i - 2];

		w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
		       (turn(c, 17) ^ turn(c, 19) ^ c >> 10);
	}
	memcpy(v, s->state, sizeof(v));
	for (unsigned i = 0; i < 64; i++) {
		const uint32_t e = v[4], a = v[0];
		const uint32_t one = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
				     ((e & v[5]) ^ (~e & v[6])) + round_words[i] + w[i];
		const uint32_t two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) +
				     ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += one;
		v[0] = one + two;
	}
	for (unsigned i = 0; i < 8; i++)
		s->state[i] += v[i];
}

void sha256_begin(struct sha256 *s)
{
	*s = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
				       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *s, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len > 0) {
		const size_t used = s->len % sizeof(s->block);
		const size_t room = sizeof(s->block) - used;
		const size_t n = len < room ? len : room;

		memcpy(s->block + used, at, n);
		s->len += n;
		at += n;
		len -= n;
		if (n == room)
			take_block(s, s->block);
	}
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
	const uint64_t bits = s->len * 8;
	const uint8_t one = 0x80, zero = 0;
	uint8_t tail[8];

	sha256_add(s, &one, 1);
	while (s->len % sizeof(s->block) != sizeof(s->block) - sizeof(tail))
		sha256_add(s, &zero, 1);
	for (unsigned i = 0; i < sizeof(tail); i++)
		tail[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, tail, sizeof(tail));
	for (unsigned i = 0; i < SHA256_BYTES; i++)
		out[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}
