/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * buf.c - growing bytes with a hard cap
 *
 * room never exceeds cap_bytes + 1, the 1 being for the NUL.
 */
#include "base/buf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"

enum { FIRST_ROOM = 64 };

void buf_init(struct buf *b, size_t cap_bytes)
{
	/* half the address space is no limit either, and sums cannot overflow */
	*b = (struct buf){.cap_bytes = cap_bytes < SIZE_MAX / 4 ? cap_bytes
								: SIZE_MAX / 4};
}

void buf_done(struct buf *b)
{
	int saved = errno;

	if (!b)
		return;
	free(b->bytes);
	b->bytes = NULL;
	b->len = b->room = 0;
	errno = saved;
}

int buf_reserve(struct buf *b, size_t more)
{
	size_t need, room;
	char *bytes;

	if (b->len > b->cap_bytes || more > b->cap_bytes - b->len) {
		errno = ENOSPC;
		return -1;
	}
	need = b->len + more + 1;
	if (need <= b->room)
		return 0;
	room = b->room ? b->room * 2 : FIRST_ROOM;
	if (room < need)
		room = need;
	if (room > b->cap_bytes + 1)
		room = b->cap_bytes + 1;
	bytes = realloc(b->bytes, room);
	if (!bytes) {
		errno = ENOMEM;
		return -1;
	}
	b->bytes = bytes;
	b->room = room;
	return 0;
}

int buf_add(struct buf *b, const void *bytes, size_t len)
{
	if (buf_reserve(b, len) < 0)
		return -1;
	if (len)
		memcpy(b->bytes + b->len, bytes, len);
	b->len += len;
	return 0;
}

int buf_text(struct buf *b)
{
	if (buf_reserve(b, 0) < 0)
		return -1;
	b->bytes[b->len] = 0;
	return 0;
}

int buf_puts(struct buf *b, const char *text)
{
	return buf_add(b, text, strlen(text));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	size_t room = b->room - b->len;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(room ? b->bytes + b->len : NULL, room, fmt, ap);
	va_end(ap);
	if (len < 0 || buf_reserve(b, (size_t)len) < 0)
		return -1;
	if ((size_t)len >= room) {
		va_start(ap, fmt);
		vsnprintf(b->bytes + b->len, b->room - b->len, fmt, ap);
		va_end(ap);
	}
	b->len += (size_t)len;
	return 0;
}

void buf_drop(struct buf *b, size_t n)
{
	if (n > b->len)
		n = b->len;
	b->len -= n;
	if (n && b->len)
		memmove(b->bytes, b->bytes + n, b->len);
}

int buf_base64(struct buf *b, const void *bytes, size_t len)
{
	size_t room = base64_room(len);

	if (buf_reserve(b, room) < 0)
		return -1;
	base64_encode(bytes, len, b->bytes + b->len);
	b->len += room;
	return 0;
}

static int add_escape(struct buf *b, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	static const char shorts[256] = {
		['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
		['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't'};
	char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};

	if (!shorts[c])
		return buf_add(b, text, 6);
	text[1] = shorts[c];
	return buf_add(b, text, 2);
}

static int add_escaped(struct buf *b, const char *p, size_t len)
{
	size_t i = 0, run;
	unsigned char c;

	while (i < len) {
		run = utf8_plain(p + i, len - i);
		if (buf_add(b, p + i, run) < 0)
			return -1;
		i += run;
		if (i == len)
			break;
		c = (unsigned char)p[i];
		if (c < 0x80) {
			if (add_escape(b, c) < 0)
				return -1;
			i++;
		} else {
			if (buf_add(b, "\xef\xbf\xbd", 3) < 0)
				return -1;
			i += utf8_bad(p + i, len - i);
		}
	}
	return 0;
}

void buf_fit(struct buf *b)
{
	char *less = b->len ? realloc(b->bytes, b->len + 1) : NULL;

	if (!less)
		return;
	b->bytes = less;
	b->room = b->len + 1;
}

int buf_json_string(struct buf *b, const char *bytes, size_t len)
{
	size_t before = b->len;

	/* no escape is shorter than what it stands for: less room than this cannot do */
	if (len > SIZE_MAX - 2) {
		errno = ENOSPC;
		return -1;
	}
	if (buf_reserve(b, len + 2) < 0)
		return -1;
	if (buf_add(b, "\"", 1) == 0 && add_escaped(b, bytes, len) == 0 &&
	    buf_add(b, "\"", 1) == 0)
		return 0;
	b->len = before;
	return -1;
}
