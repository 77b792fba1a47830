/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bpf.h - the rules of several policies to one BPF program
 */
#ifndef CONFIG_BPF_H
#define CONFIG_BPF_H

#include <stdbool.h>

#include "config/policy.h"

struct err;
struct setup_filter;

/*
 * Which refusals go to the listener instead: none; those of rules that say it, neither
 * with success nor with an error that stands for "take another way" (ENOSYS, EINVAL); or
 * all that are errors, by a default too.
 */
enum bpf_mode { BPF_QUIET, BPF_REPORT, BPF_OBSERVE };

struct bpf_source {
	const struct policy *const *policy; /* of two errors the first one's counts */
	size_t policies;
	enum policy_arch arch;
	enum bpf_mode mode;
};

bool bpf_reports(const struct policy_rule *r, enum bpf_mode mode);

/*
 * The answers of all policies together, as the kernel gives those of several filters: of
 * all answers the strictest. A policy's own is that of the strictest rule that fits, of
 * two such the one that stands first, or its default. Any other entry into the kernel
 * (32-bit, x32) ends the process.
 */
int bpf_compile(const struct bpf_source *s, struct setup_filter *out_f, struct err *e);

#endif
