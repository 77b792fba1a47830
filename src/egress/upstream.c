/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * upstream.c - the proxy by which this host itself reaches the world
 *
 * Runs in: the supervisor, once, and the brokers, who ask which way to go.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/num.h"
#include "egress/broker.h"

#define USER_MOST 300

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* user:password, in which other characters are written as %41 */
static int take_credentials(const char *at, size_t len, struct upstream *out)
{
	char plain[USER_MOST];
	size_t n = 0, i;

	for (i = 0; i < len; i++) {
		if (n == sizeof(plain))
			return -1;
		plain[n] = at[i];
		if (at[i] == '%') {
			if (len - i < 3 || hex(at[i + 1]) < 0 || hex(at[i + 2]) < 0)
				return -1;
			plain[n] = (char)(hex(at[i + 1]) << 4 | hex(at[i + 2]));
			i += 2;
		}
		n++;
	}
	if (base64_room(n) >= sizeof(out->credentials))
		return -1;
	base64_encode(plain, n, out->credentials);
	out->credentials[base64_room(n)] = '\0';
	return 0;
}

/* host[:port] */
static int take_place(const char *at, size_t len, struct upstream *out)
{
	const char *colon = memrchr(at, ':', len);
	uint64_t port = 80;
	char digits[6] = "";
	struct name name;

	if (colon && !memchr(colon, ']', len - (size_t)(colon - at))) {
		const size_t n = (size_t)(at + len - colon) - 1;

		if (n >= sizeof(digits))
			return -1;
		memcpy(digits, colon + 1, n);
		if (num_range(digits, 1, 65535, &port) < 0)
			return -1;
		len = (size_t)(colon - at);
	}
	if (name_parse(at, len, &name) < 0)
		return -1;
	memcpy(out->host, name.text, sizeof(out->host));
	out->port = (uint16_t)port;
	return 0;
}

int upstream_parse(const char *url, struct upstream *out, struct err *e)
{
	struct upstream u = {.port = 0};
	const char *scheme = strstr(url, "://");
	const char *at = scheme ? scheme + 3 : url;
	const char *host = at;
	size_t len = strcspn(at, "/");
	const char *user = memrchr(at, '@', len);

	if (scheme && strncasecmp(url, "http://", 7) != 0)
		return err_bad(e, "only a proxy that is reached as http:// can be used");
	if (user)
		host = user + 1;
	/* without the text: it may have a password in it */
	if ((at[len] && at[len + 1]) ||
	    (user && take_credentials(at, (size_t)(user - at), &u) < 0) ||
	    take_place(host, (size_t)(at + len - host), &u) < 0)
		return err_bad(
			e, "must be http://host:port, with user:password@ if need be");
	*out = u;
	return 0;
}

static const char *variable(const char *lower, const char *upper)
{
	const char *text = getenv(lower);

	if (!text || !text[0])
		text = getenv(upper);
	return text && text[0] ? text : NULL;
}

static int from_variable(const char *lower, const char *upper, struct upstream *out,
			 struct err *e)
{
	const char *text = variable(lower, upper);
	struct err why = {0};

	if (!text)
		text = variable("all_proxy", "ALL_PROXY");
	if (!text || upstream_parse(text, out, &why) == 0)
		return 0;
	return err_bad(e, "%s: %s (SANDBOX_EGRESS_PROXY replaces it)", upper, why.text);
}

/* .example.org and example.org are the name and what is below; * is everything */
static void read_direct(const char *list, struct egress_world *out)
{
	char element[NAME_ROOM + 2];
	size_t len;

	for (; list && *list; list += len) {
		list += strspn(list, ", \t");
		len = strcspn(list, ", \t");
		if (len == 1 && list[0] == '*')
			out->all_direct = true;
		if (len == 0 || len >= NAME_ROOM)
			continue;
		snprintf(element, sizeof(element), "%.*s", (int)len, list);
		/* what is not understood goes by the proxy, as all the rest */
		if (element[0] != '.' && element[0] != '*')
			(void)rules_add(&out->direct, element, NULL);
		snprintf(element, sizeof(element), "*.%.*s", (int)len,
			 list + strspn(list, "*."));
		element[2 + len - strspn(list, "*.")] = '\0';
		(void)rules_add(&out->direct, element, NULL);
	}
}

int upstream_find(const char *setting, struct egress_world *out, struct err *e)
{
	struct err why = {0};

	memset(out, 0, sizeof(*out));
	if (setting && strcmp(setting, "none") == 0)
		return 0;
	read_direct(variable("no_proxy", "NO_PROXY"), out);
	if (!setting)
		return from_variable("https_proxy", "HTTPS_PROXY", &out->tunnel, e) < 0 ||
				       from_variable("http_proxy", "HTTP_PROXY",
						     &out->plain, e) < 0
			       ? -1
			       : 0;
	if (upstream_parse(setting, &out->tunnel, &why) < 0)
		return err_bad(e, "SANDBOX_EGRESS_PROXY: %s", why.text);
	out->plain = out->tunnel;
	return 0;
}

/* a list for all ports, whatever ports its rules name */
static bool is_direct(const struct egress_world *w, const struct name *host)
{
	for (uint32_t i = 0; i < w->direct.count; i++) {
		const unsigned port = w->direct.rule[i].port;

		if (rules_host(&w->direct, host, port ? port : 443) >= 0)
			return true;
	}
	return w->all_direct;
}

const struct upstream *upstream_for(const struct egress_world *w, enum proxy_kind kind,
				    const struct name *host)
{
	const struct upstream *u = kind == PROXY_PLAIN ? &w->plain : &w->tunnel;

	return u->host[0] && !is_direct(w, host) ? u : NULL;
}
