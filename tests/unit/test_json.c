/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_json.c - values out of a document, and what is said when they are not there
 *
 * parson's traps, and the test that fails when one is open:
 *
 *	unseeded hash, flooded by names       a_million_keys_are_refused_at_once
 *	                                      (test_json_check), colliding_names_...
 *	any bytes are a string, BOMs, data    what_is_not_json_is_refused_...
 *	behind the end, last commas, "1."     (test_json_check, a row each)
 *	parse wants a NUL                     the_text_needs_no_nul
 *	strlen() lies about "\u0000"          strings_have_a_length; test_request has NUL
 *	                                      in code, files, args and env
 *	recursion                             no_limit_is_more_than_the_stack_can_bear
 *	it writes 1e+19, drops what is not    answers are not written by it: test_reply,
 *	UTF-8, copies four times              any_bytes_..., ten_megabytes_take_no_time
 *	strtod() depends on the locale        tests/lint/banned refuses setlocale
 */
#include "base/json.h"

#include <math.h>

#include "../tap.h"
#include "base/buf.h"
#include "base/err.h"

static struct json *parse(const char *text)
{
	struct err e = {0};
	struct json *doc = json_parse(text, strlen(text), &json_request_limits, &e);

	if (!doc)
		fprintf(stderr, "# %s\n", e.text);
	CHECK(doc);
	return doc;
}

TEST(the_request_limits_are_those_of_the_manual)
{
	CHECK(json_request_limits.depth == 32);
	CHECK(json_request_limits.members == 1024);
	CHECK(json_request_limits.values == 65536);
}

TEST(the_text_needs_no_nul)
{
	struct err e = {0};
	struct json *doc = json_parse("[1]]]", 3, &json_request_limits, &e);

	CHECK(doc && json_count(doc) == 1);
	json_free(doc);
	json_free(NULL);
	CHECK(!json_parse("x", 1, &json_request_limits, NULL));
	CHECK(!json_parse(NULL, 0, &json_request_limits, &e));
	CHECK(!strcmp(e.text, "invalid JSON: empty text"));
}

TEST(types_are_told_apart)
{
	struct json *doc = parse("[{},[],\"s\",1,true,null]");
	bool (*const is[])(const struct json *) = {json_is_object, json_is_array,
						   json_is_string, json_is_number,
						   json_is_bool,   json_is_null};

	for (size_t v = 0; v < 6; v++)
		for (size_t f = 0; f < 6; f++)
			CHECK(is[f](json_item(doc, v)) == (v == f));
	for (size_t f = 0; f < 6; f++)
		CHECK(!is[f](NULL));
	json_free(doc);
}

TEST(members_and_items)
{
	struct json *doc = parse("{\"b\":1,\"a.c\":[10,20],\"z\":null}");
	const struct json *list = json_member(doc, "a.c");

	CHECK(json_count(doc) == 3 && json_count(list) == 2);
	CHECK(json_double(json_item(list, 1)) == 20 && !json_item(list, 2));
	CHECK(!strcmp(json_key(doc, 0), "b") && !strcmp(json_key(doc, 2), "z"));
	CHECK(json_value(doc, 1) == list && !json_value(doc, 3) && !json_key(doc, 3));
	CHECK(json_is_null(json_member(doc, "z")) && !json_member(doc, "y"));
	CHECK(!json_member(list, "b") && !json_item(doc, 0) && !json_key(list, 0));
	CHECK(!json_member(NULL, "b") && !json_value(list, 0));
	CHECK(json_count(json_item(list, 0)) == 0 && json_count(NULL) == 0);
	json_free(doc);
}

TEST(strings_have_a_length)
{
	struct json *doc = parse("[\"a\\u0000b\",\"\\uD83D\\uDE00\\u00e9\\n\",7]");
	size_t len = 99;
	const char *text = json_text(json_item(doc, 0), &len);

	CHECK(len == 3 && !memcmp(text, "a\0b", 3));
	text = json_text(json_item(doc, 1), &len);
	CHECK(len == 7 && !memcmp(text, "\xf0\x9f\x98\x80\xc3\xa9\n", 7));
	CHECK(!json_text(json_item(doc, 2), &len) && len == 7);
	CHECK(json_text(json_item(doc, 1), NULL) == text);
	json_free(doc);
}

