/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_json_suite.c - the rows of tests/unit/json.tests against json_parse
 *
 * Run it from the top of the tree. Ours may be stricter than a general reader only in the
 * rows that say so, with the reason they give.
 */
#include "../tap.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define ROWS "tests/unit/json.tests"

enum { YES, STRICT, NO, TAKEN, REFUSED, KINDS };

static const struct kind {
	const char *word;
	unsigned rows; /* so that none is lost */
} kinds[KINDS] = {
	[YES] = {"yes", 92},    [STRICT] = {"strict", 3},    [NO] = {"no", 188},
	[TAKEN] = {"taken", 5}, [REFUSED] = {"refused", 30},
};

struct row {
	int kind;
	char *why, *name;
	struct buf text;
};

/* what stands in a row for the text: %XX a byte, %(N) ... %) N times */
static const char *decode(const char *p, struct buf *out)
{
	while (*p && strncmp(p, "%)", 2) != 0) {
		char *next, hex[3] = {0};

		if (strncmp(p, "%(", 2) == 0) {
			unsigned long times = strtoul(p + 2, &next, 10);
			const char *body = next + 1;

			CHECK(*next == ')' && times > 0);
			while (times--)
				p = decode(body, out);
			CHECK(strncmp(p, "%)", 2) == 0);
			p += 2;
		} else if (*p == '%') {
			memcpy(hex, p + 1, 2);
			hex[0] = (char)strtoul(hex, &next, 16);
			CHECK(next == hex + 2 && buf_add(out, hex, 1) == 0);
			p += 3;
		} else {
			CHECK(buf_add(out, p++, 1) == 0);
		}
	}
	return p;
}

/* "kind[: why] | name | text"; the line is cut into its parts */
static void split(char *line, struct row *row)
{
	char *name = strstr(line, " | "), *text = name ? strstr(name + 3, " |") : NULL;

	CHECK(name && text);
	*name = *text = 0;
	row->name = name + 3;
	text += 2;
	row->why = strstr(line, ": ");
	if (row->why) {
		*row->why = 0;
		row->why += 2;
	}
	for (row->kind = 0; row->kind < KINDS; row->kind++)
		if (!strcmp(line, kinds[row->kind].word))
			break;
	CHECK(row->kind < KINDS);
	CHECK(!*decode(*text == ' ' ? text + 1 : text, &row->text));
}

static int judge(const struct row *row)
{
	char *exact = malloc(row->text.len ? row->text.len : 1), want[128];
	struct err e = {0};
	struct json *doc;
	int ok;

	/* memory of exactly its size, so that a sanitizer sees a step too far */
	if (row->text.len)
		memcpy(exact, row->text.bytes, row->text.len);
	doc = json_parse(exact, row->text.len, &json_request_limits, &e);
	if (row->kind == YES || row->kind == TAKEN)
		ok = doc && e.kind == ERR_NONE;
	else
		ok = !doc && e.kind == ERR_THEIRS && !strcmp(e.code, "invalid_json");
	snprintf(want, sizeof(want), "invalid JSON: %s", row->why ? row->why : "");
	if (row->kind == STRICT && strcmp(e.text, want) != 0)
		ok = 0;
	if (!ok)
		fprintf(stderr, "# %s, %s: %s\n", kinds[row->kind].word, row->name,
			doc ? "was taken" : e.text);
	json_free(doc);
	free(exact);
	return ok;
}

TEST(every_case_is_taken_or_refused_as_it_must_be)
{
	unsigned seen[KINDS] = {0}, wrong = 0;
	FILE *in = fopen(ROWS, "re");
	char line[1024];

	CHECK(in);
	while (fgets(line, sizeof(line), in)) {
		struct row row;

		line[strcspn(line, "\n")] = 0;
		if (!line[0] || line[0] == '#')
			continue;
		buf_init(&row.text, 1 << 20);
		split(line, &row);
		seen[row.kind]++;
		wrong += !judge(&row);
		buf_done(&row.text);
	}
	fclose(in);
	CHECK(wrong == 0);
	for (int i = 0; i < KINDS; i++)
		CHECK(seen[i] == kinds[i].rows);
}
