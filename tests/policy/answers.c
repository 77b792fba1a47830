/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * answers.c - what a program gets for a call, by the compiled policies
 */
#include "answers.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "bpf.h"
#include "config/filter.h"
#include "launcher/notify.h"

struct setup answers_setup;
enum setup_reporting_id answers_of;

void answers_compile(void)
{
	struct err e = {0};

	answers_setup.network = NETWORK_POD;
	answers_setup.install_network = NETWORK_BROKER;
	answers_setup.rows = 1;
	answers_setup.row[0].installs = 1;
	answers_setup.session_row = answers_setup.root_ranges = 1;
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
	return bpf_run(&answers_setup.reporting[answers_of].plain, d);
}

uint32_t answer_asked(const struct seccomp_data *d)
{
	return bpf_run(&answers_setup.reporting[answers_of].notify, d);
}

uint32_t answer_reported(const struct seccomp_data *d)
{
	uint32_t rule, answer = answer_asked(d);

	if (answer != SECCOMP_RET_USER_NOTIF)
		return answer;
	return SECCOMP_RET_ERRNO |
	       (uint32_t)notify_errno(&answers_setup.reporting[answers_of], d, &rule);
}
