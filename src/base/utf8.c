/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * utf8.c - table 3-7 of the Unicode standard, and maximal subparts
 */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* what may follow a lead byte: how many bytes in all, and the range of the second */
struct lead {
	unsigned char size, low, high;
};

static struct lead lead_of(unsigned char c)
{
	if (c < 0x80)
		return (struct lead){1, 0, 0};
	if (c >= 0xc2 && c <= 0xdf)
		return (struct lead){2, 0x80, 0xbf};
	if (c >= 0xe0 && c <= 0xef)
		return (struct lead){3, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf};
	if (c >= 0xf0 && c <= 0xf4)
		return (struct lead){4, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf};
	return (struct lead){0, 0, 0};
}

/* how many bytes at p could begin one character, at most its size */
static size_t matching(const unsigned char *p, size_t len, struct lead lead)
{
	size_t n = 1;

	if (lead.size < 2 || len < 2 || p[1] < lead.low || p[1] > lead.high)
		return n;
	for (n = 2; n < lead.size && n < len && (p[n] & 0xc0) == 0x80; n++)
		;
	return n;
}

size_t utf8_char(const char *p, size_t len)
{
	const unsigned char *u = (const unsigned char *)p;
	struct lead lead;

	if (len == 0)
		return 0;
	lead = lead_of(u[0]);
	return lead.size && matching(u, len, lead) == lead.size ? lead.size : 0;
}

size_t utf8_bad(const char *p, size_t len)
{
	const unsigned char *u = (const unsigned char *)p;

	return len ? matching(u, len, lead_of(u[0])) : 1;
}

bool utf8_valid(const char *p, size_t len)
{
	size_t i = 0, n;
	uint64_t word;

	while (i < len) {
		while (len - i >= 8) {
			memcpy(&word, p + i, 8);
			if (word & 0x8080808080808080u)
				break;
			i += 8;
		}
		if (i == len)
			break;
		n = utf8_char(p + i, len - i);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

size_t utf8_cut(const char *p, size_t len, size_t most)
{
	if (len <= most)
		return len;
	for (size_t back = 1; back <= 3 && back <= most; back++)
		if (utf8_char(p + most - back, len - (most - back)) > back)
			return most - back;
	return most;
}

size_t utf8_whole(const char *p, size_t len)
{
	for (size_t back = 1; back <= 3 && back <= len; back++) {
		const unsigned char *u = (const unsigned char *)p + len - back;
		const struct lead lead = lead_of(u[0]);

		if (lead.size > back && matching(u, back, lead) == back)
			return len - back;
	}
	return len;
}

/* eight bytes that stand for themselves: ASCII from space on, no quote, no backslash */
static bool plain8(const char *p)
{
	const uint64_t high = 0x8080808080808080u, one = 0x0101010101010101u;
	uint64_t word, quote, slash;

	memcpy(&word, p, 8);
	quote = word ^ (one * '"');
	slash = word ^ (one * '\\');
	return !((word | (word - one * 0x20) | ((quote - one) & ~quote) |
		  ((slash - one) & ~slash)) &
		 high);
}

size_t utf8_plain(const char *p, size_t len)
{
	size_t i = 0, n;

	while (i < len) {
		if (len - i >= 8 && plain8(p + i)) {
			i += 8;
			continue;
		}
		if (p[i] == '"' || p[i] == '\\' || (unsigned char)p[i] < 0x20)
			break;
		n = utf8_char(p + i, len - i);
		if (n == 0)
			break;
		i += n;
	}
	return i;
}
