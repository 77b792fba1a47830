/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * answers.c - what a program gets for a call, by the compiled policies
 */
#include "answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bpf.h"
#include "config/filter.h"
#include "launcher/notify.h"

struct setup answers_setup;
enum setup_reporting_id answers_of;

void answers_compile(void)
{
	struct err e = {0};

	if (filters_compile(&answers_setup, &e) == 0)
		return;
	fprintf(stderr, "# %s\n", e.text);
	exit(1);
}

uint32_t answer_init_shared(const struct seccomp_data *d)
{
	return bpf_run(&answers_setup.filter[FILTER_INIT_SHARED], d);
}

uint32_t answer_init(const struct seccomp_data *d)
{
	return bpf_run(&answers_setup.filter[FILTER_INIT], d);
}

uint32_t answer_plain(const struct seccomp_data *d)
{
	static const struct setup_filter *const program[] = {
		&answers_setup.filter[FILTER_SHARED_UID],
		&answers_setup.filter[FILTER_SHARED_PIDS],
		&answers_setup.filter[FILTER_NETWORK],
		&answers_setup.filter[FILTER_ARGUMENTS],
		&answers_setup.filter[FILTER_BASE],
	};

	const size_t left_out = REPORTING_ONE_UID - (size_t)answers_of;

	return bpf_stack(program + left_out, 5 - left_out, d);
}

uint32_t answer_asked(const struct seccomp_data *d)
{
	static struct setup_filter one;
	const struct setup_reporting *r = &answers_setup.reporting[answers_of];
	const struct setup_filter *all[FILTER_INIT + 1];
	size_t count = 0;

	if (r->notify_len > SETUP_INSNS)
		abort(); /* more than fits here */
	one.len = r->notify_len;
	memcpy(one.insns, r->notify, r->notify_len * sizeof(r->notify[0]));
	for (int i = 0; i < FILTER_INIT; i++)
		if (r->beside[i].len)
			all[count++] = &r->beside[i];
	all[count++] = &one;
	return bpf_stack(all, count, d);
}

uint32_t answer_reported(const struct seccomp_data *d)
{
	uint32_t rule, answer = answer_asked(d);

	if (answer != SECCOMP_RET_USER_NOTIF)
		return answer;
	return SECCOMP_RET_ERRNO |
	       (uint32_t)notify_errno(&answers_setup.reporting[answers_of], d, &rule);
}
