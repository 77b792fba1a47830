/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * answers.h - what a program gets for a call, by the compiled policies
 */
#pragma once

#include <linux/seccomp.h>

#include "wire/setup.h"

extern struct setup answers_setup;
/* whose: a program with namespaces of its own, if nothing else is said */
extern enum setup_reporting_id answers_of;

void answers_compile(void); /* fails the test with the message */
uint32_t answer_init(const struct seccomp_data *d);
uint32_t answer_init_shared(const struct seccomp_data *d);
/* where refusals are not reported */
uint32_t answer_plain(const struct seccomp_data *d);
/* where they are: by the filters alone, */
uint32_t answer_asked(const struct seccomp_data *d);
/* and with the launcher's word */
uint32_t answer_reported(const struct seccomp_data *d);
