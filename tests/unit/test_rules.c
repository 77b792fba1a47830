/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_rules.c - which hosts, ports and addresses may be reached
 */
#include "egress/rules.h"

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

static int host(const struct rules *r, const char *text, unsigned port)
{
	struct name n;

	return name_parse(text, strlen(text), &n) < 0 ? -2 : rules_host(r, &n, port);
}

static bool address(const struct rules *r, const char *text, unsigned port, int reach)
{
	struct address a;

	return address_parse(text, strlen(text), &a) == 0 &&
	       rules_address(r, &a, port, reach);
}

TEST(no_rule_means_nothing)
{
	struct rules r = parsed("");

	CHECK(r.count == 0);
	CHECK(host(&r, "example.org", 443) == -1);
	CHECK(host(&r, "1.1.1.1", 80) == -1);
	r = parsed(" , ,, ");
	CHECK(r.count == 0);
}

TEST(a_name_is_that_name_on_two_ports)
{
	const struct rules r = parsed("example.org");

	CHECK(host(&r, "example.org", 443) == REACH_PUBLIC);
	CHECK(host(&r, "Example.ORG.", 80) == REACH_PUBLIC);
	CHECK(host(&r, "example.org", 22) == -1);
	CHECK(host(&r, "example.org", 8443) == -1);
	CHECK(host(&r, "www.example.org", 443) == -1);
	CHECK(host(&r, "example.org.evil.test", 443) == -1);
	CHECK(host(&r, "notexample.org", 443) == -1);
}

TEST(a_star_is_what_is_below_and_not_the_name_itself)
{
	const struct rules r = parsed("*.example.org");

	CHECK(host(&r, "a.example.org", 443) == REACH_PUBLIC);
	CHECK(host(&r, "a.b.example.org", 443) == REACH_PUBLIC);
	CHECK(host(&r, "example.org", 443) == -1);
	CHECK(host(&r, "notexample.org", 443) == -1);
	CHECK(host(&r, "a.example.org.evil.test", 443) == -1);
}

TEST(a_port_replaces_the_usual_ones)
{
	const struct rules r = parsed(
		"example.org:8443,[2606:4700::1]:8080,10.0.0.0/8:22");

	CHECK(host(&r, "example.org", 8443) == REACH_PUBLIC);
	CHECK(host(&r, "example.org", 443) == -1);
	CHECK(host(&r, "2606:4700::1", 8080) == REACH_PUBLIC);
	CHECK(host(&r, "2606:4700::1", 443) == -1);
	CHECK(address(&r, "10.2.3.4", 22, REACH_PUBLIC));
	CHECK(!address(&r, "10.2.3.4", 443, REACH_PUBLIC));
}

TEST(what_is_near_or_private_needs_a_rule_of_its_own)
{
	struct rules r = parsed("*, example.org");

	CHECK(address(&r, "8.8.8.8", 443, REACH_PUBLIC));
	CHECK(!address(&r, "10.0.0.1", 443, REACH_PUBLIC));
	CHECK(!address(&r, "127.0.0.1", 443, REACH_PUBLIC));
	CHECK(!address(&r, "::1", 443, REACH_PUBLIC));
	CHECK(!address(&r, "::ffff:127.0.0.1", 443, REACH_PUBLIC));
	CHECK(!address(&r, "169.254.169.254", 80, REACH_PUBLIC));
	r = parsed("*, 10.1.0.0/16, 127.0.0.1:8080, fd00::/8");
	CHECK(address(&r, "10.1.2.3", 443, REACH_PUBLIC));
	CHECK(!address(&r, "10.2.2.3", 443, REACH_PUBLIC));
	CHECK(address(&r, "127.0.0.1", 8080, REACH_PUBLIC));
	CHECK(!address(&r, "127.0.0.1", 80, REACH_PUBLIC));
	CHECK(!address(&r, "127.0.0.2", 8080, REACH_PUBLIC));
	CHECK(address(&r, "::ffff:127.0.0.1", 8080, REACH_PUBLIC));
	CHECK(address(&r, "fd12::1", 443, REACH_PUBLIC));
	CHECK(host(&r, "10.1.2.3", 443) == REACH_PUBLIC);
}

TEST(the_whole_world_is_not_this_host)
{
	static const char *const lists[] = {"0.0.0.0/0", "::/0", "::ffff:0:0/96",
					    "0.0.0.0/7", "::/64"};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const struct rules r = parsed(lists[i]);

		CHECK(!address(&r, "127.0.0.1", 443, REACH_PUBLIC));
		CHECK(!address(&r, "169.254.169.254", 80, REACH_PUBLIC));
		CHECK(!address(&r, "10.0.0.1", 80, REACH_PUBLIC));
	}
}

