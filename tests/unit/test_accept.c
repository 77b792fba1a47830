/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_accept.c - which type is meant
 */
#include "http/accept.h"

#include "../tap.h"

static struct span span(const char *text)
{
	return (struct span){text, text ? strlen(text) : 0};
}

static size_t best(const char *accept)
{
	static const char *const types[] = {"application/json", "text/event-stream",
					    "application/x-ndjson", NULL};

	return accept_best(span(accept), types);
}

TEST(the_highest_q_counts_and_then_the_order)
{
	static const struct {
		const char *accept;
		size_t best;
	} rows[] = {
		{NULL, 0},
		{"", 0},
		{"text/html", 0},
		{"text/event-stream", 1},
		{"TEXT/Event-Stream ; Q=0.5", 1},
		{"text/event-stream, application/x-ndjson", 1},
		{"application/x-ndjson, text/event-stream", 2},
		{"application/x-ndjson;q=0.8, text/event-stream;q=0.9", 1},
		{"application/x-ndjson;q=0.801, text/event-stream;q=0.8", 2},
		{"application/json, text/event-stream", 0},
		{"application/json;q=0.9, text/event-stream;level=1;q=1.000", 1},
		{"text/event-stream;q=0", 0},
		{"text/event-stream;q=0, application/x-ndjson;q=0.001", 2},
		{"application/json;q=0, text/event-stream;q=0.1", 1},
		{"application/json;q=0", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(best(rows[i].accept) == rows[i].best);
}

TEST(a_wildcard_means_the_usual_one)
{
	CHECK(best("*/*") == 0);
	CHECK(best("text/*") == 0);
	CHECK(best("application/json;q=0.1, */*") == 0);
	CHECK(best("text/event-stream, */*") == 1);
	CHECK(best("text/event-stream;q=0.5, */*") == 0);
	CHECK(best("text/event-stream;q=0.5, application/*;q=0.4") == 1);
	CHECK(best("text/event-stream;q=0.5, application/json;q=0.4, */*") == 1);
}

TEST(a_q_that_is_none_is_no_wish)
{
	CHECK(best("text/event-stream;q=") == 0);
	CHECK(best("text/event-stream;q=x") == 0);
	CHECK(best("text/event-stream;q=2") == 0);
	CHECK(best("text/event-stream;q=10") == 0);
	CHECK(best("text/event-stream;q=0.1234") == 0);
	CHECK(best("text/event-stream;q=-1") == 0);
	CHECK(best("text/event-stream;q=1;") == 1);
	CHECK(best(",;,text/event-stream,") == 1);
}

TEST(a_second_choice_is_named_too)
{
	static const char both[] = "application/json, text/event-stream;q=0.5";

	CHECK(accept_names(span(both), "text/event-stream"));
	CHECK(!accept_names((struct span){both, 16}, "text/event-stream"));
	CHECK(!accept_names(span("text/event-stream;q=0, */*"), "text/event-stream"));
	CHECK(!accept_names(span("*/*"), "text/event-stream"));
	CHECK(!accept_names(span(NULL), "text/event-stream"));
}
