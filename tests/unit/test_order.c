/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_order.c - what the server may tell a broker
 */
#include "egress/broker.h"

#include <stdio.h>
#include <string.h>

#include "../tap.h"
#include "base/err.h"

static struct rules parsed(const char *list)
{
	struct rules r = {0};
	struct err e = {0};

	if (rules_parse(&r, list, &e) < 0)
		tap_fail(__FILE__, __LINE__, list);
	return r;
}

static struct egress_order order(const char *list)
{
	return (struct egress_order){
		.connections = 1, .time_ms = 1, .bytes = 1, .rules = parsed(list)};
}

/* an index at an address of this host, one by name, and what they may name */
static struct egress_ceiling ceiling(const char *runs)
{
	struct egress_ceiling c = {.runs = parsed(runs), .listens = true};
	struct err e = {0};

	CHECK(rules_add_index(&c.installs, "127.0.0.1", 3141, &e) == 0);
	CHECK(rules_add_index(&c.installs, "index.corp", 8443, &e) == 0);
	rules_add_any(&c.installs);
	return c;
}

TEST(what_a_run_may_reach_is_at_most_what_the_operator_said)
{
	static const struct {
		const char *ceiling, *wanted;
		enum order_fault why;
	} rows[] = {
		{"example.org,10.0.0.0/8", "example.org,10.0.0.0/8", ORDER_FINE},
		{"example.org,10.0.0.0/8", "10.1.0.0/16,example.org:80", ORDER_FINE},
		{"example.org", "", ORDER_FINE},
		{"", "", ORDER_FINE},
		{"example.org", "example.org:22", ORDER_RULES},
		{"10.0.0.0/8", "10.0.0.0/7", ORDER_RULES},
		{"10.0.0.0/8", "192.168.0.0/16", ORDER_RULES},
		{"*.corp", "*.org:22", ORDER_RULES},
		/* who means the world means no host of his */
		{"0.0.0.0/0", "0.0.0.0/0", ORDER_FINE},
		{"0.0.0.0/0", "127.0.0.0/8", ORDER_RULES},
		{"0.0.0.0/0", "10.0.0.0/8", ORDER_RULES},
		{"*", "8.8.8.8", ORDER_RULES}, /* though it were this host's own */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct egress_ceiling c = {.runs = parsed(rows[i].ceiling)};
		const struct egress_order o = order(rows[i].wanted);

		if (order_judge(&o, &c) != rows[i].why)
			tap_fail(__FILE__, __LINE__, rows[i].wanted);
	}
}

TEST(whatever_a_request_may_ask_for_is_within)
{
	static const char *const lists[][2] = {
		{"*", "8.8.8.8"},
		{"*", "example.org"},
		{"0.0.0.0/0", "127.0.0.1"},
		{"*.corp,10.0.0.0/8", "db.corp"},
		{"*.corp,10.0.0.0/8", "10.1.2.3"},
		{"127.0.0.1:8080,localhost", "127.0.0.1:8080"},
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const struct egress_ceiling c = {.runs = parsed(lists[i][0])};
		struct egress_order o = order(lists[i][1]);
		struct err e = {0};

		CHECK(rules_cover(&c.runs, &o.rules.rule[0]));
		CHECK(rules_add_ranges(&o.rules, &c.runs, &e) == 0);
		if (order_judge(&o, &c) != ORDER_FINE)
			tap_fail(__FILE__, __LINE__, lists[i][1]);
	}
}

TEST(a_rule_reaches_no_farther_than_the_one_that_covers_it)
{
	const struct egress_ceiling c = ceiling("*,example.org");
	struct egress_order o = order("*");

	CHECK(order_judge(&o, &c) == ORDER_FINE);
	o.rules.rule[0].reach = REACH_PRIVATE;
	CHECK(order_judge(&o, &c) == ORDER_RULES);
	o = order("example.org");
	o.rules.rule[0].reach = REACH_NEAR;
	CHECK(order_judge(&o, &c) == ORDER_RULES);
	o = order("");
	o.rules = c.installs;
	CHECK(order_judge(&o, &c) == ORDER_FINE);
	o.rules.rule[1].reach = REACH_NEAR;
	CHECK(order_judge(&o, &c) == ORDER_RULES);
}

/* together they would be more than either: a name that leads to the index's address */
TEST(hosts_of_runs_and_of_indexes_are_not_mixed)
{
	const struct egress_ceiling c = ceiling("example.org:3141");
	struct egress_order o = order("example.org:3141");
	struct err e = {0};

	CHECK(order_judge(&o, &c) == ORDER_FINE);
	CHECK(rules_add_index(&o.rules, "127.0.0.1", 3141, &e) == 0);
	CHECK(order_judge(&o, &c) == ORDER_RULES);
}

TEST(a_host_that_an_index_names_is_public_and_on_a_usual_port)
{
	const struct egress_ceiling c = ceiling("");
	struct egress_order o = order("");
	struct err e = {0};

	o.rules = parsed("");
	CHECK(rules_add_public(&o.rules, "files.test", 443) == 0);
	CHECK(order_judge(&o, &c) == ORDER_FINE);
	o.rules.rule[0].port = 22;
	CHECK(order_judge(&o, &c) == ORDER_RULES);
	o.rules = parsed("");
	CHECK(rules_add_index(&o.rules, "files.test", 443, &e) == 0);
	CHECK(order_judge(&o, &c) == ORDER_RULES);
}

TEST(only_an_install_that_cannot_have_it_otherwise_is_listened_for)
{
	struct egress_ceiling c = ceiling("example.org");
	struct egress_order o = order("");

	o.rules = c.installs;
	o.listens = 1;
	CHECK(order_judge(&o, &c) == ORDER_LISTENS);
	snprintf(o.secret, sizeof(o.secret), "x");
	CHECK(order_judge(&o, &c) == ORDER_FINE);
	c.listens = false;
	CHECK(order_judge(&o, &c) == ORDER_LISTENS);
	c.listens = true;
	o.stays = 1;
	CHECK(order_judge(&o, &c) == ORDER_LISTENS);
	o.listens = 0;
	CHECK(order_judge(&o, &c) == ORDER_RULES); /* no session installs */
	o.rules = c.runs = parsed("example.org:22");
	CHECK(order_judge(&o, &c) == ORDER_FINE);
	o.listens = 1;
	o.stays = 0;
	CHECK(order_judge(&o, &c) == ORDER_LISTENS);
}

TEST(values_that_make_no_sense_are_refused)
{
	const struct egress_ceiling c = {.runs = parsed("*")};
	struct egress_order o = order("*");

	o.connections = 0;
	CHECK(order_judge(&o, &c) == ORDER_NO_SENSE);
	o.connections = BROKER_CONNECTIONS + 1;
	CHECK(order_judge(&o, &c) == ORDER_NO_SENSE);
	o = order("*");
	o.listens = 2;
	CHECK(order_judge(&o, &c) == ORDER_NO_SENSE);
	o = order("*");
	o.stays = 2;
	CHECK(order_judge(&o, &c) == ORDER_NO_SENSE);
	o = order("*");
	memset(o.secret, 'x', sizeof(o.secret));
	CHECK(order_judge(&o, &c) == ORDER_NO_SENSE);
	o = order("*");
	o.rules.rule[0].kind = RULE_KINDS;
	CHECK(order_judge(&o, &c) == ORDER_NO_SENSE);
}
