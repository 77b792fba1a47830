/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * routes.c - method and path choose a handler
 */
#include "http/routes.h"

#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "http/conn.h"

enum {
	GET = 1U << METHOD_GET | 1U << METHOD_HEAD,
	POST = 1U << METHOD_POST,
	ANY = ~0U >> 1,
};

/* paths are as clients write them: no decoding, no case folding, no trailing slash */
static const struct route routes[] = {
	{"/execute", POST, false, false, on_execute_admit, on_execute, NULL},
	{"/health", GET, false, true, NULL, on_health, NULL},
	{"/healthz", GET, false, true, NULL, on_healthz, NULL},
	{"/readyz", GET, false, true, NULL, on_readyz, NULL},
	{"/isolation", GET, false, true, NULL, on_isolation, NULL},
	{"/sessions", ANY, true, false, NULL, NULL, session_url_check},
	{"/scopes", ANY, true, false, NULL, NULL, NULL},
	{"/tools", ANY, true, false, NULL, NULL, NULL},
	{"/mcp", ANY, true, false, NULL, NULL, NULL},
	{"/upload", ANY, true, false, NULL, NULL, NULL},
	{"/download", ANY, true, false, NULL, NULL, NULL},
	{"/list", ANY, true, false, NULL, NULL, NULL},
	{"/exists", ANY, true, false, NULL, NULL, NULL},
#ifdef SANDBOX_TEST_HOOKS
	{"/test/call", POST, false, true, NULL, on_test_call, NULL},
#endif
};

static const struct route *find(struct span path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		size_t n = strlen(routes[i].path);

		if (path.len < n || memcmp(path.p, routes[i].path, n) != 0)
			continue;
		if (path.len == n || (routes[i].below && path.p[n] == '/'))
			return &routes[i];
	}
	return NULL;
}

const char *routes_allow(struct span path)
{
	const struct route *r = find(path);

	if (!r)
		return "";
	return r->methods & 1U << METHOD_GET ? "GET, HEAD" : "POST";
}

const struct route *routes_find(enum http_method method, struct span path, struct err *e)
{
	const struct route *r = find(path);
	const size_t n = r ? strlen(r->path) : 0;

	if (!r) {
		err_client(e, 404, "not_found", "there is nothing at this path");
	} else if (!(r->methods & 1U << method)) {
		err_client(e, 405, "method_not_allowed", "%s answers to %s only", r->path,
			   routes_allow(path));
	} else if (r->check && r->check(path.p + n, path.len - n, e) < 0) {
		return NULL;
	} else if (!r->handle) {
		err_client(e, 501, "not_available_yet",
			   "%s is not available in this version yet", r->path);
	} else {
		return r;
	}
	return NULL;
}
