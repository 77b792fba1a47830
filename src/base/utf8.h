/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * utf8.h - is it UTF-8, and where may it be cut
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* bytes of the well-formed character at p (1..4), 0 when there is none */
size_t utf8_char(const char *p, size_t len);
/* bytes of the maximal ill-formed sequence at p, at least 1: one U+FFFD each */
size_t utf8_bad(const char *p, size_t len);
bool utf8_valid(const char *p, size_t len);
/* the longest prefix of at most `most` bytes that splits no well-formed character */
size_t utf8_cut(const char *p, size_t len, size_t most);
/* the same where what follows is not known: without a character that only begins */
size_t utf8_whole(const char *p, size_t len);
/* bytes at p that a JSON string holds as they are: well-formed, no quote, no backslash,
 * no control character */
size_t utf8_plain(const char *p, size_t len);

#endif
