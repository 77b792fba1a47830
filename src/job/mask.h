/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mask.h - take secrets out of JSON text
 *
 * Values to hide are searched in the escaped form they have inside JSON strings, and only
 * in strings that are values: keys, numbers and structure stay as they are, so that JSON
 * stays JSON. Exact copies are found; what a program made of a secret otherwise is not.
 */
#ifndef JOB_MASK_H
#define JOB_MASK_H

#include <stddef.h>

struct buf;
struct mask;

/* the values of "NAME=value" words (NULL-terminated, or NULL) that have 8 bytes or more;
 * NULL with errno when memory is gone */
struct mask *mask_new(char *const *env);
void mask_free(struct mask *m);
/* JSON text onto out, masked; also userinfo in URLs. -1 with errno, E2BIG: more work than
 * a loop should do at once */
int mask_json(const struct mask *m, struct buf *out, const char *json, size_t len);

#endif
