/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_routes.c - method and path choose a handler; Accept chooses a stream
 */
#include "http/routes.h"

#include "../tap.h"
#include "base/err.h"
#include "http/conn.h"

static int status(enum http_method m, const char *path)
{
	struct err e = {0};
	const struct route *r = routes_find(m, (struct span){path, strlen(path)}, &e);

	return r ? 0 : err_status(&e);
}

TEST(execute_is_posted)
{
	CHECK(status(METHOD_POST, "/execute") == 0);
	CHECK(status(METHOD_GET, "/execute") == 405);
	CHECK(status(METHOD_HEAD, "/execute") == 405);
	CHECK(status(METHOD_TRACE, "/execute") == 405);
	CHECK(strcmp(routes_allow((struct span){"/execute", 8}), "POST") == 0);
}

TEST(every_route_has_a_handler)
{
	const struct route *r;

	CHECK(routes_at(0));
	for (size_t i = 0; (r = routes_at(i)); i++)
		CHECK(r->handle && r->methods);
}

TEST(probes_answer_get_and_head)
{
	static const char *const paths[] = {"/health", "/healthz", "/readyz",
					    "/isolation"};

	for (size_t i = 0; i < 4; i++) {
		CHECK(status(METHOD_GET, paths[i]) == 0);
		CHECK(status(METHOD_HEAD, paths[i]) == 0);
		CHECK(status(METHOD_POST, paths[i]) == 405);
		CHECK(strcmp(routes_allow((struct span){paths[i], strlen(paths[i])}),
			     "GET, HEAD") == 0);
	}
}

TEST(other_paths_are_not_there)
{
	static const char *const paths[] = {
		"//",        "/execute/", "/Execute",  "/executes",  "/execut",
		"//execute", "/health/",  "/healthzz", "/sessionsx", "/%65xecute"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		CHECK(status(METHOD_GET, paths[i]) == 404);
	CHECK(routes_allow((struct span){"//", 2})[0] == 0);
}

TEST(agent_sandbox_is_served)
{
	CHECK(status(METHOD_POST, "/upload") == 0);
	CHECK(status(METHOD_GET, "/upload") == 405);
	CHECK(status(METHOD_POST, "/upload/x") == 404);
	CHECK(status(METHOD_GET, "/download/a/b") == 0);
	CHECK(status(METHOD_GET, "/list/") == 0);
	CHECK(status(METHOD_HEAD, "/exists/x") == 0);
	CHECK(status(METHOD_DELETE, "/download/a/b") == 405);
}

TEST(tools_are_posted)
{
	CHECK(status(METHOD_POST, "/mcp") == 0);
	CHECK(status(METHOD_GET, "/mcp") == 405);
	CHECK(status(METHOD_DELETE, "/mcp") == 405);
	CHECK(status(METHOD_POST, "/mcp/x") == 404);
	CHECK(status(METHOD_POST, "/tools/run_code") == 0);
	CHECK(status(METHOD_GET, "/tools/run_code") == 405);
}

static enum stream_kind wanted(const char *accept)
{
	return stream_wanted((struct span){accept, accept ? strlen(accept) : 0});
}

TEST(accept_chooses_the_stream)
{
	CHECK(wanted(NULL) == STREAM_NONE);
	CHECK(wanted("*/*") == STREAM_NONE);
	CHECK(wanted("text/event-stream") == STREAM_SSE);
	CHECK(wanted("Text/Event-Stream;q=0.9") == STREAM_SSE);
	CHECK(wanted("application/x-ndjson") == STREAM_LINES);
	CHECK(wanted("text/html, application/x-ndjson , */*") == STREAM_LINES);
	CHECK(wanted("application/json, text/event-stream") == STREAM_NONE);
	CHECK(wanted("text/event-streams") == STREAM_NONE);
	CHECK(wanted("application/json;q=0.1, */*") == STREAM_NONE);
}
