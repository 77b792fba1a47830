/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ledger.h - what a launcher leaves for the one after it
 *
 * A few numbers in a memfd that the supervisor makes and gives to every launcher, and to
 * nobody else.
 */
#ifndef LAUNCHER_LEDGER_H
#define LAUNCHER_LEDGER_H

#include <stdint.h>

struct ledger {
	uint32_t level;   /* enum isolation_level that the first one found; 0: none yet */
	uint32_t layers;  /* bits by enum layer_id: what was active then */
	uint64_t refused; /* messages of the server */
};

/* in the supervisor; -1 with errno */
int ledger_make(void);
/* -1, errno EPROTO: it is none. fd -1: an empty one, and writing is no failure */
int ledger_read(int fd, struct ledger *out);
int ledger_write(int fd, const struct ledger *in);

#endif
