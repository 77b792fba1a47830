/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * base64.h - RFC 4648 section 4: strict in, standard out
 *
 * Decoding wants padding, zero trailing bits and nothing else in between; otherwise -1,
 * errno EINVAL.
 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stddef.h>
#include <sys/types.h>

size_t base64_room(size_t len); /* characters that len bytes become, without a NUL */
void base64_encode(const void *bytes, size_t len, char *out);
/* out needs len / 4 * 3 bytes; returns how many there are */
ssize_t base64_decode(const char *text, size_t len, void *out);

#endif
