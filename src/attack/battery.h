/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * battery.h - the side of the attacks outside the sandbox: runs, and what they left
 */
#ifndef ATTACK_BATTERY_H
#define ATTACK_BATTERY_H

#include <sys/types.h>

#include "attack/attack.h"
#include "base/buf.h"
#include "config/mode.h"
#include "job/job.h"
#include "wire/setup.h"

struct loop;
struct settings;

#define RUN_WORDS 12
#define INVARIANT_CGROUPS 8

/* one program; zeroed, then filled by whoever wants it run */
struct attack_run {
	const char *attack;           /* `sandbox-attack` with this case; or */
	const char *code;             /* a program in */
	const struct mode *mode;      /* this mode; NULL: our own row */
	unsigned row;                 /* with mode: its row */
	const char *words[RUN_WORDS]; /* passed on, NULL-terminated */
	const char *env[4];           /* "NAME=value" */
	struct limits limits;         /* 0: the default of the row */
	const struct rules *network;  /* NULL: none */

	/* filled when it is over */
	uint64_t who; /* 0: not started */
	bool over, failed;
	struct err error; /* when failed */
	struct outcome outcome;
	struct limits in_force;
	int exit_code;
	char message[RESULT_MESSAGE];
	bool truncated;
	char said[256];  /* the first of what it wrote to stdout, as it comes */
	char *out, *err; /* NUL-terminated, for who wants text */
	size_t out_len, err_len;
	char *json; /* the result object, as a client would get it */
	size_t json_len;
	uint64_t started_ms, over_ms;
};

enum holding {
	HOLD_PROCESSES, /* below us: the launcher and its workers */
	HOLD_MOUNTS,    /* in our own mount namespace */
	HOLD_LAUNCHER_MOUNTS,
	HOLD_CGROUPS,
	HOLD_RUN_DIRS,  /* of runs without a mount namespace */
	HOLD_DEAD_DIRS, /* of launchers without one that are gone */
	HOLD_FDS,
	HOLD_LAUNCHER_FDS,
	HOLD_KINDS
};

/* what is there when nothing runs */
struct holdings {
	int count[HOLD_KINDS]; /* -1: it cannot be looked at here */
	uint64_t own_kb, launcher_kb;
};

struct case_result {
	const struct attack *attack;
	const struct attack_group *group;
	enum attack_status status;
	bool required; /* at the level that was asked for */
	char observed[2 * TRIES_TEXT + 32];
	unsigned ms;
};

struct battery {
	/* given */
	struct loop *loop;
	struct jobs *jobs;
	const struct settings *settings;
	const struct modes *modes;
	unsigned self_row, missing_row;
	const struct report *report;
	pid_t launcher;
	int launcher_fd;                        /* its pidfd: readable when it is dead */
	const char *cgroups[INVARIANT_CGROUPS]; /* directories of ours; NULL-terminated */
	char (*run_dirs)
		[SETUP_PATH];     /* SETUP_RUN_DIRS, where runs may have directories */
	const char *const *steps; /* of a run's set-up, by name; NULL-terminated */
	unsigned forks;           /* interpreters that runs are forked from */
	uint32_t level_wanted;    /* what must hold */
	const char *only;         /* NULL: every case; ids and groups */
	/* a line of progress; may be NULL */
	void (*on_begin)(void *arg, const struct attack *a, unsigned at, unsigned of);
	void (*on_end)(void *arg, const struct case_result *r);
	void *arg;

	/* its own */
	struct mode self;
	uint64_t last_who;
	struct attack_run *runs[8]; /* under way */
	struct attack_run control;  /* beside the case */
	bool stopped;               /* by a signal */
	bool leaked; /* a secret of ours was in what a run of this case gave back */
	bool launcher_lost;  /* a run heard of its death */
	const char *died_in; /* the case in which the launcher was found dead; or NULL */
	struct holdings before;
	bool log_read;      /* the kernel's log can be; */
	char log_mark[256]; /* its end when we last looked */
	uint64_t *control_ms;
	unsigned controls;
	uint64_t baseline_ms;
	char canary[33]; /* a secret outside: in a file and in our environment */
	char canary_file[512];
	char not_checked[512]; /* of the invariants, here */
	struct case_result *results;
	unsigned count;
};

/* ---- battery.c ---- */

/* the launcher has reported. Runs everything; -1 and *e when nothing can be run at all */
int battery_run(struct battery *b, struct err *e);
void battery_done(struct battery *b);
/* attack_egress.c, before there is a broker: what its cases list is allowed */
int egress_cases_begin(struct rules *allowed, struct err *e);
/* the observer of its jobs: arg is the battery */
void battery_on_output(void *arg, uint64_t who, enum job_stream s, const char *text,
		       size_t len);
void battery_on_done(void *arg, uint64_t who, const struct result *r);
void battery_on_failed(void *arg, uint64_t who, const struct err *e);
/* are these cases and groups? Separated by commas, as for --case */
bool battery_knows(const char *list);

/* ---- runs.c: for the sides outside ---- */

bool launcher_lives(const struct battery *b);

