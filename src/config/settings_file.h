/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings_file.h - a file of settings, one SANDBOX_NAME=value a line
 *
 * Comments, quotes and continued lines are those of systemd's EnvironmentFile, so that
 * one file serves both. Where systemd would go on in silence, there is an error instead.
 */
#ifndef CONFIG_SETTINGS_FILE_H
#define CONFIG_SETTINGS_FILE_H

#include <stddef.h>

struct err;

/* what is done with one: both texts are borrowed; line is where its name stands */
typedef int settings_file_fn(void *arg, unsigned line, const char *key, const char *value,
			     struct err *e);

/* 0, or -1 and *e with "NAME:LINE: ..."; fn's own failure ends it, as it is */
int settings_file_parse(const char *name, const char *text, size_t len,
			settings_file_fn *fn, void *arg, struct err *e);

#endif
