/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * launcher.h - the launcher's own data: slots, and the run in each
 *
 *	start.c     rights and namespaces of the launcher itself
 *	loop.c      messages in, events out
 *	slot.c      build, reset, rebuild a slot
 *	template.c  the root that a slot's runs start from
 *	worker.c    lives in the slot, clones runs
 *	child*.c    the run's own side, up to execve
 *	watch.c     waits and judges
 *	seed.c      fills the compile cache in the background
 *	probe.c     what this host allows, found by doing
 *
 * One thread, one loop. The launcher reads no client bytes: code and files pass by as a
 * sealed memfd that only the sandbox opens.
 */
#ifndef LAUNCHER_LAUNCHER_H
#define LAUNCHER_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/loop.h"
#include "launcher/cgroup.h"
#include "launcher/child.h"
#include "launcher/sample.h"
#include "wire/message.h"
#include "wire/setup.h"

/* what the supervisor hands over in a sealed memfd */
struct launcher_start {
	struct setup setup;
	struct cgroup_base cgroups;
};

enum slot_state {
	SLOT_EMPTY,    /* nothing there */
	SLOT_BUILDING, /* its worker is making the root */
	SLOT_FREE,
	SLOT_BUSY,
};

struct slot;

struct run {
	struct slot *slot;
	uint64_t id; /* the server's number; 0: a canary of our own */
	struct plan plan;
	pid_t pid;
	int pid_fd;
	int news_fd;   /* from the child: struct child_news */
	int work_fd;   /* the run's /work */
	int proc_fd;   /* the run's /proc, where memory is measured there */
	int canary_fd; /* a canary's stdout */
	pid_t collector;
	int collector_fd;
	int files_fd;
	uint64_t arrived_ns, started_ns, exited_ns;
	bool started, exited, timed_out, cpu_out, memory_out, killed, dead;
	int wait_status;          /* of the program, when exited */
	struct child_news failed; /* .step >= 0: which step failed */
	struct rusage rusage;
	struct sample peak;      /* of what was sampled, where no cgroup counts */
	struct loop_timer timer; /* deadline, and whatever is sampled before it */
};

struct slot {
	struct launcher *launcher;
	unsigned n;
	enum slot_state state;
	uid_t uid;
	gid_t gid;
	struct cgroup_slot cgroup;
	pid_t worker;
	int worker_pid_fd;
	int worker_fd;
	int oom_fd;
	const char *seed_dir; /* only the slot that fills the compile cache: where */
	unsigned failures;    /* builds that failed in a row */
	bool condemned;       /* to be rebuilt when its run is over */
	struct loop_timer retry;
	struct run run;
};

/* a message that waits for a free slot */
struct waiting {
	struct message message;
	int input_fd;
	uint64_t arrived_ns;
};

/* a message that the server's socket had no room for */
struct unsent {
	struct unsent *next;
	struct message message;
	int fds[MESSAGE_FDS];
};

struct launcher {
	const struct launcher_start *start;
	const struct setup *setup;
	struct cgroup_base cgroups; /* kind NONE when this process may not use them */
	struct loop *loop;
	int server_fd;
	struct unsent *unsent;
	unsigned unsent_count;
	int proc_fd;      /* the host's /proc, for id maps and oom scores */
	bool own_user_ns; /* a plain user: everything happens inside a namespace of ours
			   */
	struct abilities abilities;
	struct report report;
	struct probe *probe; /* NULL when the start-up canaries are over */
	struct slot *slots;
	struct slot *seeder; /* not one of them; NULL: nothing to fill */
	unsigned slot_count;
	struct waiting *waiting;
	unsigned waiting_count;
};

/* --- start.c: does not return before the server is gone; the exit status */
int launcher_main(const struct launcher_start *start, int server_fd);

/* --- loop.c */
void launcher_on_server(void *arg, uint32_t events);
void launcher_send(struct launcher *l, const struct message *m, const int *fds);
void launcher_next_waiting(struct launcher *l); /* a slot became free */

/* --- slot.c */
int slots_make(struct launcher *l);
void slot_init(struct slot *s, struct launcher *l, unsigned n);
void slot_unbuild(struct slot *s);   /* its worker killed, its cgroup removed */
void slots_done(struct launcher *l); /* everything in them killed and reaped */
void slot_build(struct slot *s);     /* asynchronous: ends in slot_ready or another try */
void slot_reset(
	struct slot *s); /* after a run: free again, or rebuilt when anything is odd */
struct slot *slot_free_one(struct launcher *l);
void slot_start_run(struct slot *s, const struct message *m, int input_fd,
		    uint64_t arrived_ns);

/* --- seed.c */
void seed_start(struct launcher *
			l); /* when the probe is over; fills a compile cache if need be */
void seed_slot_ready(struct launcher *l);
void seed_over(struct launcher *l, bool complete);

/* --- watch.c */
void run_clear(struct run *r);
void run_watch(
	struct run *r); /* pid_fd and news_fd are set: from here on events do the rest */
void run_kill(struct run *r);
void run_end(struct run *r);
void run_oom(struct run *r);
void run_refused(struct run *r, const char *step, int num); /* never cloned */
void run_worker_lost(struct run *r); /* the worker died before it had cloned it */

/* --- probe.c */
void probe_start(struct launcher *l);
void probe_refused(struct launcher *l, const char *step,
		   int num); /* nothing can be tried */
void probe_slot_ready(struct launcher *l);
void probe_slot_failed(struct launcher *l, const char *step, int num);
void probe_run_over(struct launcher *l, const struct run *r, const char *failed_step,
		    int num);

#endif
