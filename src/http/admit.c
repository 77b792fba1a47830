/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * admit.c - which request heads are let in
 *
 * Runs in: the server, once for every request, before the body.
 * Before:  admit_scan() found the end of the head.
 * After:   the head is one that every HTTP reader splits the same way, and says by itself
 *          where its body ends.
 */
#include "http/admit.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include <mongoose.h>

#include "base/err.h"

static_assert(MG_MAX_HTTP_HEADERS >= HEAD_CAP_LINES,
	      "the parser silently drops headers behind its last slot");

const char *const method_names[METHOD_COUNT] = {
	[METHOD_GET] = "GET",         [METHOD_HEAD] = "HEAD",
	[METHOD_POST] = "POST",       [METHOD_PUT] = "PUT",
	[METHOD_PATCH] = "PATCH",     [METHOD_DELETE] = "DELETE",
	[METHOD_OPTIONS] = "OPTIONS", [METHOD_TRACE] = "TRACE",
};

/* where each header goes; a second one of those that decide something is refused */
static const struct {
	const char *name;
	size_t where;
	bool may_repeat;
} known[] = {
	{"Host", offsetof(struct http_head, host), false},
	{"Origin", offsetof(struct http_head, origin), false},
	{"Sec-Fetch-Site", offsetof(struct http_head, sec_fetch_site), false},
	{"Content-Type", offsetof(struct http_head, content_type), false},
	{"Accept", offsetof(struct http_head, accept), true},
	{"X-Request-Id", offsetof(struct http_head, request_id), true},
	{"traceparent", offsetof(struct http_head, traceparent), true},
	{"Connection", offsetof(struct http_head, connection), false},
	{"Content-Length", offsetof(struct http_head, content_length), false},
	{"Transfer-Encoding", offsetof(struct http_head, transfer_encoding), false},
	{"Expect", offsetof(struct http_head, expect), false},
	{"MCP-Protocol-Version", offsetof(struct http_head, mcp_version), false},
	{"Mcp-Method", offsetof(struct http_head, mcp_method), false},
	{"Mcp-Name", offsetof(struct http_head, mcp_name), false},
	{"Mcp-Session-Id", offsetof(struct http_head, mcp_session), false},
	{"Range", offsetof(struct http_head, range), false},
	{"If-None-Match", offsetof(struct http_head, if_none_match), true},
	{"X-Workflow-Run-Id", offsetof(struct http_head, workflow_run), false},
	{"X-Agent-Run-Id", offsetof(struct http_head, agent_run), false},
	{"X-Agent-Name", offsetof(struct http_head, agent_name), true},
	{"X-Environment", offsetof(struct http_head, environment), true},
	{"Authorization", offsetof(struct http_head, authorization), false},
	{"X-API-Key", offsetof(struct http_head, api_key), false},
	{"X-Access-Token", offsetof(struct http_head, access_token), false},
};

bool span_is(struct span s, const char *text)
{
	return s.p && s.len == strlen(text) && strncasecmp(s.p, text, s.len) == 0;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

bool span_next(struct span *list, struct span *out_item)
{
	const char *comma;
	struct span item;

	if (!list->p || list->len == 0)
		return false;
	comma = memchr(list->p, ',', list->len);
	item.p = list->p;
	item.len = comma ? (size_t)(comma - list->p) : list->len;
	list->p += item.len + (comma ? 1 : 0);
	list->len -= item.len + (comma ? 1 : 0);
	while (item.len && blank(item.p[0]))
		item.p++, item.len--;
	while (item.len && blank(item.p[item.len - 1]))
		item.len--;
	*out_item = item;
	return true;
}

ssize_t admit_scan(const char *p, size_t from, size_t len)
{
	for (size_t i = from; i < len; i++) {
		unsigned char c = (unsigned char)p[i];

		if (i > 0 && p[i - 1] == '\r' && c != '\n')
			return -1; /* a stray CR ends lines for some readers */
		if (c == '\n') {
			if (i == 0 || p[i - 1] != '\r')
				return -1; /* bare LF: the same */
			if (i >= 3 && p[i - 2] == '\n')
				return (ssize_t)i + 1;
		} else if ((c < ' ' && c != '\t' && c != '\r') || c == 0x7f) {
			return -1; /* NUL and its kin; also the first byte of TLS */
		}
	}
	return 0;
}

static bool token_char(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* METHOD SP /target SP VERSION, one space each, nothing but visible ASCII */
static int admit_request_line(const char *line, size_t len, struct err *e)
{
	unsigned spaces = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)line[i];

		if (c == ' ')
			spaces++;
		else if (c < 0x21 || c > 0x7e)
			return err_bad(e, "bad byte in the request line");
	}
	if (spaces != 2)
		return err_bad(e, "bad request line");
	return 0;
}

/* no folding, no space before the colon: what follows a name is its value for everybody
 */
static int admit_header_line(const char *line, size_t len, struct err *e)
{
	size_t n = 0;

	if (len && blank(line[0]))
		return err_bad(e, "folded header line");
	while (n < len && token_char((unsigned char)line[n]))
		n++;
	if (n == 0 || n == len || line[n] != ':')
		return err_bad(e, "bad header name");
	return 0;
}

