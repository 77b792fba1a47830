/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * setup.h - everything the launcher is told, once, at its start
 *
 * Flat and of fixed size: the supervisor writes it into a memfd, seals it and passes it
 * on; the launcher maps it. No pointers, no parsing.
 */
#ifndef WIRE_SETUP_H
#define WIRE_SETUP_H

#include <linux/filter.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/plan.h"

#define SETUP_MAGIC 0x73627831u
#define SETUP_BINDS 64
#define SETUP_PATH 1024
#define SETUP_WORDS 4096
#define SETUP_INSNS 4096 /* the most that the kernel takes */
#define SETUP_SLOTS 256
#define SETUP_DENIALS 512
#define SETUP_RUN_DIRS 3

/* for process 1; a program's are below */
enum setup_filter_id {
	FILTER_INIT,
	FILTER_INIT_SHARED, /* for what stands for it where pids are shared */
	FILTER_COUNT
};

/* which policies a program has */
enum setup_reporting_id {
	REPORTING_APART,   /* namespaces of its own */
	REPORTING_SHARED,  /* none, but a uid */
	REPORTING_ONE_UID, /* not even that */
	REPORTING_COUNT
};

/* NUL-separated words, ended by an empty one: argv or environment without allocation */
struct setup_words {
	char text[SETUP_WORDS];
};

/* rows that only `selftest` makes */
enum setup_self {
	SELF_NOT,
	SELF_BINARY,  /* our own binary, by descriptor */
	SELF_MISSING, /* an interpreter that is not there */
};

/* how far a sandbox goes that is made before anybody asks for it */
enum setup_waits {
	WAITS_NOT,
	WAITS_EXEC,    /* complete, before execve */
	WAITS_STARTED, /* its interpreter has started and waits for the script */
};

struct setup_row {
	char name[16];           /* python, golang, node, shell, typescript */
	char script[32];         /* script.py */
	struct setup_words argv; /* the first word is the absolute path to exec */
	struct setup_words env;  /* the small fixed environment */
	struct limits ceiling;
	uint32_t go_cache; /* 1: a compile cache at /go-cache: read-only seed, private on
			      top */
	uint32_t self;     /* 1: our own binary, by descriptor; only for `selftest` */
	uint32_t waits;    /* enum setup_waits */
};

struct setup_bind {
	char path[SETUP_PATH]; /* same path inside; read-only */
};

struct setup_filter {
	uint32_t len;
	struct sock_filter insns[SETUP_INSNS];
};

enum denial_op { /* as enum policy_op */
		 DENIAL_NE,
		 DENIAL_LT,
		 DENIAL_LE,
		 DENIAL_EQ,
		 DENIAL_GE,
		 DENIAL_GT,
		 DENIAL_MASKED_EQ, /* argument & value == value_two */
};

/* a rule that refuses and is reported; the launcher answers for it */
struct setup_denial {
	int32_t nr;
	uint32_t errno_ret;
	uint32_t args; /* all must hold; none: every call */
	struct {
		uint32_t index;
		uint32_t op;
		uint64_t value;
		uint64_t value_two;
	} arg[6];
};

/*
 * What a program loads: the base, arguments, network and, if so, shared policies as one
 * filter. There are two of the same answers: where refused calls can be reported, the
 * launcher answers for some.
 */
struct setup_reporting {
	/* 1: whatever base does not allow is reported, by its default too, and not only a
	 * few calls of it: for who wants to know what a program needs */
	uint32_t wide;
	uint32_t else_errno; /* for a call that is none of the denials */
	uint32_t denials;    /* in the order they count: the first that fits */
	struct setup_denial denial[SETUP_DENIALS];
	struct setup_filter plain;
	struct setup_filter notify;
};

struct setup {
	uint32_t magic;
	uint32_t size;
	uint32_t slots;
	uint32_t warm; /* of these, for each row that waits: kept for waiting sandboxes */
	uint32_t warm_memory_mb; /* the most that those hold together */
	uint32_t rows;
	uint32_t binds;
	uint32_t min_level;  /* enum isolation_level of wire/report.h */
	uint32_t log_level;  /* enum log_level */
	uint32_t log_format; /* enum log_format */
	uint32_t cpu_milli;  /* CPU quota of a run, thousandths of a CPU */
	uint32_t max_files;  /* collected after a run */
	uint64_t max_files_bytes;
	uid_t uid_base; /* slot n is uid_base + n; 0: one uid for all, our own */
	char output_dir[64];
	char go_seed_dir[SETUP_PATH]; /* compile cache to start from, once it is there;
					 "": none */
	uint32_t go_seed_build;       /* 1: make it in the background when it is not */
	/* where a run without a mount namespace may have its directory: the first that
	 * can be used; "": none */
	char run_dir[SETUP_RUN_DIRS][SETUP_PATH];
	char test_fault[64]; /* test builds: the child step that must fail; "worker": the
				worker dies; "-a,b": the steps to leave out */
	struct setup_row row[SETUP_ROWS];
	struct setup_bind bind[SETUP_BINDS];
	struct setup_filter filter[FILTER_COUNT];
	struct setup_reporting reporting[REPORTING_COUNT];
};

#endif
