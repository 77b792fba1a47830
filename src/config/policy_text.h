/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * policy_text.h - the JSON of a policy file, token by token, each with its line
 *
 * For small files of the operator's whose mistakes must be named with their line;
 * requests are read by base/json.h. Every reader returns -1 and fills *e with "FILE:LINE:
 * ..." on failure.
 */
#ifndef CONFIG_POLICY_TEXT_H
#define CONFIG_POLICY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct policy_text {
	const char *file;
	const char *at;
	const char *end;
	unsigned line;       /* of `at` */
	unsigned token_line; /* of the token read last */
	struct err *e;
};

void policy_text_init(struct policy_text *t, const char *file, const char *text,
		      size_t len, struct err *e);
/* *e becomes "FILE:LINE: ..." with the line of the token read last */
int policy_text_fail(struct policy_text *t, const char *fmt, ...) ERR_PRINTF(2, 3);
/* one of the characters { [ : */
int policy_text_expect(struct policy_text *t, char c);
/* 1: an item follows, 0: that was `close` ('}' or ']'); *first is true before the first
 * item */
int policy_text_next(struct policy_text *t, char close, bool *first);
/* a string without NUL, with room - 1 bytes at most */
int policy_text_string(struct policy_text *t, char *out, size_t room);
int policy_text_u64(struct policy_text *t, uint64_t most, uint64_t *out_n);
/* nothing but white space is left */
int policy_text_end(struct policy_text *t);

#endif
