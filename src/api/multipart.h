/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * multipart.h - a file in a form, as RFC 7578 has it
 */
#ifndef API_MULTIPART_H
#define API_MULTIPART_H

#include <stddef.h>

struct err;

enum { MULTIPART_NAME = 4096 };

struct multipart_file {
	char name[MULTIPART_NAME]; /* as the form has it: it may be any path */
	size_t name_len;
	const char *bytes; /* inside the body */
	size_t len;
};

/* bytes somewhere, no NUL behind them; p NULL: not given */
struct multipart_text {
	const char *p;
	size_t len;
};

/* the part of this name, which must be a file's; type is the Content-Type of the whole.
 * *e: 400 bad_form, 415 */
int multipart_find(struct multipart_text type, struct multipart_text body,
		   const char *part, struct multipart_file *out, struct err *e);

#endif
