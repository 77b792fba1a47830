/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sample.h - what a run uses at this moment, where no cgroup counts it
 */
#ifndef LAUNCHER_SAMPLE_H
#define LAUNCHER_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sample {
	uint64_t memory_kb; /* private pages of all its processes, and of what is shared
			       the largest: a process's mappings, or its tmpfs */
	uint64_t most_kb;   /* the same if processes had no shared page in common */
	uint64_t cpu_us;    /* of all its processes and those they waited for */
	uint32_t pids;      /* processes and threads; by sample_tree only */
};

/* How to look at shared mappings: by their sizes; or at every page, which takes long and
 * tells what they are together. There is who cannot be looked at like that: with our own
 * uid he hides, and has no page in common; of others only what is seen counts. */
enum sample_how { SAMPLE_SIZES, SAMPLE_PAGES, SAMPLE_PAGES_SEEN };

/* proc_fd: the run's own /proc; work_fd: on its tmpfs */
void sample_take(int proc_fd, int work_fd, enum sample_how how, struct sample *out);
/* proc_fd: the host's /proc; everything below init, whose own CPU time counts too;
 * work_fd -1: there is no tmpfs */
void sample_tree(int proc_fd, pid_t init, int work_fd, enum sample_how how,
		 struct sample *out);

struct disk_use {
	uint64_t bytes;
	uint64_t entries;
	bool too_deep; /* the rest was not looked at */
	bool unseen;   /* there is more than could be looked at */
};

void sample_add(struct disk_use *all, const struct disk_use *more);

/* what a tree holds; stops when more than `most` entries were seen. What has no name any
 * more is not among it */
void sample_disk(int dir_fd, uint64_t most, struct disk_use *out);

/* the same; a directory of our own that is closed to us is opened */
void sample_disk_open(int dir_fd, uint64_t most, struct disk_use *out);

/* files of one file system that have several names; begins with nothing in it */
struct sample_seen {
	uint64_t *ino; /* 0: no file */
	size_t count, room;
};
void sample_seen_done(struct sample_seen *s);
/* the same, added to what was seen before; what is among `seen` counts no more. NULL:
 * whatever has several names counts for each */
void sample_disk_more(int dir_fd, uint64_t most, struct sample_seen *seen,
		      struct disk_use *use);
/* the same of one that nobody writes to any more, however deep it is */
void sample_disk_whole(int dir_fd, uint64_t most, struct sample_seen *seen,
		       struct disk_use *use);

/* who writes to the host's disk, for who looks into his processes */
struct sample_run {
	const pid_t *tops; /* everything of it is below one of these, which are ours */
	size_t top_count;
	uint64_t pid_ns; /* and in this namespace, an inode number; 0: it has none */
	uid_t uid, uids; /* its first, and how many it has */
	uid_t owner;     /* who may look into its processes */
	gid_t gid;
	const char *place; /* where its directories are, as the kernel names it; NULL:
			      wherever no memory is */
	bool host_usr;     /* what it has below /usr is not its own */
	unsigned most, ms; /* descriptors and mappings to look at, and how long */
};

/* nameless.c: adds what its processes hold of files that have no name any more; proc_fd:
 * the host's /proc */
void sample_nameless(int proc_fd, const struct sample_run *r, struct disk_use *use);

#endif
