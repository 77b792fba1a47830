/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * launcher.h - the launcher's own data: slots, and the run in each
 *
 *	start.c     rights and namespaces of the launcher itself
 *	loop.c      messages in, events out
 *	refusal.c   what is not taken from the server
 *	slot.c      build, reset, rebuild a slot
 *	template.c  the root that a slot's runs start from
 *	place.c     the directories of runs that have no mount namespace
 *	worker.c    lives in the slot, clones runs
 *	child*.c    the run's own side, up to execve
 *	warm.c      sandboxes that wait for a request
 *	fork.c      slots that fork runs from a started interpreter, clone.c clones them
 *	watch.c     waits for a run's end
 *	news.c      what it says on its way
 *	look.c      limits that nothing else enforces
 *	sample.c    what a run uses, sockets.c what its sockets hold, nameless.c its open
 *	            files without a name
 *	judge.c     how it ended, and what it used
 *	notify.c    answers and counts refused calls
 *	orphan.c    a run whose worker died before it could say what it had cloned
 *	layers.c    layers of packages: given to runs, made of what an install left
 *	session.c   sessions: what stays, and the commands in it
 *	seed.c      fills the compile cache in the background
 *	probe.c     what this host allows, found by doing
 *	lost.c      a layer that goes away while we serve
 *	ledger.c    what a launcher leaves for the one after it
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
#include "launcher/ledger.h"
#include "launcher/lost.h"
#include "launcher/notify.h"
#include "launcher/sample.h"
#include "launcher/session.h"
#include "wire/message.h"
#include "wire/setup.h"

/* what the supervisor hands over in a sealed memfd */
struct launcher_start {
	struct setup setup;
	struct cgroup_base cgroups;
};

enum slot_state {
	SLOT_EMPTY,    /* nothing there */
	SLOT_BUILDING, /* its worker is making the root, or cleans up */
	SLOT_FREE,
	SLOT_WARMING, /* a sandbox is made in it that nobody has asked for, */
	SLOT_WAITING, /* or waits in it for who does */
	SLOT_BUSY,
};

struct slot;
struct worker_answer;

struct run {
	struct slot *slot;
	uint64_t id; /* the server's number; 0: a canary of our own */
	struct plan plan;
	pid_t pid;
	int pid_fd;
	int news_fd;    /* from the child: struct child_news */
	int work_fd;    /* the run's /work */
	int proc_fd;    /* the run's /proc, where memory is measured there */
	int place_fd;   /* without namespaces: the run's own directory */
	int canary_fd;  /* a canary's stdout */
	int sockets_fd; /* tells of its own network namespace; -1: it is its slot's, or
			   nobody asks */
	struct notify notify;
	pid_t collector;
	int collector_fd;
	int files_fd;
	int layer_fd;  /* its layer of packages, which nobody may remove meanwhile */
	int mounts_fd; /* its mount namespace, where memory is not measured by looking */
	enum layer_result layer_result; /* of an install */
	int stream_fd[3];               /* of one that waits: as in MSG_STREAMS */
	int input_fd; /* of one that has waited, until it starts: a cold one may need it
		       */
	uint64_t arrived_ns, started_ns, exited_ns;
	bool started, exited, timed_out, cpu_out, memory_out, killed, dead;
	bool warm;        /* it was waiting when its request came */
	bool takes_words; /* of one that waits: arguments and variables */
	uint64_t held_kb; /* memory of one that waits */
	bool orphan; /* found without its worker: killed, and its end is all we want */
	bool pids_out, disk_out; /* found by looking, where nothing else stops them */
	bool ending;             /* init was told to end its tree */
	bool init_ended;         /* by itself: then nothing is left below it */
	bool init_killed;        /* by a signal */
	bool left;       /* told, and its init stays for what a session's command left */
	bool files_lost; /* collecting failed */
	int wait_status; /* of the program, when exited */
	struct child_news failed; /* .step >= 0: which step failed */
	struct rusage rusage;
	struct disk_use
		disk_base;  /* what was there before the program: links to a seed */
	bool disk_was_full; /* what is kept: it may write nothing */
	bool disk_large;    /* so many files that its worker looks at them, */
	bool disk_asked;    /* and does so now; */
	bool disk_awaited;  /* all that its end waits for; */
	uint64_t disk_asked_ns;
	bool disk_known; /* when it was over it had this */
	struct disk_use disk_use;
	uint64_t disk_free;                   /* what the disk had left then */
	uint64_t disk_look_ns;                /* the next look at what it has written, */
	uint64_t sockets_look_ns, sockets_kb; /* at its sockets, and what they held */
	uint64_t shared_look_ns;              /* at the pages of shared mappings */
	uint64_t sample_pause_ns;             /* and between two looks at its processes */
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
	int sockets_fd;          /* tells what a run's sockets hold; -1: nobody asks */
	bool forks;              /* its worker is an interpreter, launcher/fork.h: */
	unsigned forked;         /* how many runs it has made, */
	uint64_t held_kb;        /* its memory */
	uint64_t build_by_ns;    /* when it must have started, */
	struct loop_timer old;   /* and its end */
	struct session *session; /* whose process 1 or command it is for; NULL: none */
	const char *seed_dir;    /* only the slot that fills the compile cache: where */
	unsigned failures;       /* builds that failed in a row; or ended unused */
	bool condemned;          /* to be rebuilt when its run is over */
	bool cleaning;           /* SLOT_BUILDING, with the worker that it had */
	struct loop_timer retry;
	struct run run;
};

