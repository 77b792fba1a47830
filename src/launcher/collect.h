/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * collect.h - what a program left in its output directory, as wire/files.h records
 *
 * The reading is done by a short-lived process with the run's own uid and no capability:
 * what it finds was made by hostile code. It may start only when the run's last process
 * is dead, since nobody may change the tree under it.
 * The launcher's loop watches out_pid_fd, with a timer at wall_ms + COLLECT_GRACE_MS.
 */
#ifndef LAUNCHER_COLLECT_H
#define LAUNCHER_COLLECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define COLLECT_GRACE_MS 500

struct collect_job {
	int work_fd;            /* directory or O_PATH, on the run's /work */
	const char *output_dir; /* below it; plain components */
	uid_t uid;
	gid_t gid;
	uint32_t max_files;
	uint32_t max_depth; /* of directories, the output directory being 0; 0 means 16 */
	uint32_t max_entries; /* looked at in all; 0 means 10000 */
	uint32_t wall_ms;     /* 0 means 1000 */
	uint64_t max_bytes;   /* of all files together; each file alone too */
};

/*
 * True: the directory is there, on the file system of work_fd, and empty, so that no
 * collector is needed. False: it is not, or who knows. The run's last process is dead,
 * and the file system is in memory: this is asked on the launcher's loop.
 */
bool collect_nothing(int work_fd, const char *output_dir);
/* the descriptors are the caller's; the pid must be given to collect_finish */
int collect_start(const struct collect_job *job, pid_t *out_pid, int *out_pid_fd,
		  int *out_mem_fd, struct err *e);
/* at the deadline, or when nobody wants the files any more; collect_finish comes next */
void collect_kill(int pid_fd);
/*
 * When pid_fd is readable: reap, seal. 0: mem_fd may be handed on. -1 with *e: the
 * collector failed or was killed, and mem_fd is worthless. Neither descriptor is closed.
 */
int collect_finish(pid_t pid, int mem_fd, struct err *e);

/* The collector's own half, in its process: 0, or -1 when the records are not whole. */
int collect_walk(const struct collect_job *job, int mem_fd);

#endif
