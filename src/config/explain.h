/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * explain.h - what several policies together mean for one system call, for people
 */
#ifndef CONFIG_EXPLAIN_H
#define CONFIG_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "config/policy.h"

struct buf;

#define EXPLAIN_NUMBERS 512 /* calls have numbers below this */

struct outcome_of {
	enum policy_action action; /* without a look at arguments */
	unsigned errno_ret;
	bool has_rule;   /* false: it is a default that says so */
	bool exceptions; /* some arguments have another outcome */
};

/* of two errors the last one's counts */
struct outcome_of explain_call(struct policy *const *set, size_t count, int number);
/* which policy refuses this call, and by which rule; both NULL: none does */
struct refusal {
	const struct policy *policy;
	const struct policy_rule *rule; /* NULL: its default */
};
struct refusal explain_refusal(struct policy *const *set, size_t count, int number,
			       const uint64_t args[POLICY_ARGS]);
/* "allowed", "EPERM", "nothing happens (0)", "killed" */
void explain_action(struct buf *out, enum policy_action action, unsigned errno_ret);
/* one line a rule: FILE:LINE, outcome, condition, comment */
void explain_rules(struct buf *out, const struct policy *p, int number);

#endif
