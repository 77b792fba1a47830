/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bpf_emit.h - instructions of a BPF program, written from its end to its start
 *
 * So whatever an instruction jumps to has its place already. A place is a number that
 * stays valid; those of later code are larger.
 */
#ifndef CONFIG_BPF_EMIT_H
#define CONFIG_BPF_EMIT_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/setup.h"

struct policy_rule;

/* an answer, or a question */
struct step {
	const struct policy_rule *rule; /* what must fit; NULL: anything does */
	uint32_t answer;                /* then; otherwise the next step */
	bool skips; /* then, instead: on behind the next step without a rule */
};

struct emit {
	struct sock_filter insn[SETUP_INSNS];
	unsigned at; /* the first in use */
	bool full;   /* there was no place for one; nothing of it can be used */
};

void emit_init(struct emit *m);
/* code that leads to the answer of these steps; the last one has no rule */
unsigned emit_steps(struct emit *m, const struct step *step, size_t steps);
/* BPF_JEQ, BPF_JGT, BPF_JGE or BPF_JSET of what is loaded */
unsigned emit_jump(struct emit *m, unsigned op, uint32_t k, unsigned yes, unsigned no);
/* the start: another architecture ends the process; then to `tree`, the number loaded */
void emit_head(struct emit *m, uint32_t arch, unsigned tree);
/* -1: it is too long */
int emit_take(const struct emit *m, struct setup_filter *out_f);

#endif
