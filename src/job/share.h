/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * share.h - how the server's descriptors are shared out
 *
 * Were one kind of holder to take all, a run's pipes could not come in. So each has a
 * bound that leaves the others theirs, found once from RLIMIT_NOFILE, and whoever wants
 * more is refused before anything is begun.
 */
#ifndef JOB_SHARE_H
#define JOB_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct settings;

#define SHARE_REFUSED 64 /* connections beyond the most, which are told why */

struct share {
	uint64_t limit;       /* RLIMIT_NOFILE */
	uint64_t connections; /* SHARE_REFUSED more come on top */
	unsigned commands;    /* in sessions, under way at the same time */
	unsigned brokers;     /* of sessions */
	/* that a broker, which has as many descriptors as we have, holds at the same
	 * time: those beyond are refused, where they would wait for others to end */
	unsigned through_broker;
	bool fewer_commands, fewer_brokers; /* than there were with a higher limit */
};

/* the least RLIMIT_NOFILE that runs, those that wait and their connections fit in */
uint64_t share_least(const struct settings *s);
/* of so many; below the least: as of the least */
struct share share_of(const struct settings *s, uint64_t limit);
/* of as many as this process may have */
struct share share_now(const struct settings *s);

#endif
