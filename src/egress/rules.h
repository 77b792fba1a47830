/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rules.h - which hosts, ports and addresses may be reached
 *
 *	example.org          this name, ports 80 and 443
 *	*.example.org        every name below it, not itself
 *	example.org:8443     this port instead
 *	192.0.2.7, 10.0.0.0/8, 10.1.2.3:5432, [fd00::/8]:443
 *	                     addresses: by their numbers, and as what a listed name may
 *	                     resolve to although the range is not public; a range of more
 *	                     than a /8 (fc00::/7) stands for what is public in it
 *	*                    everything public
 *
 * No rule means: nothing.
 */
#ifndef EGRESS_RULES_H
#define EGRESS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/name.h"

struct err;

enum rule_kind { RULE_ANY, RULE_NAME, RULE_BELOW, RULE_RANGE, RULE_KINDS };

#define RULES_MAX 128

/* without pointers: it goes to the broker as it is */
struct rule {
	uint8_t kind;  /* enum rule_kind */
	uint8_t reach; /* enum address_reach: the farthest in that its names may lead */
	uint8_t bits;  /* of net */
	/* a range for what names resolve to, and not by its numbers */
	uint8_t resolved_only;
	/* a request's: it names hosts, and opens no address that is not open anyway */
	uint8_t host_only;
	uint16_t port; /* 0: 80 and 443 */
	struct address net;
	char name[NAME_ROOM];
};

struct rules {
	uint32_t count;
	struct rule rule[RULES_MAX];
};

/* one element; -1 and *e with what is wrong with it, which names it */
int rules_add(struct rules *r, const char *text, struct err *e);
/* elements divided by commas and spaces */
int rules_parse(struct rules *r, const char *list, struct err *e);
/* everything public on ports 80 and 443 */
void rules_add_any(struct rules *r);
/*
 * A host that the operator named as an index of packages: it may be private; near this
 * host only if it is an address, or "localhost", by name.
 */
int rules_add_index(struct rules *r, const char *host, unsigned port, struct err *e);
/* a host by name that nobody but an index named: public, and on port 80 or 443; -1: it is
 * not such, or there is no room */
int rules_add_public(struct rules *r, const char *host, unsigned port);
/* all of the other's as well */
int rules_add_all(struct rules *r, const struct rules *others, struct err *e);
/* everything that `wanted` allows, `ceiling` allows too */
bool rules_cover(const struct rules *ceiling, const struct rule *wanted);
/* after rules_cover for each: those open no addresses of their own, the operator's ranges
 * do, for what is asked for by name or number */
int rules_add_ranges(struct rules *r, const struct rules *ceiling, struct err *e);

/* by name, before anything is resolved: -1: no; else the enum address_reach */
int rules_host(const struct rules *r, const struct name *host, unsigned port);
/* an address that this name has led to, or that was asked for by its numbers */
bool rules_address(const struct rules *r, const struct address *a, unsigned port,
		   int reach);
/* as it came from another process */
bool rules_sane(const struct rules *r);
/* sane ones: none leads to a host, a port or an address that the ceiling does not */
bool rules_within(const struct rules *r, const struct rules *ceiling);

#endif