TEST(numbers_and_flags)
{
	struct json *doc = parse(
		"[-0.5,1e3,0e5,-0e1,9007199254740992,true,false,1e-400]");

	CHECK(json_double(json_item(doc, 0)) == -0.5);
	CHECK(json_double(json_item(doc, 1)) == 1000);
	CHECK(json_double(json_item(doc, 2)) == 0);
	CHECK(json_double(json_item(doc, 3)) == 0 &&
	      signbit(json_double(json_item(doc, 3))));
	CHECK(json_double(json_item(doc, 4)) == 9007199254740992.0);
	CHECK(json_bool(json_item(doc, 5)) && !json_bool(json_item(doc, 6)));
	CHECK(json_double(json_item(doc, 7)) == 0);
	CHECK(json_double(json_item(doc, 5)) == 0 && !json_bool(json_item(doc, 1)));
	json_free(doc);
}

TEST(getters_give_what_is_there)
{
	struct json *doc = parse("{\"s\":\"x\",\"n\":2,\"b\":true,\"o\":{},\"a\":[]}");
	struct err e = {0};
	const struct json *v = NULL;
	const char *text = NULL;
	size_t len = 0;
	double n = 0;
	bool flag = false;

	CHECK(json_get_string(doc, "s", &text, &len, &e) == JSON_THERE && len == 1);
	CHECK(!strcmp(text, "x"));
	CHECK(json_get_number(doc, "n", &n, &e) == JSON_THERE && n == 2);
	CHECK(json_get_bool(doc, "b", &flag, &e) == JSON_THERE && flag);
	CHECK(json_get_object(doc, "o", &v, &e) == JSON_THERE && json_is_object(v));
	CHECK(json_get_array(doc, "a", &v, &e) == JSON_THERE && json_is_array(v));
	CHECK(e.kind == ERR_NONE);
	json_free(doc);
}

static const char *const absent[] = {"{}", "{\"k\":null}", "[]", "1"};

TEST(missing_and_null_are_absent_and_touch_nothing)
{
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		struct json *doc = parse(absent[i]);
		struct err e = {0};
		const struct json *v = doc;
		const char *text = "before";
		size_t len = 6;
		double n = 7;
		bool flag = true;

		CHECK(json_get_string(doc, "k", &text, &len, &e) == JSON_ABSENT);
		CHECK(json_get_number(doc, "k", &n, &e) == JSON_ABSENT);
		CHECK(json_get_bool(doc, "k", &flag, &e) == JSON_ABSENT);
		CHECK(json_get_object(doc, "k", &v, &e) == JSON_ABSENT);
		CHECK(json_get_array(doc, "k", &v, &e) == JSON_ABSENT);
		CHECK(!strcmp(text, "before") && len == 6 && n == 7 && flag && v == doc);
		CHECK(e.kind == ERR_NONE);
		json_free(doc);
	}
}

TEST(a_wrong_type_is_told_by_name)
{
	struct json *doc = parse("{\"k\":[],\"o\":{}}");
	struct err e = {0};
	const struct json *v = doc;
	const char *text = "before";
	size_t len = 6;
	double n = 7;
	bool flag = true;

	CHECK(json_get_string(doc, "k", &text, &len, &e) == -1);
	CHECK(!strcmp(e.text, "k must be a string") && e.kind == ERR_THEIRS);
	CHECK(json_get_number(doc, "k", &n, &e) == -1);
	CHECK(!strcmp(e.text, "k must be a number"));
	CHECK(json_get_bool(doc, "k", &flag, &e) == -1);
	CHECK(!strcmp(e.text, "k must be true or false"));
	CHECK(json_get_object(doc, "k", &v, &e) == -1);
	CHECK(!strcmp(e.text, "k must be an object"));
	CHECK(json_get_array(doc, "o", &v, &e) == -1);
	CHECK(!strcmp(e.text, "o must be an array"));
	CHECK(json_get_array(doc, "o", &v, NULL) == -1);
	CHECK(!strcmp(text, "before") && len == 6 && n == 7 && flag && v == doc);
	json_free(doc);
}

TEST(colliding_names_stay_cheap)
{
	/* names of one length whose hash (times 33, plus the byte) is the same: "aB" for
	 * "b!" */
	struct buf text;
	struct json *doc;

	buf_init(&text, 200000);
	for (unsigned i = 0; i < 1024; i++) {
		CHECK(buf_puts(&text, i ? ",\"" : "{\"") == 0);
		for (unsigned bit = 0; bit < 10; bit++)
			CHECK(buf_puts(&text, i >> bit & 1 ? "aB" : "b!") == 0);
		CHECK(buf_puts(&text, "\":0") == 0);
	}
	CHECK(buf_puts(&text, "}") == 0 && buf_text(&text) == 0);
	doc = parse(text.bytes); /* in the time a test has: it grows with the square */
	CHECK(json_count(doc) == 1024);
	json_free(doc);
	buf_done(&text);
}
