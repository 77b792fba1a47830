/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * policy.h - policy/NAME.json (OCI linux.seccomp form) to rules
 *
 * Strict: an unknown key, name, action or operator is an error with file and line, and so
 * is a rule that another one of the same file contradicts or hides. Names may be the
 * kernel's, or a number ("462") for a call that has no name here yet. A known name that
 * this architecture lacks is no error; the filter leaves it out.
 */
#ifndef CONFIG_POLICY_H
#define CONFIG_POLICY_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum policy_arch { POLICY_X86_64 = 1, POLICY_AARCH64 = 2 }; /* bits */

enum policy_action { POLICY_ALLOW, POLICY_ERRNO, POLICY_KILL_PROCESS, POLICY_LOG };

enum policy_op {
	POLICY_NE,
	POLICY_LT,
	POLICY_LE,
	POLICY_EQ,
	POLICY_GE,
	POLICY_GT,
	POLICY_MASKED_EQ, /* argument & value == value_two */
	POLICY_OP_COUNT
};

/* all comparisons are of 64 bits, without a sign */
struct policy_arg {
	unsigned index; /* 0..5, each at most once in a rule */
	enum policy_op op;
	uint64_t value;
	uint64_t value_two;
};

#define POLICY_ARGS 6
#define POLICY_NAME 48
#define POLICY_COMMENT 256

/* one system call; a file's rule of several names is several of these */
struct policy_rule {
	char name[POLICY_NAME];
	int number; /* on this architecture, below 0: not there */
	enum policy_action action;
	unsigned errno_ret; /* POLICY_ERRNO */
	unsigned args;      /* all must hold; none: every call */
	struct policy_arg arg[POLICY_ARGS];
	unsigned line;
	char comment[POLICY_COMMENT]; /* the rule's own; "" when it has none */
};

struct policy {
	char *file; /* for messages */
	enum policy_action default_action;
	unsigned default_errno;
	unsigned archs; /* enum policy_arch */
	struct policy_rule *rule;
	size_t rules;
};

/* where policy_load looks; NULL: only the policies inside the binary. Not copied. */
void policy_set_dir(const char *dir);
/* what our own server may call: it fits the binary, so that no directory replaces it */
#define POLICY_SERVER "server"
/* and who connects for runs */
#define POLICY_BROKER "broker"
/* and who unpacks images */
#define POLICY_IMAGE "image"
/* text of policy NAME: the directory's NAME.json when one is set, else the one in the
 * binary */
struct policy *policy_load(const char *name, struct err *e);
/* only that text, with its file's name; both the caller's to free, also on failure */
char *policy_find(const char *name, char **out_file, size_t *out_len, struct err *e);
char *policy_read(const char *path, size_t *out_len, struct err *e);
struct policy *policy_parse(const char *file, const char *text, unsigned long len,
			    struct err *e);
void policy_free(struct policy *p);

#endif
