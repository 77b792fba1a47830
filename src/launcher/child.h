/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child.h - the run's own side, from clone3 to execve
 *
 * Everything named child_... runs there: system calls only, no allocation, no stdio, no
 * logging. The order of the steps is one table in child.c.
 */
#ifndef LAUNCHER_CHILD_H
#define LAUNCHER_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "wire/input.h"
#include "wire/plan.h"
#include "wire/report.h"
#include "wire/setup.h"

/* what this host lets a sandbox do; found once by probe.c, the same for every run after
 * that */
struct abilities {
	int level;          /* enum isolation_level: which rows of the step table apply */
	bool one_uid;       /* every run, and the server, have the same one outside */
	bool pod;           /* the operator gave the network namespace up */
	bool pivot;         /* else the new root is moved over the old one and entered */
	bool private_proc;  /* else /proc is empty */
	bool hostname;      /* else the name is the container's */
	bool overlay;       /* overlayfs in a user namespace, for the compile cache */
	bool go_seed;       /* the compile cache's seed is complete */
	int landlock_abi;   /* 0: none */
	bool notify;        /* refused calls are reported: the launcher is asked */
	bool wait_killable; /* and a signal does not make it be asked twice */
	bool poll_memory; /* no cgroup: rlimits, and the launcher looks at the run's /proc
			   */
	bool sockets;     /* and at what its sockets hold */
};

#define CHILD_UID 1000
#define CHILD_INODES_PER_MB 128     /* of the scratch tmpfs, */
#define CHILD_INODES 1024           /* and these */
#define CHILD_SESSION_INITS 64      /* of commands at once, and of the session */
#define CHILD_WORDS 64              /* of a row's own argv and environment */
#define CHILD_HAS_ALREADY ECANCELED /* an interpreter that waited has other modules */

enum child_news_type {
	NEWS_PLACES = 1, /* fds: /work; and /proc when memory is polled, or its mount
			    namespace */
	NEWS_STARTED,    /* execve worked */
	NEWS_FAILED,     /* .step, .num */
	NEWS_EXITED,     /* .status */
	NEWS_LISTENER,   /* fd: where refused calls are reported */
	NEWS_SOCKETS,    /* fd: tells what sockets of its network namespace hold */
	NEWS_READY,      /* it waits for a struct child_order */
	NEWS_NAMESPACE,  /* fd: of a session, .status says which */
};

struct child_news {
	uint32_t type;
	int32_t step;   /* -1: none */
	int32_t num;    /* errno */
	int32_t status; /* as from waitpid */
	uint64_t at_ns; /* CLOCK_MONOTONIC */
};

/* to a child that waits, by the socket of its news; fd: the input */
struct child_order {
	struct plan plan; /* the row is the one it was made for */
};

enum { NS_USER, NS_MNT, NS_PID, NS_NET, NS_IPC, NS_UTS, NS_CGROUP, NS_COUNT };

struct child {
	const struct setup *setup;
	const struct setup_row *row;
	struct abilities abilities;
	struct plan plan;
	uint32_t waits; /* enum setup_waits */
	int input_fd;
	int egress_fd; /* to the broker of this run; -1: it has none */
	int news_fd;
	int proc_fd;   /* the host's /proc */
	int self_fd;   /* our own binary; -1: no row wants it */
	int object_fd; /* of wire/ahead.h; -1: no row has it */
	bool ahead;    /* the interpreter is given it */
	int stream_fd[3];
	const char *seed_dir; /* the compile cache that this run is to fill; else NULL */
	int layer_fd;         /* its layer of packages, a mount; -1: none, or by path */
	const char *place;    /* without namespaces: the run's own directory; else NULL */
	const char *kept;     /* its working directory, if that stays; else NULL */
	unsigned long processes;    /* of this uid already, where runs share it */
	unsigned long open_files;   /* the most the program may have */
	const char *cwd;            /* of a command; NULL: /work, or what is kept */
	pid_t launcher, supervisor; /* for the canary to aim at */
	uid_t outer_uid;
	gid_t outer_gid;
	bool keeps_groups; /* a plain user's own, which nobody may drop without privilege
			    */
	/* filled on the way */
	int work_fd;
	int listener_fd; /* -1: none */
	const char *input;
	int script_fd;  /* what an interpreter that waits reads its script from, */
	bool has_words; /* and before it the words of the request */
	int argc, envc; /* of the row's own words */
	char words[SETUP_WORDS + CHILD_WORDS * SETUP_PATH]; /* what names the place */
	const char *argv[CHILD_WORDS + INPUT_ARGS_MAX + 1];
	const char *envp[CHILD_WORDS + INPUT_ENV_MAX + 1];
	char layer_path[SETUP_PATH + 96]; /* "PYTHONPATH=" and where its layer is */
	/* a run that goes on in a started interpreter is made by this, not by execve */
	pid_t (*fork)(void);
	int started_fd;        /* of that: closed when it starts */
	pid_t init;            /* the process that reaps; 1 in a pid namespace */
	int step;              /* of child.c's table: where it is */
	uint64_t ns[NS_COUNT]; /* a canary's namespaces, as the host's /proc tells them */
};