/* what comes with a MSG_RUN; the second is -1 without a broker */
enum { RUN_INPUT, RUN_EGRESS, RUN_FDS };

/* a message that waits for a free slot */
struct waiting {
	struct message message;
	int fds[RUN_FDS];
	uint64_t arrived_ns;
};

/* a message that the server's socket had no room for */
struct unsent {
	struct unsent *next;
	struct message message;
	int fds[MESSAGE_FDS];
};

/* rows whose sandboxes die while they wait are tried again later and later */
struct warm {
	struct loop_timer retry;
	struct loop_timer tell;
	char fork_failed[32]; /* the step in which the last interpreter did; "": none */
	uint64_t fork_kb;     /* what the last one had; 0: there was none */
	bool fixed_disk; /* this host does not let us resize one: another size is cold */
	uint64_t no_layers_ns; /* nor, until then, move a layer of packages into one */
	struct {
		unsigned failures; /* since one was of use */
		bool plain; /* its interpreter does not load the object of wire/ahead.h */
		uint64_t not_before_ns;
		uint64_t size_kb; /* of the last one */
	} row[SETUP_ROWS];
};

/* layers of packages */
struct layers {
	int dir_fd; /* -1: there is no place for any */
	struct layers_state totals;
	pid_t tidier; /* at the start and now and then, in the background */
	int tidier_fd, told_fd;
	struct loop_timer next; /* of those */
};

struct launcher {
	const struct launcher_start *start;
	const struct setup *setup;
	struct cgroup_base cgroups; /* kind NONE when this process may not use them */
	struct loop *loop;
	int server_fd;
	struct unsent *unsent;
	unsigned unsent_count;
	int proc_fd; /* the host's /proc, for id maps and oom scores */
	int limit_fd[LOST_LIMITS];
	/* SELF_INSIDE: what is done with files in sessions; the exit status */
	int (*inside)(int argc, char **argv);
	int self_fd; /* our own binary, for rows that run it; -1: none does */
	int template_fd, setup_fd; /* for slots that fork; -1: there are none */
	int object_fd;             /* what imports modules ahead; -1: none are */
	pid_t supervisor;
	char place[SETUP_PATH]; /* without mount namespaces: where runs have their
				   directories, */
	int place_fd;           /* locked; -1: not needed */
	char kept[SETUP_PATH];  /* below it: of plan.kept; "": there is none */
	int kept_fd;
	bool own_user_ns; /* one uid for all: all happens inside a namespace of ours */
	int no_user_ns;   /* errno of making that one; 0: it was made, or not needed */
	struct abilities abilities;
	struct report report;
	struct probe *probe;       /* NULL when the start-up canaries are over */
	struct probe_facts *facts; /* what they saw */
	struct lost lost;
	int ledger_fd;
	struct ledger ledger;
	uint64_t last_run;      /* the highest number the server gave to one */
	struct loop_timer tell; /* the server of what was refused */
	int status;             /* to exit with */
	struct slot *slots;
	struct slot *seeder; /* not one of them; NULL: nothing to fill */
	unsigned slot_count;
	struct waiting *waiting;
	unsigned waiting_count;
	struct warm warm;
	struct layers layers;
	struct sessions sessions;
};

/* --- start.c: does not return before the server is gone; the exit status */
int launcher_main(const struct launcher_start *start, int server_fd, int ledger_fd,
		  int (*inside)(int argc, char **argv));
#define LAUNCHER_AGAIN 75 /* its exit status: another one is to look again */
/* the least RLIMIT_NOFILE it works with */
unsigned launcher_descriptors(unsigned slots);
/* and as many more for so many sessions and commands in them, all together; session.c */
unsigned launcher_session_descriptors(unsigned places);

