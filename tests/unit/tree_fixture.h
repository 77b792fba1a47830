/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tree_fixture.h - files in a directory of the test's own, gone when it ends
 *
 * Not below /tmp: a run has a /tmp of its own, so what is there cannot be seen in one.
 */
#pragma once

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tap.h"

static char top[] = "/var/tmp/sandbox-unit.XXXXXX";

static inline int remove_one(const char *path, const struct stat *st, int type,
			     struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static inline void remove_top(void)
{
	nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* once in a test */
static inline void make_top(void)
{
	CHECK(mkdtemp(top));
	atexit(remove_top);
}

/* text that lasts for seven more calls */
__attribute__((format(printf, 1, 2))) static inline char *name(const char *fmt, ...)
{
	static char text[8][1024];
	static unsigned turn;
	char *to = text[turn++ % 8];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(to, sizeof(text[0]), fmt, ap);
	va_end(ap);
	return to;
}

static inline void make_dirs(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = 0;
		CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
}

static inline void make_file(char *path, const char *text)
{
	FILE *f;

	make_dirs(path);
	f = fopen(path, "we");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, 0755) == 0);
}
