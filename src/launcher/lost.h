/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lost.h - an isolation layer that goes away while we serve
 */
#ifndef LAUNCHER_LOST_H
#define LAUNCHER_LOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

enum {
	LOST_LIMITS = 7, /* kinds of namespaces that can be forbidden by number */
};

struct launcher;
struct probe_facts;
struct run;
struct slot;

struct lost {
	bool now;          /* nothing is run while this is set */
	uint32_t layer;    /* enum layer_id */
	unsigned tries;    /* to get it back */
	bool start_anew;   /* only another launcher can find it again */
	struct slot *slot; /* where the present try is made; NULL: none is */
	uint64_t since_ns;
	struct loop_timer retry;
};

/* the layer that a run or a slot could not have, or -1: a failure of another kind */
int lost_layer_of(const struct launcher *l, const char *step, int num);
/* The limits of the namespace that the server was started in: before the launcher makes
 * one of its own. */
void lost_open_limits(struct launcher *l);
/* Before each run: one that waits needs nothing made, and would not notice that the next
 * one could not be. */
void lost_look(struct launcher *l);
/* from here on every run is refused, until a canary has seen all layers again */
void lost_begin(struct launcher *l, int layer, const char *step, int num);
/* The probe is over. What the first launcher of this server found is what all later
 * ones have to find; facts are copied. */
void lost_probe_over(struct launcher *l, const struct probe_facts *facts);

/* of the present try */
bool lost_tries_in(const struct slot *s);
void lost_slot_ready(struct launcher *l);
void lost_slot_failed(struct slot *s, const char *step, int num);
void lost_run_over(struct launcher *l, const struct run *r, const char *failed_step,
		   int num);

#endif
