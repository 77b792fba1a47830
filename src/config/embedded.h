/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * embedded.h - the files of policy/ and src/web/ inside the binary, so that one file runs
 * anywhere
 *
 * The build writes the tables (src/setup/embed.sh), sorted by name. A name is the file's
 * without ".json"; a text is the file's bytes and a NUL that len does not count.
 */
#ifndef CONFIG_EMBEDDED_H
#define CONFIG_EMBEDDED_H

#include <stddef.h>

struct embedded_file {
	const char *name;
	const char *text;
	size_t len;
};

extern const struct embedded_file embedded_policies[];
extern const size_t embedded_policies_count;
extern const struct embedded_file embedded_web[];
extern const size_t embedded_web_count;

#endif
