/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reporting.c - the filters of a setup, and the one that reports what it refuses
 *
 * Runs in: the supervisor, once, at start. A task can have one listener, and where one
 * filter says notify and another errno, the errno wins and nothing is reported. So the
 * filters of a program become one: their programs in a row, "allow" made a jump to the
 * next. The order is the reverse of loading: of two errors the kernel takes the newest
 * filter's, and here the first program's counts.
 */
#include <assert.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/filter.h"
#include "wire/setup.h"

static_assert((int)DENIAL_NE == POLICY_NE && (int)DENIAL_LT == POLICY_LT &&
		      (int)DENIAL_LE == POLICY_LE && (int)DENIAL_EQ == POLICY_EQ &&
		      (int)DENIAL_GE == POLICY_GE && (int)DENIAL_GT == POLICY_GT &&
		      (int)DENIAL_MASKED_EQ == POLICY_MASKED_EQ,
	      "the launcher compares as the filters do");

static const char *const names[FILTER_COUNT] = {
	[FILTER_NETWORK] = "network-none",
	[FILTER_ARGUMENTS] = "arguments",
	[FILTER_BASE] = "base",
	[FILTER_INIT] = "init",
	[FILTER_SHARED_PIDS] = "shared-pids",
	[FILTER_SHARED_UID] = "shared-uid",
	[FILTER_INIT_SHARED] = "init-shared-pids",
};

static bool is_return(const struct sock_filter *i, uint32_t action)
{
	return i->code == (BPF_RET | BPF_K) && (i->k & SECCOMP_RET_ACTION_FULL) == action;
}

/* one more program at the end; last: nobody is left to ask */
static int append(struct setup_reporting *r, const struct setup_filter *f, bool last,
		  struct err *e)
{
	if (r->notify_len + f->len > SETUP_NOTIFY_INSNS)
		return err_bad(e,
			       "the policies compile to more than %d instructions "
			       "together",
			       SETUP_NOTIFY_INSNS);
	for (uint32_t i = 0; i < f->len; i++) {
		struct sock_filter *insn = &r->notify[r->notify_len++];

		*insn = f->insns[i];
		if (is_return(insn, FILTER_MARKED))
			insn->k = SECCOMP_RET_USER_NOTIF;
		if (!is_return(insn, SECCOMP_RET_ALLOW) &&
		    !is_return(insn, SECCOMP_RET_LOG))
			continue;
		insn->k = SECCOMP_RET_ALLOW; /* the log is for the filter beside */
		if (!last)
			*insn = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA,
							     f->len - i - 1);
	}
	return 0;
}

static bool kills_or_logs(const struct policy *p)
{
	bool does = p->default_action == POLICY_KILL_PROCESS ||
		    p->default_action == POLICY_LOG;

	for (size_t i = 0; i < p->rules; i++)
		does = does || p->rule[i].action == POLICY_KILL_PROCESS ||
		       p->rule[i].action == POLICY_LOG;
	return does;
}

static void fill_beside(const struct setup_filter *plain, struct setup_filter *out)
{
	*out = *plain;
	for (uint32_t i = 0; i < out->len; i++)
		if (is_return(&out->insns[i], SECCOMP_RET_ERRNO))
			out->insns[i].k = SECCOMP_RET_ALLOW;
}

static int add_denial(struct setup_reporting *r, const struct policy *p,
		      const struct policy_rule *rule, struct err *e)
{
	struct setup_denial *d = &r->denial[r->denials];

	if (r->denials == SETUP_DENIALS)
		return err_bad(e, "%s:%u: more than %d rules that refuse", p->file,
			       rule->line, SETUP_DENIALS);
	r->denials++;
	d->nr = rule->number;
	d->errno_ret = rule->errno_ret;
	d->args = rule->args;
	for (unsigned i = 0; i < rule->args; i++) {
		d->arg[i].index = rule->arg[i].index;
		d->arg[i].op = rule->arg[i].op;
		d->arg[i].value = rule->arg[i].value;
		d->arg[i].value_two = rule->arg[i].value_two;
	}
	return 0;
}

/* the filters of a program, in the order they are asked: how many of them it has */
static const int order[] = {FILTER_BASE, FILTER_ARGUMENTS, FILTER_NETWORK,
			    FILTER_SHARED_PIDS, FILTER_SHARED_UID};
static const int counts[REPORTING_COUNT] = {
	[REPORTING_APART] = 3,
	[REPORTING_SHARED] = 4,
	[REPORTING_ONE_UID] = 5,
};

static int add_reported(struct setup *setup, struct setup_reporting *r, int id, bool last,
			const struct policy *p, struct err *e)
{
	enum filter_mark mark = r->wide ? FILTER_MARK_ALL : FILTER_MARK_REPORTED;
	auto_free struct setup_filter *marked = mem_zero(sizeof(*marked));

	if (kills_or_logs(p))
		fill_beside(&setup->filter[id], &r->beside[id]);
	for (size_t i = 0; i < p->rules; i++)
		if (p->rule[i].number >= 0 && filter_reports(&p->rule[i], mark) &&
		    add_denial(r, p, &p->rule[i], e) < 0)
			return -1;
	if (filter_compile_marked(p, mark, marked, e) < 0)
		return -1;
	return append(r, marked, last, e);
}

static bool allows(const struct policy *p, const char *name)
{
	int number = filter_number(FILTER_ARCH, name);

	for (size_t i = 0; i < p->rules; i++)
		if (p->rule[i].number == number && !p->rule[i].args)
			return p->rule[i].action == POLICY_ALLOW ||
			       p->rule[i].action == POLICY_LOG;
	return p->default_action == POLICY_ALLOW || p->default_action == POLICY_LOG;
}

/* what the program's place does itself between its filters and the program */
static int check_needed(const struct policy *p, struct err *e)
{
	static const char *const needed[] = {"sendmsg", "close", "setrlimit", "execve"};

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!allows(p, needed[i]))
			return err_bad(e,
				       "%s: '%s' must be allowed: no program can be "
				       "started without",
				       p->file, needed[i]);
	return 0;
}

/* place: in the order of a program's filters; -1: not one of them */
static int compile_one(struct setup *setup, int id, int place, struct err *e)
{
	struct policy *p = policy_load(names[id], e);
	int rc;

	if (!p)
		return -1;
	rc = filter_compile(p, &setup->filter[id], e);
	if (rc == 0 && place >= 0)
		rc = check_needed(p, e);
	for (int i = 0; rc == 0 && place >= 0 && i < REPORTING_COUNT; i++) {
		struct setup_reporting *r = &setup->reporting[i];

		if (place < counts[i])
			rc = add_reported(setup, r, id, place == counts[i] - 1, p, e);
		if (id == FILTER_BASE && r->wide && p->default_action == POLICY_ERRNO &&
		    p->default_errno)
			r->else_errno = p->default_errno;
	}
	policy_free(p);
	return rc;
}

int filters_compile(struct setup *setup, struct err *e)
{
	for (int i = 0; i < REPORTING_COUNT; i++) {
		struct setup_reporting *r = &setup->reporting[i];

		/* again for the same setup must not add to what is there */
		r->denials = r->notify_len = 0;
		r->else_errno = EPERM;
		r->wide = setup->reporting[0].wide;
		memset(r->beside, 0, sizeof(r->beside));
	}
	for (int i = 0; i < (int)(sizeof(order) / sizeof(order[0])); i++)
		if (compile_one(setup, order[i], i, e) < 0)
			return -1;
	for (int id = FILTER_INIT; id < FILTER_COUNT; id++)
		if (compile_one(setup, id, -1, e) < 0)
			return -1;
	return 0;
}
