/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_clients.c - tokens to clients, what they may use, and another file
 */
#include "http/clients.h"

#include <stdio.h>

#include "../tap.h"
#include "base/err.h"

#define SEC_NS UINT64_C(1000000000)

static struct tokens tokens;
static struct err e;

static struct span span(const char *text)
{
	return (struct span){text, strlen(text)};
}

static struct token *add(const char *name, const char *token)
{
	struct token *t = &tokens.one[tokens.count++];

	memset(t, 0, sizeof(*t));
	snprintf(t->name, sizeof(t->name), "%s", name);
	token_hash(token, strlen(token), t->hash);
	return t;
}

static bool finds(const struct clients *c, const char *token, const char *name)
{
	const struct client *one = clients_find(c, span(token));

	return name ? one && strcmp(one->name, name) == 0 : !one;
}

TEST(a_token_finds_its_client_and_nothing_else_does)
{
	struct clients *c;

	add("a", "first");
	add("b", "second");
	add("a", "third");
	c = clients_new(&tokens);
	CHECK(clients_count(c) == 3);
	CHECK(finds(c, "first", "a") && finds(c, "second", "b") &&
	      finds(c, "third", "a"));
	CHECK(clients_find(c, span("first")) == clients_find(c, span("third")));
	CHECK(finds(c, "firs", NULL) && finds(c, "first1", NULL) && finds(c, "", NULL));
	CHECK(finds(c, "a", NULL) && finds(c, "FIRST", NULL));
	clients_free(c);
}

TEST(another_file_takes_effect_and_counts_go_on)
{
	struct clients *c;
	struct client *a, *b;

	add("a", "first")->concurrency = 1;
	add("b", "second");
	c = clients_new(&tokens);
	a = clients_find(c, span("first"));
	b = clients_find(c, span("second"));
	client_hold(a);
	client_hold(b);
	a->running = 1;
	tokens.count = 0;
	add("a", "new")->concurrency = 1;
	clients_set(c, &tokens);
	CHECK(finds(c, "first", NULL) && finds(c, "second", NULL) &&
	      finds(c, "new", "a"));
	CHECK(clients_find(c, span("new")) == a && client_may_run(a, &e) == -1);
	CHECK(strcmp(b->name, "b") == 0); /* its request is under way still */
	client_drop(c, b);
	client_drop(c, a);
	CHECK(finds(c, "new", "a"));
	clients_free(c);
}

TEST(at_its_concurrency_a_client_is_told_so)
{
	struct client one = {.concurrency = 2, .running = 1};

	CHECK(client_may_run(NULL, &e) == 0);
	CHECK(client_may_run(&one, &e) == 0);
	one.running = 2;
	CHECK(client_may_run(&one, &e) == -1 && err_status(&e) == 429);
	CHECK(strcmp(e.text, "at capacity (3/2 concurrent executions of this token)") ==
	      0);
	one.concurrency = 0;
	CHECK(client_may_run(&one, &e) == 0);
}

TEST(a_rate_is_a_burst_and_then_a_trickle)
{
	struct client one = {.rate = 3, .rate_ms = 60000};
	const uint64_t now = 1000 * SEC_NS;
	unsigned wait = 0;

	for (int i = 0; i < 3; i++)
		CHECK(client_rate(&one, now, &wait, &e) == 0);
	CHECK(client_rate(&one, now, &wait, &e) == -1 && err_status(&e) == 429);
	CHECK(strcmp(e.code, "rate_limited") == 0 && wait == 20);
	CHECK(client_rate(&one, now + 19 * SEC_NS, &wait, &e) == -1 && wait == 1);
	CHECK(client_rate(&one, now + 20 * SEC_NS, &wait, &e) == 0);
	CHECK(client_rate(&one, now + 20 * SEC_NS, &wait, &e) == -1);
	for (int i = 0; i < 3; i++)
		CHECK(client_rate(&one, now + 500 * SEC_NS, &wait, &e) == 0);
	CHECK(client_rate(&one, now + 500 * SEC_NS, &wait, &e) == -1);
}

TEST(without_a_rate_nothing_is_counted)
{
	struct client one = {0};
	unsigned wait;

	for (int i = 0; i < 10000; i++)
		CHECK(client_rate(&one, 5, &wait, &e) == 0);
}
