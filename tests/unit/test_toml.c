/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_toml.c - what a file of uv's says, and what is none
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "config/toml.h"
#include "tap.h"

static char said[4096];

static void note(void *self, const char *name, const char *value)
{
	const size_t len = strlen(said);

	(void)self;
	snprintf(said + len, sizeof(said) - len, "%s%s%s;", name, value ? "=" : "",
		 value ? value : "");
}

static int read_all(const char *text, struct err *e)
{
	said[0] = '\0';
	return toml_read(text, note, NULL, e);
}

TEST(tables_arrays_and_keys_of_every_spelling_are_told_by_their_whole_name)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{"", ""},
		{"# only this", ""},
		{"\xef\xbb\xbf"
		 "a = 1",
		 "a=1;"},
		{"\r\n a = 1 # not 2\r\n", "a=1;"},
		{"a = \"x # y\\t\\\"\\\\\"", "a=x # y\t\"\\;"},
		{"a = 'x\\y'\nb = \"\"", "a=x\\y;b=;"},
		{"a.b . \"c d\" = true", "a.b.c d=true;"},
		{"[t]\na = 1\n[u.v]\na = 2", "t;t.a=1;u.v;u.v.a=2;"},
		{"[[t]]\na = 1\n[[ t ]]\na = 2", "t;t.a=1;t;t.a=2;"},
		{"a = [ # one\n \"x\",\n\n 'y', # two\n]\nb = 1", "a=x;a=y;b=1;"},
		{"a = []\nb = [[1, 2], [3]]", "b=1;b=2;b=3;"},
		{"a = [{ b = \"x\", c = true }, {b=\"y\"}]", "a;a.b=x;a.c=true;a;a.b=y;"},
		{"a = {}\nb = { c.d = [1] }", "a;b;b.c.d=1;"},
		{"when = 2024-01-02T03:04:05Z\nf = -1.5e+3",
		 "when=2024-01-02T03:04:05Z;f=-1.5e+3;"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = {0};

		CHECK(read_all(rows[i].text, &e) == 0);
		CHECK(strcmp(said, rows[i].says) == 0);
	}
}

TEST(what_is_not_understood_is_an_error_with_its_line)
{
	static const struct {
		const char *text;
		unsigned line;
	} rows[] = {
		{"a", 1},
		{"a =", 1},
		{"\na = \"x", 2},
		{"a = 'x\n'", 1},
		{"a = \"\\u0041\"", 1},
		{"a = 1 2", 1},
		{"a = [1\n, 2", 2},
		{"a = [1 2]", 1},
		{"a = {b = 1", 1},
		{"a = {b}", 1},
		{"[a", 1},
		{"[[a]\nb = 1", 1},
		{"[]", 1},
		{"= 1", 1},
		{"a = \"\"\"x\"\"\"", 1},
		{"a = '''x'''", 1},
		{"a. = 1", 1},
		{"a = ,", 1},
		{"a = {b = 1,\nc = 2}", 1},
	};
	static const char deep[] = "a = [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]";
	char long_name[600], line[16];
	struct err e = {0};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(&e, 0, sizeof(e));
		snprintf(line, sizeof(line), "line %u: ", rows[i].line);
		CHECK(read_all(rows[i].text, &e) == -1);
		CHECK(strncmp(e.text, line, strlen(line)) == 0);
	}
	CHECK(read_all(deep, &e) == -1 && strstr(e.text, "too deep"));
	snprintf(long_name, sizeof(long_name), "%0*d = 1", 500, 0);
	CHECK(read_all(long_name, &e) == -1 && strstr(e.text, "too long"));
	snprintf(long_name, sizeof(long_name), "%0*d.%0*d = 1", 200, 0, 200, 0);
	CHECK(read_all(long_name, &e) == -1 && strstr(e.text, "too long"));
}
