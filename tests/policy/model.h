/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * model.h - what policies answer, by their rules, without a program
 */
#pragma once

#include <linux/seccomp.h>
#include <stdint.h>

#include "config/policy.h"

struct bpf_source;

/* the rules' numbers are those of the source's architecture */
uint32_t model_answer(const struct bpf_source *s, const struct seccomp_data *d);
/* a copy of a policy with them; to be freed by policy_free */
struct policy *model_for(const struct policy *p, enum policy_arch arch);
/* any condition on this argument */
void model_draw_arg(struct policy_arg *out, unsigned index, uint64_t (*draw)(uint64_t));
