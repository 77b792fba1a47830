/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mem.c - small allocations that cannot fail
 */
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Without memory for a small object there is none for an orderly end either. */
static void *sure(void *p)
{
	if (!p)
		abort();
	return p;
}

void *mem_zero(size_t size)
{
	return sure(calloc(1, size ? size : 1));
}

void *mem_array(size_t count, size_t size)
{
	size_t all;

	if (__builtin_mul_overflow(count, size, &all))
		abort();
	return mem_zero(all);
}

char *mem_copy(const char *text)
{
	return sure(strdup(text));
}

char *mem_copy_n(const char *bytes, size_t len)
{
	char *copy;

	if (len == SIZE_MAX)
		abort();
	copy = sure(malloc(len + 1));
	if (len)
		memcpy(copy, bytes, len);
	copy[len] = 0;
	return copy;
}

char *mem_printf(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vasprintf(&text, fmt, ap);
	va_end(ap);
	return sure(len < 0 ? NULL : text);
}
