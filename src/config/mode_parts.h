/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mode_parts.h - what the files mode*.c share; nobody else includes it
 */
#ifndef CONFIG_MODE_PARTS_H
#define CONFIG_MODE_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/mode.h"
#include "wire/setup.h"

#define RUNTIME_TREES 16

/* a runtime as it was found and as it describes itself; strings are owned */
struct runtime {
	enum mode_id id;
	char *found;                   /* where PATH has it */
	char *version;                 /* first line of its version output */
	char *number;                  /* "3.12.1" */
	char *exe;                     /* what a run executes */
	char *modules;                 /* node: its global modules; else NULL */
	char *prefixes[RUNTIME_TREES]; /* bound whole where that may be */
	size_t prefix_count;
	char *libs[RUNTIME_TREES]; /* bound where a prefix may not be */
	size_t lib_count;
	char **packages; /* NULL-terminated, sorted, unique */
	size_t package_count;
};

struct mode_kind {
	const char *name;
	const char *program;
	const char *script;
	const char *const *version; /* arguments */
	uint32_t waits;             /* enum setup_waits */
	/* asks for exe, prefixes, libs and packages; -1 with errno when it does not
	 * answer */
	int (*ask)(struct runtime *r);
};
extern const struct mode_kind mode_kinds[MODE_COUNT];

/* mode_ask.c */
int runtime_version(struct runtime *r); /* within 5 s; -1 with errno */
int runtime_ask_python(struct runtime *r);
int runtime_ask_go(struct runtime *r);
int runtime_ask_node(struct runtime *r);
int runtime_ask_bash(struct runtime *r);
void runtime_done(struct runtime *r);

/* the first regular file of that name in PATH that we may execute, made absolute; or
 * NULL. ok: NULL, or asked about each */
char *runtime_find(const char *name, bool (*ok)(const char *path));
/* what a command prints, as one word; NULL: nothing, or it failed */
char *runtime_say(const char *const *argv);
char *runtime_say_all(const char *const *argv); /* all of it */

/* installer.c: the row of what installs packages, or why there is none */
int installer_row(const struct settings *s, const struct runtime *r, struct setup *setup,
		  struct mode *m, struct err *e);

/* mode_row.c */
int mode_row_add(const struct settings *s, const struct runtime *r, const char *name,
		 const char *script, struct setup *setup, struct err *e);
/* behind the words that are there; -1: there is no room, and it is left out */
int row_arg(struct setup_row *row, const char *arg);
int row_env_word(struct setup_row *row, const char *text);
void mode_limits(const struct settings *s, enum mode_id id, struct limits *out);
/* binds and rows of one runtime; fills the mode's numbers of rows */
int mode_rows(const struct settings *s, const struct runtime *r, struct setup *setup,
	      struct mode *m, struct err *e);

#endif
