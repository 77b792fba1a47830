/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * proxy.c - HTTP as clients of a proxy speak it
 *
 * Strict: lines end with CR LF, no line is folded, no field name has a space before its
 * colon, no control byte is anywhere. What is sent on is written anew from what was
 * understood.
 */
#include "egress/proxy.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/num.h"

struct line {
	const char *at;
	size_t len;
};

/* the line that begins at *at, without its end; false: there is none as it should be */
static bool next_line(const char *bytes, size_t len, size_t *at, struct line *out)
{
	const char *from = bytes + *at;
	const char *end = memmem(from, len - *at, "\r\n", 2);

	if (!end)
		return false;
	*out = (struct line){from, (size_t)(end - from)};
	*at += out->len + 2;
	for (size_t i = 0; i < out->len; i++)
		if ((unsigned char)from[i] < 0x20 ? from[i] != '\t' : from[i] == 0x7f)
			return false;
	return true;
}

static bool is_token(const char *bytes, size_t len)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < len; i++) {
		const char c = bytes[i];

		if (!(c >= '0' && c <= '9') &&
		    !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') &&
		    (!c || !strchr(others, c)))
			return false;
	}
	return len > 0;
}

/* "host:port" or, with usual_port, "host"; the host is judged, the port must be one */
static int take_authority(const char *at, size_t len, unsigned usual_port,
			  struct proxy_request *out)
{
	const char *colon = memrchr(at, ':', len);
	char digits[6] = "";
	uint64_t port = usual_port;
	size_t host_len = len;

	if (colon && memchr(colon, ']', len - (size_t)(colon - at)))
		colon = NULL; /* inside of an IPv6 address */
	if (colon) {
		const size_t n = (size_t)(at + len - colon) - 1;

		host_len = (size_t)(colon - at);
		if (n >= sizeof(digits))
			return -1;
		memcpy(digits, colon + 1, n);
		if ((n > 0 || !usual_port) && num_range(digits, 1, 65535, &port) < 0)
			return -1;
	}
	if (!port || host_len == 0)
		return -1;
	out->port = (uint16_t)port;
	/* an IPv6 address without brackets would be read as host and port */
	out->host_ok = !(at[0] != '[' && memchr(at, ':', host_len)) &&
		       name_parse(at, host_len, &out->host) == 0;
	return 0;
}

/* METHOD SP target SP HTTP/1.x */
static int take_request_line(const char *bytes, const struct line *l,
			     struct proxy_request *out)
{
	const char *first = memchr(l->at, ' ', l->len);
	const char *last = memrchr(l->at, ' ', l->len);
	const char *target, *path;
	size_t len;

	if (!first || first == last || l->at + l->len - last != 9 ||
	    memcmp(last + 1, "HTTP/1.", 7) != 0 || (last[8] != '0' && last[8] != '1'))
		return -1;
	out->old = last[8] == '0';
	out->method_len = (size_t)(first - l->at);
	target = first + 1;
	len = (size_t)(last - target);
	if (!is_token(l->at, out->method_len) || memchr(target, ' ', len) ||
	    memchr(target, '\t', len))
		return -1;
	if (out->method_len == 7 && memcmp(l->at, "CONNECT", 7) == 0) {
		out->kind = PROXY_CONNECT;
		return take_authority(target, len, 0, out);
	}
	out->kind = PROXY_PLAIN;
	if (len < 8 || strncasecmp(target, "http://", 7) != 0)
		return -1;
	target += 7;
	len -= 7;
	for (path = target; path < last && *path != '/' && *path != '?';)
		path++;
	out->path_at = (size_t)(path - bytes);
	out->path_len = (size_t)(last - path);
	return take_authority(target, len - out->path_len, 80, out);
}

static bool field_is(const struct line *l, const char *name)
{
	const size_t len = strlen(name);

	return l->len > len && l->at[len] == ':' && strncasecmp(l->at, name, len) == 0;
}

static struct line field_value(const struct line *l)
{
	const char *colon = memchr(l->at, ':', l->len);
	struct line v = {colon + 1, (size_t)(l->at + l->len - colon) - 1};

	while (v.len && (v.at[0] == ' ' || v.at[0] == '\t')) {
		v.at++;
		v.len--;
	}
	while (v.len && (v.at[v.len - 1] == ' ' || v.at[v.len - 1] == '\t'))
		v.len--;
	return v;
}

static void take_credentials(const struct line *l, struct proxy_request *out)
{
	struct line v = field_value(l);

	if (v.len <= 6 || strncasecmp(v.at, "Basic ", 6) != 0 ||
	    v.len - 6 >= sizeof(out->credentials))
		return;
	memcpy(out->credentials, v.at + 6, v.len - 6);
	out->credentials[v.len - 6] = '\0';
}

