/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session.h - environments that stay: process 1 of each, and the commands in them
 *
 *	session.c      asked for by the server; made, entered, ended
 *	session_command.c  the commands in it, and what they write
 *	session_room.c  how many of them have processes
 *	session_disk.c  how much of the disk they may have; session_looker.c looks at it,
 *			session_kept.c at what was frozen
 *	session_dir.c  the directories that their files are in
 *	session_ids.c  whose those are: a uid, or a range of them
 *	session_tree.c  its processes, where no cgroup holds them
 *
 * A session has namespaces, a cgroup and a uid of its own, and a process 1 that does
 * nothing but keep them. A command is a run like others in a slot of its own, whose
 * worker goes into the session's namespaces where others make a root, and whose cgroup
 * is below the session's. So the launcher is the parent of each command, and deadline,
 * limits, reports and verdict are those of every run.
 */
#ifndef LAUNCHER_SESSION_H
#define LAUNCHER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"
#include "launcher/sample.h"
#include "wire/plan.h"
#include "wire/setup.h"

struct cgroup_base;
struct cgroup_limits;
struct launcher;
struct message;
struct run;
struct session;
struct session_names;
struct session_root;
struct session_stack;
struct session_work;
struct slot;

/* who looks at a session's files */
struct looker {
	pid_t pid;
	int pid_fd;                    /* -1: nobody does */
	int out_fd;                    /* what it has seen comes from here */
	struct session *at;            /* NULL: it is gone */
	uint64_t began_ns, free_bytes; /* then, of the file system */
	struct loop_timer deadline;
};

#define SESSIONS_UNMERGED 64

/* layers that could not be merged */
struct session_unmerged {
	uint8_t key[SESSION_KEY];
	int num;           /* errno: why */
	uint64_t until_ns; /* nobody tries again */
};

struct sessions {
	int dir_fd;                   /* -1: there can be none */
	int pool_fd;                  /* the layers that their files are in */
	struct session_names *before; /* layers that there were at the start */
	struct session *first;
	unsigned places; /* sessions and commands: each needs descriptors */
	unsigned places_most;
	pid_t remover;
	int remover_fd; /* -1: nothing is removed at the moment */
	bool remove_again;
	bool remove_held; /* by somebody who compares: when he has, */
	bool read_over;   /* as one has since the last who removes began */
	bool tried;       /* whether an overlay can be mounted: */
	int refused;      /* errno, 0: it can */
	int unmapped;     /* the same, of an image as root is shown it */
	struct session_work *works;
	struct session_unmerged unmerged[SESSIONS_UNMERGED]; /* the last ones */
	unsigned unmerged_next;
	struct looker looker;
};

/* session_try.c: as this host is; false and why */
bool sessions_possible(struct launcher *l, char *why, size_t room);
void sessions_start(struct launcher *l); /* the probe is over, and was reported */
void sessions_done(struct launcher *l);
bool sessions_know(const struct launcher *l, pid_t pid);

/* a message with a plan that concerns a session; takes the descriptors it needs */
void session_ask(struct launcher *l, const struct message *m, int *fds,
		 uint64_t arrived_ns);
/* false: that run is none of a session's */
bool session_kill(struct launcher *l, uint64_t run);

/* what slot.c and watch.c have to tell of a session's slots */
void session_slot_ready(struct slot *s);
void session_slot_failed(struct slot *s, const char *step, int num);
void session_slot_over(struct slot *s); /* a command's outcome was told */
void session_left_over(struct slot *s); /* and the init that stayed is dead now */
/* and of process 1 */
void session_started(struct run *r);
void session_ended(struct run *r);
void session_take_namespace(struct run *r, int which, int *fd);

/* what is known of its disk, to the outcome of a command, or of anybody else */
void session_outcome(const struct slot *s, struct outcome *out);

bool session_entered(const struct slot *s);  /* it is a command's, not process 1's */
bool session_gives_up(const struct slot *s); /* and its session is ending */
const int *session_namespaces(const struct slot *s); /* NS_COUNT descriptors */
/* what its process 1 has as its root; NULL: not that slot */
const struct session_root *session_root(const struct slot *s);
/* of a session: all of its commands together, with the init of each */
uint32_t session_pids(const struct plan *p);
bool session_is_root(const struct slot *s); /* its user is; of any slot */
const struct cgroup_base *session_cgroups(const struct slot *s);

/* --- session_tree.c */
bool session_by_tree(const struct slot *s); /* a command's, which no cgroup holds */
/* Kills what a command whose init is dead has left; true: nothing is. */
bool session_rest_gone(const struct slot *s);
/* of a command, or of process 1: all that the session has; where no cgroup counts */
void session_sample(struct run *r, enum sample_how how, struct sample *out);

#define SESSIONS_CHILDREN 10240 /* more than can be */

/* --- session_ids.c: the first id of a session, which its directory belongs to */
/* true: one that we gave; *out_root: it begins a range */
bool session_ids_ours(const struct launcher *l, uid_t uid, bool *out_root);
int session_ids_free(const struct launcher *l, bool root, uid_t *out); /* -1, errno */
/* to process 1 of a session whose user is root, which waits for it */
void session_ids_give(const struct slot *s);

/* --- session_dir.c */
#define SESSION_NAME (2 * SESSION_KEY + 1)
int session_dir_open(const struct launcher *l); /* the directory of all; -1 with errno */
/* its directory and what its root is made of; 1: made as `open` says since it was not
 * there, whole or not at all; -1 with errno */
int session_dir_take(const struct launcher *l, const uint8_t key[SESSION_KEY],
		     const struct plan_open *open, struct session_stack *out_stack,
		     uid_t *out_uid);
/* gone when this returns; what was in it is removed in the background */
int session_dir_drop(struct launcher *l, const uint8_t key[SESSION_KEY]);
/* these when nothing of it is alive; -1 with errno. `others`: the first of their keys */
int session_dir_fork(struct launcher *l, const uint8_t key[SESSION_KEY],
		     const uint8_t others[SESSION_KEY], unsigned count);
int session_dir_checkpoint(const struct launcher *l, const uint8_t key[SESSION_KEY],
			   const uint8_t name[SESSION_KEY]);
int session_dir_restore(struct launcher *l, const uint8_t key[SESSION_KEY],
			const uint8_t name[SESSION_KEY]);
unsigned session_dir_depth(const struct launcher *l, const uint8_t key[SESSION_KEY]);
/* its stack, or that of a checkpoint; its directory's descriptor, or -1 with errno */
int session_dir_read(const struct launcher *l, const uint8_t key[SESSION_KEY],
		     const uint8_t *checkpoint, struct session_stack *out,
		     uid_t *out_uid);
/* another stack, and the layers that the session had in its place; -1 with errno and as
 * it was. dir_fd: the session's directory */
int session_dir_replace(struct launcher *l, const uint8_t key[SESSION_KEY], int dir_fd,
			const struct session_stack *instead,
			const struct session_stack *gone);
/* layers that nobody has any more, if so; -1 with errno */
int session_dir_discard(struct launcher *l, const uint8_t key[SESSION_KEY],
			const struct session_stack *layers);
int session_dir_begin(struct launcher *l);  /* -1 with errno */
void session_dir_sweep(struct launcher *l); /* what others left half removed */
void session_dir_done(struct launcher *l);

#endif
