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
	{"/execute", POST, false, 0, on_execute_admit, on_execute, NULL},
	{"/health", GET, false, ROUTE_PROBE, NULL, on_health, NULL},
	{"/healthz", GET, false, ROUTE_PROBE, NULL, on_healthz, NULL},
	{"/readyz", GET, false, ROUTE_PROBE, NULL, on_readyz, NULL},
	{"/metrics", GET, false, ROUTE_QUIET, NULL, on_metrics, NULL},
	{"/isolation", GET, false, ROUTE_QUIET, NULL, on_isolation, NULL},
	{"/", GET, false, ROUTE_PROBE, NULL, on_root, NULL},
	{"/openapi.json", GET, false, ROUTE_QUIET, NULL, on_openapi, NULL},
	{"/sessions", ANY, true, 0, on_sessions_admit, on_sessions, session_url_check},
	{"/scopes", ANY, true, 0, on_sessions_admit, on_scopes, NULL},
	{"/tools", POST, true, 0, on_tools_admit, on_tools, NULL},
	{"/mcp", POST, false, 0, on_mcp_admit, on_mcp, NULL},
	{"/upload", POST, false, 0, on_agent_admit, on_upload, NULL},
	{"/download", GET, true, 0, on_agent_admit, on_download, NULL},
	{"/list", GET, true, 0, on_agent_admit, on_list, NULL},
	{"/exists", GET, true, 0, on_agent_admit, on_exists, NULL},
#ifdef SANDBOX_TEST_HOOKS
	{"/test/call", POST, false, ROUTE_QUIET, NULL, on_test_call, NULL},
#endif
};

const struct route *routes_at(size_t i)
{
	return i < sizeof(routes) / sizeof(routes[0]) ? &routes[i] : NULL;
}

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
	} else {
		return r;
	}
	return NULL;
}
