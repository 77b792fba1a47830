/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_json_check.c - what is JSON and what is not, one row each
 *
 * A row that is taken must be taken by the whole of json_parse; one that is refused must
 * be refused for the reason it gives.
 */
#include "base/json_check.h"

#include <time.h>

#include "../tap.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct row {
	const char *text;
	size_t len;
	const char *why;
};
#define T(s)                           \
	{                              \
		s, sizeof(s) - 1, NULL \
	}
#define F(s, why)                     \
	{                             \
		s, sizeof(s) - 1, why \
	}

static const struct row taken[] = {
	/* whole texts */
	T("{}"),
	T("[]"),
	T("null"),
	T("true"),
	T("false"),
	T("0"),
	T("\"\""),
	T(" [] "),
	T("\t\n\r {}\n"),
	T("[[[[]]]]"),
	T("{\"\":0}"),
	T("{\"a\":{}}"),
	T("{\"a\":[]}"),
	T("[null]"),
	T("[1,2]"),
	T("[\"a\" , {\"b\" : null} ]"),
	T("{\"a\":1,\"b\":2}"),
	T("{\"a\":{\"a\":{\"a\":1}}}"),
	T("[{},{},{}]"),
	T("[ ]"),
	T("{ }"),
	/* numbers */
	T("-0"),
	T("-1"),
	T("1"),
	T("10"),
	T("0.1"),
	T("-0.1"),
	T("1.50"),
	T("1e1"),
	T("1E1"),
	T("1e+1"),
	T("1e-1"),
	T("1.5e10"),
	T("0e1"),
	T("0E+2"),
	T("-0e1"),
	T("[0e1,-0E-1 ,1]"),
	T("0.0e1"),
	T("10e0"),
	T("1e308"),
	T("1e-400"),
	T("123456789012345678901234567890"),
	T("[0]"),
	T("[1.0,2.0]"),
	T("-123.456E-7"),
	T("100e-2"),
	/* strings */
	T("\"a\""),
	T("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
	T("\"\\u0041\""),
	T("\"\\u00e9\""),
	T("\"\\u0000\""),
	T("\"\\uD83D\\uDE00\""),
	T("\"\\ud83d\\ude00\""),
	T("\"\x7f\""),
	T("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""),
	T("\"\xef\xbf\xbf\""),
	T("\"\xf4\x8f\xbf\xbf\""),
	T("\"\xe2\x80\xa8\""),
	T("\"\xef\xbb\xbf\""),
	T("\"/*\""),
	T("\"a b\\\\\""),
	T("\"[{]},:\""),
	T("\"\\uffff\""),
	T("\"\\uE000\""),
	T("{\"\\u0061\":1}"),
	T("{\"a.b\":1}"),
	T("\"\\\\u0000\""),
	T("\"01234567\\\"\""),
};

#define TRAIL "data after the value"
#define NUM "malformed number"
#define VAL "a value was expected"
#define NAME "a member name was expected"
#define EARLY "the text ends too early"
#define SEP "a comma or a closing bracket was expected"
#define END "string without an end"
#define UTF "invalid UTF-8"
#define CTL "control character in a string"
#define ESC "malformed escape"
#define LONE "lone surrogate"
#define PAIR "brackets do not match"

static const struct row refused[] = {
	/* whole texts */
	F("", "empty text"),
	F("  \n", "empty text"),
	F("{} x", TRAIL),
	F("{}{}", TRAIL),
	F("1 2", TRAIL),
	F("[]]", TRAIL),
	F("null,", TRAIL),
	F("\"a\"\"b\"", TRAIL),
	F("{}\0", TRAIL),
	F("truex", TRAIL),
	F("{}//c", TRAIL),
	F("\xef\xbb\xbf{}", "byte order mark"),
	F("\xff\xfe{\0}\0", UTF),
	F("\0", VAL),
	F("{\0}", NAME),
	/* words */
	F("tru", VAL),
	F("True", VAL),
	F("nul", VAL),
	F("NaN", VAL),
	F("Infinity", VAL),
	F("-Infinity", NUM),
	F("-NaN", NUM),
	F("undefined", VAL),
	F("'a'", VAL),
	F("a", VAL),
	F("/**/1", VAL),
	F("[\xe2\x82\xac]", VAL),
	F("\x0c[]", VAL),
	F("[]\x0b", TRAIL),
	F("\xc2\xa0[]", VAL),
	F("\xe2", UTF),
	/* arrays and objects */
	F("[1,]", VAL),
	F("[,1]", VAL),
	F("[1,,2]", VAL),
	F("[1 2]", SEP),
	F("[1", EARLY),
	F("[", EARLY),
	F("[1,", EARLY),
	F("]", VAL),
	F("}", VAL),
	F("[}", VAL),
	F("[1}", PAIR),
	F("{", EARLY),
	F("{]", NAME),
	F("{,}", NAME),
	F("{\"a\":1,}", NAME),
	F("{\"a\"}", "a colon was expected"),
	F("{\"a\":}", VAL),
	F("{\"a\":1]", PAIR),
	F("{\"a\" 1}", "a colon was expected"),
	F("{\"a\"::1}", VAL),
	F("{a:1}", NAME),
	F("{'a':1}", NAME),
	F("{1:1}", NAME),
	F("{\"a\":1 \"b\":2}", SEP),
	F("{\"a\"", EARLY),
	F("{\"a\":", EARLY),
	F("{\"a\":1", EARLY),
	F("[\"a\":1]", SEP),
	F("{\"a\",\"b\"}", "a colon was expected"),
	F("{null:1}", NAME),
	F("{\"a\":1,,\"b\":2}", NAME),
	F("[[]", EARLY),
	F("[1;2]", SEP),
	F(",", VAL),
	F(":", VAL),
	/* numbers */
	F("-", NUM),
	F("+1", VAL),
	F(".5", VAL),
	F("1.", NUM),
	F("-.5", NUM),
	F("01", NUM),
	F("-01", NUM),
	F("00", NUM),
	F("1.e1", NUM),
	F("1e", NUM),
	F("1e+", NUM),
	F("1e-", NUM),
	F("1.2.3", NUM),
	F("0x1", TRAIL),
	F("[0x1]", SEP),
	F("1_000", TRAIL),
	F("--1", NUM),
	F("[1.]", NUM),
	F("[-]", NUM),
	F("1e1.5", NUM),
	F("1e400", "number out of range"),
	F("-1e400", "number out of range"),
	F("[1e99999]", "number out of range"),
	F("1f", TRAIL),
	F("\xef\xbc\x91", VAL),
	F("[-01]", NUM),
	F("0e", NUM),
	F("- 1", NUM),
	/* strings */
	F("\"", END),
	F("\"a", END),
	F("\"\\", END),
	F("\"\\\"", END),
	F("\"\n\"", CTL),
	F("\"\0\"", CTL),
	F("\"\x1f\"", CTL),
	F("\"a\tb\"", CTL),
	F("\"\\x41\"", ESC),
	F("\"\\a\"", ESC),
	F("\"\\\0\"", ESC),
	F("\"\\'\"", ESC),
	F("\"\\u\"", ESC),
	F("\"\\u12\"", ESC),
	F("\"\\u12G4\"", ESC),
	F("\"\\u 123\"", ESC),
	F("\"\\U0041\"", ESC),
	F("\"\\u004", ESC),
	F("\"\\uD800\"", LONE),
	F("\"\\uDC00\"", LONE),
	F("\"\\uDC00\\uDC00\"", LONE),
	F("\"\\uD800\\uD800\"", LONE),
	F("\"\\uD83D\\n\"", LONE),
	F("\"\\uD83Dx\"", LONE),
	F("\"\\uDE00\\uD83D\"", LONE),
	F("\"\\uD83D\\u0041\"", LONE),
	F("\"\\uD83D\\uDE0\"", LONE),
	F("\"\\\xff\"", ESC),
	F("\"\xff\"", UTF),
	F("\"\xc0\x80\"", UTF),
	F("\"\xed\xa0\x80\"", UTF),
	F("\"\x80\"", UTF),
	F("\"\xf5\x80\x80\x80\"", UTF),
	F("\"\xe2\x82\"", UTF),
	F("\"\xf4\x90\x80\x80\"", UTF),
	F("\"\xe0\x80\xaf\"", UTF),
	F("\"abcdefgh\xc3\"", UTF),
	F("\"\xc3", UTF),
	F("{\"\xff\":1}", UTF),
	F("{\"\\u0000\":1}", "NUL in a member name"),
	F("{\"a\\u0000\":1}", "NUL in a member name"),
	F("{\"a\n\":1}", CTL),
	/* left to parson */
	F("{\"a\":1,\"a\":2}", "a member name occurs twice"),
	F("{\"a\":1,\"\\u0061\":2}", "a member name occurs twice"),
	F("[{\"b\":{\"a\":1,\"x\":2,\"a\":1}}]", "a member name occurs twice"),
};

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* the text in memory of exactly its size, so that a sanitizer sees a step too far */
static struct json *parse(const char *text, size_t len, struct err *e)
{
	char *exact = malloc(len ? len : 1);
	struct json *doc;

	memcpy(exact, text, len);
	doc = json_parse(exact, len, &json_request_limits, e);
	free(exact);
	return doc;
}

TEST(what_is_json_is_taken)
{
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		struct err e = {0};
		struct json *doc = parse(taken[i].text, taken[i].len, &e);

		if (!doc)
			fprintf(stderr, "# %s: %s\n", taken[i].text, e.text);
		CHECK(doc && e.kind == ERR_NONE);
		json_free(doc);
	}
}

TEST(what_is_not_json_is_refused_with_its_reason)
{
	char want[128];

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct err e = {0};
		struct json *doc = parse(refused[i].text, refused[i].len, &e);

		snprintf(want, sizeof(want), "invalid JSON: %s", refused[i].why);
		if (doc || strcmp(e.text, want) != 0)
			fprintf(stderr, "# row %zu, %s: '%s' for '%s'\n", i,
				refused[i].text, e.text, want);
		CHECK(!doc && !strcmp(e.text, want));
		CHECK(e.kind == ERR_THEIRS && e.status == 400);
		CHECK(!strcmp(e.code, "invalid_json"));
	}
}