static int admit_lines(const char *head, size_t len, struct err *e)
{
	const char *line = head, *end = head + len - 2; /* without the empty line */
	unsigned count = 0;

	while (line < end) {
		const char *next = memmem(line, (size_t)(end - line), "\r\n", 2);
		size_t line_len;

		if (!next)
			return err_bad(e, "bad line in the request head");
		line_len = (size_t)(next - line);
		if (count == 0 ? admit_request_line(line, line_len, e) < 0
			       : admit_header_line(line, line_len, e) < 0)
			return -1;
		/* the parser ignores what is behind its last slot: a length, for one */
		if (count++ > HEAD_CAP_LINES)
			return err_client(e, 431, "too_many_headers",
					  "more than %d header fields", HEAD_CAP_LINES);
		line = next + 2;
	}
	return count ? 0 : err_bad(e, "empty request head");
}

static int admit_first(const struct mg_http_message *hm, struct http_head *out,
		       struct err *e)
{
	int m = 0;

	while (m < METHOD_COUNT &&
	       (strlen(method_names[m]) != hm->method.len ||
		memcmp(method_names[m], hm->method.buf, hm->method.len)))
		m++;
	if (mg_strcmp(hm->proto, mg_str("HTTP/1.0")) == 0)
		out->http10 = true;
	else if (strncmp(hm->proto.buf, "HTTP/", 5) != 0)
		return err_bad(e, "bad protocol version");
	else if (mg_strcmp(hm->proto, mg_str("HTTP/1.1")) != 0)
		return err_client(e, 505, "version_not_supported",
				  "only HTTP/1.1 and HTTP/1.0 are spoken here");
	if (m == METHOD_COUNT)
		return err_client(e, 400, "bad_method", "unknown method");
	if (hm->uri.buf[0] != '/')
		return err_bad(e, "the request target must begin with '/'");
	out->method = (enum http_method)m;
	out->path = (struct span){hm->uri.buf, hm->uri.len};
	out->query = (struct span){hm->query.buf, hm->query.len};
	return 0;
}

static int admit_header(const struct mg_http_header *h, struct http_head *out,
			struct err *e)
{
	struct span name = {h->name.buf, h->name.len};
	struct span *slot;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (!span_is(name, known[i].name))
			continue;
		slot = (struct span *)((char *)out + known[i].where);
		if (slot->p && !known[i].may_repeat)
			return err_bad(e, "more than one %s header", known[i].name);
		if (!slot->p)
			*slot = (struct span){h->value.buf, h->value.len};
	}
	return 0;
}

int admit_too_large(const struct http_head *h, uint64_t cap, struct err *e)
{
	static const char below[] = "/sessions/";
	const bool file = h->method == METHOD_PUT && h->path.len >= sizeof(below) - 1 &&
			  memcmp(h->path.p, below, sizeof(below) - 1) == 0;

	return err_client(e, 413, file ? "file_too_large" : "body_too_large",
			  "the %s is larger than %llu bytes", file ? "file" : "body",
			  (unsigned long long)cap);
}

static int admit_length(struct http_head *out, uint64_t cap, struct err *e)
{
	struct span cl = out->content_length;

	if (cl.p && out->transfer_encoding.p)
		return err_bad(e, "both Content-Length and Transfer-Encoding");
	if (out->transfer_encoding.p) {
		if (out->http10 || !span_is(out->transfer_encoding, "chunked"))
			return err_bad(e, "transfer coding not supported");
		out->chunked = true;
		return 0;
	}
	if (!cl.p) {
		if (out->method == METHOD_POST || out->method == METHOD_PUT ||
		    out->method == METHOD_PATCH)
			return err_client(e, 411, "length_required",
					  "Content-Length or chunked coding is required");
		return 0;
	}
	for (size_t i = 0; i < cl.len; i++)
		if (cl.p[i] < '0' || cl.p[i] > '9')
			return err_bad(e, "bad Content-Length");
	if (cl.len == 0)
		return err_bad(e, "bad Content-Length");
	for (size_t i = 0; i < cl.len && cl.len <= 10; i++)
		out->body_bytes = out->body_bytes * 10 + (uint64_t)(cl.p[i] - '0');
	if (cl.len > 10 || out->body_bytes > cap)
		return admit_too_large(out, cap, e);
	return 0;
}

static int admit_rest(struct http_head *out, struct err *e)
{
	struct span list = out->connection, item;

	if (!out->host.p && !out->http10)
		return err_bad(e, "Host is required");
	out->close = out->http10;
	while (span_next(&list, &item))
		out->close = out->close || span_is(item, "close");
	if (out->expect.p && !out->http10) {
		if (!span_is(out->expect, "100-continue"))
			return err_client(e, 417, "expectation_failed",
					  "only 'Expect: 100-continue' is understood");
		out->expect_continue = true;
	}
	return 0;
}

int admit_head(const char *head, size_t len, uint64_t body_cap_bytes,
	       struct http_head *out, struct err *e)
{
	struct mg_http_message hm;
	struct http_head h = {0};

	if (len > HEAD_CAP_BYTES)
		return err_client(e, 431, "head_too_large",
				  "the request head is larger than %d bytes",
				  HEAD_CAP_BYTES);
	if (len < 4 || admit_lines(head, len, e) < 0)
		return len < 4 ? err_bad(e, "bad request head") : -1;
	/* it refuses duplicates of Content-Length, Transfer-Encoding and others by itself
	 */
	if (mg_http_parse(head, len, &hm) != (int)len)
		return err_bad(e, "malformed request head");
	if (admit_first(&hm, &h, e) < 0)
		return -1;
	for (size_t i = 0; i < MG_MAX_HTTP_HEADERS && hm.headers[i].name.len; i++)
		if (admit_header(&hm.headers[i], &h, e) < 0)
			return -1;
	if (admit_length(&h, body_cap_bytes, e) < 0 || admit_rest(&h, e) < 0)
		return -1;
	*out = h;
	return 0;
}
