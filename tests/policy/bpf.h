/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * bpf.h - what the kernel would answer: seccomp filters run on one call's data, without
 * the kernel
 */
#pragma once

#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

struct setup_filter;

/* the filter's return value; aborts on an instruction that filters of ours do not have */
uint32_t bpf_run(const struct setup_filter *f, const struct seccomp_data *data);
extern unsigned bpf_steps; /* of the last run */
/* several filters in the order they were loaded; the answer of the kernel */
uint32_t bpf_stack(const struct setup_filter *const *filters, size_t count,
		   const struct seccomp_data *data);
