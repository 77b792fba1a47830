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
/* `files`, base64 or plain text; mode, row, code and limits must be there already */
int request_files(const struct json *body, bool plain, const struct settings *s,
		  struct run_request *out, struct err *e);
/* `network`: out->network, within what the operator allows */
int request_network(const struct json *body, const struct settings *s,
		    struct run_request *out, struct err *e);
/* the same of a member of another name, or of what was kept of it: false, true, or hosts.
 * NULL stays in *out where nothing may be reached */
int request_hosts(const struct json *v, const char *name, const struct settings *s,
		  struct rules **out, struct err *e);
/* `args` and `env` */
int request_words(const struct json *body, struct run_request *out, struct err *e);

/* `requirements`; mode must be there already */
int request_requirements(const struct json *body, struct run_request *out, struct err *e);

#endif
