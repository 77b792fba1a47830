/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kept.h - how much there may be in the directory of plan.kept
 */
#ifndef LAUNCHER_KEPT_H
#define LAUNCHER_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/sample.h"
#include "wire/plan.h"

struct launcher;
struct worker_order;

/* how many files a limit in MiB stands for: as a tmpfs of that size is given inodes */
uint64_t disk_entries(uint64_t mb);

/* too much already: who comes may write nothing, but remove something */
bool kept_is_full(const struct limits *limits, const struct disk_use *use);
/* more than that, or too deep to be counted: it is removed */
bool kept_is_far(const struct limits *limits, const struct disk_use *use);

/* In a worker, before a run: what is there. -1 with errno when it was far too much */
int kept_begin(const struct launcher *l, const struct limits *limits,
	       struct disk_use *out);
/* There too, by an ERRAND_COUNT: added to what was seen. The last one of a run removes
 * what is far too much: true */
bool kept_count(const struct launcher *l, const struct worker_order *o,
		struct disk_use *use);

#endif
