/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * order.c - what the server may tell a broker
 *
 * Runs in: a run's broker, before the first byte of its program. The server reads hostile
 * bytes, so it may have become somebody else's: what it orders is held against what the
 * supervisor said before there was a server.
 */
#include <assert.h>
#include <string.h>

#include "egress/broker.h"

static bool has_sense(const struct egress_order *o)
{
	return rules_sane(&o->rules) && memchr(o->secret, 0, sizeof(o->secret)) &&
	       o->connections > 0 && o->connections <= BROKER_CONNECTIONS &&
	       o->listens <= 1 && o->stays <= 1;
}

enum order_fault order_judge(const struct egress_order *o,
			     const struct egress_ceiling *most)
{
	bool runs, installs;

	if (!has_sense(o))
		return ORDER_NO_SENSE;
	/* of one or the other: an address of an index is none to which a run's names may
	 * lead */
	runs = rules_within(&o->rules, &most->runs);
	installs = rules_within(&o->rules, &most->installs);
	if (!runs && !installs)
		return ORDER_RULES;
	/* every process of this host could ask it */
	if (o->listens &&
	    (!most->listens || !installs || o->stays || o->secret[0] == '\0'))
		return ORDER_LISTENS;
	return o->stays && !runs ? ORDER_RULES : ORDER_FINE;
}

const char *order_fault_name(enum order_fault why)
{
	static const char *const names[] = {
		[ORDER_FINE] = "none",       [ORDER_FRAME] = "frame",
		[ORDER_NO_SENSE] = "values", [ORDER_RULES] = "rules",
		[ORDER_LISTENS] = "listens",
	};

	static_assert(sizeof(names) / sizeof(names[0]) == ORDER_FAULTS,
		      "a fault lacks its name");
	return names[why];
}
