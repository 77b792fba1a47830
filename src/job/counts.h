/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * counts.h - what jobs have done since the start, for GET /metrics
 */
#ifndef JOB_COUNTS_H
#define JOB_COUNTS_H

#include "base/metrics.h"
#include "config/mode.h"
#include "egress/egress.h"
#include "wire/plan.h"

struct job;

/* by mode; and what has none */
enum { COUNT_SESSION = MODE_COUNT, COUNT_INSTALL, COUNT_GUARD, COUNT_KINDS };
const char *counts_kind_name(int kind); /* "python", ..., "session", "install", ... */

struct job_counts {
	uint64_t runs[COUNT_KINDS][VERDICT_COUNT];
	uint64_t failures; /* they ended without a verdict */
	struct histogram duration[COUNT_KINDS];
	struct histogram setup[2]; /* [1]: of sandboxes that waited */
	uint64_t refused_calls;
	uint64_t truncated;
	uint64_t connections[EGRESS_VERDICTS];
	uint64_t sent_bytes[EGRESS_VERDICTS], received_bytes[EGRESS_VERDICTS];
	uint64_t launchers; /* beyond the first */
	uint64_t losses;    /* times that a layer went away */
};
extern histogram_bounds counts_duration_bounds, counts_setup_bounds; /* seconds */

const char *counts_mode_name(const struct job *job); /* that of its kind */
void counts_run(struct job_counts *c, const struct job *job);
void counts_connection(struct job_counts *c, const struct egress_news *n);

#endif
