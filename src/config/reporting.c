/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reporting.c - the filters of a setup, and what is answered for by the launcher
 *
 * Runs in: the supervisor, once, at start. A task can have one listener, and where one
 * filter says notify and another errno, the errno wins and nothing is reported. So a
 * program has one filter of all its policies, where refused calls are reported and where
 * they are not.
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/bpf.h"
#include "config/filter.h"
#include "wire/setup.h"

static_assert((int)DENIAL_NE == POLICY_NE && (int)DENIAL_LT == POLICY_LT &&
		      (int)DENIAL_LE == POLICY_LE && (int)DENIAL_EQ == POLICY_EQ &&
		      (int)DENIAL_GE == POLICY_GE && (int)DENIAL_GT == POLICY_GT &&
		      (int)DENIAL_MASKED_EQ == POLICY_MASKED_EQ,
	      "the launcher compares as the filters do");

static const char *const init_names[FILTER_COUNT] = {
	[FILTER_INIT] = "init",
	[FILTER_INIT_SHARED] = "init-shared-pids",
};

/* the policies of a program, in the order in which their errors count */
enum { POLICIES = 7 };
static const char *const names[REPORTING_COUNT][POLICIES] = {
	[REPORTING_APART] = {"base", "arguments", "network-none"},
	[REPORTING_BROKER] = {"base", "arguments", "network-broker"},
	[REPORTING_SHARED] = {"base", "arguments", "network-none", "shared-pids"},
	[REPORTING_ONE_UID] = {"base", "arguments", "network-none", "shared-pids",
			       "shared-uid"},
	[REPORTING_PORT] = {"base", "arguments", "network-broker", "network-port",
			    "shared-pids"},
	[REPORTING_ONE_UID_MAKES] = {"base", "arguments", "network-none", "shared-pids",
				     "shared-uid-install", "shared-uid"},
	[REPORTING_ONE_UID_PORT] = {"base", "arguments", "network-broker", "network-port",
				    "shared-pids", "shared-uid-install", "shared-uid"},
	[REPORTING_POD_NONE] = {"base", "arguments", "network-none", "shared-network"},
	[REPORTING_POD] = {"base", "arguments", "network-pod"},
	[REPORTING_SHARED_POD] = {"base", "arguments", "network-pod", "shared-pids"},
	[REPORTING_ONE_UID_POD] = {"base", "arguments", "network-pod", "shared-pids",
				   "shared-uid"},
	/* what is in base's place allows more than base does */
	[REPORTING_ROOT] = {"root", "arguments", "network-broker"},
	[REPORTING_APART_UNCOUNTED] = {"base", "arguments", "network-none", "uncounted"},
	[REPORTING_BROKER_UNCOUNTED] = {"base", "arguments", "network-broker",
					"uncounted"},
	[REPORTING_ROOT_UNCOUNTED] = {"root", "arguments", "network-broker", "uncounted"},
};

/* What nobody will load is not compiled, and its files need not be there: a filter of no
 * length is one that no program can start with. */
static bool is_wanted(const struct setup *setup, int id)
{
	bool installs = false;

	for (uint32_t i = 0; i < setup->rows; i++)
		installs = installs || setup->row[i].installs;
	switch (id) {
	case REPORTING_BROKER:
	case REPORTING_BROKER_UNCOUNTED:
		/* a session has a loopback */
		return setup->network == NETWORK_BROKER || setup->session_row ||
		       setup->install_network == NETWORK_BROKER;
	case REPORTING_PORT:
	case REPORTING_ONE_UID_PORT:
		return setup->install_network == NETWORK_BROKER && installs;
	case REPORTING_ONE_UID_MAKES:
		return installs;
	case REPORTING_POD_NONE:
	case REPORTING_POD:
	case REPORTING_SHARED_POD:
	case REPORTING_ONE_UID_POD:
		return setup->network == NETWORK_POD;
	case REPORTING_ROOT:
	case REPORTING_ROOT_UNCOUNTED:
		return setup->session_row && setup->root_ranges;
	default:
		return true;
	}
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

static int add_denials(struct setup_reporting *r, const struct bpf_source *s,
		       struct err *e)
{
	for (size_t i = 0; i < s->policies; i++) {
		const struct policy *p = s->policy[i];

		for (size_t n = 0; n < p->rules; n++)
			if (p->rule[n].number >= 0 && bpf_reports(&p->rule[n], s->mode) &&
			    add_denial(r, p, &p->rule[n], e) < 0)
				return -1;
	}
	return 0;
}

static int compile_program(struct setup_reporting *r, const struct policy *const *policy,
			   size_t count, struct err *e)
{
	const struct policy *base = policy[0];
	struct bpf_source s = {policy, count, FILTER_ARCH, BPF_QUIET};

	if (bpf_compile(&s, &r->plain, e) < 0)
		return -1;
	s.mode = r->wide ? BPF_OBSERVE : BPF_REPORT;
	r->denials = 0; /* again for the same setup must not add to what is there */
	r->else_errno = r->wide && base->default_action == POLICY_ERRNO &&
					base->default_errno
				? base->default_errno
				: EPERM;
	if (add_denials(r, &s, e) < 0)
		return -1;
	return bpf_compile(&s, &r->notify, e);
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

/* a file that is to take the place of the policy of this name */
struct candidate {
	const char *name;
	const struct policy *policy;
};

/* in: NULL: the policies as they are */
static int compile_set(struct setup_reporting *r, const char *const *set,
		       const struct candidate *in, struct err *e)
{
	const struct policy *policy[POLICIES] = {NULL};
	struct policy *loaded[POLICIES] = {NULL};
	size_t count = 0;
	int rc = 0;

	while (rc == 0 && count < POLICIES && set[count]) {
		if (in && strcmp(in->name, set[count]) == 0)
			policy[count] = in->policy;
		else
			policy[count] = loaded[count] = policy_load(set[count], e);
		rc = policy[count] ? check_needed(policy[count], e) : -1;
		count++;
	}
	if (rc == 0)
		rc = compile_program(r, policy, count, e);
	for (size_t i = 0; i < POLICIES; i++)
		policy_free(loaded[i]);
	return rc;
}

static bool has_name(const char *const *set, const char *name)
{
	for (size_t i = 0; i < POLICIES && set[i]; i++)
		if (strcmp(set[i], name) == 0)
			return true;
	return false;
}

int filters_check(const char *name, const struct policy *p, struct err *e)
{
	const struct candidate in = {name, p};
	auto_free struct setup_reporting *r = mem_zero(sizeof(*r));
	int sets = 0;

	for (int i = 0; i < REPORTING_COUNT; i++) {
		if (!has_name(names[i], name))
			continue;
		if (compile_set(r, names[i], &in, e) < 0)
			return -1;
		sets++;
	}
	return sets;
}

static int compile_programs(struct setup *setup, struct err *e)
{
	for (int i = 0; i < REPORTING_COUNT; i++) {
		if (!is_wanted(setup, i))
			continue;
		setup->reporting[i].wide = setup->reporting[0].wide;
		if (compile_set(&setup->reporting[i], names[i], NULL, e) < 0)
			return -1;
	}
	return 0;
}

int filters_compile(struct setup *setup, struct err *e)
{
	if (compile_programs(setup, e) < 0)
		return -1;
	for (int id = 0; id < FILTER_COUNT; id++) {
		struct policy *p = policy_load(init_names[id], e);
		int rc = p ? filter_compile(p, &setup->filter[id], e) : -1;

		policy_free(p);
		if (rc < 0)
			return -1;
	}
	return 0;
}
