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

#define SETUP_ROWS 16     /* the most there are to choose from */
#define SETUP_VOLUMES 16  /* of sessions */
#define SESSION_KEY 16    /* bytes: a session's name, as a hash */
#define SESSION_IMAGE 256 /* of the name of an image's directory, with its NUL */
#define LAYER_KEY 32      /* bytes: what a layer of packages is made of, as a hash */

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
	ERRAND_NONE,    /* somebody's program */
	ERRAND_LOOK,    /* canaries: what a program finds out about its sandbox, */
	ERRAND_MEMORY,  /* whether the memory limit */
	ERRAND_CPU,     /* and the CPU quota hold */
	ERRAND_FORKS,   /* whether too many processes are ended, where they are counted */
	ERRAND_SEED,    /* fill the compile cache that later runs start from */
	ERRAND_HOLD,    /* no run at all: what comes along is held until */
	ERRAND_CLEAN,   /* that goes, and what the last run left in its directory */
	ERRAND_COUNT,   /* nor this: what it has in there is counted */
	ERRAND_SESSION, /* process 1 of a session, which stays */
};

/* which sandboxes that wait will do: 0, all of its row */
enum plan_cold {
	COLD_UNLESS_WORDS = 1, /* those that take arguments and variables, */
	COLD_ALWAYS,           /* none: it has what an interpreter reads at its start */
	COLD_KINDS
};

/* what a run can reach beyond itself */
enum plan_network {
	NETWORK_NONE,
	NETWORK_BROKER, /* a proxy on its own loopback, behind which a broker decides */
	/* an install without namespaces: one port, at which its broker listens itself on
	 * the host's loopback and wants a secret */
	NETWORK_HOST_PORT,
	NETWORK_POD, /* that of the server: the operator wants no namespace */
	NETWORK_COUNT
};
#define NETWORK_PORT 3128 /* that proxy's, in the run's own namespace */

/* of what concerns a session; each is answered as a run is */
enum plan_session {
	SESSION_NOT,
	SESSION_OPEN,  /* nothing is run: it is there, or made */
	SESSION_EXEC,  /* a command in it; it is made, or started, when need be */
	SESSION_CLOSE, /* its processes are ended and its files removed */
	/* these end its processes first: */
	SESSION_FORK, /* others with the same files, with the keys from other_key on */
	SESSION_CHECKPOINT, /* as its files are now they can be had again, by other_key */
	SESSION_RESTORE,    /* that is done */
	SESSION_DIFF,       /* since a checkpoint, or since its image: other_key is 0 */
	SESSION_KINDS
};
#define SESSION_FORKS 64 /* at once; their keys differ in the last byte alone */

/* what a session is made of, when it is not there yet */
struct plan_open {
	char image[SESSION_IMAGE]; /* a directory of the store; "": the host's runtime */
	uint32_t read_only;        /* 1: but for /work and /tmp */
	uint32_t volumes;          /* which of struct setup, a bit each */
	uint32_t root;             /* 1: its user is root, of a range of ids of its own */
};

struct plan {
	uint32_t row;    /* of struct setup */
	uint32_t errand; /* enum errand; not 0: one of the launcher's own, never the
			    server's */
	struct limits limits;
	uint64_t input_bytes; /* size of the input memfd */
	/* 1: it has this layer of packages; if its row is an installer's, it makes it */
	uint32_t has_layer;
	uint8_t layer[LAYER_KEY];
	uint32_t cold;  /* enum plan_cold */
	uint32_t ahead; /* 1: its interpreter loads the object of wire/ahead.h, if its row
			   does, and begins with its modules */
	uint32_t network; /* enum plan_network */
	uint32_t port;    /* of NETWORK_HOST_PORT; else 0 */
	uint32_t session; /* enum plan_session; not 0: of the session with this key */
	uint8_t session_key[SESSION_KEY];
	uint64_t owner; /* stands for the client of a session; 0: there is one client */
	struct plan_open open; /* of SESSION_OPEN; else nothing of it is set */
	uint8_t other_key[SESSION_KEY];
	uint32_t count; /* of SESSION_FORK; else 0 */
	uint32_t force; /* 1: though a command is running */
	uint32_t root;  /* 1: of a session whose user is root; as errand, never the
			   server's */
	/* 1: without namespaces and without a session: its working directory is the one
	 * that stays, and no other run's */
	uint32_t kept;
};

enum verdict {
	VERDICT_OK,
	VERDICT_NONZERO_EXIT,
	VERDICT_TIMEOUT,
	VERDICT_CPU_TIMEOUT,
	VERDICT_OUT_OF_MEMORY,
	VERDICT_SIGNAL,
	VERDICT_DISK_FULL,
	VERDICT_INSTALL_FAILED, /* the server's own: packages for a run that never was */
	VERDICT_BLOCKED_IMPORT, /* the same: modules that it may not import */
	VERDICT_COUNT
};

/* sandboxes that wait for a request */
struct warm_state {
	uint32_t ready[SETUP_ROWS];
	uint32_t rows;
	uint64_t memory_kb;   /* of all of them */
	char fork_failed[32]; /* why there is none to fork from; "": nothing is wrong */
};

/* layers of packages that are there */
struct layers_state {
	uint64_t count, bytes;
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

/* what became of the tree of an install */
enum layer_result {
	LAYER_MADE,
	LAYER_NOT_MADE,   /* the install failed: there was nothing to keep */
	LAYER_BAD_LINK,   /* one that leads out of the tree */
	LAYER_SPECIAL,    /* neither file, directory nor link */
	LAYER_UNREADABLE, /* closed to others than its owner */
	LAYER_TOO_LARGE,  /* files, bytes or depth */
	LAYER_NO_ROOM,    /* in the store */
	LAYER_FAULT,      /* ours */
	LAYER_RESULTS
};

enum outcome_files {
	OUTCOME_NO_FILES,
	OUTCOME_FILES,      /* a descriptor with wire/files.h records comes along */
	OUTCOME_FILES_LOST, /* there may have been some; collecting them failed */
	OUTCOME_FILES_END
};

/* how what a session has on the disk is bounded */
enum disk_kind {
	DISK_UNKNOWN,
	DISK_MEASURED,      /* looked at now and then, and who writes is ended */
	DISK_PROJECT_QUOTA, /* the file system refuses more */
	DISK_KINDS
};

struct outcome {
	uint32_t verdict;
	int32_t exit_code; /* 0..255, meaningless when signal is not 0 */
	int32_t signal;    /* what ended the program, 0: it exited */
	uint32_t pids_out; /* 1: ended because of its number of processes */
	uint32_t files;    /* enum outcome_files */
	uint32_t warm;     /* 1: its sandbox was waiting for it */
	uint32_t layer;    /* enum layer_result, of an install */
	uint32_t unbuilt;  /* 1: scripts of packages in its layer were not run */
	uint64_t wall_us;  /* from execve to the end of the program */
	uint64_t setup_us; /* from the message's arrival to execve */
	uint64_t cpu_us;
	uint64_t memory_peak_kb; /* USAGE_UNKNOWN: see the reason */
	uint64_t pids_peak;
	uint32_t
		violations; /* enum violations_known; each came as a message of its own */
	char memory_reason[64];
	char pids_reason[64];
	uint32_t disk; /* enum disk_kind, of a session: */
	uint64_t disk_limit_bytes;
	uint64_t disk_used_bytes; /* when it was last looked at */
};

#endif
