/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_shared.c - what a run without namespaces has instead of them
 *
 * Runs in: the run's init, before it forks, but for child_follow_init. Instead of a mount
 * namespace: a fresh directory whose name nobody can guess or list, with the places that
 * a program expects below it. Instead of a pid namespace: init takes in every orphan of
 * its tree and ends only when the last one is dead.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/sys.h"
#include "launcher/child.h"

#define PAUSE_NS 500000

static const struct child *child_of_init; /* for the signal handler */

/* "place/name" */
static int child_path(char out[SETUP_PATH], const char *place, const char *name)
{
	size_t len = strlen(place), more = strlen(name);

	if (len + 1 + more >= SETUP_PATH) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(out, place, len);
	out[len] = '/';
	memcpy(out + len + 1, name, more + 1);
	return 0;
}

int child_directory(struct child *c)
{
	static const char *const names[] = {"work", "tmp", "cache"};
	char path[SETUP_PATH];
	unsigned i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (child_path(path, c->place, names[i]) < 0 || mkdir(path, 0755) < 0)
			return -1;
	}
	if (child_path(path, c->place, "work") < 0)
		return -1;
	c->work_fd = open(c->kept ? c->kept : path,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return c->work_fd < 0 ? -1 : 0;
}

/* every file of `from` gets a link of its name in `to` */
static int child_link_all(const char *from, const char *to)
{
	char bytes[8192] __attribute__((aligned(8))), target[SETUP_PATH];
	int from_fd, to_fd, r = 0;
	long n = 0, at;

	if (mkdir(to, 0755) < 0)
		return -1;
	from_fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from_fd < 0)
		return errno == ENOENT ? 0 : -1;
	to_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to_fd < 0)
		r = -1;
	while (r == 0 &&
	       (n = syscall(SYS_getdents64, from_fd, bytes, sizeof(bytes))) > 0) {
		for (at = 0; r == 0 && at < n;) {
			const struct dirent64 *d = (void *)(bytes + at);

			at += d->d_reclen;
			if (d->d_name[0] == '.')
				continue;
			r = child_path(target, from, d->d_name);
			if (r == 0)
				r = symlinkat(target, to_fd, d->d_name);
		}
	}
	close(from_fd);
	if (to_fd >= 0)
		close(to_fd);
	return n < 0 ? -1 : r;
}

/*
 * The compile cache without overlayfs: directories of the run's own, in which every file
 * of the seed is a link to it. About 2500 links, 30 ms; a build of what a program
 * imports takes that many seconds.
 */
int child_go_links(struct child *c)
{
	static const char hex[] = "0123456789abcdef";
	char from[SETUP_PATH], to[SETUP_PATH], name[16] = "cache/00";
	int i;

	if (!c->row->go_cache || c->plan.errand != ERRAND_NONE || !c->abilities.go_seed)
		return 0; /* a canary builds nothing, and the seed itself needs none */
	for (i = 0; i < 256; i++) {
		name[6] = hex[i >> 4];
		name[7] = hex[i & 15];
		if (child_path(to, c->place, name) < 0 ||
		    child_path(from, c->setup->go_seed_dir, name + 6) < 0 ||
		    child_link_all(from, to) < 0)
			return -1;
	}
	return 0;
}

static void child_kill_one(int proc_fd, pid_t pid, void *arg)
{
	child_kill_below(proc_fd, pid, *(const pid_t *)arg);
}

/*
 * Until nobody is left: whoever is killed leaves its children to us, so that no child
 * means no descendant. A process with SIGKILL pending cannot fork any more, and a look
 * through /proc sees those that are born meanwhile, since their numbers are higher.
 */
void child_end_tree(int proc_fd)
{
	const struct timespec pause = {0, PAUSE_NS};
	const pid_t self = getpid();
	pid_t pid;

	for (;;) {
		while ((pid = wait4(-1, NULL, WNOHANG | __WALL, NULL)) > 0)
			;
		if (pid < 0 && errno == ECHILD)
			return;
		(void)child_each_process(proc_fd, child_kill_one, (void *)&self);
		(void)nanosleep(&pause, NULL);
	}
}

/* the launcher wants the run to end, or is dead */
static void child_on_end(int signo)
{
	(void)signo;
	child_end_tree(child_of_init->proc_fd);
	_exit(0);
}

/* the signal waits until the program is there and our descriptors are in order */
int child_subreaper(struct child *c)
{
	struct sigaction end = {.sa_handler = child_on_end};
	sigset_t blocked;

	child_of_init = c;
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return -1;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &blocked, NULL) < 0)
		return -1;
	return sigaction(SIGTERM, &end, NULL);
}

/* of a command: its init, which is not process 1 of its pid namespace */
int child_take_in(struct child *c)
{
	return child_takes_in(c) ? prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) : 0;
}

/* should init be killed all the same, the program goes with it */
int child_follow_init(struct child *c)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -1;
	if (getppid() != c->init) {
		errno = EPIPE;
		return -1;
	}
	return 0;
}
