/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * share.c - how the server's descriptors are shared out
 *
 * Runs in: the server, and for the least of them in the supervisor. Runs come first, with
 * a connection each; of what is left sessions have at most half, connections the rest.
 */
#include "job/share.h"

#include <sys/resource.h>

#include "config/settings.h"

enum {
	OWN_FDS = 32, /* listener, launcher, epoll sets, files for a moment */
	RUN_FDS = 5,  /* its pipes, its input until it runs, and to its broker */
	WAIT_FDS = 2, /* its input, and that of the install or guard it waits for */
	SPARE_CONNECTIONS = 16, /* for probes, beside those of runs */
	COMMAND_FDS = 3,        /* its pipes; or its input, while it waits */
	BROKER_FDS = 2,         /* its news, and where process 1 sends its socket */
	BROKER_OWN_FDS = 16,
	THROUGH_FDS = 6, /* its two ends; what a resolver opens for a moment */
	COMMANDS = 128,
	BROKERS = 256, /* as many as sessions may live; the mother's others are for runs
			*/
};

static uint64_t least_connections(const struct settings *s)
{
	return s->max_concurrent + s->queue + SPARE_CONNECTIONS;
}

uint64_t share_least(const struct settings *s)
{
	return OWN_FDS + RUN_FDS * s->max_concurrent +
	       WAIT_FDS * (s->max_concurrent + s->queue) + SHARE_REFUSED +
	       least_connections(s);
}

static unsigned fewer(uint64_t a, uint64_t b)
{
	return (unsigned)(a < b ? a : b);
}

struct share share_of(const struct settings *s, uint64_t limit)
{
	const uint64_t least = share_least(s);
	const uint64_t left = limit > least ? limit - least : 0;
	const unsigned commands = s->sessions ? COMMANDS : 0;
	const unsigned brokers = s->sessions && s->network_rules ? BROKERS : 0;
	struct share out = {.limit = limit};

	out.commands = fewer(commands, left / 4 / COMMAND_FDS);
	out.brokers = fewer(brokers, left / 4 / BROKER_FDS);
	out.fewer_commands = out.commands < commands;
	out.fewer_brokers = out.brokers < brokers;
	out.connections = least_connections(s) + left -
			  (uint64_t)COMMAND_FDS * out.commands -
			  (uint64_t)BROKER_FDS * out.brokers;
	out.through_broker = fewer(s->egress_connections,
				   limit > BROKER_OWN_FDS + THROUGH_FDS
					   ? (limit - BROKER_OWN_FDS) / THROUGH_FDS
					   : 1);
	if (out.connections > s->max_connections)
		out.connections = s->max_connections;
	return out;
}

struct share share_now(const struct settings *s)
{
	struct rlimit r;

	return share_of(s, getrlimit(RLIMIT_NOFILE, &r) < 0 ? 0 : r.rlim_cur);
}
