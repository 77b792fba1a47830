/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * model.c - what policies answer, by their rules, without a program
 */
#include "model.h"

#include <errno.h>
#include <linux/audit.h>
#include <stdbool.h>

#include "base/mem.h"
#include "config/bpf.h"
#include "config/filter.h"

struct policy *model_for(const struct policy *p, enum policy_arch arch)
{
	struct policy *copy = mem_zero(sizeof(*copy));

	*copy = *p;
	copy->file = mem_copy(p->file);
	copy->rule = mem_array(p->rules + 1, sizeof(*copy->rule));
	for (size_t i = 0; i < p->rules; i++) {
		copy->rule[i] = p->rule[i];
		copy->rule[i].number = filter_number(arch, p->rule[i].name);
	}
	return copy;
}

static bool holds(const struct policy_arg *a, uint64_t arg)
{
	const bool is[POLICY_OP_COUNT] = {
		[POLICY_NE] = arg != a->value,
		[POLICY_LT] = arg<a->value, [POLICY_LE] = arg <= a->value,
				  [POLICY_EQ] = arg == a->value,
				  [POLICY_GE] = arg >= a->value, [POLICY_GT] = arg>
				      a->value,
		[POLICY_MASKED_EQ] = (arg & a->value) == a->value_two,
	};

	return is[a->op];
}

static bool fits(const struct policy_rule *r, const struct seccomp_data *d)
{
	for (unsigned i = 0; i < r->args; i++)
		if (!holds(&r->arg[i], d->args[r->arg[i].index]))
			return false;
	return true;
}

/* the kernel's numbers are signed, and the lower the stricter */
static bool stricter(uint32_t one, uint32_t other)
{
	return (int32_t)(one & SECCOMP_RET_ACTION_FULL) <
	       (int32_t)(other & SECCOMP_RET_ACTION_FULL);
}

static uint32_t value(enum policy_action action, unsigned errno_ret)
{
	const uint32_t values[] = {
		[POLICY_ALLOW] = SECCOMP_RET_ALLOW,
		[POLICY_ERRNO] = SECCOMP_RET_ERRNO | errno_ret,
		[POLICY_KILL_PROCESS] = SECCOMP_RET_KILL_PROCESS,
		[POLICY_LOG] = SECCOMP_RET_LOG,
	};

	return values[action];
}

/* one policy's answer; whether the listener is asked instead */
static uint32_t answer(const struct bpf_source *s, const struct policy *p,
		       const struct seccomp_data *d, bool *out_asks)
{
	uint32_t found = value(p->default_action, p->default_errno);
	bool any = false;

	*out_asks = s->mode == BPF_OBSERVE && p->default_action == POLICY_ERRNO &&
		    p->default_errno;
	for (size_t i = 0; i < p->rules; i++) {
		const struct policy_rule *r = &p->rule[i];
		const uint32_t one = value(r->action, r->errno_ret);

		if (d->nr < 0 || r->number != d->nr || !fits(r, d) ||
		    (any && !stricter(one, found)))
			continue;
		any = true;
		found = one;
		*out_asks = s->mode != BPF_QUIET && r->action == POLICY_ERRNO &&
			    r->errno_ret &&
			    (s->mode == BPF_OBSERVE ||
			     (r->errno_ret != ENOSYS && r->errno_ret != EINVAL));
	}
	return found;
}

uint32_t model_answer(const struct bpf_source *s, const struct seccomp_data *d)
{
	const bool x86 = s->arch == POLICY_X86_64;
	uint32_t all = SECCOMP_RET_ALLOW;
	bool asks = false;

	if (d->arch != (x86 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64) ||
	    (x86 && d->nr != -1 && (uint32_t)d->nr & 0xc0000000))
		return SECCOMP_RET_KILL_PROCESS;
	for (size_t i = 0; i < s->policies; i++) {
		bool one_asks;
		uint32_t one = answer(s, s->policy[i], d, &one_asks);

		if (!stricter(one, all))
			continue;
		all = one;
		asks = one_asks;
	}
	return asks ? SECCOMP_RET_USER_NOTIF : all;
}

void model_draw_arg(struct policy_arg *out, unsigned index, uint64_t (*draw)(uint64_t))
{
	static const uint64_t masks[] = {UINT32_MAX,        UINT64_MAX,       1, 0xf000,
					 UINT64_C(5) << 31, UINT64_C(1) << 40};

	*out = (struct policy_arg){.index = index,
				   .op = (enum policy_op)draw(POLICY_OP_COUNT)};
	out->value = draw(3) ? draw(40) : draw(UINT32_MAX) << draw(33);
	if (out->op != POLICY_MASKED_EQ)
		return;
	out->value_two = out->value;
	out->value = masks[draw(sizeof(masks) / sizeof(masks[0]))];
	out->value_two &= out->value;
}
