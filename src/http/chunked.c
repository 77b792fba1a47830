/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * chunked.c - the chunked transfer coding, decoded in one linear pass
 */
#include "http/chunked.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"

enum { AT_SIZE, AT_SIZE_LF, AT_DATA, AT_DATA_CR, AT_DATA_LF, AT_END_CR, AT_END_LF, DONE };
enum { MOST_DIGITS = 8 };

bool chunked_done(const struct chunked *d)
{
	return d->state == DONE;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int take_size(struct chunked *d, char c, struct err *e)
{
	int v = hex(c);

	if (v >= 0 && d->digits < MOST_DIGITS) {
		d->left = d->left * 16 + (uint64_t)v;
		d->digits++;
		return 0;
	}
	if (c != '\r' || d->digits == 0)
		return err_bad(e, "bad chunk size");
	d->state = AT_SIZE_LF;
	return 0;
}

/* a byte that is not data */
static int take_frame(struct chunked *d, char c, struct err *e)
{
	static const struct {
		char want;
		int next;
	} step[] = {
		[AT_DATA_CR] = {'\r', AT_DATA_LF},
		[AT_DATA_LF] = {'\n', AT_SIZE},
		[AT_END_CR] = {'\r', AT_END_LF},
		[AT_END_LF] = {'\n', DONE},
	};

	if (d->state == AT_SIZE)
		return take_size(d, c, e);
	if (d->state == AT_SIZE_LF) {
		if (c != '\n')
			return err_bad(e, "bad chunk size");
		d->state = d->left ? AT_DATA : AT_END_CR;
		return 0;
	}
	if (c != step[d->state].want)
		return err_bad(e, "bad chunk");
	d->state = step[d->state].next;
	d->digits = 0;
	return 0;
}

ssize_t chunked_feed(struct chunked *d, const char *in, size_t len, struct buf *out,
		     struct err *e)
{
	size_t i = 0;

	while (i < len && d->state != DONE) {
		size_t n = len - i;

		if (d->state != AT_DATA) {
			if (take_frame(d, in[i++], e) < 0)
				return -1;
			/* known now, though the data has still to come */
			if (d->state == AT_DATA && d->left > out->cap_bytes - out->len)
				return err_client(e, 413, "body_too_large",
						  "the body is larger than %zu bytes",
						  out->cap_bytes);
			continue;
		}
		if (n > d->left)
			n = (size_t)d->left;
		if (buf_add(out, in + i, n) < 0)
			return err_errno(e, "keep a chunk");
		i += n;
		d->left -= n;
		if (d->left == 0)
			d->state = AT_DATA_CR;
	}
	return (ssize_t)i;
}
