/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * toml.h - the part of TOML that settings of uv are written in: tables, arrays of them,
 * inline ones, dotted keys, strings of one line, comments
 */
#ifndef CONFIG_TOML_H
#define CONFIG_TOML_H

struct err;

/* value NULL: a table of that name begins, also one in an array. Elements of an array
 * come one after the other under the array's name. "a.b" is b of the table a */
typedef void toml_take(void *self, const char *name, const char *value);

/* -1: the text is none; e names the line. What came before it has been taken */
int toml_read(const char *text, toml_take *take, void *self, struct err *e);

#endif