/* One field at most says where the body ends: of two, each reader believes another */
static bool take_framing(const struct line *l, struct proxy_request *out, bool *known)
{
	const struct line v = field_value(l);
	char digits[20] = "";
	uint64_t len = 0;

	if (field_is(l, "Transfer-Encoding")) {
		out->chunked = true;
	} else if (field_is(l, "Content-Length")) {
		if (v.len == 0 || v.len >= sizeof(digits))
			return false;
		memcpy(digits, v.at, v.len);
		if (num_u64(digits, &len) < 0)
			return false;
		out->body_len = len;
	} else {
		return true;
	}
	if (*known)
		return false;
	*known = true;
	return true;
}

static bool field_ok(const struct line *l)
{
	const char *colon = memchr(l->at, ':', l->len);

	return colon && is_token(l->at, (size_t)(colon - l->at));
}

int proxy_http(const char *bytes, size_t len, struct proxy_request *out)
{
	const char *end = memmem(bytes, len, "\r\n\r\n", 4);
	struct proxy_request r = {0};
	bool framed = false;
	struct line l;
	size_t at = 0, head;

	if (len > 0 && !is_token(bytes, 1))
		return PROXY_BAD; /* it never becomes one */
	if (!end)
		return len >= PROXY_HEAD_MOST ? PROXY_BAD : PROXY_MORE;
	head = (size_t)(end - bytes) + 4;
	if (head > PROXY_HEAD_MOST || !next_line(bytes, head, &at, &l) ||
	    take_request_line(bytes, &l, &r) < 0)
		return PROXY_BAD;
	while (at < head - 2) {
		if (!next_line(bytes, head, &at, &l) || !field_ok(&l) ||
		    !take_framing(&l, &r, &framed))
			return PROXY_BAD;
		if (field_is(&l, "Proxy-Authorization"))
			take_credentials(&l, &r);
	}
	*out = r;
	return (int)head;
}

/* not sent on: what is between a client and its proxy, and what is written anew */
static bool is_dropped(const struct line *l)
{
	static const char *const names[] = {
		"Host",    "Connection", "Keep-Alive",          "Proxy-Connection",
		"Upgrade", "TE",         "Proxy-Authorization", "Proxy-Authenticate"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (field_is(l, names[i]))
			return true;
	return false;
}

static int put_host(const struct proxy_request *r, struct buf *out)
{
	const bool six = r->host.is_address && !address_is_ipv4(&r->host.address);
	const char *open = six ? "[" : "", *close = six ? "]" : "";

	if (r->port == 80)
		return buf_printf(out, "%s%s%s", open, r->host.text, close);
	return buf_printf(out, "%s%s%s:%u", open, r->host.text, close, r->port);
}

static int put_start(const char *bytes, const struct proxy_request *r, bool whole,
		     struct buf *out)
{
	const bool rooted = r->path_len && bytes[r->path_at] == '/';

	if (buf_add(out, bytes, r->method_len) < 0 || buf_puts(out, " ") < 0 ||
	    (whole && (buf_puts(out, "http://") < 0 || put_host(r, out) < 0)) ||
	    (!rooted && buf_puts(out, "/") < 0) ||
	    buf_add(out, bytes + r->path_at, r->path_len) < 0 ||
	    buf_printf(out, " HTTP/1.%d\r\nHost: ", !r->old) < 0 || put_host(r, out) < 0)
		return -1;
	return buf_puts(out, "\r\nConnection: close\r\n");
}

int proxy_http_forward(const char *bytes, size_t len, const struct proxy_request *r,
		       bool whole, const char *credentials, struct buf *out)
{
	struct line l;
	size_t at = 0;

	if (!next_line(bytes, len, &at, &l) || put_start(bytes, r, whole, out) < 0)
		return -1;
	while (at < len - 2) {
		if (!next_line(bytes, len, &at, &l))
			return -1;
		if (!is_dropped(&l) &&
		    (buf_add(out, l.at, l.len) < 0 || buf_puts(out, "\r\n") < 0))
			return -1;
	}
	if (credentials &&
	    buf_printf(out, "Proxy-Authorization: Basic %s\r\n", credentials) < 0)
		return -1;
	return buf_puts(out, "\r\n");
}

int proxy_http_status(const char *bytes, size_t len, int *out_status)
{
	const char *end = memmem(bytes, len, "\r\n\r\n", 4);
	char digits[4] = "";
	uint64_t status;

	if (!end)
		return len >= PROXY_HEAD_MOST ? PROXY_BAD : PROXY_MORE;
	if (end - bytes < 12 || memcmp(bytes, "HTTP/1.", 7) != 0 || bytes[8] != ' ')
		return PROXY_BAD;
	memcpy(digits, bytes + 9, 3);
	if (num_range(digits, 100, 599, &status) < 0)
		return PROXY_BAD;
	*out_status = (int)status;
	return (int)(end - bytes) + 4;
}
