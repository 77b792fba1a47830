/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * auth.c - who may talk to this server: Host, Origin, content type, token, and the ids
 * of a request
 */
#include "http/auth.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/err.h"

static bool same(struct span a, struct span b)
{
	return a.len == b.len && strncasecmp(a.p, b.p, a.len) == 0;
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "name", "name:80", "[::1]:80" to the name (brackets kept); false: none of these */
static bool host_name(struct span host, struct span *out_name)
{
	const char *colon;
	size_t n = host.len;

	if (n == 0)
		return false;
	if (host.p[0] == '[') {
		colon = memchr(host.p, ']', n);
		if (!colon)
			return false;
		n = (size_t)(colon - host.p) + 1;
	} else {
		colon = memchr(host.p, ':', n);
		n = colon ? (size_t)(colon - host.p) : n;
	}
	*out_name = (struct span){host.p, n};
	if (n == host.len)
		return n > 0;
	/* behind the name: a colon and one to five digits */
	if (n == 0 || host.p[n] != ':' || host.len - n < 2 || host.len - n > 6)
		return false;
	for (size_t i = n + 1; i < host.len; i++)
		if (!digit(host.p[i]))
			return false;
	return true;
}

/* an IPv4 or bracketed IPv6 literal, as a v6 address (v4 mapped) */
static bool literal(struct span name, struct in6_addr *out)
{
	char text[INET6_ADDRSTRLEN + 8] = "::ffff:";
	size_t at = strlen(text);
	struct in_addr v4;

	if (name.len > 2 && name.p[0] == '[' && name.p[name.len - 1] == ']')
		at = 0, name.p++, name.len -= 2;
	if (name.len >= sizeof(text) - at)
		return false;
	memcpy(text + at, name.p, name.len);
	text[at + name.len] = 0;
	if (at && inet_pton(AF_INET, text + at, &v4) != 1)
		return false;
	return inet_pton(AF_INET6, text, out) == 1;
}

static bool is_local(const struct in6_addr *a, const struct sockaddr *local)
{
	struct in6_addr mine = {0};

	if (local->sa_family == AF_INET6) {
		mine = ((const struct sockaddr_in6 *)(const void *)local)->sin6_addr;
	} else if (local->sa_family == AF_INET) {
		mine.s6_addr[10] = mine.s6_addr[11] = 0xff;
		memcpy(&mine.s6_addr[12],
		       &((const struct sockaddr_in *)(const void *)local)->sin_addr, 4);
	} else {
		return false;
	}
	return memcmp(a, &mine, sizeof(mine)) == 0;
}

/* name is host without its port; an entry without one allows any */
static bool listed(const char *list, struct span host, struct span name)
{
	struct span rest = {list, list ? strlen(list) : 0}, item;

	while (span_next(&rest, &item))
		if (span_is(item, "*") ||
		    (item.len && (same(item, host) || same(item, name))))
			return true;
	return false;
}

static bool host_allowed(const struct auth_rules *a, struct span host,
			 const struct sockaddr *local)
{
	struct in6_addr addr;
	struct span name;

	if (!host_name(host, &name))
		return false;
	if (span_is(name, "localhost") || listed(a->hosts, host, name))
		return true;
	if (!literal(name, &addr))
		return false;
	if (IN6_IS_ADDR_LOOPBACK(&addr) ||
	    (IN6_IS_ADDR_V4MAPPED(&addr) && addr.s6_addr[12] == 127 && name.p[0] != '['))
		return true;
	return is_local(&addr, local);
}

static bool origin_allowed(const struct auth_rules *a, const struct http_head *h)
{
	static const char *const schemes[] = {"http://", "https://"};
	struct span o = h->origin;

	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(schemes[i]);

		if (h->host.p && o.len > n && strncasecmp(o.p, schemes[i], n) == 0 &&
		    same((struct span){o.p + n, o.len - n}, h->host))
			return true;
	}
	return listed(a->origins, o, o);
}

int auth_check(const struct auth_rules *a, const struct http_head *h,
	       const struct sockaddr *local, struct err *e)
{
	/* HTTP/1.0 may come without Host; browsers never do */
	if (h->host.p && !host_allowed(a, h->host, local))
		return err_client(e, 421, "host_not_allowed",
				  "this server does not answer for that Host; "
				  "SANDBOX_ALLOWED_HOSTS lists more");
	if (h->origin.p ? !origin_allowed(a, h)
			: span_is(h->sec_fetch_site, "cross-site"))
		return err_client(e, 403, "origin_not_allowed",
				  "requests from that origin are not allowed; "
				  "SANDBOX_ALLOWED_ORIGINS lists some");
	return 0;
}

int auth_json_body(const struct http_head *h, struct err *e)
{
	struct span type = h->content_type;
	const char *semicolon;

	if (!type.p)
		return 0;
	semicolon = memchr(type.p, ';', type.len);
	if (semicolon)
		type.len = (size_t)(semicolon - type.p);
	while (type.len && (type.p[type.len - 1] == ' ' || type.p[type.len - 1] == '\t'))
		type.len--;
	if (span_is(type, "application/json"))
		return 0;
	return err_client(e, 415, "unsupported_media_type",
			  "the body must be application/json");
}

struct span auth_token(const struct http_head *h)
{
	static const char scheme[] = "Bearer ";
	const size_t n = strlen(scheme);
	struct span given = h->authorization;

	if (given.p && given.len > n && strncasecmp(given.p, scheme, n) == 0) {
		for (given.p += n, given.len -= n; given.len && *given.p == ' ';)
			given.p++, given.len--;
		return given;
	}
	return h->api_key.p ? h->api_key : h->access_token;
}

static bool id_char(char c)
{
	return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
	       c == '_' || c == '-';
}

void auth_request_id(struct span given, char out[REQUEST_ID_ROOM])
{
	unsigned char random[16];
	size_t n = 0;

	while (given.p && n < given.len && n < REQUEST_ID_ROOM && id_char(given.p[n]))
		n++;
	if (n && n == given.len && n < REQUEST_ID_ROOM) {
		memcpy(out, given.p, n);
		out[n] = 0;
		return;
	}
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		abort(); /* never happens once the kernel's pool is ready */
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(out + 2 * i, 3, "%02x", random[i]);
}

/* version-trace-parent-flags in lower-case hex; ids of zeros and version ff are invalid
 */
void auth_traceparent(struct span given, char out[TRACEPARENT_ROOM])
{
	static const char form[] =
		"xx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

	out[0] = 0;
	if (!given.p || given.len != sizeof(form) - 1)
		return;
	for (size_t i = 0; i < given.len; i++) {
		char c = given.p[i];

		if (form[i] == '-' ? c != '-' : !digit(c) && !(c >= 'a' && c <= 'f'))
			return;
	}
	if (strspn(given.p + 3, "0") >= 32 || strspn(given.p + 36, "0") >= 16 ||
	    strncmp(given.p, "ff", 2) == 0)
		return;
	memcpy(out, given.p, given.len);
	out[given.len] = 0;
}
