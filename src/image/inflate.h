/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inflate.h - what gzip compressed, as it was (RFC 1951, RFC 1952)
 *
 * Several members in a row are one text, as gzip has it. Length and CRC-32 of each are
 * checked. How much comes out is for the sink to bound.
 */
#ifndef IMAGE_INFLATE_H
#define IMAGE_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

struct inflate_io {
	void *arg;
	/* more input: how many bytes; 0: its end; -1 and *e */
	ssize_t (*fill)(void *arg, char *bytes, size_t room, struct err *e);
	/* output, as it comes; -1 and *e ends it */
	int (*sink)(void *arg, const char *bytes, size_t len, struct err *e);
};

/* does it begin as gzip's? */
bool inflate_knows(const char *bytes, size_t len);
int inflate_gzip(const struct inflate_io *io, struct err *e);

#endif
