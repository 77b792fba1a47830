/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_options.c - queries and ranges
 */
#include "http/options.h"

#include "../tap.h"
#include "base/err.h"
#include "base/json.h"

/* its message; "": fine, and *out is the object */
static const char *read_query(const char *query, struct json **out)
{
	static struct err e;

	e = (struct err){0};
	*out = NULL;
	return options_read((struct span){query, strlen(query)}, out, &e) < 0 ? e.text
									      : "";
}

static bool refuses(const char *query, const char *message)
{
	struct json *v;
	const bool same = strcmp(read_query(query, &v), message) == 0;

	json_free(v);
	return same && !v;
}

TEST(a_query_is_an_object)
{
	struct json *v;

	CHECK(*read_query("", &v) == 0 && json_count(v) == 0);
	json_free(v);
	CHECK(*read_query("recursive=true&x=%&&cursor=a%2Fb%22+&max_bytes=12&mode=",
			  &v) == 0);
	CHECK(json_count(v) == 4 && json_bool(json_member(v, "recursive")));
	CHECK(strcmp(json_text(json_member(v, "cursor"), NULL), "a/b\"+") == 0);
	CHECK(json_double(json_member(v, "max_bytes")) == 12);
	CHECK(strcmp(json_text(json_member(v, "mode"), NULL), "") == 0);
	json_free(v);
}

TEST(what_is_wrong_in_a_query_is_named)
{
	CHECK(refuses("recursive=1", "recursive must be true or false"));
	CHECK(refuses("overwrite=", "overwrite must be true or false"));
	CHECK(refuses("recursive=true,%22path%22:1", "recursive must be true or false"));
	CHECK(refuses("max_bytes=1.5", "max_bytes must be a whole number"));
	CHECK(refuses("cursor=%", "cursor has a % without two digits"));
	CHECK(refuses("cursor=%4", "cursor has a % without two digits"));
	CHECK(refuses("cursor=%g0", "cursor has a % without two digits"));
}

static bool ranges(const char *text, uint64_t first, uint64_t count, bool from_end)
{
	struct options_range r;

	return options_range((struct span){text, strlen(text)}, &r) && r.first == first &&
	       r.count == count && r.from_end == from_end;
}

TEST(ranges_have_three_forms)
{
	static const char *const others[] = {"",          "bytes=",    "bytes=-",
					     "bytes=3-2", "bytes=x-",  "bytes=1-2,4-5",
					     "lines=1-2", "bytes=--1", "bytes=1"};
	struct options_range r;

	CHECK(ranges("bytes=0-0", 0, 1, false));
	CHECK(ranges("bytes=10-19", 10, 10, false));
	CHECK(ranges("bytes=5-", 5, 0, false));
	CHECK(ranges("bytes=-5", 5, 0, true));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CHECK(!options_range((struct span){others[i], strlen(others[i])}, &r));
	CHECK(!options_range((struct span){NULL, 0}, &r));
}
