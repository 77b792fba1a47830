/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * audit.h - SANDBOX_AUDIT_FILE: a line for every run, chained to the one before
 *
 * No run without a line: one that cannot be written is kept and tried again, and until it
 * is written nothing new is run (503 audit_failed).
 */
#ifndef JOB_AUDIT_H
#define JOB_AUDIT_H

#include <stdbool.h>

#include "base/chain.h"

struct audit;
struct err;
struct job;
struct loop;

/* what a file ends with */
struct audit_end {
	struct chain chain;
	bool open;     /* its newline alone is missing */
	bool has_torn; /* bytes behind the last whole line: a crash left them */
	char torn[CHAIN_HEX];
};

/* Opens it to be appended to, makes it, locks it, and looks at its end. The descriptor,
 * or -1 and *e. Not in the server, which may open nothing */
int audit_open(const char *path, struct audit_end *out, struct err *e);

/* fd is taken over; the others take NULL */
struct audit *audit_new(struct loop *l, int fd, const struct audit_end *end);
/* -1: lines are lost */
int audit_free(struct audit *a);
/* another file, which goes on where this one ends; fd is taken over */
void audit_continue(struct audit *a, int fd);
/* false: nothing may be run at the moment */
bool audit_open_for_runs(const struct audit *a);
/* called when that is over */
void audit_on_back(struct audit *a, void (*fn)(void *arg), void *arg);
uint64_t audit_lines(const struct audit *a);
unsigned audit_pending(const struct audit *a); /* lines that are not written yet */

/* before its input is packed: what is to be run */
void audit_take(const struct audit *a, struct job *job);
/* it is over; e: NULL, or why it has no verdict */
void audit_run(struct audit *a, const struct job *job, const struct err *e);

#endif
