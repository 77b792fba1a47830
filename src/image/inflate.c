/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inflate.c - what gzip compressed, as it was (RFC 1951, RFC 1952)
 *
 * Codes of up to FAST bits are found by one look into a table, longer ones bit by bit.
 * The last 32 KiB of output stay in a ring of twice that size, whose halves go to the
 * sink when they are full.
 */
#include "image/inflate.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define BITS_MOST 15 /* of a code */
#define FAST 10
#define LITERALS 288
#define DISTANCES 30
#define WINDOW 32768u
#define RING (2 * WINDOW)
#define INPUT 32768

struct code {
	uint16_t fast[1 << FAST]; /* symbol << 4 | length; 0: a longer one, or none */
	uint16_t count[BITS_MOST + 1];
	uint16_t symbol[LITERALS]; /* by code */
};

struct inflate {
	const struct inflate_io *io;
	struct err *e;
	uint64_t bits;
	unsigned have; /* of bits */
	size_t at, len;
	bool over;      /* the input has no more */
	uint64_t total; /* of this member */
	size_t flushed; /* in the ring */
	uint32_t crc;
	struct code literal, distance;
	unsigned char input[INPUT];
	unsigned char ring[RING];
};

static uint32_t crc_table[256];

static void fill_crc_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
		crc_table[i] = c;
	}
}

static uint32_t crc_add(uint32_t crc, const unsigned char *p, size_t len)
{
	crc = ~crc;
	while (len--)
		crc = crc_table[(crc ^ *p++) & 0xff] ^ crc >> 8;
	return ~crc;
}

static int damaged(struct inflate *s)
{
	return err_bad(s->e, "the compressed data is damaged");
}

/* at least so many bits, or all that there are; -1: the input cannot be read */
static int refill(struct inflate *s, unsigned want)
{
	while (s->have < want && !s->over) {
		if (s->at == s->len) {
			const ssize_t n = s->io->fill(s->io->arg, (char *)s->input,
						      sizeof(s->input), s->e);

			if (n < 0)
				return -1;
			s->over = n == 0;
			s->at = 0;
			s->len = (size_t)n;
			continue;
		}
		while (s->have <= 56 && s->at < s->len) {
			s->bits |= (uint64_t)s->input[s->at++] << s->have;
			s->have += 8;
		}
	}
	return 0;
}

/* want: 32 at most */
static int take(struct inflate *s, unsigned want, uint32_t *out)
{
	if (s->have < want && refill(s, want) < 0)
		return -1;
	if (s->have < want)
		return err_bad(s->e, "the compressed data is cut short");
	*out = (uint32_t)(s->bits & ((UINT64_C(1) << want) - 1));
	s->bits >>= want;
	s->have -= want;
	return 0;
}

static int flush(struct inflate *s)
{
	const size_t end = (size_t)(s->total % RING);
	const size_t upto = end == 0 && s->total ? RING : end;
	const size_t n = upto - s->flushed;

	s->crc = crc_add(s->crc, s->ring + s->flushed, n);
	if (n && s->io->sink(s->io->arg, (const char *)s->ring + s->flushed, n, s->e) < 0)
		return -1;
	s->flushed = upto % RING;
	return 0;
}

static inline int put(struct inflate *s, unsigned char c)
{
	s->ring[s->total++ % RING] = c;
	return s->total % WINDOW == 0 ? flush(s) : 0;
}

/* RFC 1951, 3.2.2; -1: more codes than bits can tell apart. Too few are reported by
 * out_whole */
static int build(struct code *c, const uint8_t *length, unsigned n, bool *out_whole)
{
	unsigned offset[BITS_MOST + 2] = {0}, code = 0, first[BITS_MOST + 1];
	int left = 1;

	memset(c, 0, sizeof(*c));
	for (unsigned i = 0; i < n; i++)
		c->count[length[i]]++;
	c->count[0] = 0;
	for (unsigned b = 1; b <= BITS_MOST; b++) {
		left = left * 2 - c->count[b];
		if (left < 0)
			return -1;
		code = (code + (b > 1 ? c->count[b - 1] : 0)) << 1;
		first[b] = code;
		offset[b + 1] = offset[b] + c->count[b];
	}
	*out_whole = left == 0;
	for (unsigned i = 0; i < n; i++) {
		const unsigned b = length[i];
		unsigned turned = 0;

		if (b == 0)
			continue;
		code = first[b]++;
		c->symbol[offset[b]++] = (uint16_t)i;
		if (b > FAST)
			continue;
		for (unsigned k = 0; k < b; k++)
			turned |= (code >> k & 1) << (b - 1 - k);
		for (; turned < 1 << FAST; turned += 1u << b)
			c->fast[turned] = (uint16_t)(i << 4 | b);
	}
	return 0;
}

