/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * worker.h - what launcher and worker say to each other
 */
#ifndef LAUNCHER_WORKER_H
#define LAUNCHER_WORKER_H

#include <stdint.h>
#include <sys/types.h>

#include "launcher/sample.h"
#include "wire/plan.h"

struct slot;

/* launcher to worker; fds: the child's end of its news socket, input (or /dev/null),
 * cgroup if any, where its listening socket goes if it has a broker */
struct worker_order {
	struct plan plan;
	uint32_t into_cgroup; /* 1: a third descriptor says where the run is to be born */
	uint32_t with_layer;  /* 1: the last one is its layer, to be mounted */
	uint32_t waits; /* 1: it is to wait for its plan and input, as its row can */
	uint32_t last;  /* of ERRAND_COUNT, 1: the run is over */
	uint64_t most;  /* of that: so many entries are enough to know */
};

/* worker to launcher; first one for the slot itself (fd: what tells of its sockets, if
 * anybody wants to know), then one for each order */
struct worker_answer {
	int32_t num; /* errno, 0: it worked */
	char step[32];
	pid_t pid; /* of the run; fds: pidfd, stdin (write), stdout (read), stderr (read)
		    */
	uint32_t counted;    /* 1: it is about ERRAND_COUNT, */
	uint32_t last;       /* as its order said, */
	uint32_t removed;    /* and what is kept was far too much */
	struct disk_use use; /* of that; of a run with plan.kept what was kept before */
};

/* the descriptors of an order */
enum { ORDER_NEWS, ORDER_INPUT, ORDER_CGROUP, ORDER_FDS };

/* --- clone.c */

/* in, out, err: the child's ends and ours */
struct pipes {
	int child[3];
	int ours[3];
};
int pipes_make(struct pipes *s); /* -1: some may be open all the same */
void pipes_close(struct pipes *s);

#define RUN_NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)
/* a process that has our memory runs this, which never returns, on a stack of its own */
struct clone_within {
	void (*run)(void *arg);
	void *arg;
	void *stack;
	size_t stack_bytes;
};
/* cgroup_fd: where it is to be born, or -1; within: NULL for one with a copy of our
 * memory, which gets 0 */
pid_t clone_into(unsigned long namespaces, int cgroup_fd,
		 const struct clone_within *within, int *out_pid_fd);

/* in a new process, forked by the launcher with all its rights; never returns */
_Noreturn void worker_main(const struct slot *s, int socket_fd);

#endif
