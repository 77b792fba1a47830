/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fork.h - slots whose worker is a started interpreter that runs are forked from
 *
 * The worker of such a slot makes the slot as any other does, with a name of its own and
 * a cover on /proc besides, gives up the same rights, and becomes python3 by execve, with
 * the object of wire/ahead.h in it. When python comes to open its script, the object
 * imports what is to be there, has the cover taken off, says that the slot is built
 * and goes on as a worker: it clones runs, each with namespaces of its own and through
 * all steps of child.c. Where others call execve, the run's program goes on in python
 * instead, which opens the script.
 */
#ifndef LAUNCHER_FORK_H
#define LAUNCHER_FORK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/child.h"
#include "wire/ahead.h"

struct launcher;
struct message;
struct slot;

/* that an interpreter's start may take, with the time that others leave */
#define FORK_START_MS 60000

/* the descriptors of a worker that has become an interpreter, behind its streams */
enum {
	FORK_SOCKET_FD = 3,
	FORK_OBJECT_FD = AHEAD_FD,
	FORK_PROC_FD,
	FORK_SETUP_FD,
	FORK_START_FD,
	FORK_OUT_FD, /* the other ends of its output: nobody may have written to them */
	FORK_ERR_FD,
	FORK_COVER_FD, /* to the keeper of the cover on /proc: a byte takes it off,
			  another one says so */
	FORK_FDS
};

/* what is at FORK_START_FD */
struct fork_start {
	uint32_t row;
	uid_t uid;
	gid_t gid;
	pid_t launcher, supervisor, keeper;
	struct abilities abilities;
};

/* --- fork_proc.c, in the worker with all rights: the socket to a new process that keeps
 * one, and takes the cover off /proc when asked to; -1 with errno */
int fork_proc_keep(pid_t *out_pid);

/* what a worker has for its interpreter */
struct fork_given {
	int proc_fd, object_fd, setup_fd, cover_fd;
	pid_t keeper;
};
/* --- fork.c, in the worker: only returns, with errno, when it cannot be */
void fork_become(const struct slot *s, int *socket_fd, const struct fork_given *g);

/* --- fork.c, in the launcher */

/* true: these slots are worth building here */
bool fork_possible(const struct launcher *l);
/* there is room for one more, as far as anybody knows; false: not now. Until it is ready
 * it is watched. */
bool fork_may_build(struct slot *s);
/* the slot's interpreter is ready; false: there is no room for it, and it is gone */
bool fork_ready(struct slot *s);
void fork_fill(struct launcher *l); /* one is ready, or is not to be: the next */
/* no other is free, and the one before had runs: whoever comes now starts cold */
bool fork_is_missed(const struct slot *s);
/* after a run: true when it has served its time */
bool fork_is_old(struct slot *s);
/* true: a slot of this kind has it from here on */
bool fork_take(struct launcher *l, const struct message *m, int input_fd,
	       uint64_t arrived_ns);

#endif
