/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * address.c - where an address leads: out into the world, or to something near
 *
 * The tables are the IANA registries of special-purpose addresses, and the addresses at
 * which clouds answer questions about their machines.
 */
#include "egress/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define IPV4_AT 12 /* in bytes[] */

struct range {
	const char *net;
	uint8_t bits;
	uint8_t reach; /* enum address_reach */
};

/* the first that fits counts */
static const struct range ranges[] = {
	{"0.0.0.0", 8, REACH_NEAR},      /* this host */
	{"127.0.0.0", 8, REACH_NEAR},    /* loopback */
	{"169.254.0.0", 16, REACH_NEAR}, /* link-local, metadata at .169.254 and others */
	{"100.100.100.200", 32, REACH_NEAR}, /* metadata */
	{"168.63.129.16", 32, REACH_NEAR},   /* a cloud's own services */
	{"192.0.0.192", 32, REACH_NEAR},     /* metadata */
	{"224.0.0.0", 4, REACH_NEAR},        /* multicast */
	{"255.255.255.255", 32, REACH_NEAR}, /* broadcast */
	{"10.0.0.0", 8, REACH_PRIVATE},
	{"100.64.0.0", 10, REACH_PRIVATE}, /* of carriers, and of clusters */
	{"172.16.0.0", 12, REACH_PRIVATE},
	{"192.0.0.0", 24, REACH_PRIVATE},   /* protocol assignments */
	{"192.0.2.0", 24, REACH_PRIVATE},   /* documentation */
	{"192.88.99.0", 24, REACH_PRIVATE}, /* relays of 6to4 */
	{"192.168.0.0", 16, REACH_PRIVATE},
	{"198.18.0.0", 15, REACH_PRIVATE},   /* benchmarks */
	{"198.51.100.0", 24, REACH_PRIVATE}, /* documentation */
	{"203.0.113.0", 24, REACH_PRIVATE},  /* documentation */
	{"240.0.0.0", 4, REACH_PRIVATE},     /* reserved */
	{"0.0.0.0", 0, REACH_PUBLIC},

	{"::", 96, REACH_NEAR},            /* unspecified, loopback, IPv4-compatible */
	{"64:ff9b:1::", 48, REACH_NEAR},   /* a network's own translation */
	{"2001::", 32, REACH_NEAR},        /* Teredo: another address is inside */
	{"2002::", 16, REACH_NEAR},        /* 6to4: the same */
	{"::ffff:0:0:0", 96, REACH_NEAR},  /* IPv4-translated: another one is inside */
	{"fd00:ec2::", 32, REACH_NEAR},    /* metadata, and credentials of pods */
	{"fd20:ce::254", 128, REACH_NEAR}, /* metadata */
	{"fd00:42::42", 128, REACH_NEAR},  /* metadata */
	{"fe80::", 10, REACH_NEAR},        /* link-local */
	{"fec0::", 10, REACH_NEAR},        /* site-local */
	{"ff00::", 8, REACH_NEAR},         /* multicast */
	{"fc00::", 7, REACH_PRIVATE},
	{"2001::", 23, REACH_PRIVATE},     /* protocol assignments */
	{"2001:db8::", 32, REACH_PRIVATE}, /* documentation */
	{"3fff::", 20, REACH_PRIVATE},     /* documentation */
	{"2000::", 3, REACH_PUBLIC},
	{"::", 0, REACH_PRIVATE}, /* not given out yet */
};

static const struct address nat64 = {{0, 0x64, 0xff, 0x9b}};

static void put_ipv4(const void *four, struct address *out)
{
	memset(out->bytes, 0, 10);
	out->bytes[10] = out->bytes[11] = 0xff;
	memcpy(out->bytes + IPV4_AT, four, 4);
}

int address_parse(const char *text, size_t len, struct address *out)
{
	char copy[ADDRESS_TEXT];
	struct in6_addr six;
	struct in_addr four;

	if (len == 0 || len >= sizeof(copy) || memchr(text, 0, len))
		return -1;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (inet_pton(AF_INET, copy, &four) == 1) {
		put_ipv4(&four, out);
		return 0;
	}
	if (inet_pton(AF_INET6, copy, &six) != 1)
		return -1;
	memcpy(out->bytes, &six, sizeof(out->bytes));
	return 0;
}

bool address_is_ipv4(const struct address *a)
{
	static const struct address mapped = {{[10] = 0xff, [11] = 0xff}};

	return memcmp(a->bytes, mapped.bytes, IPV4_AT) == 0;
}

const char *address_text(const struct address *a, char room[ADDRESS_TEXT])
{
	const bool ipv4 = address_is_ipv4(a);

	return inet_ntop(ipv4 ? AF_INET : AF_INET6, a->bytes + (ipv4 ? IPV4_AT : 0), room,
			 ADDRESS_TEXT);
}

bool address_in(const struct address *a, const struct address *net, unsigned bits)
{
	const unsigned whole = bits / 8, rest = bits % 8;
	const uint8_t mask = (uint8_t)(0xff00u >> rest);

	if (memcmp(a->bytes, net->bytes, whole) != 0)
		return false;
	return rest == 0 || ((a->bytes[whole] ^ net->bytes[whole]) & mask) == 0;
}

static bool fits(const struct address *a, const struct range *r)
{
	unsigned bits = r->bits;
	struct address net;

	if (address_parse(r->net, strlen(r->net), &net) < 0)
		return false;
	if (address_is_ipv4(&net))
		bits += ADDRESS_IPV4_BITS;
	return address_is_ipv4(a) == address_is_ipv4(&net) && address_in(a, &net, bits);
}

enum address_reach address_reach(const struct address *a)
{
	struct address inside;
	size_t i = 0;

	if (address_in(a, &nat64, 96)) {
		put_ipv4(a->bytes + IPV4_AT, &inside);
		return address_reach(&inside);
	}
	while (i < sizeof(ranges) / sizeof(ranges[0]) - 1 && !fits(a, &ranges[i]))
		i++;
	return (enum address_reach)ranges[i].reach;
}

bool address_is_own(const struct address *a)
{
	struct ifaddrs *all, *i;
	struct address own, inside = *a;
	bool found = false;

	if (address_in(a, &nat64, 96))
		put_ipv4(a->bytes + IPV4_AT, &inside);
	if (getifaddrs(&all) < 0)
		return true;
	for (i = all; i && !found; i = i->ifa_next)
		found = i->ifa_addr && address_from_socket(i->ifa_addr, &own) == 0 &&
			memcmp(&own, &inside, sizeof(own)) == 0;
	freeifaddrs(all);
	return found;
}

int address_from_socket(const struct sockaddr *from, struct address *out)
{
	if (from->sa_family == AF_INET)
		put_ipv4(&((const struct sockaddr_in *)(const void *)from)->sin_addr,
			 out);
	else if (from->sa_family == AF_INET6)
		memcpy(out->bytes,
		       &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr,
		       sizeof(out->bytes));
	else
		return -1;
	return 0;
}

socklen_t address_to_socket(const struct address *a, uint16_t port,
			    struct sockaddr_storage *out)
{
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memset(out, 0, sizeof(*out));
	if (address_is_ipv4(a)) {
		memcpy(&four.sin_addr, a->bytes + IPV4_AT, 4);
		memcpy(out, &four, sizeof(four));
		return sizeof(four);
	}
	memcpy(&six.sin6_addr, a->bytes, sizeof(a->bytes));
	memcpy(out, &six, sizeof(six));
	return sizeof(six);
}
