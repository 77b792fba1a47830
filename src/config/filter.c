/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * filter.c - rules to a BPF program; the only libseccomp user
 *
 * Runs in: the supervisor, once, at start; a run only loads the bytes. The program knows
 * one architecture: any other entry into the kernel (32-bit, x32) ends the process.
 */
#include "config/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/num.h"
#include "wire/setup.h"

#define NUMBER_MAX 1023

/* Kernel names that libseccomp 2.5.4 lacks. From 424 on, numbers are the same everywhere.
 */
static const struct {
	const char *name;
	int number;
	unsigned archs;
} newer[] = {
	{"uretprobe", 335, POLICY_X86_64},
	{"cachestat", 451, POLICY_X86_64 | POLICY_AARCH64},
	{"fchmodat2", 452, POLICY_X86_64 | POLICY_AARCH64},
	{"map_shadow_stack", 453, POLICY_X86_64 | POLICY_AARCH64},
	{"futex_wake", 454, POLICY_X86_64 | POLICY_AARCH64},
	{"futex_wait", 455, POLICY_X86_64 | POLICY_AARCH64},
	{"futex_requeue", 456, POLICY_X86_64 | POLICY_AARCH64},
	{"statmount", 457, POLICY_X86_64 | POLICY_AARCH64},
	{"listmount", 458, POLICY_X86_64 | POLICY_AARCH64},
	{"lsm_get_self_attr", 459, POLICY_X86_64 | POLICY_AARCH64},
	{"lsm_set_self_attr", 460, POLICY_X86_64 | POLICY_AARCH64},
	{"lsm_list_modules", 461, POLICY_X86_64 | POLICY_AARCH64},
	{"mseal", 462, POLICY_X86_64 | POLICY_AARCH64},
	{"setxattrat", 463, POLICY_X86_64 | POLICY_AARCH64},
	{"getxattrat", 464, POLICY_X86_64 | POLICY_AARCH64},
	{"listxattrat", 465, POLICY_X86_64 | POLICY_AARCH64},
	{"removexattrat", 466, POLICY_X86_64 | POLICY_AARCH64},
	{"open_tree_attr", 467, POLICY_X86_64 | POLICY_AARCH64},
	{"file_getattr", 468, POLICY_X86_64 | POLICY_AARCH64},
	{"file_setattr", 469, POLICY_X86_64 | POLICY_AARCH64},
};

static const enum scmp_compare ops[POLICY_OP_COUNT] = {
	[POLICY_NE] = SCMP_CMP_NE,
	[POLICY_LT] = SCMP_CMP_LT,
	[POLICY_LE] = SCMP_CMP_LE,
	[POLICY_EQ] = SCMP_CMP_EQ,
	[POLICY_GE] = SCMP_CMP_GE,
	[POLICY_GT] = SCMP_CMP_GT,
	[POLICY_MASKED_EQ] = SCMP_CMP_MASKED_EQ,
};

static uint32_t arch_token(enum policy_arch arch)
{
	return arch == POLICY_X86_64 ? SCMP_ARCH_X86_64 : SCMP_ARCH_AARCH64;
}

int filter_number(enum policy_arch arch, const char *name)
{
	uint64_t n;
	int number;

	if (num_range(name, 0, NUMBER_MAX, &n) == 0)
		return (int)n;
	for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++)
		if (strcmp(newer[i].name, name) == 0)
			return newer[i].archs & arch ? newer[i].number : FILTER_ELSEWHERE;
	number = seccomp_syscall_resolve_name_arch(arch_token(arch), name);
	if (number == __NR_SCMP_ERROR)
		return FILTER_UNKNOWN;
	/* libseccomp's own numbers for the calls of other architectures are below zero */
	return number < 0 ? FILTER_ELSEWHERE : number;
}

void filter_name(int number, char out_name[POLICY_NAME])
{
	char *known;

	snprintf(out_name, POLICY_NAME, "%d", number);
	for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++)
		if (newer[i].number == number && newer[i].archs & FILTER_ARCH)
			snprintf(out_name, POLICY_NAME, "%s", newer[i].name);
	known = seccomp_syscall_resolve_num_arch(arch_token(FILTER_ARCH), number);
	if (known)
		snprintf(out_name, POLICY_NAME, "%s", known);
	free(known);
}

static uint32_t action_value(enum policy_action action, unsigned errno_ret)
{
	switch (action) {
	case POLICY_ALLOW:
		return SCMP_ACT_ALLOW;
	case POLICY_LOG:
		return SCMP_ACT_LOG;
	case POLICY_ERRNO:
		return SCMP_ACT_ERRNO(errno_ret);
	case POLICY_KILL_PROCESS:
		break;
	}
	return SCMP_ACT_KILL_PROCESS;
}

/* the functions of libseccomp below give 0 or -errno; these set errno and give 0 or -1 */
static int mind(int rc)
{
	if (rc >= 0)
		return 0;
	errno = -rc;
	return -1;
}

bool filter_reports(const struct policy_rule *r, enum filter_mark mark)
{
	if (r->action != POLICY_ERRNO || r->errno_ret == 0 || mark == FILTER_MARK_NONE)
		return false;
	/* callers are to take another way, and honest ones do so without a word */
	return mark == FILTER_MARK_ALL ||
	       (r->errno_ret != ENOSYS && r->errno_ret != EINVAL);
}

static uint32_t rule_action(const struct policy_rule *r, enum filter_mark mark)
{
	return filter_reports(r, mark) ? FILTER_MARKED
				       : action_value(r->action, r->errno_ret);
}

