/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_openapi.c - the document has every route, and no other
 */
#include "api/tools.h"

#include "../tap.h"
#include "base/err.h"
#include "base/json.h"
#include "config/mode.h"
#include "config/settings.h"
#include "http/routes.h"

static const struct settings settings = {.timeout_sec = 30, .max_timeout_sec = 300};
static const struct modes python = {
	.count = 1,
	.mode = {{.id = MODE_PYTHON, .name = "python", .typescript_row = -1}}};
static const struct modes golang = {
	.count = 1,
	.mode = {{.id = MODE_GOLANG, .name = "golang", .typescript_row = -1}}};
static const struct json_limits wide = {32, 8192, 65536};

static struct json *document(const struct modes *modes)
{
	const struct request_world w = {&settings, modes, true};
	struct err e = {0};
	struct json *doc;
	struct buf text;

	buf_init(&text, 1 << 20);
	CHECK(openapi_write(&text, &w) == 0);
	doc = json_parse(text.bytes, text.len, &wide, &e);
	CHECK(doc);
	buf_done(&text);
	return doc;
}

static const struct {
	const char *name;
	enum http_method method;
} methods[] = {{"get", METHOD_GET},
	       {"put", METHOD_PUT},
	       {"post", METHOD_POST},
	       {"delete", METHOD_DELETE}};
#define METHODS (sizeof(methods) / sizeof(methods[0]))

static void strange(const char *method, const char *path, const char *why)
{
	printf("# %s %s: %s\n", method, path, why);
	CHECK(!"document and routes agree");
}

/* "/a/{x}/b" is at "/a" and below it */
static bool is_at(const char *path, const struct route *r)
{
	const size_t n = strlen(r->path);

	return strncmp(path, r->path, n) == 0 &&
	       (!path[n] || (r->below && path[n] == '/'));
}

/* without the brackets, which no name may have */
static struct span filled_in(const char *path)
{
	static char out[256];
	size_t n = 0;

	for (; *path && n < sizeof(out); path++)
		if (*path != '{' && *path != '}')
			out[n++] = *path;
	return (struct span){out, n};
}

TEST(every_path_has_a_route)
{
	struct json *doc = document(&python);
	const struct json *paths = json_member(doc, "paths");

	CHECK(json_count(paths) > 15);
	for (size_t i = 0; i < json_count(paths); i++) {
		const char *path = json_key(paths, i);
		size_t found = 0;

		for (size_t m = 0; m < METHODS; m++) {
			struct err e = {0};

			if (!json_member(json_value(paths, i), methods[m].name))
				continue;
			found++;
			if (!routes_find(methods[m].method, filled_in(path), &e))
				strange(methods[m].name, path, e.text);
		}
		CHECK(found > 0);
	}
	json_free(doc);
}

static bool documented(const struct json *paths, const struct route *r,
		       const char *method)
{
	for (size_t i = 0; i < json_count(paths); i++)
		if (is_at(json_key(paths, i), r) &&
		    json_member(json_value(paths, i), method))
			return true;
	return false;
}

TEST(every_route_has_a_path)
{
	struct json *doc = document(&python);
	const struct json *paths = json_member(doc, "paths");
	const struct route *r;

	for (size_t i = 0; (r = routes_at(i)); i++) {
		if (!r->handle || strncmp(r->path, "/test/", 6) == 0)
			continue;
		for (size_t m = 0; m < METHODS; m++) {
			/* where any method is let in, the handler decides */
			if (r->methods >> METHOD_TRACE & 1
				    ? m > 0
				    : !(r->methods >> methods[m].method & 1))
				continue;
			if (!documented(paths, r, methods[m].name) &&
			    !documented(paths, r, "delete"))
				strange(methods[m].name, r->path,
					"not in src/web/openapi.json");
		}
	}
	json_free(doc);
}

TEST(a_server_speaks_of_what_it_has)
{
	struct json *doc = document(&golang);
	const struct json *paths = json_member(doc, "paths");

	CHECK(json_member(paths, "/tools/run_code"));
	CHECK(!json_member(paths, "/tools/run_python_code"));
	json_free(doc);
}
