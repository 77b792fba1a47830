/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_base64.c - base64 both ways
 *
 * Bytes come back from their text; and a text that is taken is the only one for its
 * bytes.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* memory of exactly that size: a sanitizer sees the first byte beyond it */
static void *exact(size_t size)
{
	void *p = malloc(size ? size : 1);

	assert(p);
	return p;
}

static void there_and_back(const uint8_t *data, size_t size)
{
	size_t room = base64_room(size);
	char *text = exact(room);
	uint8_t *back = exact(room / 4 * 3);
	struct buf b;

	base64_encode(data, size, text);
	assert(base64_decode(text, room, back) == (ssize_t)size);
	assert(!size || memcmp(back, data, size) == 0);
	buf_init(&b, room);
	assert(buf_base64(&b, data, size) == 0 && b.len == room);
	assert(!room || memcmp(b.bytes, text, room) == 0);
	buf_done(&b);
	free(text);
	free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = exact(size / 4 * 3);
	ssize_t n = base64_decode((const char *)data, size, bytes);

	if (n >= 0) {
		char *text = exact(base64_room((size_t)n));

		assert((size_t)n <= size / 4 * 3 && base64_room((size_t)n) == size);
		base64_encode(bytes, (size_t)n, text);
		assert(!size || memcmp(text, data, size) == 0);
		free(text);
	} else {
		assert(errno == EINVAL);
	}
	free(bytes);
	there_and_back(data, size);
	return 0;
}
