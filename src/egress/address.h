/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * address.h - where an address leads: out into the world, or to something near
 *
 * IPv4 is kept as ::ffff:a.b.c.d, so that both forms of it are one address. Forms that
 * carry another address inside are judged by that one, or refused.
 */
#ifndef EGRESS_ADDRESS_H
#define EGRESS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
	uint8_t bytes[16];
};

/* in this order: what may reach the later ones may reach the earlier ones */
enum address_reach {
	REACH_PUBLIC,
	REACH_PRIVATE, /* private and special-use ranges */
	REACH_NEAR,    /* this host, its link, metadata services, multicast */
};

#define ADDRESS_TEXT 46
#define ADDRESS_IPV4_BITS 96 /* of ::ffff:0:0/96 */

/* four decimal numbers without leading zeros, or IPv6 without a zone; -1: neither */
int address_parse(const char *text, size_t len, struct address *out);
const char *address_text(const struct address *a, char room[ADDRESS_TEXT]);
bool address_is_ipv4(const struct address *a);
bool address_in(const struct address *a, const struct address *net, unsigned bits);
/* by the tables; own addresses are not among them */
enum address_reach address_reach(const struct address *a);
/* an interface of this network namespace has it; true also when that cannot be told */
bool address_is_own(const struct address *a);

/* -1: another family */
int address_from_socket(const struct sockaddr *from, struct address *out);
socklen_t address_to_socket(const struct address *a, uint16_t port,
			    struct sockaddr_storage *out);

#endif