/* called by the worker in the new process; returns only where .fork is set, in the
 * program, when all steps are done */
void child_main(struct child *c);
void child_go_on(struct child *c);     /* the same from the step behind .step on */
const char *child_step_name(int step); /* "" for none */
int child_step_count(void);
bool child_step_applies(int step, uint32_t level); /* enum isolation_level */
bool child_step_of_runs(int step, uint32_t level); /* and to more than sessions */
int child_step_find(const char *name);             /* -1: none of that name */

/* --- helpers of child.c for the steps */
int child_write_at(int dir_fd, const char *name,
		   const char *text); /* one write, all of it */
int child_send(const struct child *c, const struct child_news *n, const int *fds,
	       int count);

/* --- the steps; each returns 0, or -1 with errno */
int child_id_maps(struct child *c);
int child_parent_death(struct child *c);
int child_session(struct child *c);
int child_network(struct child *c);
int child_cgroup_namespace(struct child *c);
int child_proc(struct child *c);
int child_namespace_limits(struct child *c);
int child_proc_masks(struct child *c);
int child_scratch(struct child *c);
int child_go_cache(struct child *c);
int child_places(struct child *c);
int child_session_places(struct child *c);
_Noreturn void child_stay(struct child *c);
int child_layer(struct child *c);
int child_layer_link(struct child *c);
int child_subreaper(struct child *c);
int child_take_in(struct child *c);
int child_directory(struct child *c);
int child_go_links(struct child *c);
int child_follow_init(struct child *c);
int child_inputs(struct child *c);
int child_hostname(struct child *c);
int child_root_check(struct child *c);
int child_hand_over(struct child *c);
int child_tell_namespaces(struct child *c);
int child_capabilities(struct child *c);
int child_no_new_privs(struct child *c);
int child_fork(struct child *c); /* process 1 stays in here and never returns */
int child_streams(struct child *c);
int child_limits(struct child *c);
int child_stack(void);   /* the limit of a stack, of whatever the server was given */
int child_signals(void); /* all as at a first start, whatever the server was given */
int child_identity(struct child *c);
int child_landlock(struct child *c);
int child_cwd(struct child *c);
int child_descriptors(struct child *c);
int child_seccomp(struct child *c);
int child_listener(struct child *c);
int child_open_files(struct child *c);
int child_order(struct child *c);
int child_exec(struct child *c);

/* --- child_layer.c: a run's layer of packages, and for its environment where it is */
bool child_has_layer(const struct child *c);
int child_layer_env(struct child *c);
/* STORE/KEY; -1 with errno when that is too long */
int child_layer_dir(const struct child *c, char *out, size_t room);

/* --- child_input.c: what is in input_fd, and the plan says how much; with the code that
 * is in it when that is asked for */
int child_take_input(struct child *c);
int child_script(const struct child *c, const char **out_code, uint64_t *out_len);

/* --- child_limits.c: of a program that waits, these sink to what its plan says */
enum { CHILD_LOWERED = 2 };
extern const int child_lowered_what[CHILD_LOWERED];
void child_lowered(const struct child *c, struct rlimit out[CHILD_LOWERED]);

/* --- child_wait.c, in process 1: until its interpreter has been given the script, which
 * it runs when script_fd is closed; does not return when that cannot be */
void child_await_order(struct child *c, pid_t program);
/* child.c: says that this step failed, and ends */
_Noreturn void child_fail(const struct child *c, int step);

/* true: the run shares the host's namespaces, so that everything it must not reach is in
 * sight */
static inline bool child_shares(const struct child *c)
{
	return c->abilities.level < LEVEL_NAMESPACES;
}

/* process 1 of a session, or a command in one: which enters namespaces that are there */
static inline bool child_keeps_session(const struct child *c)
{
	return c->plan.errand == ERRAND_SESSION;
}

static inline bool child_enters(const struct child *c)
{
	return c->plan.session != SESSION_NOT;
}

/* its input is a command's, of a session or not: no script, no files */
static inline bool child_is_command(const struct child *c)
{
	return child_enters(c) || c->plan.kept;
}

