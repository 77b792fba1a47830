/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup.h - make, limit, read, kill, remove; one face, two kernels
 *
 * The supervisor claims a base once and releases it at the end; the base is flat, so that
 * it travels to the launcher in a memfd. The launcher makes one slot per worker below it.
 *
 *	v1:  base/slot-N             in every controller: the worker, and its runs
 *	v2:  base/control            supervisor, server, launcher
 *	     base/slot-N/worker      the worker
 *	     base/slot-N/run         one run, born by CLONE_INTO_CGROUP; fresh each time
 *	     base/slot-N/run/holder  or process 1 of a session, and beside it slot-M of
 *	                             its commands
 *
 * Where nothing can be claimed the kind is CGROUP_NONE, and everything below still works:
 * it limits nothing, kills nothing, and every number is unknown.
 */
#ifndef LAUNCHER_CGROUP_H
#define LAUNCHER_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

/* v1 hierarchies; on v2 everything is in the first place */
enum cgroup_controller {
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_CPU,
	CGROUP_CPUACCT, /* from here on: used when there */
	CGROUP_DEVICES,
	CGROUP_FREEZER,
	CGROUP_CONTROLLERS,
};

struct cgroup_base {
	enum cgroup_kind kind;
	unsigned enabled; /* v2: what we switched on in our home, to be switched off */
	/* absolute; empty: not used. Two are equal where one mount has both controllers
	 */
	char dir[CGROUP_CONTROLLERS][512];
	char reason[256]; /* when NONE: one sentence */
	char fix[160];    /* when NONE: one line to type or to set */
};

struct cgroup_limits {
	uint64_t memory_bytes; /* 0: no limit */
	uint32_t pids;         /* the program's own processes and threads; 0: no limit */
	uint32_t cpu_milli;    /* thousandths of one CPU; 0: no quota */
};

#define CGROUP_UNKNOWN64 UINT64_MAX
#define CGROUP_UNKNOWN32 UINT32_MAX

/* a number of another run is never given: then it is unknown, and the reason says why */
struct cgroup_usage {
	uint64_t cpu_us;
	uint64_t memory_peak_kb;
	uint32_t pids_peak; /* a program that never forks counts 1 */
	const char *cpu_reason, *memory_reason,
		*pids_reason; /* static; NULL when known */
};

enum cgroup_file {
	CGROUP_FILE_EVENTS,
	CGROUP_FILE_OOM,
	CGROUP_FILE_CPU_TIME,
	CGROUP_FILE_CPU_STAT,
	CGROUP_FILE_MEMORY_PEAK,
	CGROUP_FILE_MEMORY_NOW,
	CGROUP_FILE_PIDS_PEAK,
	CGROUP_FILE_MEMORY_MAX,
	CGROUP_FILE_SWAP_MAX,
	CGROUP_FILE_PIDS_MAX,
	CGROUP_FILE_CPU_MAX,
	CGROUP_FILE_CPU_WEIGHT,
	CGROUP_FILES,
};

struct cgroup_counters {
	uint64_t oom_kills, cpu_us, throttled, memory_bytes, pids_peak;
};

/* embedded in a slot; nobody outside cgroup*.c looks inside */
struct cgroup_slot {
	enum cgroup_kind kind;
	unsigned n;
	uid_t uid;
	const struct cgroup_base *base;
	int dir_fd[CGROUP_CONTROLLERS]; /* v1: slot-N; v2: slot-N, worker, run */
	int file_fd[CGROUP_FILES];
	int oom_fd;
	struct cgroup_limits set;
	bool set_valid, used, oom_woke, idle;
	struct cgroup_counters begin;
};

/* In the supervisor. */

/*
 * Once, before anything is forked: a directory of our own below our present cgroup, found
 * writable by writing. On v2 the calling process moves into its leaf. NONE is an answer,
 * not a failure, and leaves nothing behind.
 */
enum cgroup_kind cgroup_claim(struct cgroup_base *out);
/* a fork that does not exec closes what tells others that the directory is in use */
void cgroup_unlock(void);
/* kill and remove everything below the base, move back where we came from; up to 2 s */
void cgroup_release(struct cgroup_base *base);

/* In the launcher, at its start. */

/*
 * Remove what dead owners left beside our base, and slot-* below it; whatever still runs
 * in them is killed. Up to 2 s. Returns how many directories went.
 */
int cgroup_sweep(const struct cgroup_base *base);

/* In the launcher, per slot. */

/* base must outlive the slot. uid is the worker's: it is allowed to clone into run */
int cgroup_slot_make(const struct cgroup_base *base, unsigned n, uid_t uid,
		     struct cgroup_slot *out, struct err *e);
/* the calling process (the worker, with the launcher's rights still) moves in */
int cgroup_slot_join(const struct cgroup_slot *slot);
/*
 * Kills whatever is in it, the worker too, and removes it without waiting. 0, or -1 with
 * errno EBUSY: call again in a moment. Also takes a zeroed or half-made slot.
 */
int cgroup_slot_remove(struct cgroup_slot *slot);

/* In the launcher, per run. */

/* set what differs from what is set, remember the counters; before the run is cloned */
int cgroup_run_begin(struct cgroup_slot *slot, const struct cgroup_limits *limits,
		     struct err *e);
/* other limits for a sandbox that was waiting; its CPU time begins anew */
int cgroup_run_limit(struct cgroup_slot *slot, const struct cgroup_limits *limits,
		     struct err *e);
/* idle: everything in the slot gets only the CPU time that nobody else wants */
int cgroup_slot_idle(struct cgroup_slot *slot, bool idle);
/* what its cgroup holds now, in KiB: on v1 with its worker; unknown: CGROUP_UNKNOWN64 */
uint64_t cgroup_memory_kb(const struct cgroup_slot *slot);
/* directory for CLONE_INTO_CGROUP, from begin to end; -1: clone without it */
int cgroup_run_fd(const struct cgroup_slot *slot);
/*
 * After the last process is dead and everything was read: makes the next run's place. -1
 * with errno (EBUSY: somebody lives there still): the slot is odd, make it again.
 */
int cgroup_run_end(struct cgroup_slot *slot);

/* the same descriptor for the slot's whole life, for epoll with *out_events; -1: none */
int cgroup_oom_fd(const struct cgroup_slot *slot, uint32_t *out_events);
/* when that descriptor woke, and at the end: did memory run out since begin. Quiets it */
bool cgroup_oom_seen(struct cgroup_slot *slot);

/* lift the CPU quota, since a throttled tree dies slowly; begin puts it back */
void cgroup_unthrottle(struct cgroup_slot *slot);
/* SIGKILL everything of the run; call again until cgroup_empty */
void cgroup_kill(const struct cgroup_slot *slot, pid_t worker);
bool cgroup_empty(const struct cgroup_slot *slot, pid_t worker); /* NONE: true */

/* once, while its run is one process: a base whose slots are below this one, and on v2
 * below the root of that process's cgroup namespace; -1 with errno */
int cgroup_below(struct cgroup_slot *slot, struct cgroup_base *out);
/* for all of them together, after cgroup_run_begin with the same limits */
int cgroup_limit_all(struct cgroup_slot *slot, const struct cgroup_limits *limits,
		     struct err *e);

/* since begin; unknown: CGROUP_UNKNOWN64 */
uint64_t cgroup_cpu_us(const struct cgroup_slot *slot);
/* periods in which the quota stopped the run, since begin */
uint64_t cgroup_throttled(const struct cgroup_slot *slot);
void cgroup_usage(const struct cgroup_slot *slot, struct cgroup_usage *out);

#endif
