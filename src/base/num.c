/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * num.c - numbers from text: all of it or nothing
 */
#include "base/num.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int fail(int num)
{
	errno = num;
	return -1;
}

static size_t digits(const char *text)
{
	return strspn(text, "0123456789");
}

/* len digits, already looked at */
static int digits_value(const char *text, size_t len, uint64_t *out_n)
{
	uint64_t n = 0;

	for (size_t i = 0; i < len; i++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(text[i] - '0'), &n))
			return fail(ERANGE);
	*out_n = n;
	return 0;
}

int num_u64(const char *text, uint64_t *out_n)
{
	size_t len = digits(text);

	if (len == 0 || text[len])
		return fail(EINVAL);
	return digits_value(text, len, out_n);
}

int num_range(const char *text, uint64_t least, uint64_t most, uint64_t *out_n)
{
	uint64_t n;

	if (num_u64(text, &n) < 0)
		return -1;
	if (n < least || n > most)
		return fail(ERANGE);
	*out_n = n;
	return 0;
}

int num_decimal(const char *text, double *out_n)
{
	size_t len = digits(text), more;
	double n;

	if (len == 0)
		return fail(EINVAL);
	if (text[len] == '.') {
		more = digits(text + len + 1);
		if (more == 0)
			return fail(EINVAL);
		len += 1 + more;
	}
	if (text[len])
		return fail(EINVAL);
	n = strtod(text, NULL); /* LC_NUMERIC is never set: the point is a point */
	if (!isfinite(n))
		return fail(ERANGE);
	*out_n = n;
	return 0;
}

int num_duration_ms(const char *text, uint64_t *out_ms)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
	size_t len = digits(text);
	uint64_t n;

	if (len == 0)
		return fail(EINVAL);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(text + len, units[i].name) != 0)
			continue;
		if (digits_value(text, len, &n) < 0)
			return -1;
		if (__builtin_mul_overflow(n, units[i].ms, &n))
			return fail(ERANGE);
		*out_ms = n;
		return 0;
	}
	return fail(EINVAL);
}

int num_bool(const char *text, bool *out_flag)
{
	static const char *const yes[] = {"true", "on", "1", "yes"};
	static const char *const no[] = {"false", "off", "0", "no"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (strcasecmp(text, yes[i]) == 0)
			*out_flag = true;
		else if (strcasecmp(text, no[i]) == 0)
			*out_flag = false;
		else
			continue;
		return 0;
	}
	return fail(EINVAL);
}
