/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tokens.h - SANDBOX_TOKEN_FILE: who may use this server, and how much
 *
 *	# a line each: name, hash, limits
 *	ci     sha256:0b5c...   concurrency=2 rate=100/m
 *	laptop sha256:77aa...
 *
 * The hash is SHA-256 of the token as clients send it. Tokens have 256 random bits, so a
 * hash needs no salt, and who reads the file has no token. Two lines may have one name:
 * both tokens are then the same client's, which is how one is rolled.
 */
#ifndef CONFIG_TOKENS_H
#define CONFIG_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"

struct buf;
struct err;

#define TOKEN_NAME 65          /* with its NUL */
#define TOKEN_TEXT 72          /* of one that we made, with its NUL */
#define TOKENS_MOST 1024       /* lines of a file, */
#define TOKENS_BYTES (1 << 18) /* and its size */
#define TOKEN_SESSIONS 500     /* that a name may keep, unless its line says how many; */
#define TOKEN_SESSIONS_MOST 1000 /* all that are kept */

struct token {
	char name[TOKEN_NAME];
	uint8_t hash[SHA256_BYTES];
	uint32_t concurrency; /* runs at the same time; 0: as the server has places */
	uint32_t rate;        /* requests in rate_ms; 0: any number */
	uint32_t rate_ms;
	uint32_t sessions; /* that it may keep; 0: TOKEN_SESSIONS */
};

struct tokens {
	size_t count;
	struct token one[TOKENS_MOST];
};

/* 0, or -1 and *e: "line 3: ..." */
int tokens_parse(const char *text, size_t len, struct tokens *out, struct err *e);
/* the whole file as text, NUL-terminated; *e names it. One that others than its owner may
 * write is refused; *out_open: others may read it */
int tokens_read(const char *path, struct buf *out, int *out_open, struct err *e);
void token_hash(const char *text, size_t len, uint8_t out[SHA256_BYTES]);
int token_name_ok(const char *name); /* [A-Za-z0-9._-]{1,64} */
/* a new one */
void token_make(char out[TOKEN_TEXT]);

#endif