static uint32_t default_action(const struct policy *p, enum filter_mark mark)
{
	if (mark == FILTER_MARK_ALL && p->default_action == POLICY_ERRNO &&
	    p->default_errno != 0)
		return FILTER_MARKED;
	return action_value(p->default_action, p->default_errno);
}

static scmp_filter_ctx filter_new(uint32_t otherwise, enum policy_arch arch)
{
	scmp_filter_ctx ctx;
	int saved;

	ctx = seccomp_init(otherwise);
	if (!ctx) {
		errno = ENOMEM;
		return NULL;
	}
	if (arch_token(arch) != seccomp_arch_native() &&
	    (mind(seccomp_arch_add(ctx, arch_token(arch))) < 0 ||
	     mind(seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE)) < 0))
		goto failed;
	/* libseccomp's default kills the thread only, which a runtime may outlive */
	if (mind(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)) <
		    0 ||
	    mind(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2)) < 0)
		goto failed;
	return ctx;
failed:
	saved = errno;
	seccomp_release(ctx);
	errno = saved;
	return NULL;
}

/*
 * libseccomp takes this machine's numbers and translates them by name for another
 * architecture. So a filter for another one lacks the calls of `newer`: it shows that a
 * policy compiles there, and is not meant to be loaded.
 */
static int rule_number(enum policy_arch arch, const char *name)
{
	int number = filter_number(arch, name);

	if (number < 0 || arch == FILTER_ARCH)
		return number;
	return seccomp_syscall_resolve_name(name);
}

struct target {
	enum policy_arch arch;
	enum filter_mark mark;
};

static int add_rule(scmp_filter_ctx ctx, const struct policy *p, struct target t,
		    const struct policy_rule *r, struct err *e)
{
	uint32_t action = rule_action(r, t.mark);
	struct scmp_arg_cmp cmp[POLICY_ARGS];
	int number = rule_number(t.arch, r->name);

	/* a rule that says what the default says is there for the reader; libseccomp
	 * refuses it */
	if (number < 0 || action == default_action(p, t.mark))
		return 0;
	for (unsigned i = 0; i < r->args; i++)
		cmp[i] = (struct scmp_arg_cmp){
			.arg = r->arg[i].index,
			.op = ops[r->arg[i].op],
			.datum_a = r->arg[i].value,
			.datum_b = r->arg[i].value_two,
		};
	if (mind(seccomp_rule_add_exact_array(ctx, action, number, r->args, cmp)) < 0)
		return err_errno(e, "%s:%u: add the rule for '%s'", p->file, r->line,
				 r->name);
	return 0;
}

/* 2.5.4 writes a program to a descriptor only */
static int export(scmp_filter_ctx ctx, const struct policy *p, struct setup_filter *out_f,
		  struct err *e)
{
	auto_fd int fd = memfd_create("filter", MFD_CLOEXEC);
	off_t size;

	if (fd < 0 || mind(seccomp_export_bpf(ctx, fd)) < 0)
		return err_errno(e, "compile policy '%s'", p->file);
	size = lseek(fd, 0, SEEK_END);
	if (size <= 0 || (size_t)size % sizeof(out_f->insns[0]))
		return err_ours(e, "compile policy '%s': odd size %lld", p->file,
				(long long)size);
	if ((size_t)size > sizeof(out_f->insns))
		return err_bad(e, "%s: compiles to %zu instructions, more than %u",
			       p->file, (size_t)size / sizeof(out_f->insns[0]),
			       SETUP_INSNS);
	if (pread(fd, out_f->insns, (size_t)size, 0) != size)
		return err_errno(e, "read compiled policy '%s'", p->file);
	out_f->len = (uint32_t)((size_t)size / sizeof(out_f->insns[0]));
	return 0;
}

static int compile(const struct policy *p, struct target t, struct setup_filter *out_f,
		   struct err *e)
{
	scmp_filter_ctx ctx;
	int rc = 0;

	if (!(p->archs & t.arch))
		return err_bad(e, "%s: not for SCMP_ARCH_%s", p->file,
			       t.arch == POLICY_X86_64 ? "X86_64" : "AARCH64");
	ctx = filter_new(default_action(p, t.mark), t.arch);
	if (!ctx)
		return err_errno(e, "compile policy '%s'", p->file);
	for (size_t i = 0; rc == 0 && i < p->rules; i++)
		rc = add_rule(ctx, p, t, &p->rule[i], e);
	if (rc == 0)
		rc = export(ctx, p, out_f, e);
	seccomp_release(ctx);
	return rc;
}

int filter_compile_for(const struct policy *p, enum policy_arch arch,
		       struct setup_filter *out_f, struct err *e)
{
	const struct target t = {arch, FILTER_MARK_NONE};

	return compile(p, t, out_f, e);
}

int filter_compile_marked(const struct policy *p, enum filter_mark mark,
			  struct setup_filter *out_f, struct err *e)
{
	const struct target t = {FILTER_ARCH, mark};

	return compile(p, t, out_f, e);
}

int filter_compile(const struct policy *p, struct setup_filter *out_f, struct err *e)
{
	return filter_compile_for(p, FILTER_ARCH, out_f, e);
}

int filter_compile_server(struct setup_filter *out_f, struct err *e)
{
	struct policy *p = policy_load(POLICY_SERVER, e);
	int rc;

	if (!p)
		return -1;
	rc = filter_compile(p, out_f, e);
	policy_free(p);
	return rc;
}
