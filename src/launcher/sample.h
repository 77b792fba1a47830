/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sample.h - what a run uses at this moment, where no cgroup counts it
 */
#ifndef LAUNCHER_SAMPLE_H
#define LAUNCHER_SAMPLE_H

#include <stdint.h>

struct sample {
	uint64_t memory_kb; /* private pages of all its processes, and what its tmpfs
			       holds */
	uint64_t cpu_us;    /* of all its processes and those they waited for */
};

/* proc_fd: the run's own /proc; work_fd: on its tmpfs */
void sample_take(int proc_fd, int work_fd, struct sample *out);

#endif
