/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup_tree.c - list, kill and remove cgroup directories
 *
 * Runs in: supervisor and launcher. Only a removal with a deadline waits; that is for the
 * start and the end of the program.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/sys.h"
#include "launcher/cgroup_kernel.h"

#define KILL_BATCH 256
#define DEPTH_MAX 6 /* base, slot, run; code inside never sees a cgroup file system */
#define SWEEP_NS 2000000000ull

uint64_t cgroup_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int cgroup_open_dir(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opened afresh each time: v1 answers a second read of one descriptor from a cached list.
 */
size_t cgroup_list(int dir_fd, pid_t except, pid_t *out, size_t room)
{
	auto_fd int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	char text[4096];
	size_t count = 0;
	long pid = -1;
	ssize_t got;

	if (fd < 0)
		return 0;
	while ((got = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < got; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = (pid < 0 ? 0 : pid) * 10 + (text[i] - '0');
				continue;
			}
			if (pid >= 0 && pid != except) {
				if (count < room)
					out[count] = (pid_t)pid;
				count++;
			}
			pid = -1;
		}
	return count;
}

static bool listed(const pid_t *pids, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/*
 * A number read from a list may belong to somebody else by the time it is used. The
 * process is therefore pinned by a pidfd first, and killed only if its number is in the
 * list still.
 */
void cgroup_kill_dir(int dir_fd, pid_t except)
{
	pid_t first[KILL_BATCH], again[KILL_BATCH], self = getpid();
	int pid_fd[KILL_BATCH];
	size_t count = cgroup_list(dir_fd, except, first, KILL_BATCH), still;

	if (count > KILL_BATCH)
		count = KILL_BATCH;
	for (size_t i = 0; i < count; i++)
		pid_fd[i] = first[i] > 0 ? sys_pidfd_open(first[i], 0) : -1;
	still = cgroup_list(dir_fd, except, again, KILL_BATCH);
	if (still > KILL_BATCH)
		still = KILL_BATCH;
	for (size_t i = 0; i < count; i++) {
		if (pid_fd[i] < 0)
			continue;
		if (first[i] != self && listed(again, still, first[i]))
			(void)sys_pidfd_send_signal(pid_fd[i], SIGKILL); /* gone: good */
		close(pid_fd[i]);
	}
}

void cgroup_tree_each(int dir_fd, void (*each)(void *arg, int dir_fd, const char *name),
		      void *arg)
{
	int own_fd = cgroup_open_dir(dir_fd, ".");
	DIR *dir = own_fd < 0 ? NULL : fdopendir(own_fd);
	struct dirent *d;

	if (!dir) {
		if (own_fd >= 0)
			close(own_fd);
		return;
	}
	while ((d = readdir(dir)))
		if (d->d_type == DT_DIR && strcmp(d->d_name, ".") != 0 &&
		    strcmp(d->d_name, "..") != 0)
			each(arg, dir_fd, d->d_name);
	closedir(dir);
}

static void remove_once(void *depth, int parent_fd, const char *name)
{
	auto_fd int dir_fd = cgroup_open_dir(parent_fd, name);
	unsigned below = *(unsigned *)depth + 1;

	if (dir_fd < 0)
		return;
	if (below < DEPTH_MAX)
		cgroup_tree_each(dir_fd, remove_once, &below);
	if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0)
		return;
	if (fs_write_at(dir_fd, "cgroup.kill", "1") < 0)
		cgroup_kill_dir(dir_fd, 0);
	(void)unlinkat(parent_fd, name, AT_REMOVEDIR); /* the caller looks what is left */
}

int cgroup_tree_remove(int parent_fd, const char *name, uint64_t deadline_ns)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	unsigned depth = 0;

	for (;;) {
		remove_once(&depth, parent_fd, name);
		if (faccessat(parent_fd, name, F_OK, 0) < 0 && errno == ENOENT)
			return 0;
		if (cgroup_now_ns() >= deadline_ns)
			break;
		nanosleep(&pause, NULL);
	}
	/* errno: EBUSY, or that it cannot be written any more: no matter of time */
	return unlinkat(parent_fd, name, AT_REMOVEDIR);
}

struct sweep {
	const char *own; /* the name of our base */
	uint64_t deadline_ns;
	int removed;
};

/* sandbox-server.BOOTID.PID.START, and that process is not there any more */
static bool is_orphan(const char *name)
{
	static const char prefix[] = "sandbox-server.";
	char alive[64];
	const char *dot;

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return false;
	name += sizeof(prefix) - 1;
	dot = strchr(name, '.');
	if (!dot)
		return false;
	if (cgroup_owner_name((pid_t)strtol(dot + 1, NULL, 10), alive, sizeof(alive)) < 0)
		return errno == ENOENT ||
		       errno == ESRCH; /* a /proc that cannot be read proves nothing */
	return strcmp(alive, name) != 0;
}

/* the owner may live in another pid namespace: then only its lock tells */
static bool is_held(int dir_fd, const char *name)
{
	auto_fd int fd = cgroup_open_dir(dir_fd, name);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static void sweep_sibling(void *arg, int dir_fd, const char *name)
{
	struct sweep *s = arg;

	if (strcmp(name, s->own) != 0 && is_orphan(name) && !is_held(dir_fd, name) &&
	    cgroup_tree_remove(dir_fd, name, s->deadline_ns) == 0)
		s->removed++;
}

static void sweep_slot(void *arg, int dir_fd, const char *name)
{
	struct sweep *s = arg;

	if (strncmp(name, "slot-", 5) == 0 &&
	    cgroup_tree_remove(dir_fd, name, s->deadline_ns) == 0)
		s->removed++;
}

int cgroup_sweep(const struct cgroup_base *base)
{
	struct sweep s = {.deadline_ns = cgroup_now_ns() + SWEEP_NS};

	for (int c = 0; base->kind != CGROUP_NONE && c < CGROUP_CONTROLLERS; c++) {
		auto_fd int base_fd = -1;
		auto_fd int home_fd = -1;

		if (!base->dir[c][0])
			continue;
		s.own = strrchr(base->dir[c], '/') + 1;
		base_fd = cgroup_open_dir(AT_FDCWD, base->dir[c]);
		if (base_fd < 0)
			continue;
		cgroup_tree_each(base_fd, sweep_slot, &s);
		home_fd = openat(base_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (home_fd >= 0)
			cgroup_tree_each(home_fd, sweep_sibling, &s);
	}
	return s.removed;
}
