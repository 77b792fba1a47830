/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mode.h - the runtimes: found how, run how
 *
 * Found at start by looking through PATH and asking the interpreter itself; everything a
 * run needs is then a row of struct setup.
 */
#ifndef CONFIG_MODE_H
#define CONFIG_MODE_H

#include <stdbool.h>
#include <stddef.h>

#include "wire/plan.h"

struct buf;
struct err;
struct rules;
struct settings;
struct setup;

enum mode_id { MODE_PYTHON, MODE_GOLANG, MODE_NODE, MODE_SHELL, MODE_COUNT };

/* what our own binary is called where it is the program of a run */
#define MODE_SELF "/usr/bin/sandbox-attack"

struct mode {
	enum mode_id id;
	const char *name;      /* python */
	char *runtime_version; /* first line of its version output */
	char **packages;       /* preinstalled, NULL-terminated, sorted */
	char **imported; /* modules that one with SANDBOX_PRELOAD has; NULL: unknown */
	struct limits defaults; /* default and ceiling in one, but for time and output */
	bool on_disk;           /* what it writes is on a disk, else in memory */
	unsigned row;           /* in struct setup */
	int typescript_row;   /* -1: this node cannot strip types (or this is not node) */
	char *version_number; /* "20.20.2" */
	/* what installs packages for it; -1: nothing does, and no_installer says why */
	int install_row;
	const char *installer; /* "uv", "npm"; NULL: none */
	char *no_installer;
	struct limits install_limits;
	bool install_directories;    /* from some, beside what else there is */
	bool install_offline;        /* from directories alone */
	struct rules *install_hosts; /* else: what an install may reach */
	/* what it is given besides its row, since passwords may be in it: variables,
	 * NULL-terminated, and a .npmrc; NULL: none */
	char **install_env;
	char *npmrc;
	/* of all that decides what a list of packages becomes, but the list */
	unsigned char layer_seed[LAYER_KEY];
};

struct modes {
	struct mode mode[MODE_COUNT]; /* the served ones, the default first */
	size_t count;
};

/*
 * Decides what is served (settings->mode or auto), asks each runtime for its version
 * within 5 s, fills modes and setup's rows, binds and environment. -1 and *e with exactly
 * the messages of the manual:
 *	no supported runtime found in PATH (tried: python3, go, node, bash)
 *	unsupported mode "ruby" (supported: python, golang, node, shell)
 *	mode=golang but 'go' not found in PATH
 *	mode=python but 'python3' does not run
 */
int modes_find(struct modes *m, const struct settings *s, struct setup *setup,
	       struct err *e);
/* the first regular file of that name in PATH that we may execute; NULL: none */
char *program_find(const char *name);
void modes_done(struct modes *m);
/* installs from directories are off, and nobody sees those: something that all runs need
 * is in one. false: there was none */
bool modes_drop_directories(struct modes *m, struct setup *setup, const char *why);
/* for `selftest`, behind the others: one that runs our own binary, one whose interpreter
 * does not exist */
int modes_self_rows(const struct settings *s, struct setup *setup, struct err *e);
/*
 * For sessions, behind the others: commands by bash, and files by our own binary, which
 * is called `self`. -1 and *e when there is no bash.
 */
int modes_session_rows(const struct settings *s, const char *self, struct setup *setup,
		       struct err *e);
/* of a command, when neither operator nor client says otherwise */
void modes_session_limits(const struct settings *s, struct limits *out);
/*
 * The mode and row for a request's "language" (NULL: the default); aliases javascript js
 * typescript ts go bash sh py. NULL and ERR_THEIRS "unsupported_language" listing what is
 * served; TypeScript on a node that cannot strip types: 400 naming the version that can.
 */
const struct mode *modes_for_language(const struct modes *m, const char *language,
				      unsigned *out_row, struct err *e);
/* every name that modes_for_language() takes here: from *at = 0 on, until NULL */
const char *modes_language(const struct modes *m, size_t *at);

#endif
