/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * plan.h - one run, resolved to numbers
 *
 * What the server may ask the launcher for: a row and a policy by number, limits below
 * the row's ceilings. It cannot name a host path, a uid, a capability or a system call.
 * The bytes (code, files, arguments, environment) are in a sealed memfd that only the
 * sandbox opens.
 */
#ifndef WIRE_PLAN_H
#define WIRE_PLAN_H

#include <stdint.h>

#define SETUP_ROWS 8 /* the most there are to choose from */

/* below, what prepares a run would not fit either */
enum { MEMORY_MB_LEAST = 8 };

struct limits {
	uint32_t wall_ms;
	uint32_t cpu_ms;
	uint32_t memory_mb;
	uint32_t pids;
	uint32_t disk_mb;
	uint32_t output_kb; /* per stream; the server's own, the launcher ignores it */
};

enum errand {
	ERRAND_NONE,   /* somebody's program */
	ERRAND_LOOK,   /* canaries: what a program finds out about its sandbox, */
	ERRAND_MEMORY, /* whether the memory limit */
	ERRAND_CPU,    /* and the CPU quota hold */
	ERRAND_FORKS,  /* whether too many processes are ended, where they are counted */
	ERRAND_SEED,   /* fill the compile cache that later runs start from */
	ERRAND_CLEAN,  /* no run at all: what the last one left in its directory goes */
};

struct plan {
	uint32_t row;    /* of struct setup */
	uint32_t errand; /* enum errand; not 0: one of the launcher's own, never the
			    server's */
	struct limits limits;
	uint64_t input_bytes; /* size of the input memfd */
	uint32_t cold; /* 1: it has what an interpreter reads at its start, so none that
			  has started already will do */
};

enum verdict {
	VERDICT_OK,
	VERDICT_NONZERO_EXIT,
	VERDICT_TIMEOUT,
	VERDICT_CPU_TIMEOUT,
	VERDICT_OUT_OF_MEMORY,
	VERDICT_SIGNAL,
	VERDICT_DISK_FULL,
	VERDICT_COUNT
};

/* sandboxes that wait for a request */
struct warm_state {
	uint32_t ready[SETUP_ROWS];
	uint32_t rows;
	uint64_t memory_kb; /* of all of them */
};

#define USAGE_UNKNOWN UINT64_MAX

/* calls that were refused in the same way: by the same rule, which may look at values */
struct violation {
	int32_t nr;
	uint32_t errno_ret; /* what the program got */
	uint64_t count;
	uint64_t args[6]; /* of the first one */
};

#define VIOLATIONS_USUAL 64  /* of a run, */
#define VIOLATIONS_MOST 1024 /* and where all is reported that is not allowed */

enum violations_known {
	VIOLATIONS_UNKNOWN, /* this host cannot report them; the report has the reason */
	VIOLATIONS_ALL,
	VIOLATIONS_CUT, /* there were more, or more often */
	VIOLATIONS_KNOWN_COUNT
};

enum outcome_files {
	OUTCOME_NO_FILES,
	OUTCOME_FILES,      /* a descriptor with wire/files.h records comes along */
	OUTCOME_FILES_LOST, /* there may have been some; collecting them failed */
	OUTCOME_FILES_END
};

struct outcome {
	uint32_t verdict;
	int32_t exit_code; /* 0..255, meaningless when signal is not 0 */
	int32_t signal;    /* what ended the program, 0: it exited */
	uint32_t pids_out; /* 1: ended because of its number of processes */
	uint32_t files;    /* enum outcome_files */
	uint32_t warm;     /* 1: its sandbox was waiting for it */
	uint64_t wall_us;  /* from execve to the end of the program */
	uint64_t setup_us; /* from the message's arrival to execve */
	uint64_t cpu_us;
	uint64_t memory_peak_kb; /* USAGE_UNKNOWN: see the reason */
	uint64_t pids_peak;
	uint32_t
		violations; /* enum violations_known; each came as a message of its own */
	char memory_reason[64];
	char pids_reason[64];
};

#endif
