/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * base64.c - RFC 4648 section 4: strict in, standard out
 */
#include "base/base64.h"

#include <errno.h>
#include <stdint.h>

static const char letters[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* value + 1 of each letter; 0 is no letter */
static const unsigned char values[256] = {
	['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,
	['G'] = 7,  ['H'] = 8,  ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12,
	['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18,
	['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
	['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30,
	['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36,
	['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42,
	['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
	['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54,
	['2'] = 55, ['3'] = 56, ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60,
	['8'] = 61, ['9'] = 62, ['+'] = 63, ['/'] = 64,
};

size_t base64_room(size_t len)
{
	if (len > SIZE_MAX / 4 * 3 - 2)
		return SIZE_MAX; /* no buffer is that big */
	return (len + 2) / 3 * 4;
}

void base64_encode(const void *bytes, size_t len, char *out)
{
	const unsigned char *p = bytes;
	unsigned group;

	for (; len >= 3; p += 3, len -= 3) {
		group = (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];
		*out++ = letters[group >> 18];
		*out++ = letters[group >> 12 & 63];
		*out++ = letters[group >> 6 & 63];
		*out++ = letters[group & 63];
	}
	if (len == 0)
		return;
	group = (unsigned)p[0] << 16 | (len == 2 ? (unsigned)p[1] << 8 : 0);
	*out++ = letters[group >> 18];
	*out++ = letters[group >> 12 & 63];
	*out++ = len == 2 ? letters[group >> 6 & 63] : '=';
	*out++ = '=';
}

static int refuse(void)
{
	errno = EINVAL;
	return -1;
}

/* the last group, when it is padded: 1 or 2 bytes; -1 when it is not a proper one */
static int decode_padded(const unsigned char *in, unsigned char *out)
{
	unsigned a = values[in[0]], b = values[in[1]], c = values[in[2]];

	if (!a || !b || (!c && in[2] != '='))
		return refuse();
	out[0] = (unsigned char)((a - 1) << 2 | (b - 1) >> 4);
	if (in[2] == '=')
		return (b - 1) & 15 ? refuse() : 1;
	if ((c - 1) & 3)
		return refuse();
	out[1] = (unsigned char)((b - 1) << 4 | (c - 1) >> 2);
	return 2;
}

ssize_t base64_decode(const char *text, size_t len, void *out)
{
	const unsigned char *in = (const unsigned char *)text, *end = in + len;
	unsigned char *start = out, *o = out;
	unsigned a, b, c, d, group;
	int last = 0;

	if (len % 4)
		return refuse();
	if (len && end[-1] == '=')
		end -= 4;
	for (; in < end; in += 4, o += 3) {
		a = values[in[0]], b = values[in[1]], c = values[in[2]],
		d = values[in[3]];
		if (!a || !b || !c || !d)
			return refuse();
		group = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6 | (d - 1);
		o[0] = (unsigned char)(group >> 16);
		o[1] = (unsigned char)(group >> 8);
		o[2] = (unsigned char)group;
	}
	if (len && text[len - 1] == '=') {
		last = decode_padded(in, o);
		if (last < 0)
			return -1;
	}
	return o - start + last;
}
