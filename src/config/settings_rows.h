/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings_rows.h - the table of settings; settings*.c only
 */
#ifndef CONFIG_SETTINGS_ROWS_H
#define CONFIG_SETTINGS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct setting_source;
struct settings;

enum setting_type {
	SETTING_COUNT,   /* uint64_t, least..most; or the one word of `choices` */
	SETTING_DECIMAL, /* double, least..most thousandths */
	SETTING_TEXT,    /* char *, not empty; `ok` looks at it */
	SETTING_LIST,    /* char *, empty means none */
	SETTING_CHOICE,  /* uint64_t, one of `choices` */
};

struct setting_choice {
	const char *name; /* NULL ends the list */
	uint64_t value;
};

struct setting {
	const char *key; /* SANDBOX_MAX_CONCURRENT; the flag is --max-concurrent */
	enum setting_type type;
	size_t offset; /* in struct settings */
	uint64_t least, most;
	const char
		*initial; /* as it would be written; NULL: zero, none or the mode's own */
	/* one line; what an unset one is stands in parentheses at its end */
	const char *help;
	const struct setting_choice *choices;
	/* NULL, or what is wrong with this text ("must be ...") */
	const char *(*ok)(const char *text);
};

extern const struct setting setting_rows[];
extern const size_t setting_count;

const struct setting *setting_find(const char *key, size_t len); /* NULL: none */
struct setting_source *setting_source(const struct settings *s,
				      const struct setting *row);
uint64_t setting_memory_mb(const char *text); /* "256m", "1g"; 0: it is no size */
/* settings_check.c: when all values are in */
int settings_check(struct settings *s, struct err *e);

/* settings_show.c */
#define SETTING_FLAG 64
void setting_flag(const struct setting *row, char out[SETTING_FLAG]); /* --max-files */
/* a copy for messages and people: what stands before an @ in each word is hidden, as
 * URLs have users and passwords there */
char *setting_hide(const char *value);

#endif