/* every beginning of a text is refused, and none is read past its end */
TEST(no_beginning_of_a_text_is_a_text)
{
	static const char text[] = "{\"a\":[1,-2.5e-3,true,false,null,\"\\uD83D\\uDE00"
				   "\xf0\x9f\x98\x80 abcdefghijklmnop\\n\"],\"b\":{}}";

	for (size_t len = 0; len < sizeof(text) - 1; len++) {
		struct err e = {0};

		CHECK(!parse(text, len, &e) && e.kind == ERR_THEIRS);
	}
}

/* `unit` again and again; a quote stands for members with names of their own */
static const char *check_many(const char *open, const char *unit, unsigned n,
			      const char *close, const struct json_limits *limits)
{
	const char *why;
	struct buf b;

	buf_init(&b, 1 << 24);
	CHECK(buf_puts(&b, open) == 0);
	for (unsigned i = 0; i < n; i++) {
		if (*unit == '"')
			CHECK(buf_printf(&b, "%s\"%u\":0", i ? "," : "", i) == 0);
		else
			CHECK(buf_puts(&b, unit) == 0);
	}
	CHECK(buf_puts(&b, close) == 0);
	why = json_check(b.bytes, b.len, limits);
	buf_done(&b);
	return why ? why : "";
}

TEST(limits_are_exact)
{
	const struct json_limits l = {.depth = 3, .members = 4, .values = 6};

	CHECK(!strcmp(check_many("[[[", "", 0, "]]]", &l), ""));
	CHECK(!strcmp(check_many("[[[[", "", 0, "]]]]", &l), "nested too deeply"));
	CHECK(!strcmp(check_many("{", "\"", 4, "}", &l), ""));
	CHECK(!strcmp(check_many("{", "\"", 5, "}", &l), "too many members"));
	CHECK(!strcmp(check_many("[0", ",0", 5, "]", &l), ""));
	CHECK(!strcmp(check_many("[0", ",0", 6, "]", &l), "too many values"));
	CHECK(!strcmp(check_many("[[],[],[],[],[],[", "", 0, "]]", &l), ""));
	CHECK(!strcmp(check_many("[[],[],[],[],[],[[", "", 0, "]]]", &l),
		      "too many values"));
	CHECK(!strcmp(check_many("{\"a\":[0,0,0,0,0", "", 0, "]}", &l), ""));
	CHECK(!strcmp(check_many("{\"a\":[0,0,0,0,0,0", "", 0, "]}", &l),
		      "too many values"));
}

