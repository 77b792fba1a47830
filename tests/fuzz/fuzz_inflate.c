/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_inflate.c - compressed bytes of anybody: nothing is read beyond their end, and the
 * pieces they come in do not matter
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "image/inflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OUT_MOST (1 << 18)

struct io {
	const uint8_t *data;
	size_t size, at, piece, out;
	uint64_t sum; /* of what came out, in its order */
};

static ssize_t on_fill(void *arg, char *bytes, size_t room, struct err *e)
{
	struct io *io = arg;
	size_t n = io->size - io->at;

	(void)e;
	n = n < io->piece ? n : io->piece;
	n = n < room ? n : room;
	if (n)
		memcpy(bytes, io->data + io->at, n);
	io->at += n;
	return (ssize_t)n;
}

static int on_sink(void *arg, const char *bytes, size_t len, struct err *e)
{
	struct io *io = arg;

	assert(len);
	io->out += len;
	for (size_t i = 0; i < len; i++)
		io->sum = (io->sum ^ (uint8_t)bytes[i]) * UINT64_C(1099511628211);
	return io->out > OUT_MOST ? err_bad(e, "enough") : 0;
}

static int inflate(const uint8_t *data, size_t size, size_t piece, uint64_t *out_sum)
{
	struct io io = {.data = data, .size = size, .piece = piece};
	const struct inflate_io with = {&io, on_fill, on_sink};
	struct err e = {0};
	int rc;

	rc = inflate_gzip(&with, &e);
	assert(rc == 0 || e.kind != ERR_NONE);
	*out_sum = io.sum;
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t one, other;
	const int rc = inflate(data, size, size ? size : 1, &one);

	assert(inflate(data, size, 3, &other) == rc);
	assert(one == other);
	return 0;
}