TEST(an_index_may_be_private_and_near_only_by_its_address)
{
	struct rules r = {0};
	struct err e = {0};

	CHECK(rules_add_index(&r, "pypi.corp", 443, &e) == 0);
	CHECK(host(&r, "pypi.corp", 443) == REACH_PRIVATE);
	CHECK(host(&r, "pypi.corp", 80) == -1);
	CHECK(address(&r, "10.0.0.7", 443, REACH_PRIVATE));
	CHECK(!address(&r, "127.0.0.1", 443, REACH_PRIVATE));
	CHECK(!address(&r, "169.254.169.254", 443, REACH_PRIVATE));
	CHECK(rules_add_index(&r, "localhost", 3141, &e) == 0);
	CHECK(host(&r, "localhost", 3141) == REACH_NEAR);
	CHECK(address(&r, "127.0.0.1", 3141, REACH_NEAR));
	CHECK(rules_add_index(&r, "127.0.0.1", 8081, &e) == 0);
	CHECK(host(&r, "127.0.0.1", 8081) == REACH_NEAR);
	CHECK(address(&r, "127.0.0.1", 8081, REACH_NEAR));
	CHECK(rules_add_index(&r, "0x7f.1", 80, &e) == -1);
	CHECK(rules_add_index(&r, "a", 0, &e) == -1);
}

static bool covers(const char *ceiling, const char *wanted)
{
	const struct rules c = parsed(ceiling), w = parsed(wanted);

	return w.count == 1 && rules_cover(&c, &w.rule[0]);
}

TEST(a_request_only_narrows)
{
	static const struct {
		const char *ceiling, *wanted;
		bool ok;
	} rows[] = {
		{"example.org", "example.org", true},
		{"example.org", "example.org:443", true},
		{"example.org", "example.org:8443", false},
		{"example.org:443", "example.org", false},
		{"example.org", "*.example.org", false},
		{"*.example.org", "a.example.org", true},
		{"*.example.org", "*.a.example.org", true},
		{"*.example.org", "*.example.org", true},
		{"*.example.org", "example.org", false},
		{"*.example.org", "*", false},
		{"*", "example.org", true},
		{"*", "*.org", true},
		{"*", "example.org:22", false},
		{"*", "10.0.0.1", false},
		{"*", "127.0.0.1", false},
		{"*", "8.8.8.8", true},
		{"*", "8.0.0.0/8", false},
		{"10.0.0.0/8", "10.1.0.0/16", true},
		{"10.0.0.0/8", "10.1.2.3", true},
		{"10.1.0.0/16", "10.0.0.0/8", false},
		{"10.0.0.0/8", "11.0.0.1", false},
		{"10.0.0.0/8", "example.org", false},
		{"", "example.org", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (covers(rows[i].ceiling, rows[i].wanted) != rows[i].ok)
			tap_fail(__FILE__, __LINE__, rows[i].wanted);
}

TEST(a_narrowed_list_keeps_the_operators_ranges_for_what_names_resolve_to)
{
	const struct rules ceiling = parsed("*.corp,10.0.0.0/8");
	struct rules r = parsed("db.corp");
	struct err e = {0};

	CHECK(rules_add_ranges(&r, &ceiling, &e) == 0);
	CHECK(address(&r, "10.1.2.3", 443, REACH_PUBLIC));
	CHECK(host(&r, "10.1.2.3", 443) == -1);
	CHECK(host(&r, "other.corp", 443) == -1);
}

TEST(a_request_opens_no_address_by_naming_it)
{
	static const struct {
		const char *ceiling, *wanted, *address;
		bool ok;
	} rows[] = {
		{"0.0.0.0/0", "127.0.0.1", "127.0.0.1", false},
		{"0.0.0.0/0", "169.254.169.254", "169.254.169.254", false},
		{"0.0.0.0/0", "10.0.0.0/8", "10.1.2.3", false},
		{"::/0", "::1", "::1", false},
		{"0.0.0.0/0", "8.8.8.8", "8.8.8.8", true},
		{"*", "8.8.8.8", "8.8.8.8", true},
		{"10.0.0.0/8", "10.1.2.3", "10.1.2.3", true},
		{"127.0.0.1", "127.0.0.1", "127.0.0.1", true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct rules ceiling = parsed(rows[i].ceiling);
		struct rules r = parsed(rows[i].wanted);
		struct err e = {0};

		CHECK(rules_add_ranges(&r, &ceiling, &e) == 0);
		if (address(&r, rows[i].address, 443, REACH_PUBLIC) != rows[i].ok)
			tap_fail(__FILE__, __LINE__, rows[i].wanted);
	}
}

TEST(what_is_no_host_is_refused_by_name)
{
	static const char *const bad[] = {"http://example.org",
					  "example.org/x",
					  "user@example.org",
					  "*example.org",
					  "a.*.org",
					  "**",
					  "example.org:0",
					  "example.org:65536",
					  "example.org:",
					  "10.0.0.0/33",
					  "10.0.0.0/",
					  "::/129",
					  "[::1]:x",
					  "0x7f.1",
					  "2130706433",
					  "*.127.0.0.1",
					  "*.",
					  "[example.org]",
					  "fe80::1%eth0"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct rules r = {0};
		struct err e = {0};

		if (rules_add(&r, bad[i], &e) == 0)
			tap_fail(__FILE__, __LINE__, bad[i]);
		else
			CHECK(strstr(e.text, bad[i]) && r.count == 0);
	}
}

TEST(too_many_are_refused)
{
	struct rules r = {0};
	struct err e = {0};

	for (int i = 0; i < RULES_MAX; i++)
		CHECK(rules_add(&r, "example.org", &e) == 0);
	CHECK(rules_add(&r, "example.org", &e) == -1 && rules_sane(&r));
	r.count++;
	CHECK(!rules_sane(&r));
}