/* bit by bit: codes of a length follow each other */
static int decode_long(struct inflate *s, const struct code *c, unsigned *out)
{
	unsigned code = 0, first = 0, index = 0;

	for (unsigned b = 1; b <= BITS_MOST && b <= s->have; b++) {
		code |= (unsigned)(s->bits >> (b - 1) & 1);
		if (code < first + c->count[b]) {
			*out = c->symbol[index + code - first];
			s->bits >>= b;
			s->have -= b;
			return 0;
		}
		index += c->count[b];
		first = (first + c->count[b]) << 1;
		code <<= 1;
	}
	return s->have < BITS_MOST ? err_bad(s->e, "the compressed data is cut short")
				   : damaged(s);
}

static inline int decode(struct inflate *s, const struct code *c, unsigned *out)
{
	unsigned fast, b;

	if (s->have < BITS_MOST && refill(s, BITS_MOST) < 0)
		return -1;
	fast = c->fast[s->bits & ((1 << FAST) - 1)];
	b = fast & 15;
	if (b == 0 || b > s->have)
		return decode_long(s, c, out);
	*out = fast >> 4;
	s->bits >>= b;
	s->have -= b;
	return 0;
}

static int copy_back(struct inflate *s, unsigned symbol)
{
	static const uint16_t base[] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
					15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
					67, 83, 99, 115, 131, 163, 195, 227, 258};
	static const uint8_t extra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
					2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
	static const uint16_t far[] = {1,    2,    3,    4,     5,     7,    9,    13,
				       17,   25,   33,   49,    65,    97,   129,  193,
				       257,  385,  513,  769,   1025,  1537, 2049, 3073,
				       4097, 6145, 8193, 12289, 16385, 24577};
	unsigned which = 0;
	uint32_t length = 0, distance = 0;

	symbol -= 257;
	if (symbol >= sizeof(extra))
		return damaged(s);
	if (take(s, extra[symbol], &length) < 0 || decode(s, &s->distance, &which) < 0)
		return -1;
	if (which >= DISTANCES)
		return damaged(s);
	if (take(s, which < 2 ? 0 : which / 2 - 1, &distance) < 0)
		return -1;
	length += base[symbol];
	distance += far[which];
	if (distance > s->total)
		return damaged(s);
	while (length--)
		if (put(s, s->ring[(s->total - distance) % RING]) < 0)
			return -1;
	return 0;
}

static int inflate_codes(struct inflate *s)
{
	unsigned symbol = 0;

	for (;;) {
		if (decode(s, &s->literal, &symbol) < 0)
			return -1;
		if (symbol == 256)
			return 0;
		if (symbol < 256 ? put(s, (unsigned char)symbol) < 0
				 : copy_back(s, symbol) < 0)
			return -1;
	}
}

static int inflate_stored(struct inflate *s)
{
	uint32_t len = 0, check = 0, c = 0;

	s->bits >>= s->have % 8;
	s->have -= s->have % 8;
	if (take(s, 16, &len) < 0 || take(s, 16, &check) < 0)
		return -1;
	if ((len ^ check) != 0xffff)
		return damaged(s);
	while (len--)
		if (take(s, 8, &c) < 0 || put(s, (unsigned char)c) < 0)
			return -1;
	return 0;
}

static int inflate_fixed(struct inflate *s)
{
	uint8_t length[LITERALS];
	bool whole;

	memset(length, 8, 144);
	memset(length + 144, 9, 112);
	memset(length + 256, 7, 24);
	memset(length + 280, 8, 8);
	(void)build(&s->literal, length, LITERALS, &whole);
	memset(length, 5, DISTANCES);
	(void)build(&s->distance, length, DISTANCES, &whole);
	return inflate_codes(s);
}

/* lengths of codes, which are coded too */
static int read_lengths(struct inflate *s, uint8_t *length, unsigned n)
{
	unsigned at = 0, symbol = 0;
	uint32_t times = 0;
	uint8_t what;

	while (at < n) {
		if (decode(s, &s->literal, &symbol) < 0)
			return -1;
		if (symbol < 16) {
			length[at++] = (uint8_t)symbol;
			continue;
		}
		if (symbol == 16 && at == 0)
			return damaged(s);
		what = symbol == 16 ? length[at - 1] : 0;
		if (take(s, symbol == 16 ? 2 : symbol == 17 ? 3 : 7, &times) < 0)
			return -1;
		times += symbol == 18 ? 11 : 3;
		if (times > n - at)
			return damaged(s);
		memset(length + at, what, times);
		at += times;
	}
	return 0;
}

