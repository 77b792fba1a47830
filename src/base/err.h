/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * err.h - a failure and whose it is
 *
 * Every filler returns -1, so that `return err_bad(e, ...)` is one statement. `e` may be
 * NULL when the caller does not care for the text.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

enum err_kind {
	ERR_NONE,
	ERR_THEIRS, /* the client's mistake: 4xx and the message */
	ERR_BUSY,   /* nobody's, too much at once: 429 */
	ERR_OURS,   /* ours: 500 and an id, the text goes to the log only */
};

struct err {
	enum err_kind kind;
	int num;        /* errno, 0 when there is none */
	int status;     /* HTTP status; 0: by kind (400, 429, 500) */
	char code[40];  /* snake_case, as in an error body */
	char text[512]; /* one sentence: lower case, no full stop */
};

#define ERR_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* THEIRS, 400, code "bad_request" */
int err_bad(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
/* THEIRS with a status and a code of its own */
int err_client(struct err *e, int status, const char *code, const char *fmt, ...)
	ERR_PRINTF(4, 5);
/* BUSY, 429, code "at_capacity" */
int err_busy(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
/* OURS; ": strerror(errno)" is appended, errno is kept in num and in errno */
int err_errno(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
/* OURS without an errno */
int err_ours(struct err *e, const char *fmt, ...) ERR_PRINTF(2, 3);
/* OURS, with a status and a code that clients see (501, 503, sandbox_setup_failed) */
int err_server(struct err *e, int status, const char *code, const char *fmt, ...)
	ERR_PRINTF(4, 5);
/* the HTTP status this failure is answered with */
int err_status(const struct err *e);

#endif
