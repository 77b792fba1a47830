/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bpf_emit.c - instructions of a BPF program, written from its end to its start
 */
#include "config/bpf_emit.h"

#include <assert.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/policy.h"

#define REACH 254 /* of a jump's 255: a second one may come between */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low word stands first");
#define LOW(index) ((uint32_t)offsetof(struct seccomp_data, args) + 8 * (index))
#define HIGH(index) (LOW(index) + 4)

void emit_init(struct emit *m)
{
	m->at = SETUP_INSNS;
	m->full = false;
}

static unsigned push(struct emit *m, struct sock_filter insn)
{
	if (m->at == 0)
		m->full = true;
	else
		m->insn[--m->at] = insn;
	return m->at;
}

static bool is_at(const struct emit *m, unsigned at, unsigned code)
{
	return at < SETUP_INSNS && m->insn[at].code == code;
}

/* an answer in reach: one that is there, or one more */
static unsigned answer(struct emit *m, uint32_t value)
{
	for (unsigned i = m->at; i < SETUP_INSNS && i - m->at <= REACH; i++)
		if (is_at(m, i, BPF_RET | BPF_K) && m->insn[i].k == value)
			return i;
	return push(m, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value));
}

static unsigned near(struct emit *m, unsigned target)
{
	if (target - m->at <= REACH)
		return target;
	if (is_at(m, target, BPF_RET | BPF_K))
		return answer(m, m->insn[target].k);
	return push(m, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, target - m->at));
}

unsigned emit_jump(struct emit *m, unsigned op, uint32_t k, unsigned yes, unsigned no)
{
	yes = near(m, yes);
	no = near(m, no);
	return push(m, (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | op | BPF_K), k,
						    (uint8_t)(yes - m->at),
						    (uint8_t)(no - m->at)));
}

static unsigned load(struct emit *m, uint32_t offset)
{
	return push(m, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

/* a target for who has this word loaded already */
static unsigned loaded(const struct emit *m, unsigned target, uint32_t offset)
{
	return is_at(m, target, BPF_LD | BPF_W | BPF_ABS) && m->insn[target].k == offset
		       ? target + 1
		       : target;
}

/* can be asked without changing what is loaded */
static bool keeps(uint32_t mask, uint32_t value)
{
	return mask == UINT32_MAX || value == 0 ||
	       (value == mask && (mask & (mask - 1)) == 0);
}

/* word & mask == value */
static unsigned masked_word(struct emit *m, uint32_t offset, uint32_t mask,
			    uint32_t value, const unsigned to[2])
{
	const unsigned yes = loaded(m, to[1], offset), no = loaded(m, to[0], offset);

	if (mask == 0)
		return to[1];
	if (mask == UINT32_MAX) {
		emit_jump(m, BPF_JEQ, value, yes, no);
	} else if (value == 0) {
		emit_jump(m, BPF_JSET, mask, no, yes);
	} else if (keeps(mask, value)) {
		emit_jump(m, BPF_JSET, mask, yes, no);
	} else {
		emit_jump(m, BPF_JEQ, value, to[1], to[0]);
		push(m, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
	}
	return load(m, offset);
}

/* to[1] when it fits, else to[0] */
static unsigned equal(struct emit *m, const struct policy_arg *a, uint64_t mask,
		      uint64_t value, const unsigned to[2])
{
	const unsigned high[2] = {to[0], masked_word(m, LOW(a->index), (uint32_t)mask,
						     (uint32_t)value, to)};

	return masked_word(m, HIGH(a->index), (uint32_t)(mask >> 32),
			   (uint32_t)(value >> 32), high);
}

/* op: BPF_JGT or BPF_JGE */
static unsigned above(struct emit *m, const struct policy_arg *a, unsigned op,
		      const unsigned to[2])
{
	const uint32_t low = LOW(a->index), high = HIGH(a->index);
	unsigned rest;

	emit_jump(m, op, (uint32_t)a->value, loaded(m, to[1], low),
		  loaded(m, to[0], low));
	rest = load(m, low);
	rest = emit_jump(m, BPF_JEQ, (uint32_t)(a->value >> 32), rest,
			 loaded(m, to[0], high));
	emit_jump(m, BPF_JGT, (uint32_t)(a->value >> 32), loaded(m, to[1], high), rest);
	return load(m, high);
}

static unsigned test(struct emit *m, const struct policy_arg *a, unsigned yes,
		     unsigned no)
{
	const unsigned to[2] = {no, yes}, not_to[2] = {yes, no};

	switch (a->op) {
	case POLICY_NE:
		return equal(m, a, UINT64_MAX, a->value, not_to);
	case POLICY_LT:
		return above(m, a, BPF_JGE, not_to);
	case POLICY_LE:
		return above(m, a, BPF_JGT, not_to);
	case POLICY_EQ:
		return equal(m, a, UINT64_MAX, a->value, to);
	case POLICY_GE:
		return above(m, a, BPF_JGE, to);
	case POLICY_GT:
		return above(m, a, BPF_JGT, to);
	case POLICY_MASKED_EQ:
		return equal(m, a, a->value, a->value_two, to);
	case POLICY_OP_COUNT:
		break;
	}
	abort();
}

/* Where all that comes to `next` is a question about the low word, with that loaded, it
 * need not be again. */
static unsigned drop_load(struct emit *m, const struct policy_rule *r, unsigned next)
{
	const struct policy_arg *a = &r->arg[0];

	if (r->args == 1 && a->op == POLICY_MASKED_EQ && a->value >> 32 == 0 &&
	    a->value && keeps((uint32_t)a->value, (uint32_t)a->value_two) &&
	    next == m->at && loaded(m, next, LOW(a->index)) != next)
		return ++m->at;
	return next;
}

unsigned emit_steps(struct emit *m, const struct step *step, size_t steps)
{
	unsigned next = 0, behind = 0;

	for (size_t i = steps; i-- > 0;) {
		const struct policy_rule *r = step[i].rule;
		unsigned yes;

		if (!r) {
			behind = next;
			next = answer(m, step[i].answer);
			continue;
		}
		yes = step[i].skips ? behind : answer(m, step[i].answer);
		next = drop_load(m, r, next);
		for (unsigned n = r->args; n-- > 0;)
			yes = test(m, &r->arg[n], yes, next);
		next = yes;
	}
	return next;
}

void emit_head(struct emit *m, uint32_t arch, unsigned tree)
{
	unsigned go_on;

	assert(tree == m->at); /* what comes first was written last */
	go_on = load(m, offsetof(struct seccomp_data, nr));
	emit_jump(m, BPF_JEQ, arch, go_on, answer(m, SECCOMP_RET_KILL_PROCESS));
	load(m, offsetof(struct seccomp_data, arch));
}

int emit_take(const struct emit *m, struct setup_filter *out_f)
{
	if (m->full)
		return -1;
	out_f->len = SETUP_INSNS - m->at;
	memcpy(out_f->insns, &m->insn[m->at], out_f->len * sizeof(m->insn[0]));
	return 0;
}
