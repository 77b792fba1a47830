/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reference.c - a policy compiled by libseccomp, to compare with
 */
#include "reference.h"

#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/policy.h"
#include "wire/setup.h"

static const enum scmp_compare ops[POLICY_OP_COUNT] = {
	[POLICY_NE] = SCMP_CMP_NE,
	[POLICY_LT] = SCMP_CMP_LT,
	[POLICY_LE] = SCMP_CMP_LE,
	[POLICY_EQ] = SCMP_CMP_EQ,
	[POLICY_GE] = SCMP_CMP_GE,
	[POLICY_GT] = SCMP_CMP_GT,
	[POLICY_MASKED_EQ] = SCMP_CMP_MASKED_EQ,
};

static void must(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "# libseccomp: %s: %s\n", what, strerror(-rc));
	exit(1);
}

static uint32_t action(enum policy_action a, unsigned errno_ret)
{
	const uint32_t values[] = {
		[POLICY_ALLOW] = SCMP_ACT_ALLOW,
		[POLICY_ERRNO] = SCMP_ACT_ERRNO(errno_ret),
		[POLICY_KILL_PROCESS] = SCMP_ACT_KILL_PROCESS,
		[POLICY_LOG] = SCMP_ACT_LOG,
	};

	return values[a];
}

static void add(scmp_filter_ctx ctx, const struct policy_rule *r)
{
	struct scmp_arg_cmp cmp[POLICY_ARGS];

	for (unsigned i = 0; i < r->args; i++)
		cmp[i] = (struct scmp_arg_cmp){r->arg[i].index, ops[r->arg[i].op],
					       r->arg[i].value, r->arg[i].value_two};
	must(seccomp_rule_add_exact_array(ctx, action(r->action, r->errno_ret), r->number,
					  r->args, cmp),
	     r->name);
}

static void export(scmp_filter_ctx ctx, struct setup_filter *out_f)
{
	int fd = memfd_create("filter", MFD_CLOEXEC);
	ssize_t size;

	must(seccomp_export_bpf(ctx, fd), "export");
	size = pread(fd, out_f->insns, sizeof(out_f->insns), 0);
	must(size > 0 && size == lseek(fd, 0, SEEK_END) ? 0 : -1, "size");
	close(fd);
	out_f->len = (uint32_t)((size_t)size / sizeof(out_f->insns[0]));
}

void reference_compile(const struct policy *p, struct setup_filter *out_f)
{
	const uint32_t otherwise = action(p->default_action, p->default_errno);
	scmp_filter_ctx ctx = seccomp_init(otherwise);

	must(ctx ? 0 : -1, "init");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS),
	     "action");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "tree");
	for (size_t i = 0; i < p->rules; i++) {
		const struct policy_rule *r = &p->rule[i];

		/* what the default says anyway is refused as a rule */
		if (r->number >= 0 && action(r->action, r->errno_ret) != otherwise)
			add(ctx, r);
	}
	export(ctx, out_f);
	seccomp_release(ctx);
}
