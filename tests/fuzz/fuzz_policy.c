/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_policy.c - policy files
 *
 * What is refused has a message that begins with file and line; what is accepted
 * compiles, or says why not.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "config/filter.h"
#include "wire/setup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct setup_filter f;
	struct err e = {0};
	struct policy *p = policy_parse("p.json", (const char *)data, size, &e);

	if (!p) {
		assert(e.kind == ERR_THEIRS && strncmp(e.text, "p.json:", 7) == 0);
		return 0;
	}
	for (size_t i = 0; i < p->rules; i++)
		assert(p->rule[i].args <= POLICY_ARGS && p->rule[i].line > 0);
	if (filter_compile(p, &f, &e) < 0)
		assert(e.kind != ERR_NONE && e.text[0]);
	else
		assert(f.len > 0 && f.len <= SETUP_INSNS);
	policy_free(p);
	return 0;
}
