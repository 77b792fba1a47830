/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * filter.h - rules to a BPF program; the only libseccomp user
 */
#ifndef CONFIG_FILTER_H
#define CONFIG_FILTER_H

#include <stdbool.h>

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
/* for the architecture this was built for */
int filter_compile(const struct policy *p, struct setup_filter *out_f, struct err *e);
int filter_compile_for(const struct policy *p, enum policy_arch arch,
		       struct setup_filter *out_f, struct err *e);

/*
 * Which refusals are told to the caller: those of rules that say it, neither with success
 * nor with an error that stands for "take another way" (ENOSYS, EINVAL); or all.
 */
enum filter_mark { FILTER_MARK_NONE, FILTER_MARK_REPORTED, FILTER_MARK_ALL };

/* what a marked program returns in those places; no policy can say it */
#define FILTER_MARKED SECCOMP_RET_TRACE

bool filter_reports(const struct policy_rule *r, enum filter_mark mark);
int filter_compile_marked(const struct policy *p, enum filter_mark mark,
			  struct setup_filter *out_f, struct err *e);

/*
 * reporting.c: all filters of a setup, from the policies of their names, and out of
 * network-none, arguments and base what a program loads where refusals can be reported;
 * setup->reporting[0].wide is set before.
 */
int filters_compile(struct setup *setup, struct err *e);
/* what the server itself may call; always the policy inside the binary, which it fits */
int filter_compile_server(struct setup_filter *out_f, struct err *e);

#endif
