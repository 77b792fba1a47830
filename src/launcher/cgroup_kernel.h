/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup_kernel.h - what differs between cgroup v1 and v2; for cgroup*.c only
 */
#ifndef LAUNCHER_CGROUP_KERNEL_H
#define LAUNCHER_CGROUP_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/cgroup.h"

#define CGROUP_PERIOD_US 100000

/* places of dir_fd on v2 */
enum { CGROUP_SLOT, CGROUP_WORKER, CGROUP_RUN };

struct cgroup_file_row {
	int place; /* of dir_fd */
	const char *name;
	int flags;
};

struct cgroup_kernel {
	const struct cgroup_file_row
		*files; /* CGROUP_FILES of them; no name: not there */
	int (*make)(struct cgroup_slot *slot, struct err *e);
	int (*join)(const struct cgroup_slot *slot);
	int (*limit)(struct cgroup_slot *slot, const struct cgroup_limits *want,
		     struct err *e);
	int (*renew)(struct cgroup_slot *slot);  /* a fresh place for the next run */
	void (*reset)(struct cgroup_slot *slot); /* counters that can be */
	void (*usage)(const struct cgroup_slot *slot, struct cgroup_usage *out);
	const char *oom_key, *cpu_key; /* NULL: the file is a bare number */
	unsigned cpu_per_us;
	const char *no_quota;
	const char *weight_usual, *weight_idle;
};

extern const struct cgroup_kernel cgroup_v1, cgroup_v2;

/* cgroup.c */
void cgroup_open_files(struct cgroup_slot *slot, const struct cgroup_kernel *k);
int cgroup_put(const struct cgroup_slot *slot, enum cgroup_file file, const char *fmt,
	       ...) __attribute__((format(printf, 3, 4)));
uint64_t cgroup_number(const struct cgroup_slot *slot, enum cgroup_file file,
		       const char *key);

/* cgroup_tree.c */
uint64_t cgroup_now_ns(void);
int cgroup_open_dir(int dir_fd, const char *name);
/* how many pids are in this one directory, `except` left out; the first `room` into out
 */
size_t cgroup_list(int dir_fd, pid_t except, pid_t *out, size_t room);
/* SIGKILL to everything in this one directory but `except` and the caller */
void cgroup_kill_dir(int dir_fd, pid_t except);
/* kill and remove with all below; tries until deadline_ns, once when that is past */
int cgroup_tree_remove(int parent_fd, const char *name, uint64_t deadline_ns);
/* the directories below dir_fd: each(arg, dir_fd, name) */
void cgroup_tree_each(int dir_fd, void (*each)(void *arg, int dir_fd, const char *name),
		      void *arg);

/* cgroup_find.c */
/* our own cgroup as directories; kind and dir, or NONE with reason and fix. self_dir is
 * /proc/self, or a test's idea of it */
void cgroup_find(const char *self_dir, struct cgroup_base *out);
void cgroup_refuse(struct cgroup_base *out, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* this place has a directory of its own: no earlier one shares its mount */
bool cgroup_first_of_mount(const struct cgroup_base *base, int c);
/* boot id, pid and start time of a process, as part of a name; -1: no such process */
int cgroup_owner_name(pid_t pid, char *out, size_t room);

#endif
