/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * admit.h - which request heads are let in
 *
 * Everything the parser lets through and must not is refused here, before a byte of the
 * body is looked at: two readers of one byte stream must never see different requests.
 */
#ifndef HTTP_ADMIT_H
#define HTTP_ADMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum { HEAD_CAP_BYTES = 16 * 1024, HEAD_CAP_LINES = 64 };

enum http_method {
	METHOD_GET,
	METHOD_HEAD,
	METHOD_POST,
	METHOD_PUT,
	METHOD_PATCH,
	METHOD_DELETE,
	METHOD_OPTIONS,
	METHOD_TRACE,
	METHOD_COUNT
};
extern const char *const method_names[METHOD_COUNT];

/* bytes inside a head, not NUL-terminated; p is NULL when the header is not there */
struct span {
	const char *p;
	size_t len;
};
bool span_is(struct span s, const char *text);            /* ignoring ASCII case */
bool span_next(struct span *list, struct span *out_item); /* of a comma list, trimmed */

struct http_head {
	enum http_method method;
	struct span path; /* begins with '/', without the query */
	struct span query;
	bool http10;
	bool close; /* the client wants, or HTTP/1.0 needs, the connection closed */
	bool expect_continue; /* and waits for 100 before it sends the body */
	bool chunked;
	uint64_t body_bytes; /* announced; 0 when chunked */
	/* headers, each at most once but for accept, whose first counts */
	struct span host, origin, sec_fetch_site, content_type, accept, request_id;
	struct span traceparent, connection, content_length, transfer_encoding, expect;
	struct span mcp_version, mcp_method, mcp_name, mcp_session;
	struct span range, if_none_match, workflow_run, agent_run;
	struct span authorization, api_key, access_token;
	struct span agent_name, environment; /* for the log */
};

/*
 * Looks for the end of a head in p[0..len), of which p[0..from) was looked at before: its
 * length, 0 when more is needed, -1 when a byte is there that no head may hold.
 */
ssize_t admit_scan(const char *p, size_t from, size_t len);
/* a whole head, as admit_scan() measured it; out points into it. *e: 400, 411, 413, 417,
 * 431, 505 */
int admit_head(const char *head, size_t len, uint64_t body_cap_bytes,
	       struct http_head *out, struct err *e);
/* *e: 413, by the name of what is sent: what is PUT is a file of a session; -1 */
int admit_too_large(const struct http_head *h, uint64_t cap, struct err *e);

#endif
