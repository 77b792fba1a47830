/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * buf.h - growing bytes with a hard cap
 *
 * buf_add and its kin return 0, or -1 with errno ENOSPC (over the cap) or ENOMEM, and
 * then nothing was added. Growth doubles, so a big buffer is filled in linear time. There
 * is always room for one NUL behind the bytes: buf_text() puts it there.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

struct buf {
	char *bytes;
	size_t len;
	size_t room;
	size_t cap_bytes;
};

void buf_init(struct buf *b, size_t cap_bytes);
void buf_done(struct buf *b); /* frees; the buf may be used again */
int buf_reserve(struct buf *b, size_t more);
int buf_add(struct buf *b, const void *bytes, size_t len);
int buf_text(struct buf *b); /* NUL-terminates without counting it */
int buf_puts(struct buf *b, const char *text);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* drop the first n bytes */
void buf_drop(struct buf *b, size_t n);
/* gives back room that is not needed, where that can be done */
void buf_fit(struct buf *b);
/* text as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD */
int buf_json_string(struct buf *b, const char *bytes, size_t len);
int buf_base64(struct buf *b, const void *bytes, size_t len);

#endif
