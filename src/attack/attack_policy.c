/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_policy.c - the policies in force beside those in the binary
 *
 * What gets through a hole is often refused by the kernel itself, with the same error: of
 * a directory of the operator's the attempt alone does not tell. So its files are asked
 * too, about calls near every rule, and must refuse what ours of the same name refuse.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "attack/attack.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/embedded.h"
#include "config/explain.h"
#include "config/filter.h"

static bool allows_some(const struct policy *p, int nr)
{
	bool always = false;

	for (size_t i = 0; i < p->rules; i++) {
		const struct policy_rule *r = &p->rule[i];

		if (r->number != nr)
			continue;
		/* sync, which does nothing, and splice have errors of their own */
		if (r->action == POLICY_ALLOW || r->action == POLICY_LOG ||
		    (r->action == POLICY_ERRNO && r->errno_ret != ENOSYS &&
		     r->errno_ret != EPERM))
			return true;
		always |= r->args == 0;
	}
	return !always && p->default_action != POLICY_ERRNO;
}

void policy_calls(char out[POLICY_CALLS_HEX + 1])
{
	struct policy *p = NULL;
	struct err e = {0};

	for (size_t i = 0; i < embedded_policies_count; i++)
		if (strcmp(embedded_policies[i].name, "base") == 0)
			p = policy_parse("base", embedded_policies[i].text,
					 embedded_policies[i].len, &e);
	for (int at = 0; at < POLICY_CALLS_HEX; at++) {
		unsigned digit = 0;

		for (int bit = 0; p && bit < 4; bit++)
			digit |= (unsigned)allows_some(p, 4 * at + bit) << bit;
		snprintf(out + at, 2, "%x", digit);
	}
	policy_free(p);
}

/* arguments that a rule is about, or that are next to those */
static void fit(const struct policy_rule *r, int beside, uint64_t args[POLICY_ARGS])
{
	memset(args, 0, POLICY_ARGS * sizeof(*args));
	for (unsigned i = 0; i < r->args; i++) {
		const struct policy_arg *a = &r->arg[i];
		const uint64_t at = a->op == POLICY_MASKED_EQ ? a->value_two : a->value;

		args[a->index] = at + (uint64_t)(int64_t)beside;
	}
}

struct pair {
	struct policy *ours, *theirs;
	const char *name;
	bool told[EXPLAIN_NUMBERS];
};

static void compare_call(struct tries *t, struct pair *p, int nr,
			 const uint64_t args[POLICY_ARGS])
{
	char name[POLICY_NAME];

	if (nr < 0 || nr >= EXPLAIN_NUMBERS || p->told[nr] ||
	    !explain_refusal(&p->ours, 1, nr, args).policy ||
	    explain_refusal(&p->theirs, 1, nr, args).policy)
		return;
	p->told[nr] = true;
	filter_name(nr, name);
	expect(t, false, "%s.json lets through what ours refuses: %s", p->name, name);
}

static void compare_near(struct tries *t, struct pair *p, const struct policy *rules)
{
	uint64_t args[POLICY_ARGS];

	for (size_t i = 0; i < rules->rules; i++) {
		for (int beside = -1; beside <= 1; beside++) {
			fit(&rules->rule[i], beside, args);
			compare_call(t, p, rules->rule[i].number, args);
		}
	}
}

static void compare(struct tries *t, struct pair *p)
{
	uint64_t args[POLICY_ARGS];

	compare_near(t, p, p->ours);
	compare_near(t, p, p->theirs);
	for (int nr = 0; nr < EXPLAIN_NUMBERS; nr++) {
		memset(args, 0, sizeof(args));
		compare_call(t, p, nr, args);
		memset(args, 0xff, sizeof(args));
		compare_call(t, p, nr, args);
	}
}

static bool is_our_own(const char *name)
{
	return strcmp(name, POLICY_SERVER) == 0 || strcmp(name, POLICY_BROKER) == 0 ||
	       strcmp(name, POLICY_IMAGE) == 0;
}

void expect_policies(struct tries *t)
{
	for (size_t i = 0; i < embedded_policies_count; i++) {
		const struct embedded_file *f = &embedded_policies[i];
		auto_free struct pair *p = mem_zero(sizeof(*p));
		struct err e = {0};

		if (is_our_own(f->name))
			continue;
		p->name = f->name;
		p->ours = policy_parse(f->name, f->text, f->len, &e);
		/* one that is not there is not used: nothing would have started */
		p->theirs = policy_load(f->name, &e);
		if (p->ours && p->theirs)
			compare(t, p);
		policy_free(p->ours);
		policy_free(p->theirs);
	}
}
