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
#define SETUP_ROWS 8
#define SETUP_BINDS 64
#define SETUP_PATH 1024
#define SETUP_WORDS 4096
#define SETUP_INSNS 2048
#define SETUP_SLOTS 256

enum setup_filter_id {
	FILTER_NETWORK, /* loaded in this order; the base one denies seccomp() itself */
	FILTER_ARGUMENTS,
	FILTER_BASE,
	FILTER_INIT, /* for process 1 of the sandbox */
	FILTER_COUNT
};

/* NUL-separated words, ended by an empty one: argv or environment without allocation */
struct setup_words {
	char text[SETUP_WORDS];
};

struct setup_row {
	char name[16];           /* python, golang, node, shell, typescript */
	char script[32];         /* script.py */
	struct setup_words argv; /* the first word is the absolute path to exec */
	struct setup_words env;  /* the small fixed environment */
	struct limits ceiling;
	uint32_t go_cache; /* 1: a compile cache at /go-cache: read-only seed, private on
			      top */
};

struct setup_bind {
	char path[SETUP_PATH]; /* same path inside; read-only */
};

struct setup_filter {
	uint32_t len;
	struct sock_filter insns[SETUP_INSNS];
};

struct setup {
	uint32_t magic;
	uint32_t size;
	uint32_t slots;
	uint32_t rows;
	uint32_t binds;
	uint32_t min_level;  /* enum isolation_level of wire/report.h */
	uint32_t log_level;  /* enum log_level */
	uint32_t log_format; /* enum log_format */
	uint32_t cpu_milli;  /* CPU quota of a run, thousandths of a CPU */
	uint32_t max_files;  /* collected after a run */
	uint64_t max_files_bytes;
	uid_t uid_base; /* slot n is uid_base + n; 0: a plain user, one uid for all */
	char output_dir[64];
	char go_seed_dir[SETUP_PATH]; /* compile cache to start from, once it is there;
					 "": none */
	uint32_t go_seed_build;       /* 1: make it in the background when it is not */
	char test_fault[32];          /* test builds: the child step that must fail */
	struct setup_row row[SETUP_ROWS];
	struct setup_bind bind[SETUP_BINDS];
	struct setup_filter filter[FILTER_COUNT];
};

#endif
