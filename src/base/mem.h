/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mem.h - small allocations that cannot fail
 *
 * For fixed objects and short strings of ours; they abort when memory is gone. Whatever a
 * client chooses the size of is a buf with a cap.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

void *mem_zero(size_t size);                /* zeroed */
void *mem_array(size_t count, size_t size); /* zeroed, overflow checked */
char *mem_copy(const char *text);
char *mem_copy_n(const char *bytes, size_t len); /* adds a NUL */
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
