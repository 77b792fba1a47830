/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * explain.c - what several policies together mean for one system call, for people
 *
 * The kernel asks every filter and takes the strictest answer; so does this.
 */
#include "config/explain.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"

/* the kernel's order, the strictest last */
static int strictness(enum policy_action action)
{
	static const int rank[] = {
		[POLICY_ALLOW] = 0,
		[POLICY_LOG] = 1,
		[POLICY_ERRNO] = 2,
		[POLICY_KILL_PROCESS] = 3,
	};

	return rank[action];
}

static struct outcome_of of_policy(const struct policy *p, int number)
{
	struct outcome_of o = {p->default_action, p->default_errno, false, false};

	for (size_t i = 0; i < p->rules; i++) {
		const struct policy_rule *r = &p->rule[i];

		if (r->number != number)
			continue;
		o.has_rule = true;
		if (r->args) {
			o.exceptions = true;
		} else {
			o.action = r->action;
			o.errno_ret = r->errno_ret;
		}
	}
	return o;
}

struct outcome_of explain_call(struct policy *const *set, size_t count, int number)
{
	struct outcome_of all = {POLICY_ALLOW, 0, false, false};

	for (size_t i = 0; i < count; i++) {
		struct outcome_of one = of_policy(set[i], number);

		if (strictness(one.action) >= strictness(all.action)) {
			all.action = one.action;
			all.errno_ret = one.errno_ret;
		}
		all.has_rule |= one.has_rule;
		all.exceptions |= one.exceptions;
	}
	return all;
}

static bool holds(const struct policy_arg *a, uint64_t arg)
{
	switch (a->op) {
	case POLICY_NE:
		return arg != a->value;
	case POLICY_LT:
		return arg < a->value;
	case POLICY_LE:
		return arg <= a->value;
	case POLICY_EQ:
		return arg == a->value;
	case POLICY_GE:
		return arg >= a->value;
	case POLICY_GT:
		return arg > a->value;
	case POLICY_MASKED_EQ:
		return (arg & a->value) == a->value_two;
	case POLICY_OP_COUNT:
		break;
	}
	return false;
}

/* of the rules that match the strictest; NULL: none does */
static const struct policy_rule *match(const struct policy *p, int number,
				       const uint64_t args[POLICY_ARGS])
{
	const struct policy_rule *found = NULL;

	for (size_t i = 0; i < p->rules; i++) {
		const struct policy_rule *r = &p->rule[i];
		unsigned j = 0;

		while (j < r->args && holds(&r->arg[j], args[r->arg[j].index]))
			j++;
		if (r->number == number && j == r->args &&
		    (!found || strictness(r->action) > strictness(found->action)))
			found = r;
	}
	return found;
}

struct refusal explain_refusal(struct policy *const *set, size_t count, int number,
			       const uint64_t args[POLICY_ARGS])
{
	for (size_t i = count; i > 0; i--) {
		const struct policy *p = set[i - 1];
		const struct policy_rule *r = match(p, number, args);

		if (strictness(r ? r->action : p->default_action) >=
		    strictness(POLICY_ERRNO))
			return (struct refusal){p, r};
	}
	return (struct refusal){NULL, NULL};
}

void explain_action(struct buf *out, enum policy_action action, unsigned errno_ret)
{
	const char *name = strerrorname_np((int)errno_ret);

	if (action == POLICY_ALLOW)
		buf_puts(out, "allowed");
	else if (action == POLICY_LOG)
		buf_puts(out, "allowed, and logged");
	else if (action == POLICY_KILL_PROCESS)
		buf_puts(out, "killed");
	else if (errno_ret == 0)
		buf_puts(out, "does nothing");
	else if (name)
		buf_puts(out, name);
	else
		buf_printf(out, "error %u", errno_ret);
}

static void add_condition(struct buf *out, const struct policy_arg *a)
{
	static const char *const signs[POLICY_OP_COUNT] = {
		[POLICY_NE] = "!=", [POLICY_LT] = "<",  [POLICY_LE] = "<=",
		[POLICY_EQ] = "=",  [POLICY_GE] = ">=", [POLICY_GT] = ">",
	};

	buf_printf(out, "argument %u ", a->index);
	if (a->op != POLICY_MASKED_EQ)
		buf_printf(out, "%s 0x%" PRIx64, signs[a->op], a->value);
	else if (a->value == UINT32_MAX)
		buf_printf(out, "= 0x%" PRIx64 " in its low 32 bits", a->value_two);
	else
		buf_printf(out, "& 0x%" PRIx64 " = 0x%" PRIx64, a->value, a->value_two);
}

void explain_rules(struct buf *out, const struct policy *p, int number)
{
	bool any = false;

	for (size_t i = 0; i < p->rules; i++) {
		const struct policy_rule *r = &p->rule[i];

		if (r->number != number)
			continue;
		any = true;
		buf_printf(out, "  %s:%u: ", p->file, r->line);
		explain_action(out, r->action, r->errno_ret);
		for (unsigned a = 0; a < r->args; a++) {
			buf_puts(out, a ? " and " : " when ");
			add_condition(out, &r->arg[a]);
		}
		if (r->comment[0])
			buf_printf(out, " (%s)", r->comment);
		buf_puts(out, "\n");
	}
	if (any || p->default_action == POLICY_ALLOW)
		return;
	buf_printf(out, "  %s: ", p->file);
	explain_action(out, p->default_action, p->default_errno);
	buf_puts(out, ", as every call without a rule\n");
}
