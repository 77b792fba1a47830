/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * chain.h - lines of JSON that are chained by hash
 *
 *	{...,"line":7,"prev":"<hash of line 6>","hash":"<hash>"}
 *
 * The hash is SHA-256, in hex, of all bytes of a line before ,"hash". It covers prev, so
 * that nobody can change, remove, add or move a line without changing all that follow.
 */
#ifndef BASE_CHAIN_H
#define BASE_CHAIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"

struct buf;
struct err;

#define CHAIN_HEX (2 * SHA256_BYTES + 1)

/* the last line; zeroed: there is none yet */
struct chain {
	uint64_t line;
	char hash[CHAIN_HEX]; /* "" as long as line is 0; then prev is 64 zeros */
};

void chain_hash(const void *bytes, size_t len, char out[CHAIN_HEX]);
/* line is an object without its last brace; it gets that and the links, and a newline. c
 * goes on. 0, or -1 as buf_add: then c is as before */
int chain_seal(struct chain *c, struct buf *line);
/* a line without its newline: its number and hash, and the hash it follows. -1 and *e:
 * it is not one, or not what its hash says */
int chain_read(const char *line, size_t len, struct chain *out, char out_prev[CHAIN_HEX],
	       struct err *e);

#endif
