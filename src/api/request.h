/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * request.h - inside of api/: the parts of a request; for request*.c only
 *
 * Each takes the body's object and fills its own fields of *out: 0, or -1 and *e, which
 * names the field. What is half-filled then is request_done()'s to free.
 */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include "job/job.h"

struct json;

/* bytes of a JSON string into a buffer of just that size */
int request_copy(struct buf *to, const char *text, size_t len, struct err *e);
/* `files`; mode, row, code and limits must be there already */
int request_files(const struct json *body, const struct settings *s,
		  struct run_request *out, struct err *e);
/* `args` and `env` */
int request_words(const struct json *body, struct run_request *out, struct err *e);

#endif