/* --- loop.c */
void launcher_on_server(void *arg, uint32_t events);
void launcher_send(struct launcher *l, const struct message *m, const int *fds);
void launcher_next_waiting(struct launcher *l); /* a slot became free */
/* not one whose worker is an interpreter; NULL: none is free */
struct slot *launcher_free_slot(struct launcher *l);
/* in a slot of its own; the descriptors are taken when it has to wait for one */
void launcher_start_cold(struct launcher *l, const struct message *m, int fds[RUN_FDS],
			 uint64_t arrived_ns);
void launcher_refuse_waiting(struct launcher *l);
void launcher_report(struct launcher *l); /* as it is now, to the server */

/* runs at the same time: so many slots are there for them, whatever waits in others */
static inline unsigned launcher_capacity(const struct launcher *l)
{
	return l->slot_count - l->setup->warm_slots - l->setup->forks;
}

/* true: runs share the host's namespaces */
static inline bool launcher_shares(const struct launcher *l)
{
	return l->abilities.level < LEVEL_NAMESPACES;
}

/* true: where all runs have one uid and no cgroup, their processes are counted by looking
 */
static inline bool launcher_counts_pids(const struct launcher *l)
{
	return launcher_shares(l) && l->abilities.one_uid &&
	       l->cgroups.kind == CGROUP_NONE;
}

/* true: where no cgroup does, what sockets hold is counted by looking: by network
 * namespace, or by uid. With one uid in one namespace nothing tells whose they are, and
 * nothing tells what UDP holds. */
static inline bool launcher_counts_sockets(const struct launcher *l)
{
	return l->abilities.poll_memory && l->abilities.sockets && !l->abilities.pod &&
	       !(launcher_shares(l) && l->abilities.one_uid);
}

/* true: a broker can serve runs. Without namespaces there is none of their own to reach
 * it from; and what their sockets hold must be counted: in a namespace of its own it can
 * be, whatever others have */
static inline bool launcher_brokers(const struct launcher *l)
{
	return !launcher_shares(l) && (!l->abilities.poll_memory || l->abilities.sockets);
}

/* what a run can reach beyond itself, */
static inline enum plan_network launcher_network(const struct launcher *l)
{
	return l->setup->network == NETWORK_BROKER && !launcher_brokers(l)
		       ? NETWORK_NONE
		       : (enum plan_network)l->setup->network;
}

/* and an install. Without namespaces Landlock must keep it to its broker, whose bound of
 * connections bounds memory. */
static inline enum plan_network launcher_install_network(const struct launcher *l)
{
	if (l->setup->install_network == NETWORK_NONE)
		return NETWORK_NONE;
	if (launcher_shares(l))
		return l->abilities.level < LEVEL_LANDLOCK ? NETWORK_NONE
							   : NETWORK_HOST_PORT;
	return launcher_brokers(l) ? NETWORK_BROKER : NETWORK_NONE;
}

/* --- place.c */
#define PLACE_NAME 33
int place_open(struct launcher *l); /* sweeps, then makes ours; -1 with errno */
void place_close(struct launcher *l);
int place_slot(const struct launcher *l, const struct slot *s); /* a descriptor */
int place_make(const struct slot *s, int slot_fd, char out[SETUP_PATH]);
int place_clean(int slot_fd); /* everything in it */

/* true: there is a directory that stays, and a level that opens it to no other run */
static inline bool launcher_keeps(const struct launcher *l)
{
	return l->kept_fd >= 0 && l->abilities.level == LEVEL_LANDLOCK;
}

/* --- slot.c */
int slots_make(struct launcher *l);
void slot_init(struct slot *s, struct launcher *l, unsigned n);
void slot_drop_worker(struct slot *s);
void slot_unbuild(struct slot *s); /* its worker killed, its cgroup removed */
void slot_build(struct slot *s);   /* asynchronous: ends in slot_ready or another try */
void slot_reset(
	struct slot *s); /* after a run: free again, or rebuilt when anything is odd */
void slot_build_failed(struct slot *s, const char *step, int num);
void slot_build_later(struct slot *s, uint64_t wait_ms);
struct cgroup_limits slot_limits(const struct slot *s, const struct plan *p);
/* its run, cloned by its worker as its plan and state say; egress_fd may be -1 */
void slot_clone(struct slot *s, int input_fd, int egress_fd);
void slot_start_run(struct slot *s, const struct message *m, const int fds[RUN_FDS],
		    uint64_t arrived_ns);

/* --- warm.c */
/* That one which waited, or is forked, may take to its program: then the run starts cold,
 * so that it ends within a second of its deadline whatever the other does. */
#define WARM_START_MS 900
void warm_start(struct launcher *l); /* the probe is over */
/* makes what is missing, one at a time; whenever a slot becomes free */
void warm_fill(struct launcher *l);
/* true: one that waited has it from here on */
bool warm_take(struct launcher *l, const struct message *m, int input_fd,
	       uint64_t arrived_ns);