TEST(no_limit_is_more_than_the_stack_can_bear)
{
	const struct json_limits l = {.depth = ~0U, .members = ~0U, .values = ~0U};

	CHECK(!strcmp(check_many("", "[", 100000, "", &l), "nested too deeply"));
	CHECK(!strcmp(check_many("", "{\"a\":", 0, "", &l), "empty text"));
	CHECK(!strcmp(check_many("", "[", 1024, "", &l), "the text ends too early"));
}

TEST(a_million_keys_are_refused_at_once)
{
	struct err e = {0};
	struct buf b;
	double start;

	buf_init(&b, 1 << 24);
	CHECK(buf_puts(&b, "{") == 0);
	for (unsigned i = 0; i < 1000000; i++)
		CHECK(buf_printf(&b, "\"k%u\":0,", i) == 0);
	start = cpu_s();
	CHECK(!json_parse(b.bytes, b.len, &json_request_limits, &e));
	CHECK(cpu_s() - start < 0.1);
	CHECK(!strcmp(e.text, "invalid JSON: too many members"));
	buf_done(&b);
}

TEST(a_long_string_is_checked_quickly)
{
	const size_t len = 10 << 20;
	char *text = malloc(len);
	double start;

	memset(text, 'a', len);
	text[0] = text[len - 1] = '"';
	start = cpu_s();
	CHECK(!json_check(text, len, &json_request_limits));
	CHECK(cpu_s() - start < 0.1 * (getenv("TESTS_SLOW") ? 10 : 1));
	free(text);
}

TEST(numbers_have_a_length)
{
	const struct json_limits *l = &json_request_limits;
	char text[400];

	memset(text, '1', sizeof(text));
	CHECK(json_check(text, 300, l) == NULL);
	CHECK(!strcmp(json_check(text, 301, l), "number too long"));
	text[1] = '.';
	memcpy(text + 296, "e+10", 4);
	CHECK(json_check(text, 300, l) == NULL);
}
