/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * json_check.h - is this JSON, and is it small enough; for json.c alone
 */
#ifndef BASE_JSON_CHECK_H
#define BASE_JSON_CHECK_H

#include <stddef.h>

struct json_limits;

/* NULL, or what is wrong. A zero with an exponent, which parson does not take, loses the
 * exponent: it is a zero all the same. */
const char *json_check(char *text, size_t len, const struct json_limits *limits);

#endif