void warm_ready(struct run *r); /* it waits now */
/* it has its request, and runs; `started` is told behind its streams */
void warm_started(struct run *r, const struct message *started);
/* one that waits, or that has not started what it was given: then another one does */
bool warm_concerns(const struct run *r);
void warm_failed(struct run *r, const char *step, int num);
/* none that waits now is used any more */
void warm_drop(struct launcher *l);
void warm_tell(struct launcher *l);            /* the server: how many wait now */
void warm_tell_soon(struct launcher *l);       /* the same, a few runs later */
uint64_t warm_holds(const struct launcher *l); /* what all that wait do, in KiB; */
/* so much more is not too much */
bool warm_has_room(const struct launcher *l, uint64_t kb);
/* what holds so much cannot be given to a run that may have no more than this */
bool warm_is_too_large(uint64_t held_kb, const struct plan *p);

/* --- layers.c */
void layers_start(struct launcher *l); /* the probe is over */
void layers_done(struct launcher *l);
/* the layer of a plan that has one; -1 with errno when that is not there */
int layers_open(const struct launcher *l, const struct plan *p);
/* its layer, if it has one: -1 with errno when that is not there */
int layers_take(struct run *r);
/* that layer as a mount of its own, to be moved into a run; -1 with errno */
int layers_tree(const struct run *r);
/* scripts of packages in its layer were not run */
bool layers_unbuilt(const struct run *r);
/* that layer into a sandbox that waits, at its place; -1 with errno */
int layers_move(const struct run *r);
/* an install is over: what it left becomes a layer; run_finish() follows */
void layers_keep(struct run *r);

/* --- seed.c */
void seed_start(struct launcher *
			l); /* when the probe is over; fills a compile cache if need be */
void seed_slot_ready(struct launcher *l);
void seed_over(struct launcher *l, bool complete);

/* --- watch.c */
void run_init(struct run *r, struct slot *s); /* a zeroed one */
void run_clear(struct run *r);
void run_watch(
	struct run *r); /* pid_fd and news_fd are set: from here on events do the rest */
void run_kill(struct run *r);
void run_end(struct run *r);
void run_oom(struct run *r);
void run_over(struct run *r);   /* nothing of it is alive */
void run_finish(struct run *r); /* tells the outcome; the slot is free again */
void run_no_layer(struct run *r);
void run_refused(struct run *r, const char *step, int num); /* never cloned */
void run_worker_lost(struct run *r); /* its worker died before it answered */

/* --- news.c: its news_fd can be read, or its process 1 is gone */
void run_on_news(void *run, uint32_t events);

/* --- judge.c: verdict, status, times and usage */
void run_judge(struct run *r, struct outcome *o);
/* --- look.c: the next moment something can have changed; now when a limit is passed */
uint64_t run_look(struct run *r, uint64_t now);
/* what it uses, with its sockets; where no cgroup counts */
void run_measure(struct run *r, struct sample *out);
/* what tells of its own network namespace; it ends when that tells nothing */
void run_take_sockets(struct run *r, int *fd);

/* --- disk.c: of runs without namespaces */
void run_disk_begin(struct run *r, const struct disk_use *kept); /* it was cloned */
/* true: it has written more than it may; *next: when to look again, if that is sooner */
bool run_disk_look(struct run *r, uint64_t now, uint64_t *next);
/* it is over; true: not before its worker has answered */
bool run_disk_last(struct run *r);
/* its worker has, or never will: then it goes on to its end if it was over */
void run_disk_counted(struct run *r, const struct worker_answer *a);
void run_disk_silent(struct run *r);
/* when it was over: was there nothing left of its limit */
bool run_disk_is_full(const struct run *r);
/* what the disk has left where the run writes; 0: unknown */
uint64_t run_disk_free(const struct run *r);

/* --- orphan.c: a child that nobody accounts for becomes this run's pid and pid_fd: 1, 0:
 * there is none, -1 with errno */
int orphan_find(struct run *r);
/* kills and reaps all of those, and what is below them; how many are left */
unsigned orphan_kill_all(struct launcher *l);
/* on the way out: the same until none is left; nobody would find them after us */
void orphan_end_all(struct launcher *l);

/* --- probe.c */
void probe_start(struct launcher *l);
void probe_refused(struct launcher *l, const char *step,
		   int num); /* nothing can be tried */
void probe_slot_ready(struct launcher *l);
void probe_canary(struct slot *s, enum errand errand); /* a run of our own */
/* what a canary found out about its sandbox; -1: it did not say */
struct probe_facts;
int probe_read_seen(struct probe_facts *f, const struct run *r);
void probe_slot_failed(struct launcher *l, const char *step, int num);
void probe_run_over(struct launcher *l, const struct run *r, const char *failed_step,
		    int num);

#endif
