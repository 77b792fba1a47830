/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * filter.h - rules to a BPF program; the only libseccomp user
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
/* for the architecture this was built for */
int filter_compile(const struct policy *p, struct setup_filter *out_f, struct err *e);
int filter_compile_for(const struct policy *p, enum policy_arch arch,
		       struct setup_filter *out_f, struct err *e);
/* all filters of a setup from the policies network-none, arguments, base, init */
int filters_compile(struct setup *setup, struct err *e);

#endif