/* Until execve the program has the memory of process 1, which sleeps: nothing is copied.
 * A sanitizer does not know a stack that it did not see made. */
static inline bool child_borrows(const struct child *c)
{
#if defined(__SANITIZE_ADDRESS__)
	(void)c;
	return false;
#else
	return !child_shares(c) && !c->fork && c->plan.errand == ERRAND_NONE;
#endif
}

/* a command that no cgroup holds: its tree is what is below its init, which takes in
 * every orphan of it and ends with the last */
static inline bool child_takes_in(const struct child *c)
{
	return child_enters(c) && c->abilities.poll_memory;
}

/* which of the setup's sets of filters a program gets */
static inline enum setup_reporting_id child_reporting(const struct setup *setup,
						      const struct abilities *a,
						      const struct plan *p)
{
	const bool port = p->network == NETWORK_HOST_PORT;
	const bool pod = p->network == NETWORK_POD;

	if (p->root)
		return a->poll_memory ? REPORTING_ROOT_UNCOUNTED : REPORTING_ROOT;
	if (a->level >= LEVEL_NAMESPACES && (p->network == NETWORK_BROKER || p->session))
		return a->poll_memory ? REPORTING_BROKER_UNCOUNTED : REPORTING_BROKER;
	if (a->level >= LEVEL_NAMESPACES && a->pod)
		return pod ? REPORTING_POD : REPORTING_POD_NONE;
	if (a->level >= LEVEL_NAMESPACES)
		return a->poll_memory ? REPORTING_APART_UNCOUNTED : REPORTING_APART;
	if (pod)
		return a->one_uid ? REPORTING_ONE_UID_POD : REPORTING_SHARED_POD;
	if (!a->one_uid)
		return port ? REPORTING_PORT : REPORTING_SHARED;
	if (!setup->row[p->row].installs || p->errand != ERRAND_NONE)
		return REPORTING_ONE_UID;
	return port ? REPORTING_ONE_UID_PORT : REPORTING_ONE_UID_MAKES;
}

/* --- child_tree.c: who is below whom, for init and for the launcher itself */
struct process {
	pid_t pid, parent;
	char state;
	bool exiting; /* it has nothing open any more, or will have nothing in a moment */
	uint32_t threads;
	uint64_t ticks; /* of CPU, with those of the children it waited for */
};

/* one line of /proc; -1: it is gone */
int child_process(int proc_fd, pid_t pid, struct process *out);
/* the child of `top` that `pid` is or descends from; 0: it is not below it */
pid_t child_below(int proc_fd, pid_t pid, pid_t top);
/* calls fn for every process there is; -1 when /proc cannot be read */
int child_each_process(int proc_fd, void (*fn)(int proc_fd, pid_t pid, void *arg),
		       void *arg);
/* SIGKILL for `pid` if it is still below `top` */
void child_kill_below(int proc_fd, pid_t pid, pid_t top);
/* child_shared.c: kills and reaps until the caller, a subreaper, has no child left */
void child_end_tree(int proc_fd);

/* --- child_canary.c: what a program finds out about its sandbox, written to stdout */
extern const char *const child_ns_names[NS_COUNT]; /* as in /proc/self/ns */
/* while the host's /proc is still open: a run may have none of its own */
void child_note_namespaces(struct child *c);

struct canary_seen {
	uint64_t ns[NS_COUNT]; /* inode numbers; 0: not to be found out */
	int32_t pid;
	int32_t processes;  /* seen in /proc; -1: no /proc */
	int32_t shadow_err; /* errno of what must be refused; 0: it worked */
	int32_t write_err;  /* creating a file in /usr */
	int32_t unshare_err;
	int32_t inet_err;
	int32_t comm_err;   /* writing /proc/self/comm: only Landlock forbids it */
	int32_t signal_err; /* signal 0 to process 1 or init: only Landlock forbids it */
	int32_t forks;      /* how many worked before one was refused; at most 64 */
	int32_t fork_err;
	int32_t no_new_privs;
	int32_t seccomp_mode;
	int32_t uid;
	int32_t groups;
	int32_t outside_err;  /* a file that everybody may read, in no list */
	int32_t proc_err;     /* reading about oneself */
	int32_t launcher_err; /* signal 0 to the launcher, */
	int32_t supervisor_err;
	int32_t prlimit_err, affinity_err; /* the launcher's */
	int32_t unix_err;                  /* a socket with a name */
	uint32_t bounding;                 /* 1: not empty */
	uint32_t caps;                     /* 1: some capability is left in some set */
	char hostname[32];
};

_Noreturn void child_canary(const struct child *c);

#endif
