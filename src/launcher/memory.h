/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * memory.h - how much a run uses where no cgroup counts it
 */
#ifndef LAUNCHER_MEMORY_H
#define LAUNCHER_MEMORY_H

#include <stdint.h>

/* private pages of every process in the run's own /proc, and what its tmpfs holds */
uint64_t memory_in_use_kb(int proc_fd, int work_fd);

#endif
