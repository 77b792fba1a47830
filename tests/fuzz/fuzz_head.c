/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_head.c - request heads and chunked bodies, whole and in pieces
 *
 * The first byte of an input says how large the pieces are; the rest is what a client
 * sends. However the bytes arrive the outcome must be the same, and a head that is let in
 * must hold no second reading: no bare line end, one length, a target that begins with a
 * slash.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "http/admit.h"
#include "http/auth.h"
#include "http/chunked.h"
#include "http/routes.h"
#include "http/stream.h"

enum { BODY_CAP = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ssize_t scan_in_pieces(const char *p, size_t len, size_t step)
{
	size_t have = 0;

	while (have < len) {
		size_t more = len - have < step ? len - have : step;
		ssize_t end = admit_scan(p, have, have + more);

		if (end)
			return end;
		have += more;
	}
	return 0;
}

/* how the body ended: taken bytes, or -1; what it held is in out */
static ssize_t chunks_in_pieces(const char *p, size_t len, size_t step, struct buf *out)
{
	struct chunked d = {0};
	size_t used = 0;
	struct err e;

	while (used < len && !chunked_done(&d)) {
		size_t more = len - used < step ? len - used : step;
		ssize_t n = chunked_feed(&d, p + used, more, out, &e);

		if (n < 0)
			return -1;
		assert((size_t)n == more || chunked_done(&d));
		used += (size_t)n;
	}
	return (ssize_t)used;
}

static void check_chunks(const char *p, size_t len, size_t step)
{
	struct buf whole, parts;
	ssize_t a, b;

	buf_init(&whole, BODY_CAP);
	buf_init(&parts, BODY_CAP);
	a = chunks_in_pieces(p, len, len + 1, &whole);
	b = chunks_in_pieces(p, len, step, &parts);
	assert(a == b);
	assert(a < 0 || whole.len == parts.len);
	assert(a < 0 || !whole.len || !memcmp(whole.bytes, parts.bytes, whole.len));
	buf_done(&whole);
	buf_done(&parts);
}

static void check_admitted(const char *head, size_t len, const struct http_head *h)
{
	struct sockaddr_in local = {.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct auth_rules rules = {.hosts = "a, b:1", .origins = "https://x"};
	char id[REQUEST_ID_ROOM], trace[TRACEPARENT_ROOM];
	struct err e;

	for (size_t i = 0; i < len; i++)
		assert(head[i] != '\n' || (i && head[i - 1] == '\r'));
	assert(!memchr(head, 0, len));
	assert(h->path.len && h->path.p[0] == '/');
	assert(h->path.p > head && h->path.p + h->path.len < head + len);
	assert(h->http10 || h->host.p);
	assert(!h->chunked || (!h->http10 && !h->content_length.p && !h->body_bytes));
	assert(h->body_bytes <= BODY_CAP);
	(void)auth_check(&rules, h, (const struct sockaddr *)&local, &e);
	(void)auth_json_body(h, &e);
	(void)routes_find(h->method, h->path, &e);
	(void)stream_wanted(h->accept);
	auth_request_id(h->request_id, id);
	auth_traceparent(h->traceparent, trace);
	assert(strlen(id) && strlen(id) < sizeof(id) && strlen(trace) < sizeof(trace));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data + 1;
	struct http_head h;
	struct err e = {0};
	size_t step;
	ssize_t end;

	if (size < 1)
		return 0;
	step = 1 + data[0] % 64U;
	size--;
	end = admit_scan(p, 0, size);
	assert(scan_in_pieces(p, size, step) == end);
	if (end <= 0)
		return check_chunks(p, size, step), 0;
	if (admit_head(p, (size_t)end, BODY_CAP, &h, &e) == 0) {
		check_admitted(p, (size_t)end, &h);
		if (h.chunked)
			check_chunks(p + end, size - (size_t)end, step);
	} else {
		assert(err_status(&e) >= 400 && e.text[0] && e.code[0]);
	}
	return 0;
}
