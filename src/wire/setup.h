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

#include "wire/ahead.h"
#include "wire/engine.h"
#include "wire/plan.h"

#define SETUP_MAGIC 0x73627831u
#define SETUP_BINDS 64
#define SETUP_PATH 1024
#define SETUP_WORDS 4096
#define SETUP_INSNS 4096 /* the most that the kernel takes */
#define SETUP_SLOTS 256
#define SETUP_DENIALS 512
#define SETUP_SESSION_UIDS 1024 /* behind those of the slots, one for each session */
/* behind those: ranges for sessions whose user is root, each from 0 on inside */
#define SETUP_ROOT_RANGES 256
#define SETUP_ROOT_IDS 65536
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
	REPORTING_BROKER,  /* the same, with a proxy on a loopback of its own */
	REPORTING_SHARED,  /* none, but a uid */
	REPORTING_ONE_UID, /* not even that */
	/* of an install that has neither namespaces nor, in the last two, a uid: */
	REPORTING_PORT,          /* with the port of its broker, */
	REPORTING_ONE_UID_MAKES, /* without, */
	REPORTING_ONE_UID_PORT,  /* with it */
	/* NETWORK_POD: the server's network namespace, and no sockets of it; */
	REPORTING_POD_NONE,
	REPORTING_POD, /* TCP and UDP there; and so at the levels without namespaces */
	REPORTING_SHARED_POD,
	REPORTING_ONE_UID_POD,
	REPORTING_ROOT, /* as REPORTING_BROKER, for root inside a session */
	/* where no cgroup counts memory: */
	REPORTING_APART_UNCOUNTED,
	REPORTING_BROKER_UNCOUNTED,
	REPORTING_ROOT_UNCOUNTED,
	REPORTING_COUNT
};

/* NUL-separated words, ended by an empty one: argv or environment without allocation */
struct setup_words {
	char text[SETUP_WORDS];
};

enum setup_self {
	SELF_NOT,
	/* rows that only `selftest` makes: */
	SELF_BINARY,  /* our own binary, by descriptor, */
	SELF_MISSING, /* an interpreter that is not there */
	/* what is done with files in sessions: our own code, without execve, since an
	 * image need not have the libraries that our binary wants */
	SELF_INSIDE,
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
	uint32_t self;     /* enum setup_self */
	uint32_t waits;    /* enum setup_waits */
	uint32_t ahead;    /* enum ahead_how: one that waits loads that object; 0: not */
	/* the directory that packages are in: of an installer below its working
	 * directory, of a program below the root; "": it has none */
	char layer[16];
	uint32_t layer_path; /* 1: PYTHONPATH names it; else it is found without */
	uint32_t installs;   /* 1: an installer: what it leaves there becomes a layer */
	uint32_t no_scripts; /* 1: npm, which does not run the scripts of packages */
	uint32_t session;    /* 1: only in sessions, and nothing else is */
};

struct setup_volume {
	char name[64];
	char path[SETUP_PATH];
	uint32_t writable;
};

struct setup_bind {
	char path[SETUP_PATH]; /* same path inside; read-only */
	uint32_t installs;     /* 1: a directory of packages, which only installs see */
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
	uint32_t warm_slots; /* of these: kept for waiting sandboxes, made when needed, */
	uint32_t warm;       /* which are so many of each row that waits */
	uint32_t warm_asked; /* 1: the operator named their number */
	uint32_t warm_memory_mb; /* the most that those hold together */
	uint32_t forks;          /* the last slots: runs of fork_row are forked there */
	uint32_t fork_row;
	char preload[AHEAD_NAMES]; /* "": none */
	uint32_t rows;
	uint32_t binds;
	uint32_t min_level;       /* enum isolation_level of wire/report.h */
	uint32_t log_level;       /* enum log_level */
	uint32_t log_format;      /* enum log_format */
	uint32_t cpu_milli;       /* CPU quota of a run, thousandths of a CPU */
	uint32_t max_files;       /* collected after a run */
	uint32_t network;         /* enum plan_network: the most that a run may have, */
	uint32_t install_network; /* and an install of packages */
	uint64_t max_files_bytes;
	uid_t uid_base;       /* slot n is uid_base + n; 0: one uid for all, our own */
	uid_t root_base;      /* range n begins at root_base + n * SETUP_ROOT_IDS */
	uint32_t root_ranges; /* how many there are; 0: none, and why */
	char root_why[160];
	char output_dir[64];
	char go_seed_dir[SETUP_PATH]; /* compile cache to start from, once it is there;
					 "": none */
	char layer_dir[SETUP_PATH];   /* where layers of packages are kept; "": nowhere */
	/* where sessions have their files; "": there are none. All of them together have
	 * no more than the ceiling of this row */
	char session_dir[SETUP_PATH];
	char image_dir[SETUP_PATH]; /* where unpacked roots are kept for them; "": none */
	uint32_t volumes;
	struct setup_volume volume[SETUP_VOLUMES];
	uint32_t session_row;
	uint64_t layer_bytes;   /* the most, of all together */
	uint64_t layer_age_sec; /* and since the last use */
	uint32_t go_seed_build; /* 1: make it in the background when it is not */
	/* where a run without a mount namespace may have its directory: the first that
	 * can be used; "": none */
	char run_dir[SETUP_RUN_DIRS][SETUP_PATH];
	/* test builds: the child step that must fail; "worker": the worker dies; "old":
	 * what waits is so soon; "-a,b": the steps to leave out; "times": how long steps
	 * take is told */
	char test_fault[64];
	struct setup_engine engine;
	struct setup_row row[SETUP_ROWS];
	struct setup_bind bind[SETUP_BINDS];
	struct setup_filter filter[FILTER_COUNT];
	struct setup_reporting reporting[REPORTING_COUNT];
};

#endif
