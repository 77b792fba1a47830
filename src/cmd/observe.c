/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * observe.c - the calls that a program made beyond the policy, as a policy of their own
 *
 * A call that was refused for its arguments is allowed with exactly those arguments that
 * rules look at, any other one as a whole.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "config/explain.h"
#include "config/filter.h"
#include "job/job.h"

#define TEXT_CAP (1u << 20)

/* the arguments that the policy's rules for this call look at; none: without a policy */
static void used_args(const struct policy *p, int nr, bool used[POLICY_ARGS])
{
	memset(used, 0, POLICY_ARGS * sizeof(*used));
	for (size_t i = 0; p && i < p->rules; i++)
		for (unsigned j = 0; p->rule[i].number == nr && j < p->rule[i].args; j++)
			used[p->rule[i].arg[j].index] = true;
}

/* each as it was */
static void add_args(struct buf *b, const struct policy *p, const struct violation *v)
{
	bool used[POLICY_ARGS], any = false;

	used_args(p, v->nr, used);
	for (unsigned i = 0; i < POLICY_ARGS; i++) {
		if (!used[i])
			continue;
		buf_printf(b,
			   "%s\n        {\"index\": %u, \"value\": %" PRIu64
			   ", \"op\": \"SCMP_CMP_EQ\"}",
			   any ? "," : ",\n      \"args\": [", i, v->args[i]);
		any = true;
	}
	buf_puts(b, any ? "\n      ]" : "");
}

/* one rule allows both: they differ in what no rule looks at */
static bool alike(struct policy *const *set, const struct violation *a,
		  const struct violation *c)
{
	const struct refusal r = explain_refusal(set, POLICY_SET, a->nr, a->args);
	bool used[POLICY_ARGS];

	if (a->nr != c->nr || a->errno_ret != c->errno_ret)
		return false;
	used_args(r.policy, a->nr, used);
	for (unsigned i = 0; i < POLICY_ARGS; i++)
		if (used[i] && a->args[i] != c->args[i])
			return false;
	return true;
}

/* how often, with all that are alike; 0: an earlier one has counted it */
static uint64_t count_alike(struct policy *const *set, const struct result *result,
			    size_t at)
{
	const struct violation *v = result->violations;
	uint64_t count = 0;

	for (size_t i = 0; i < result->violation_count; i++) {
		if (i != at && !alike(set, &v[at], &v[i]))
			continue;
		if (i < at)
			return 0;
		count += v[i].count;
	}
	return count;
}

/* a path in a comment would not survive a quote in it */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void add_rule(struct buf *b, struct policy *const *set, const struct violation *v,
		     uint64_t count)
{
	struct refusal r = explain_refusal(set, POLICY_SET, v->nr, v->args);
	char name[POLICY_NAME];

	filter_name(v->nr, name);
	buf_printf(b, "    {\n      \"comment\": \"%" PRIu64 " time%s; ", count,
		   count == 1 ? "" : "s");
	explain_action(b, POLICY_ERRNO, v->errno_ret);
	if (r.rule)
		buf_printf(b, " by line %u of %s", r.rule->line,
			   base_name(r.policy->file));
	buf_printf(
		b,
		"\",\n      \"names\": [\"%s\"],\n      \"action\": \"SCMP_ACT_ALLOW\"",
		name);
	if (r.policy)
		add_args(b, r.policy, v);
	buf_puts(b, "\n    }");
}

static void add_policy(struct buf *b, const struct result *result,
		       struct policy *const *set)
{
	buf_puts(b,
		 "{\n  \"defaultAction\": \"SCMP_ACT_ERRNO\",\n"
		 "  \"defaultErrnoRet\": 38,\n"
		 "  \"architectures\": [\"SCMP_ARCH_X86_64\", \"SCMP_ARCH_AARCH64\"],\n"
		 "  \"syscalls\": [");
	for (size_t i = 0; i < result->violation_count; i++) {
		const uint64_t count = count_alike(set, result, i);

		if (count == 0)
			continue;
		buf_puts(b, i ? ",\n" : "\n");
		add_rule(b, set, &result->violations[i], count);
	}
	buf_puts(b, result->violation_count ? "\n  ]\n}\n" : "]\n}\n");
}

int observe_print(const struct result *result, struct err *e)
{
	struct policy *set[POLICY_SET];
	int rc = policy_set_load(set, e);
	struct buf b;

	buf_init(&b, TEXT_CAP);
	if (rc == 0)
		add_policy(&b, result, set);
	if (rc == 0 && buf_text(&b) < 0)
		rc = err_errno(e, "make the policy");
	if (rc == 0 && (fputs(b.bytes, stdout) < 0 || fflush(stdout) < 0))
		rc = err_errno(e, "write the policy");
	buf_done(&b);
	policy_set_free(set);
	return rc;
}
