/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * verdicts.h - from what the canaries saw to layers and a level
 */
#ifndef LAUNCHER_VERDICTS_H
#define LAUNCHER_VERDICTS_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/child.h"
#include "wire/report.h"

struct launcher;

struct probe_facts {
	bool looked; /* seen is valid */
	struct canary_seen seen;
	bool memory_stopped;
	uint64_t throttled;
	int refused[LAYER_COUNT]; /* errno of what was given up */
	int fatal_num;
	char fatal_step[32]; /* "": a sandbox can be made */
};

void verdicts_report(const struct launcher *l, const struct probe_facts *f,
		     struct report *out);

#endif
