/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bpf.c - the rules of several policies to one BPF program
 *
 * Runs in: the supervisor, once, at start. Every call gets a list of steps, tried in
 * order, and neighbours with the same list are one range of a search tree. What a load
 * costs is the length of the program and, since the kernel tries every number to see what
 * is always allowed, the steps to an answer; so there is one program, with short ways.
 */
#include "config/bpf.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/bpf_emit.h"
#include "config/filter.h"
#include "wire/setup.h"

#define X32_BIT 0x40000000u
#define NO_CALL 0xffffffffu /* a tracer's way to skip a call; not of x32 */

/* strictest first */
enum level { LEVEL_KILL, LEVEL_ERRNO, LEVEL_LOG, LEVEL_ALLOW };

static const enum level levels[] = {
	[POLICY_ALLOW] = LEVEL_ALLOW,
	[POLICY_ERRNO] = LEVEL_ERRNO,
	[POLICY_KILL_PROCESS] = LEVEL_KILL,
	[POLICY_LOG] = LEVEL_LOG,
};

/* a rule of one of the policies; sorted by number, then as they stand */
struct entry {
	const struct policy_rule *rule;
	size_t policy;
	size_t place;
	uint32_t number;
};

/* all that is said about one call */
struct call {
	const struct entry *entry;
	size_t entries;
};

/* numbers up to the next range's */
struct range {
	uint32_t from;
	const struct step *step;
	size_t steps;
};

struct compiler {
	const struct bpf_source *s;
	struct entry *entry;
	size_t entries;
	struct step *step; /* of all ranges; unused ones at the end */
	size_t steps;
	struct range *range;
	size_t ranges;
	size_t *unit; /* the first range of each, and where the last one ends */
	size_t units;
	struct emit emit;
};

bool bpf_reports(const struct policy_rule *r, enum bpf_mode mode)
{
	if (r->action != POLICY_ERRNO || r->errno_ret == 0 || mode == BPF_QUIET)
		return false;
	/* callers are to take another way, and honest ones do so without a word */
	return mode == BPF_OBSERVE || (r->errno_ret != ENOSYS && r->errno_ret != EINVAL);
}

