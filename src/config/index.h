/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index.h - where packages come from: what the operator said, else what the host's own
 * pip and uv are configured to do
 */
#ifndef CONFIG_INDEX_H
#define CONFIG_INDEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct err;
struct rules;
struct settings;

#define INDEX_MOST 8
#define INDEX_HOST "host" /* for a URL: what the host's own installers are told */
#define INDEX_NONE "none" /* nothing is installed */

/* whether an index is told who asks: as uv's `authenticate` has it */
enum asks { ASKS_AUTO, ASKS_ALWAYS, ASKS_NEVER };

struct index {
	char *urls[INDEX_MOST]; /* the index, then extra ones; strings are owned */
	size_t url_count;
	char *extra[INDEX_MOST]; /* beside the installer's own default */
	size_t extra_count;
	char *names;             /* of these, each with a blank behind it; or NULL */
	char *links[INDEX_MOST]; /* directories, absolute */
	size_t link_count;
	bool alone;   /* nothing but what is named here */
	bool best;    /* the best version of all of them, as for pip; else of the first */
	bool keyring; /* it has passwords, too */
	enum asks asks; /* of the index that is being added */
	bool too_many;
	const char *odd; /* what was said and cannot be done, or NULL */
	char *cert;      /* pip's file of certificates, or NULL */
};

/* of npm */
struct npmrc {
	struct buf
		text; /* lines of a .npmrc: registries, tokens, a file of certificates */
	char *urls[INDEX_MOST]; /* all registries of it; strings are owned */
	size_t url_count;
	bool has_main;   /* one of them is not of a scope; else that is npm's own */
	const char *odd; /* what was said and cannot be done, or NULL */
	char *cafile;    /* or NULL */
	char *prefix;    /* the host's file is below it; or NULL */
	char *globalconfig, *userconfig; /* the files that are named, or NULL */
	bool leads_alone; /* of the file that is being read: prefix and globalconfig */
};

/* SANDBOX_PYTHON_INDEX; without it the variables and files of pip and uv, also of pip's
 * the one at the prefix of python; -1: one of these cannot be understood. To be done with
 * in either case */
int index_python(const struct settings *s, const char *prefix, struct index *out,
		 struct err *e);
/* SANDBOX_NPM_REGISTRY if it is a URL, else what npm's variables and files say, also the
 * file beside that node and npm's own in its directory; -1: one of these cannot be
 * understood. To be done with in either case */
int index_npm(const struct settings *s, const char *node, const char *npm,
	      struct npmrc *out, struct err *e);
void npmrc_done(struct npmrc *x);
/* npm's own default: in the table of settings of the npm below this directory, or NULL */
char *index_npm_default(const char *npm);
/* the host and port of a URL, as what an install may reach */
int index_host(const char *url, struct rules *out, struct err *e);
void index_done(struct index *x);
bool index_is_url(const char *text);
/* %41 is A, in place; returns how many bytes are left, since there may be a %00 */
size_t index_decode(char *text);
/* one word after the other, at blanks and commas, which are cut; NULL: no more */
char *index_word(char **at);
/* for the settings' table: NULL, or what is wrong */
const char *index_ok(const char *text);

#endif