void run_start(struct battery *b, struct attack_run *r);
void run_wait(struct battery *b, struct attack_run *r);
void run_cancel(struct battery *b, struct attack_run *r);
void run_whole(struct battery *b, struct attack_run *r); /* start, and wait */
void run_done(struct attack_run *r);
/* lets the loop go on for that long */
void battery_pause(struct battery *b, unsigned ms);
/* until its program has written this to stdout */
bool run_said(struct battery *b, const struct attack_run *r, const char *text);
/* what the program of an attack said of itself, added to the tries; false: it said
 * nothing, which is noted as wrong */
bool run_tell(const struct attack_run *r, struct tries *t);
/* one run of a case's side inside, with these words, and what it said */
void run_inside(struct battery *b, struct tries *t, struct attack_run *r);
uint32_t battery_layers(const struct battery *b); /* bit n: layer n is active */
bool battery_one_uid(const struct battery *b);    /* runs have the same uid outside */
bool battery_warm(const struct battery *b);       /* sandboxes wait for runs */
/* until one of this row does; false: none will */
bool battery_wait_warm(struct battery *b, unsigned row);
/* until as many do */
bool battery_wait_many(struct battery *b, unsigned row, unsigned count);
const struct mode *battery_mode(const struct battery *b, enum mode_id id);
/* ---- forked.c ---- */
bool battery_forks(const struct battery *b); /* runs of python are forked */
/* until so many interpreters can be forked from, or for a while */
void battery_wait_forks(struct battery *b, unsigned count);
/* this one is python's, which becomes the program of the case; one that wants what no
 * waiting sandbox has is not */
bool run_forks(const struct battery *b, const struct attack_run *r);
/* as that wants it; the words are there. -1: the binary cannot be read */
int run_fork(const struct battery *b, struct run_request *q);

/* ---- runs.c again ---- */
/* it was ended at its deadline, and the answer came that much later at most */
void expect_deadline(struct battery *b, struct tries *t, const struct attack_run *r,
		     const char *what, unsigned late_ms);
/* how much longer than asked things may take on a machine that does other things */
unsigned battery_slack_ms(const struct battery *b);

/* ---- invariants.c ---- */
int invariants_baseline(struct battery *b, struct err *e);
int invariants_begin(struct battery *b, struct err *e);
void invariants_after(struct battery *b, const struct attack *a, struct tries *t);
void invariants_end(struct battery *b);
/* G2: 95 of 100 ordinary programs beside the cases took at most this long */
bool invariants_on_time(const struct battery *b, uint64_t *out_p95, uint64_t *out_most);
/* processes below us; nothing runs: the launcher and its workers */
unsigned count_descendants(void);
/* their numbers, at most `room`; how many */
unsigned find_descendants(pid_t *out, unsigned room);
/* kB of a process's memory; 0 when it cannot be known */
uint64_t resident_kb(pid_t pid);

/* ---- leftovers.c ---- */
void holdings_look(const struct battery *b, struct holdings *out);
bool holdings_same(const struct holdings *a, const struct holdings *b);
const char *holdings_name(enum holding kind);
const char *holdings_why_not(enum holding kind); /* when its count is -1 */

/* ---- kernel_log.c ---- */
bool kernel_log_begin(struct battery *b); /* false: it cannot be read */
/* since the last time: 1, and the first line that tells of a fault; 0: none; -1: it was
 * more than the log holds, or it cannot be read any more */
int kernel_log_fault(struct battery *b, char *out, size_t room);
/* the same of a text, behind the last mark in it; "": all of it is new */
int kernel_log_scan(const char *text, const char *mark, char *out, size_t room);

/* ---- commands.c ---- */

enum refusal {
	REFUSE_NOTHING,
	REFUSE_NAMESPACES, /* as a container's profile does: no namespaces, no mounts */
	REFUSE_MOUNTS, /* as AppArmor does: namespaces can be made, and are of no use */
	REFUSE_LANDLOCK = 4, /* and no Landlock: may be added */
};

struct binary_said {
	int status; /* exit status; 128 + N for a signal; -1: it could not be started */
	char text[4096];
};

/* flags that follow the subcommand whenever we start ourselves; must stay */
void binary_settings(const char *const *words);
/* `sandbox-server WORDS` with these variables besides our own settings; both streams */
void binary_run(enum refusal refuse, const char *const *words, const char *const *env,
		struct binary_said *out);

/* ---- print.c ---- */
struct summary {
	unsigned by_status[ATTACK_STATUSES];
	unsigned beyond; /* failed, but not required at the level that was asked for */
};
const char *attack_status_word(enum attack_status s);
void summarize(const struct battery *b, const struct attack_group *g,
	       struct summary *out); /* g NULL: all */
/* nothing failed that was asked for, invariants included */
bool battery_held(const struct battery *b);
/* false: every case that was chosen is skipped or pending, so nothing held either */
bool battery_tried(const struct battery *b);
#define BATTERY_NOTHING "nothing was tried: every chosen case is skipped or pending"
int print_json(struct buf *out, const struct battery *b);
int print_junit(struct buf *out, const struct battery *b);
int print_line(struct buf *out, const struct battery *b, const struct case_result *r);
int print_summary(struct buf *out, const struct battery *b);

#endif
