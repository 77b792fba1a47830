/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings_rows.h - the table of settings; settings*.c only
 */
#ifndef CONFIG_SETTINGS_ROWS_H
#define CONFIG_SETTINGS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct settings;

enum setting_type {
	SETTING_COUNT,   /* uint64_t, least..most */
	SETTING_DECIMAL, /* double, least..most thousandths */
	SETTING_TEXT,    /* char *, not empty; `ok` looks at it */
	SETTING_LIST,    /* char *, empty means none */
	SETTING_CHOICE,  /* uint64_t, one of `choices` */
	SETTING_LATER,   /* not available yet, but for the value `initial`, which asks for
			    nothing */
};

struct setting_choice {
	const char *name; /* NULL ends the list */
	uint64_t value;
	bool later; /* known, not available yet */
};

struct setting {
	const char *key; /* SANDBOX_MAX_CONCURRENT; the flag is --max-concurrent */
	enum setting_type type;
	size_t offset; /* in struct settings */
	uint64_t least, most;
	const char
		*initial; /* as it would be written; NULL: zero, none or the mode's own */
	const char *help; /* one line; NULL for SETTING_LATER */
	const struct setting_choice *choices;
	/* NULL, or what is wrong with this text ("must be ...") */
	const char *(*ok)(const char *text);
};

extern const struct setting setting_rows[];
extern const size_t setting_count;

#endif
