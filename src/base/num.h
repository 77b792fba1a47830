/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * num.h - numbers from text: all of it or nothing
 *
 * No sign, no space, no trailing bytes. On failure -1 with errno EINVAL or ERANGE, and
 * the result is untouched.
 */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

int num_u64(const char *text, uint64_t *out_n);
int num_range(const char *text, uint64_t least, uint64_t most, uint64_t *out_n);
int num_decimal(const char *text, double *out_n); /* 12, 0.5 */
/* 30 (seconds), 500ms, 30s, 5m, 4h */
int num_duration_ms(const char *text, uint64_t *out_ms);
int num_bool(const char *text,
	     bool *out_flag); /* true on yes 1, false off no 0; any case */

#endif