/* one code of one bit may stand alone, as every coder writes it */
static bool enough(const struct code *c, bool whole)
{
	unsigned all = 0;

	for (unsigned b = 1; b <= BITS_MOST; b++)
		all += c->count[b];
	return whole || all == 0 || (all == 1 && c->count[1] == 1);
}

static int inflate_dynamic(struct inflate *s)
{
	static const uint8_t order[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
					  11, 4,  12, 3, 13, 2, 14, 1, 15};
	uint8_t length[LITERALS + 32] = {0}, small[19] = {0};
	uint32_t literals = 0, distances = 0, lengths = 0, n = 0;
	bool whole = false;

	if (take(s, 5, &literals) < 0 || take(s, 5, &distances) < 0 ||
	    take(s, 4, &lengths) < 0)
		return -1;
	literals += 257;
	distances += 1;
	if (literals > 286 || distances > DISTANCES)
		return damaged(s);
	for (unsigned i = 0; i < lengths + 4; i++) {
		if (take(s, 3, &n) < 0)
			return -1;
		small[order[i]] = (uint8_t)n;
	}
	if (build(&s->literal, small, sizeof(small), &whole) < 0 || !whole)
		return damaged(s);
	if (read_lengths(s, length, literals + distances) < 0)
		return -1;
	if (length[256] == 0 || build(&s->literal, length, literals, &whole) < 0 ||
	    !enough(&s->literal, whole) ||
	    build(&s->distance, length + literals, distances, &whole) < 0 ||
	    !enough(&s->distance, whole))
		return damaged(s);
	return inflate_codes(s);
}

static int inflate_blocks(struct inflate *s)
{
	uint32_t last = 0, kind = 0;

	while (!last) {
		if (take(s, 1, &last) < 0 || take(s, 2, &kind) < 0)
			return -1;
		if (kind == 3)
			return damaged(s);
		if (kind == 0   ? inflate_stored(s) < 0
		    : kind == 1 ? inflate_fixed(s) < 0
				: inflate_dynamic(s) < 0)
			return -1;
	}
	return flush(s);
}

enum { F_CRC = 2, F_EXTRA = 4, F_NAME = 8, F_COMMENT = 16, F_UNKNOWN = 0xe0 };

static int skip_text(struct inflate *s)
{
	uint32_t c = 0;

	do
		if (take(s, 8, &c) < 0)
			return -1;
	while (c);
	return 0;
}

static int read_head(struct inflate *s)
{
	uint32_t magic = 0, method = 0, flags = 0, n = 0, c = 0;

	if (take(s, 16, &magic) < 0 || take(s, 8, &method) < 0 || take(s, 8, &flags) < 0)
		return -1;
	if (magic != 0x8b1f || method != 8 || flags & F_UNKNOWN)
		return damaged(s);
	/* time, kind of compression, system */
	if (take(s, 32, &n) < 0 || take(s, 16, &n) < 0)
		return -1;
	if (flags & F_EXTRA) {
		if (take(s, 16, &n) < 0)
			return -1;
		while (n--)
			if (take(s, 8, &c) < 0)
				return -1;
	}
	if ((flags & F_NAME && skip_text(s) < 0) ||
	    (flags & F_COMMENT && skip_text(s) < 0))
		return -1;
	return flags & F_CRC ? take(s, 16, &n) : 0;
}

static int read_tail(struct inflate *s)
{
	uint32_t crc = 0, len = 0;

	s->bits >>= s->have % 8;
	s->have -= s->have % 8;
	if (take(s, 32, &crc) < 0 || take(s, 32, &len) < 0)
		return -1;
	if (crc != s->crc || len != (uint32_t)s->total)
		return damaged(s);
	return 0;
}

bool inflate_knows(const char *bytes, size_t len)
{
	return len >= 3 && memcmp(bytes, "\x1f\x8b\x08", 3) == 0;
}

int inflate_gzip(const struct inflate_io *io, struct err *e)
{
	struct inflate *s = mem_zero(sizeof(*s));
	int rc;

	fill_crc_table();
	s->io = io;
	s->e = e;
	do {
		s->total = s->flushed = s->crc = 0;
		rc = read_head(s) < 0 || inflate_blocks(s) < 0 || read_tail(s) < 0 ? -1
										   : 0;
	} while (rc == 0 && (rc = refill(s, 8)) == 0 && s->have);
	free(s);
	return rc;
}
