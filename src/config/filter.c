/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * filter.c - names and numbers of system calls, and the filter of one policy
 *
 * Runs in: the supervisor, once, at start; a run only loads the bytes. The only user of
 * libseccomp, for its tables.
 */
#include "config/filter.h"

#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "config/bpf.h"

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

int filter_compile_for(const struct policy *p, enum policy_arch arch,
		       struct setup_filter *out_f, struct err *e)
{
	const struct bpf_source s = {&p, 1, arch, BPF_QUIET};

	return bpf_compile(&s, out_f, e);
}

int filter_compile(const struct policy *p, struct setup_filter *out_f, struct err *e)
{
	return filter_compile_for(p, FILTER_ARCH, out_f, e);
}

int filter_compile_own(const char *name, struct setup_filter *out_f, struct err *e)
{
	struct policy *p = policy_load(name, e);
	int rc;

	if (!p)
		return -1;
	rc = filter_compile(p, out_f, e);
	policy_free(p);
	return rc;
}