static uint32_t plain_answer(enum policy_action action, unsigned errno_ret)
{
	switch (action) {
	case POLICY_ALLOW:
		return SECCOMP_RET_ALLOW;
	case POLICY_LOG:
		return SECCOMP_RET_LOG;
	case POLICY_ERRNO:
		return SECCOMP_RET_ERRNO | (errno_ret & SECCOMP_RET_DATA);
	case POLICY_KILL_PROCESS:
		break;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

static uint32_t rule_answer(const struct compiler *c, const struct policy_rule *r)
{
	return bpf_reports(r, c->s->mode) ? SECCOMP_RET_USER_NOTIF
					  : plain_answer(r->action, r->errno_ret);
}

static uint32_t default_answer(const struct compiler *c, const struct policy *p)
{
	if (c->s->mode == BPF_OBSERVE && p->default_action == POLICY_ERRNO &&
	    p->default_errno)
		return SECCOMP_RET_USER_NOTIF;
	return plain_answer(p->default_action, p->default_errno);
}

static int compare_entries(const void *one, const void *other)
{
	const struct entry *a = one, *b = other;

	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	if (a->policy != b->policy)
		return a->policy < b->policy ? -1 : 1;
	return a->place < b->place ? -1 : a->place > b->place;
}

static void collect(struct compiler *c)
{
	for (size_t p = 0; p < c->s->policies; p++) {
		for (size_t i = 0; i < c->s->policy[p]->rules; i++) {
			const struct policy_rule *r = &c->s->policy[p]->rule[i];
			int number = c->s->arch == FILTER_ARCH
					     ? r->number
					     : filter_number(c->s->arch, r->name);

			if (number >= 0)
				c->entry[c->entries++] = (struct entry){
					.rule = r,
					.policy = p,
					.place = i,
					.number = (uint32_t)number,
				};
		}
	}
	qsort(c->entry, c->entries, sizeof(*c->entry), compare_entries);
}

/* what one policy says with this strictness; true: nothing can come after it */
static bool add_rules(struct compiler *c, const struct call *call, size_t policy,
		      enum level level)
{
	for (size_t i = 0; i < call->entries; i++) {
		const struct policy_rule *r = call->entry[i].rule;

		if (call->entry[i].policy != policy || levels[r->action] != level)
			continue;
		c->step[c->steps++] = (struct step){.rule = r->args ? r : NULL,
						    .answer = rule_answer(c, r)};
		if (!r->args)
			return true;
	}
	return false;
}

/* The default, unless one of the weaker rules fits: whose turn comes later. The stricter
 * ones had theirs. True: nothing can come after it. */
static bool add_default(struct compiler *c, const struct call *call, size_t policy)
{
	const struct policy *p = c->s->policy[policy];
	const enum level level = levels[p->default_action];
	const size_t first = c->steps;

	for (size_t i = 0; i < call->entries; i++) {
		const struct policy_rule *r = call->entry[i].rule;

		if (call->entry[i].policy != policy)
			continue;
		if (!r->args) { /* always fits: no default for this call */
			c->steps = first;
			return false;
		}
		if (levels[r->action] > level)
			c->step[c->steps++] = (struct step){.rule = r, .skips = true};
	}
	c->step[c->steps++] = (struct step){.answer = default_answer(c, p)};
	return c->steps == first + 1;
}

static bool add_level(struct compiler *c, const struct call *call, enum level level)
{
	for (size_t p = 0; p < c->s->policies; p++) {
		if (add_rules(c, call, p, level))
			return true;
		if (levels[c->s->policy[p]->default_action] == level &&
		    add_default(c, call, p))
			return true;
	}
	return false;
}

/* the steps of one call, at the end of all; the last one always has an answer */
static size_t add_steps(struct compiler *c, const struct call *call)
{
	const size_t first = c->steps;
	bool ended = false;

	for (enum level l = LEVEL_KILL; !ended && l < LEVEL_ALLOW; l++)
		ended = add_level(c, call, l);
	if (!ended)
		c->step[c->steps++] = (struct step){.answer = SECCOMP_RET_ALLOW};
	/* a question whose answer does not depend on it */
	while (c->steps - first > 1 && c->step[c->steps - 2].rule &&
	       !c->step[c->steps - 2].skips &&
	       c->step[c->steps - 2].answer == c->step[c->steps - 1].answer) {
		c->step[c->steps - 2] = c->step[c->steps - 1];
		c->steps--;
	}
	return c->steps - first;
}

static bool same_step(const struct step *a, const struct step *b)
{
	if (a->answer != b->answer || a->skips != b->skips)
		return false;
	if (!a->rule || !b->rule)
		return a->rule == b->rule;
	return a->rule->args == b->rule->args &&
	       memcmp(a->rule->arg, b->rule->arg, sizeof(a->rule->arg)) == 0;
}

static bool same_range(const struct range *r, const struct step *step, size_t steps)
{
	size_t i = 0;

	while (r->steps == steps && i < steps && same_step(&r->step[i], &step[i]))
		i++;
	return i == steps;
}

/* one more range from this number on, unless the last one says the same */
static void add_range(struct compiler *c, uint32_t from, const struct step *step,
		      size_t steps)
{
	if (c->ranges == 0 || !same_range(&c->range[c->ranges - 1], step, steps))
		c->range[c->ranges++] = (struct range){from, step, steps};
}

static void find_ranges(struct compiler *c)
{
	static const struct step x32 = {.answer = SECCOMP_RET_KILL_PROCESS};
	const struct call nothing = {NULL, 0};
	const struct step *const unknown = c->step;
	const size_t steps = add_steps(c, &nothing);
	uint32_t number = 0;

	for (size_t i = 0, next; i < c->entries; i = next) {
		struct call call = {&c->entry[i], 0};
		const struct step *step = &c->step[c->steps];

		for (next = i;
		     next < c->entries && c->entry[next].number == c->entry[i].number;
		     next++)
			call.entries++;
		if (c->entry[i].number > number)
			add_range(c, number, unknown, steps);
		number = c->entry[i].number;
		add_range(c, number++, step, add_steps(c, &call));
	}
	add_range(c, number, unknown, steps);
	if (c->s->arch == POLICY_X86_64) {
		add_range(c, X32_BIT, &x32, 1);
		add_range(c, NO_CALL, unknown, steps);
	}
}

/* A unit of the tree is a range, or one with a single number of another kind in it: asked
 * for that number, two of its borders need no question. */
static void find_units(struct compiler *c)
{
	const struct range *r = c->range;

	for (size_t i = 0; i < c->ranges;) {
		c->unit[c->units++] = i;
		i += i + 2 < c->ranges && r[i + 2].from - r[i + 1].from == 1 &&
				     same_range(&r[i], r[i + 2].step, r[i + 2].steps)
			     ? 3
			     : 1;
	}
	c->unit[c->units] = c->ranges;
}

static unsigned emit_unit(struct compiler *c, size_t unit)
{
	const struct range *r = &c->range[c->unit[unit]];
	unsigned other, rest;

	if (c->unit[unit + 1] - c->unit[unit] == 1)
		return emit_steps(&c->emit, r->step, r->steps);
	other = emit_steps(&c->emit, r[1].step, r[1].steps);
	rest = emit_steps(&c->emit, r->step, r->steps);
	return emit_jump(&c->emit, BPF_JEQ, r[1].from, other, rest);
}

/* of the units from `first` on to before `end`; the number is loaded */
static unsigned emit_tree(struct compiler *c, size_t first, size_t end)
{
	const size_t middle = first + (end - first) / 2;
	unsigned above, below;

	if (end - first == 1)
		return emit_unit(c, first);
	above = emit_tree(c, middle, end);
	below = emit_tree(c, first, middle);
	return emit_jump(&c->emit, BPF_JGE, c->range[c->unit[middle]].from, above, below);
}

static int write_program(struct compiler *c, struct setup_filter *out_f, struct err *e)
{
	const uint32_t arch = c->s->arch == POLICY_X86_64 ? AUDIT_ARCH_X86_64
							  : AUDIT_ARCH_AARCH64;

	emit_init(&c->emit);
	emit_head(&c->emit, arch, emit_tree(c, 0, c->units));
	if (emit_take(&c->emit, out_f) == 0)
		return 0;
	if (c->s->policies == 1)
		return err_bad(e, "%s: compiles to more than %d instructions",
			       c->s->policy[0]->file, SETUP_INSNS);
	return err_bad(e, "the policies compile to more than %d instructions together",
		       SETUP_INSNS);
}

int bpf_compile(const struct bpf_source *s, struct setup_filter *out_f, struct err *e)
{
	auto_free struct compiler *c = mem_zero(sizeof(*c));
	size_t rules = 0;
	int rc;

	c->s = s;
	for (size_t i = 0; i < s->policies; i++) {
		if (!(s->policy[i]->archs & s->arch))
			return err_bad(e, "%s: not for SCMP_ARCH_%s", s->policy[i]->file,
				       s->arch == POLICY_X86_64 ? "X86_64" : "AARCH64");
		rules += s->policy[i]->rules;
	}
	c->entry = mem_array(rules + 1, sizeof(*c->entry));
	/* a rule can stand for itself and before a default; a call and "unknown" have
	 * their defaults and an end */
	c->step = mem_array(2 * rules + (rules + 1) * (s->policies + 1),
			    sizeof(*c->step));
	/* each with one before it, where a number was left out, and the last three */
	c->range = mem_array(2 * rules + 3, sizeof(*c->range));
	c->unit = mem_array(2 * rules + 4, sizeof(*c->unit));
	collect(c);
	find_ranges(c);
	find_units(c);
	rc = write_program(c, out_f, e);
	free(c->entry);
	free(c->step);
	free(c->range);
	free(c->unit);
	return rc;
}
