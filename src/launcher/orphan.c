/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * orphan.c - processes that nobody looks after: the run of a worker that died before it
 *            could say what it had cloned, and what a killed init left
 *
 * Runs in: the launcher, whose child the run is all the same: CLONE_PARENT made it so.
 * Nobody has its pidfd, so it is looked for: whatever is our child and has no name here.
 * The same, with what is below it, is what comes to us where runs have no pid namespace
 * and somebody killed the init that would have ended them; there we are a subreaper.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/sys.h"
#include "launcher/launcher.h"

#define PAUSE_NS 1000000
#define LOOKS_MOST 2000 /* on the way out, which nothing may bar for ever */

static bool slot_knows(const struct slot *s, pid_t pid)
{
	const struct run *r = &s->run;

	return (s->worker_pid_fd >= 0 && s->worker == pid) ||
	       (r->pid_fd >= 0 && r->pid == pid) ||
	       (r->collector_fd >= 0 && r->collector == pid);
}

static bool known(const struct launcher *l, pid_t pid)
{
	unsigned i;

	for (i = 0; i < l->slot_count; i++) {
		if (slot_knows(&l->slots[i], pid))
			return true;
	}
	if (l->layers.tidier_fd >= 0 && l->layers.tidier == pid)
		return true;
	if (sessions_know(l, pid))
		return true;
	return l->seeder && slot_knows(l->seeder, pid);
}

/* 0: all of them are */
static pid_t unknown_child(const struct launcher *l)
{
	/* three for each slot, of ten digits at most, the tidier, and sessions */
	static char text[((SETUP_SLOTS + 1) * 3 + 1 + SESSIONS_CHILDREN) * 11 + 1];
	char *at = text, *end;

	if (fs_read_at(l->proc_fd, "thread-self/children", text, sizeof(text)) < 0)
		return -1;
	for (;; at = end) {
		const long pid = strtol(at, &end, 10);

		if (end == at)
			return 0;
		if (!known(l, (pid_t)pid))
			return (pid_t)pid;
	}
}

int orphan_find(struct run *r)
{
	const pid_t pid = unknown_child(r->slot->launcher);

	if (pid <= 0)
		return pid;
	/* a child of ours that nobody has reaped: its number is its own */
	r->pid_fd = sys_pidfd_open(pid, 0);
	r->pid = pid;
	return r->pid_fd < 0 ? -1 : 1;
}

struct hunt {
	const struct launcher *launcher;
	unsigned found;
};

static void hunt_one(int proc_fd, pid_t pid, void *arg)
{
	struct hunt *h = arg;
	const pid_t self = getpid(), top = child_below(proc_fd, pid, self);

	if (top == 0 || known(h->launcher, top))
		return;
	child_kill_below(proc_fd, pid, self);
	if (pid != top || waitpid(pid, NULL, WNOHANG | __WALL) != pid)
		h->found++;
}

unsigned orphan_kill_all(struct launcher *l)
{
	struct hunt h = {l, 0};

	/* a /proc that cannot be read says nothing: look again */
	return child_each_process(l->proc_fd, hunt_one, &h) < 0 ? 1 : h.found;
}

void orphan_end_all(struct launcher *l)
{
	const struct timespec pause = {0, PAUSE_NS};
	int looks = LOOKS_MOST;

	while (orphan_kill_all(l) > 0 && looks-- > 0)
		(void)nanosleep(&pause, NULL);
}
