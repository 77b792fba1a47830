/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack.h - attacks on our own sandbox: one table, and what its rows are written with
 *
 *	attack_*.c    the rows, by group: what is tried, what must come of it, and how
 *	table.c       all groups
 *	tries.c       notes what was tried and what came of it; used on both sides
 *	inside.c      `sandbox-attack CASE`: the program of a run, with every layer on it
 *	battery.c     runs the table from outside, case by case
 *	runs.c        programs of cases: started, waited for, read
 *	invariants.c  what must hold after every case
 *	leftovers.c   what is left of a run, counted
 *	kernel_log.c  what the kernel said meanwhile
 *	commands.c    our own binary started again, in surroundings that refuse something
 *	print.c       lines for people, JSON, JUnit
 *
 * A case has a side inside (in the sandbox), a side outside (in `selftest`, with the
 * launcher), or both. Inside only, it is one ordinary run whose program tries everything
 * and says what it saw. Whoever reads what a case printed trusts it: it is our own code.
 */
#ifndef ATTACK_ATTACK_H
#define ATTACK_ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/plan.h"
#include "wire/report.h"

struct battery;

enum attack_status {
	ATTACK_OK,
	ATTACK_FAILED,
	ATTACK_SKIPPED, /* cannot be tried here, and why */
	ATTACK_PENDING, /* what it attacks is not there yet */
	ATTACK_STATUSES
};

#define TRIES_TEXT 700

/* what was tried so far, and what came of it */
struct tries {
	uint32_t level;       /* enum isolation_level that the host gives */
	uint32_t layers;      /* bit n: layer n is active */
	struct limits limits; /* inside: those of this run */
	char **words;         /* inside: what the side outside passed on */
	int word_count;
	unsigned count;            /* of things tried */
	unsigned wrong_count;      /* of them with another result than expected */
	char seen[TRIES_TEXT];     /* what is worth telling when all is well */
	char wrong[TRIES_TEXT];    /* what is not well */
	char skipped[TRIES_TEXT];  /* not "": why the case cannot be tried */
	char untested[TRIES_TEXT]; /* parts of it that cannot be tried here */
};

struct attack {
	const char *id;       /* NS01 */
	const char *tried;    /* "unshare(CLONE_NEWUSER)" */
	const char *expected; /* in words */
	uint32_t from;        /* the weakest level where it must hold */
	void (*inside)(struct tries *t);
	void (*outside)(struct battery *b, struct tries *t);
	const char *pending;           /* why it is not tried by this version; or NULL */
	const char *expected_landlock; /* NULL: the same there */
};

struct attack_group {
	const char *name;             /* NS */
	const char *title;            /* "namespaces" */
	const struct attack *attacks; /* ended by an id of NULL */
};

/* ended by a name of NULL */
extern const struct attack_group attack_groups[];

/* ---- tries.c: both sides ---- */

struct tried {
	long value;
	int num;    /* errno; 0: it worked */
	int signal; /* it died of that */
};

/* what a call that returns -1 and errno gave */
struct tried tried(long result);
/* the same in a child of its own, which may die of it */
struct tried tried_apart(long (*call)(void *arg), void *arg);
/* "EPERM", "SIGSYS" or "ok" */
const char *tried_word(const struct tried *r, char room[24]);

/* wanted: words as above, separated by '|' */
void expect_tried(struct tries *t, const char *what, struct tried r, const char *wanted);
void expect_call(struct tries *t, const char *what, long result, const char *wanted);
/* true, or this is what is wrong */
void expect(struct tries *t, bool holds, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* the same, of what holds whatever a case does: nothing that the case has tried */
void invariant(struct tries *t, bool holds, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* something wrong that was counted already */
void wrong_too(struct tries *t, const char *text);
/* worth telling */
void observe(struct tries *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void skip(struct tries *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* a part of the case that cannot be tried here; the case itself can */
void untested(struct tries *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
bool tries_layer(const struct tries *t, enum layer_id layer);
/* no namespaces: other answers, and some attacks would reach the host */
bool tries_shared(const struct tries *t);
/* "ENOENT", or what Landlock says of a file that must not be seen */
const char *tries_hidden(const struct tries *t);
/* word number n that the side outside passed on; "" when there is none */
const char *tries_word(const struct tries *t, int n);
enum attack_status tries_status(const struct tries *t);

/* ---- inside.c ---- */

/* the program of a run: CASE and what it needs to know. Does not return to user code */
int attack_main(int argc, char **argv);

/* errno of opening this file, 0: it could be opened */
struct tried try_open(const char *path, int flags);
/* a whole file as text; its length, or -1 */
long read_text(const char *path, char *out, size_t room);
/* the first of these programs that is here, copied, mode 0755; the errno of that */
struct tried copy_program(const char *to);
/* a program without arguments of its own on stdin, its stdout in `out`: the exit status,
 * 128 + N for a signal, -1 and errno when it cannot be executed. At most 15 s */
int run_program(const char *const *argv, char *out, size_t room);
/* write(2) of one text to stdout */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_ms(void);
void sleep_ms(unsigned ms);
/* waits until killed */
_Noreturn void wait_forever(void);

/* ---- attack_mounts.c: rows of NS about mounts and what lies in them ---- */
void ns11(struct tries *t);
void ns13(struct tries *t);
void ns15(struct tries *t);
void ns16(struct tries *t);
void ns17(struct tries *t);
void ns20(struct tries *t);

/* ---- attack_memory.c: rows of RS about memory ---- */
void rs02(struct tries *t);
void rs02_outside(struct battery *b, struct tries *t);
void rs03(struct tries *t);
void rs03_outside(struct battery *b, struct tries *t);
void rs15(struct tries *t);
void rs15_outside(struct battery *b, struct tries *t);

/* ---- attack_policy.c: for SY01 ---- */
#define POLICY_CALLS_HEX 151
/* the calls that the binary's own policy lets through at all, a bit each from 0 on */
void policy_calls(char out[POLICY_CALLS_HEX + 1]);
/* the policies of the directory in force refuse what those of the binary do */
void expect_policies(struct tries *t);

/* ---- attack_options.c: rows of SY about arguments ---- */
void sy08(struct tries *t);
void sy10(struct tries *t);

/* ---- attack_egress.c: rows of NW about runs that have network ---- */
void nw08(struct tries *t);
void nw08_outside(struct battery *b, struct tries *t);
void nw09(struct tries *t);
void nw09_outside(struct battery *b, struct tries *t);

/* ---- attack_warm.c: what is left of the run before ---- */
void xs10(struct tries *t);
void xs10_outside(struct battery *b, struct tries *t);

/* ---- the groups ---- */
extern const struct attack attacks_ns[];
extern const struct attack attacks_fs[];
extern const struct attack attacks_pr[];
extern const struct attack attacks_sy[];
extern const struct attack attacks_rs[];
extern const struct attack attacks_pc[];
extern const struct attack attacks_nw[];
extern const struct attack attacks_xs[];
extern const struct attack attacks_il[];
extern const struct attack attacks_in[];
extern const struct attack attacks_dg[];

#endif
