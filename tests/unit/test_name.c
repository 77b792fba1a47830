/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_name.c - one spelling of a host, or none
 */
#include "egress/name.h"

#include <stdio.h>
#include <string.h>

#include "../tap.h"

TEST(names_have_one_spelling)
{
	static const struct {
		const char *from, *to;
		bool is_address;
	} rows[] = {
		{"example.org", "example.org", false},
		{"EXAMPLE.Org.", "example.org", false},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", false},
		{"_dmarc.a-b.c3", "_dmarc.a-b.c3", false},
		{"localhost", "localhost", false},
		{"1password.com", "1password.com", false},
		{"192.0.2.7", "192.0.2.7", true},
		{"192.0.2.7.", "192.0.2.7", true},
		{"::ffff:192.0.2.7", "192.0.2.7", true},
		{"[2001:DB8::1]", "2001:db8::1", true},
		{"0xz.example", "0xz.example", false},
	};
	struct name n;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (name_parse(rows[i].from, strlen(rows[i].from), &n) < 0)
			tap_fail(__FILE__, __LINE__, rows[i].from);
		else if (strcmp(n.text, rows[i].to) != 0 ||
			 n.is_address != rows[i].is_address)
			tap_fail(__FILE__, __LINE__, rows[i].from);
	}
}

TEST(what_some_reader_takes_for_something_else_is_refused)
{
	static const char *const bad[] = {
		"", ".", "..", "a..b", "example.org..", ".example.org", "exa mple.org",
		"example.org ", "example.org\r\n", "\texample.org", "user@example.org",
		"example.org@evil.test", "example.org%00", "example.org/",
		"example.org\\evil", "a:b", "b\xc3\xbd.example", "-a.org", "a-.org",
		/* numbers */
		"2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1",
		"127.0.0.0x1", "127.0.0.01", "1.2.3.4.5", "example.1", "example.0x1f",
		"256.256.256.256", "0", "0x", "127.0.0.1..",
		/* IPv6 */
		"[::1", "::1]", "[127.0.0.1]", "[fe80::1%25eth0]", "fe80::1%eth0", "[]",
		"[]]"};
	struct name n = {.text = "kept"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (name_parse(bad[i], strlen(bad[i]), &n) == 0)
			tap_fail(__FILE__, __LINE__, bad[i]);
	CHECK(name_parse("evil.test\0.example.org", 22, &n) == -1);
	CHECK(name_parse("example.org\0", 12, &n) == -1);
	CHECK(strcmp(n.text, "kept") == 0);
}

TEST(a_name_is_as_long_as_dns_takes_it)
{
	char text[300];
	struct name n;

	memset(text, 'a', sizeof(text));
	for (size_t i = 50; i < sizeof(text); i += 51)
		text[i] = '.';
	CHECK(name_parse(text, 253, &n) == 0 && strlen(n.text) == 253);
	CHECK(name_parse(text, 254, &n) == -1);
	memset(text, 'a', sizeof(text));
	CHECK(name_parse(text, 63, &n) == 0);
	CHECK(name_parse(text, 64, &n) == -1);
}
