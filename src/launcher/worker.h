/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * worker.h - what launcher and worker say to each other
 */
#ifndef LAUNCHER_WORKER_H
#define LAUNCHER_WORKER_H

#include <stdint.h>
#include <sys/types.h>

#include "wire/plan.h"

struct slot;

/* launcher to worker; fds: the child's end of its news socket, input (or /dev/null),
 * cgroup if any */
struct worker_order {
	struct plan plan;
	uint32_t into_cgroup; /* 1: a third descriptor says where the run is to be born */
	uint32_t waits; /* 1: it is to wait for its plan and input, as its row can */
};

/* worker to launcher; first one for the slot itself (fd: what tells of its sockets, if
 * anybody wants to know), then one for each order */
struct worker_answer {
	int32_t num; /* errno, 0: it worked */
	char step[32];
	pid_t pid; /* of the run; fds: pidfd, stdin (write), stdout (read), stderr (read)
		    */
};

/* in a new process, forked by the launcher with all its rights; never returns */
_Noreturn void worker_main(const struct slot *s, int socket_fd);

/*
 * template.c: 0, or -1 with errno and the step's name. seed_dir: a compile cache to be
 * filled, bound writable; NULL for every slot but one.
 */
struct abilities;
struct setup;
int template_build(const struct setup *setup, const struct abilities *a,
		   const char *seed_dir, const char **out_step);

#endif
