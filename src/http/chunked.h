/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * chunked.h - the chunked transfer coding, decoded in one linear pass
 *
 * Stricter than the RFC: no chunk extensions and no trailers, which nobody sends and two
 * readers understand in three ways.
 */
#ifndef HTTP_CHUNKED_H
#define HTTP_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;

struct chunked {
	int state; /* zeroed: at the beginning */
	unsigned digits;
	uint64_t left;
};

/*
 * Takes what belongs to the body out of in, appends the data to out: bytes taken, or -1
 * and *e, 400 or 413 (over out's cap). Fewer than len are taken only when the body is
 * complete.
 */
ssize_t chunked_feed(struct chunked *d, const char *in, size_t len, struct buf *out,
		     struct err *e);
bool chunked_done(const struct chunked *d);

#endif
