/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * auth.h - who may talk to this server: Host, Origin, content type, and the ids of a
 * request
 *
 * A browser on the operator's machine reaches the loopback too, and carries other
 * people's pages: Host stops rebound names, Origin and Sec-Fetch-Site stop cross-site
 * requests, the content type stops the forms that older browsers send without asking.
 */
#ifndef HTTP_AUTH_H
#define HTTP_AUTH_H

#include <stdbool.h>

#include "http/admit.h"

struct err;
struct sockaddr;

struct auth_rules {
	const char *
		hosts; /* NULL or a comma list of names, with or without port; "*": all */
	const char *origins; /* NULL or a comma list; "*": all */
};

/* local: the accepted socket's own address. *e: 421 host_not_allowed, 403
 * origin_not_allowed */
int auth_check(const struct auth_rules *a, const struct http_head *h,
	       const struct sockaddr *local, struct err *e);
/* a JSON body, or one without a type; else 415 unsupported_media_type */
int auth_json_body(const struct http_head *h, struct err *e);

/* of "Authorization: Bearer", else of X-API-Key, else of X-Access-Token; p NULL: none */
struct span auth_token(const struct http_head *h);

enum { REQUEST_ID_ROOM = 65, TRACEPARENT_ROOM = 56 };
/* the client's own when it is sane, else 128 random bits; given may have p NULL */
void auth_request_id(struct span given, char out[REQUEST_ID_ROOM]);
/* the header when it is one of W3C trace context, else "" */
void auth_traceparent(struct span given, char out[TRACEPARENT_ROOM]);

#endif
