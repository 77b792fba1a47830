/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * filter.h - names and numbers of system calls; policies to filters
 */
#ifndef CONFIG_FILTER_H
#define CONFIG_FILTER_H

#include "config/policy.h"

struct err;
struct setup;
struct setup_filter;

#if defined(__x86_64__)
#define FILTER_ARCH POLICY_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH POLICY_AARCH64
#else
#error "no policies for this architecture"
#endif

enum { FILTER_UNKNOWN = -1, FILTER_ELSEWHERE = -2 };

/*
 * The number of a system call given by name or by number; FILTER_ELSEWHERE: known, but
 * not on this architecture; FILTER_UNKNOWN: nobody knows it.
 */
int filter_number(enum policy_arch arch, const char *name);
/* the other way, for the architecture this was built for; a call without a name: its
 * number in digits */
void filter_name(int number, char out_name[POLICY_NAME]);
/* of one policy alone, for the architecture this was built for */
int filter_compile(const struct policy *p, struct setup_filter *out_f, struct err *e);
int filter_compile_for(const struct policy *p, enum policy_arch arch,
		       struct setup_filter *out_f, struct err *e);

/*
 * reporting.c: all filters of a setup, from the policies of their names;
 * setup->reporting[0].wide is set before.
 */
int filters_compile(struct setup *setup, struct err *e);
/* would a server start with p in the place of the policy of this name, beside the others
 * as they are? In how many sets of filters it is: 0: programs have no such policy; -1 */
int filters_check(const char *name, const struct policy *p, struct err *e);
/* POLICY_SERVER, _BROKER or _IMAGE: what a process of ours may call; always the policy
 * inside the binary, which it fits */
int filter_compile_own(const char *name, struct setup_filter *out_f, struct err *e);

#endif
