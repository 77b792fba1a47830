/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * huge.c - what an interpreter has before its program, in pages that count as one
 *
 * When a run is forked, every page of the template is entered into a table, and taken out
 * of it again at the end. Of a huge page that is one entry, and in a run only the parts
 * that it writes to are copied. A block that is not all in use is filled up, where
 * nothing else is in its way; that costs the template memory, once.
 *
 * Whatever the kernel refuses stays as it is: the same, only slower.
 */
#include "python/huge.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES 0x200000ul
#define WORTH (HUGE_BYTES / 4) /* in use, of a block */
#define AREAS 64

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif

struct area {
	uintptr_t from, to;
};

/* private memory of its own, written to: "55..-55.. rw-p 00000000 00:00 0   [heap]" */
static unsigned find_areas(FILE *maps, struct area out[AREAS])
{
	char line[4600]; /* a path and its numbers */
	unsigned n = 0;

	while (n < AREAS && fgets(line, sizeof(line), maps)) {
		char *end;
		const uintptr_t from = strtoul(line, &end, 16);
		const uintptr_t to = *end == '-' ? strtoul(end + 1, &end, 16) : 0;

		/* what is mapped from nowhere has no name but in brackets */
		if (from < to && strncmp(end, " rw-p ", 6) == 0 && !strchr(end, '/') &&
		    !strstr(end, "[stack]"))
			out[n++] = (struct area){from, to};
	}
	return n;
}

static bool fill(uintptr_t from, uintptr_t to)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	void *at;

	if (from >= to)
		return true;
	at = mmap((void *)from, to - from, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (at != MAP_FAILED && at != (void *)from) /* a kernel without that flag */
		munmap(at, to - from);
	return at == (void *)from;
}

static void join(const struct area *a)
{
	uintptr_t at = a->from & ~(HUGE_BYTES - 1);

	for (; at < a->to; at += HUGE_BYTES) {
		const uintptr_t end = at + HUGE_BYTES;
		const uintptr_t first = at > a->from ? at : a->from;
		const uintptr_t last = end < a->to ? end : a->to;

		if (last - first >= WORTH && fill(at, first) && fill(last, end))
			(void)madvise((void *)at, HUGE_BYTES, MADV_COLLAPSE);
	}
}

void huge_all(int proc_fd)
{
	const int fd = openat(proc_fd, "self/maps", O_RDONLY | O_CLOEXEC);
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
	struct area areas[AREAS];
	unsigned n, i;

	if (!maps)
		return;
	n = find_areas(maps, areas);
	fclose(maps);
	for (i = 0; i < n; i++)
		join(&areas[i]);
}
