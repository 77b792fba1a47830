/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reference.h - a policy compiled by libseccomp, to compare with
 */
#ifndef TESTS_POLICY_REFERENCE_H
#define TESTS_POLICY_REFERENCE_H

struct policy;
struct setup_filter;

/*
 * For this machine's architecture; ends the test when it cannot. Where two rules of a
 * call fit the same arguments and differ, its answer is either.
 */
void reference_compile(const struct policy *p, struct setup_filter *out_f);

#endif
