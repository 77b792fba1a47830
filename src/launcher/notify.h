/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * notify.h - refused calls of a run: answered, counted, told to the server
 */
#ifndef LAUNCHER_NOTIFY_H
#define LAUNCHER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "wire/plan.h"

struct notify_record;
struct run;
struct seccomp_data;
struct setup;
struct setup_reporting;

/* embedded in its run; zeroed but for the descriptor means nothing heard */
struct notify {
	int fd;     /* the listener; -1: none, or closed */
	bool taken; /* there was one */
	bool cut;
	struct notify_record *record;
	unsigned records;
	unsigned calls;
	unsigned lately; /* calls since `since_ns`, where their number has no end */
	uint64_t since_ns;
	struct loop_timer again;
};

/* 0, or -1 with errno: this kernel's messages are not what we know */
int notify_usable(void);
/* what a call that was reported is answered with, and the rule of the denials that says
 * so; their number: none does */
int notify_errno(const struct setup_reporting *s, const struct seccomp_data *call,
		 uint32_t *out_rule);
/* how many records a run can have */
unsigned notify_most(const struct setup *setup);
/* the run's listener, taken over; -1 with errno when it cannot be watched */
int notify_take(struct run *r, int *listener_fd);
/* how often this call was refused so far */
uint64_t notify_count(const struct run *r, int nr);
/* a message for each record */
void notify_tell(const struct run *r);
enum violations_known notify_known(const struct run *r);
void notify_clear(struct run *r);

#endif
