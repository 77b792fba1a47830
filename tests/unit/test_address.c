/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_address.c - where an address leads
 */
#include "egress/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "../tap.h"

static int reach(const char *text)
{
	struct address a;

	return address_parse(text, strlen(text), &a) < 0 ? -1 : (int)address_reach(&a);
}

TEST(this_host_its_link_and_metadata_are_near)
{
	static const char *const near[] = {
		"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "169.254.169.254",
		"169.254.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192",
		"224.0.0.1", "239.255.255.250", "255.255.255.255", "::", "::1", "fe80::1",
		"febf::1", "fec0::1", "ff02::1", "fd00:ec2::254", "fd00:ec2::23",
		"::ffff:0:127.0.0.1", "::ffff:0:11.1.1.1", "fd20:ce::254",
		/* another address is inside */
		"::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254",
		"::127.0.0.1", "::7f00:1", "::8.8.8.8", "64:ff9b::127.0.0.1",
		"64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1",
		"2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:808:808::1",
		"2001:0:1234::1"};

	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++)
		if (reach(near[i]) != REACH_NEAR)
			tap_fail(__FILE__, __LINE__, near[i]);
}

TEST(private_and_special_ranges_are_not_public)
{
	static const char *const not_public[] = {
		"10.0.0.1",     "10.255.255.255",  "100.64.0.1",       "100.127.255.255",
		"172.16.0.1",   "172.31.255.255",  "192.0.0.1",        "192.0.2.1",
		"192.88.99.1",  "192.168.0.1",     "198.18.0.1",       "198.19.255.255",
		"198.51.100.1", "203.0.113.9",     "240.0.0.1",        "fc00::1",
		"fdff::1",      "2001:db8::1",     "2001:10::1",       "3fff::1",
		"4000::1",      "::ffff:10.0.0.1", "64:ff9b::10.0.0.1"};

	for (size_t i = 0; i < sizeof(not_public) / sizeof(not_public[0]); i++)
		if (reach(not_public[i]) != REACH_PRIVATE)
			tap_fail(__FILE__, __LINE__, not_public[i]);
}

TEST(the_rest_is_public)
{
	static const char *const open[] = {
		"1.1.1.1",        "9.255.255.255",   "11.0.0.0",        "100.63.255.255",
		"100.128.0.0",    "126.255.255.255", "128.0.0.0",       "172.15.255.255",
		"172.32.0.0",     "192.167.255.255", "192.169.0.0",     "198.17.255.255",
		"198.20.0.0",     "223.255.255.255", "2606:4700::1111", "2a00::1",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8"};

	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
		if (reach(open[i]) != REACH_PUBLIC)
			tap_fail(__FILE__, __LINE__, open[i]);
}

TEST(only_the_usual_spelling_is_an_address)
{
	static const char *const bad[] = {
		"",           "127.1",        "0177.0.0.1", "0x7f.0.0.1",
		"127.0.0.1 ", "2130706433",   "1.2.3",      "1.2.3.4.5",
		"256.1.1.1",  "fe80::1%eth0", ":::",        "[::1]"};
	struct address a;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (address_parse(bad[i], strlen(bad[i]), &a) == 0)
			tap_fail(__FILE__, __LINE__, bad[i]);
	CHECK(address_parse("1.2.3.4\0x", 9, &a) == -1);
}

TEST(an_address_survives_the_way_to_a_socket_and_back)
{
	static const char *const texts[] = {"192.0.2.7", "2001:db8::7"};
	struct sockaddr_storage s;
	struct address a, b;
	char room[ADDRESS_TEXT];

	for (size_t i = 0; i < 2; i++) {
		CHECK(address_parse(texts[i], strlen(texts[i]), &a) == 0);
		CHECK(address_to_socket(&a, 443, &s) ==
		      (i == 0 ? sizeof(struct sockaddr_in)
			      : sizeof(struct sockaddr_in6)));
		CHECK(s.ss_family == (i == 0 ? AF_INET : AF_INET6));
		CHECK(address_from_socket((struct sockaddr *)&s, &b) == 0);
		CHECK(memcmp(&a, &b, sizeof(a)) == 0);
		CHECK(strcmp(address_text(&b, room), texts[i]) == 0);
	}
}

TEST(loopback_is_our_own_and_documentation_is_not)
{
	struct address a;

	CHECK(address_parse("192.0.2.7", 9, &a) == 0 && !address_is_own(&a));
	CHECK(address_parse("127.0.0.1", 9, &a) == 0 && address_is_own(&a));
	CHECK(address_parse("64:ff9b::127.0.0.1", 18, &a) == 0 && address_is_own(&a));
}
