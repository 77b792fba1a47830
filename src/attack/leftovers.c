/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * leftovers.c - what there is when nothing runs: G3 compares it before and after
 *
 * Runs in: `selftest`. Every count is exact, or -1: then it cannot be looked at here, and
 * the summary says so.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/defer.h"
#include "base/sys.h"

#define DEPTH_MOST 6
#define NEW_SECONDS 1
#define PLACE "sandbox-runs." /* as launcher/place.c names them */

static int count_fds(pid_t pid)
{
	char path[40];
	DIR *dir;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* field number 5 of a line of mountinfo, ended in place */
static const char *mount_point(char *line)
{
	char *at = line;
	int i;

	for (i = 0; i < 4 && at; i++) {
		at = strchr(at, ' ');
		at += at != NULL;
	}
	if (at)
		at[strcspn(at, " ")] = '\0';
	return at ? at : "";
}

/*
 * Mounts where slots and runs have theirs: each slot has one on "/", each run one on
 * "/work". Others come and go on a host that does other things.
 */
static int count_mounts(pid_t pid)
{
	static const char *const places[] = {"/",         "/work",    "/tmp",  "/dev/shm",
					     "/go-cache", "/go-seed", "/proc", "/dev"};
	char path[40], line[4096];
	unsigned i;
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		const char *where = mount_point(line);

		for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
			n += strcmp(where, places[i]) == 0;
	}
	fclose(f);
	return n;
}

/* directories below this one; -1: one of them cannot be read */
static int count_directories(int dir_fd, const char *name, unsigned depth)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *d;
	int n = 0, below;
	DIR *dir;

	if (depth > DEPTH_MOST)
		return 0;
	dir = fd < 0 ? NULL : fdopendir(dup(fd));
	if (!dir)
		return errno == ENOENT ? 0 : -1; /* it went while we looked */
	while (n >= 0 && (d = readdir(dir))) {
		if (d->d_type != DT_DIR || d->d_name[0] == '.')
			continue;
		below = count_directories(fd, d->d_name, depth + 1);
		n = below < 0 ? -1 : n + 1 + below;
	}
	closedir(dir);
	return n;
}

static int count_cgroups(const struct battery *b)
{
	int n = 0, below;
	unsigned i;

	for (i = 0; i < INVARIANT_CGROUPS && b->cgroups[i]; i++) {
		below = count_directories(AT_FDCWD, b->cgroups[i], 0);
		if (below < 0)
			return -1;
		n += below;
	}
	return n;
}

/* who holds the lock of this directory; 0: nobody, -1: that cannot be read */
static pid_t owner_of(const struct stat *st)
{
	char line[256], where[64];
	pid_t owner = 0;
	FILE *f = fopen("/proc/locks", "re");

	if (!f)
		return -1;
	snprintf(where, sizeof(where), " %02x:%02x:%llu ", major(st->st_dev),
		 minor(st->st_dev), (unsigned long long)st->st_ino);
	while (fgets(line, sizeof(line), f)) {
		const char *at = strstr(line, where), *word = at;

		if (!at || !strstr(line, "FLOCK"))
			continue;
		while (word > line && word[-1] != ' ')
			word--;
		owner = (pid_t)strtol(word, NULL, 10);
	}
	fclose(f);
	return owner;
}

/* Its owner may live in another pid namespace: then only the lock tells. One that is new
 * may be about to be locked, and we must not be in the way. */
static bool is_held(int parent_fd, const char *name, const struct stat *st)
{
	auto_fd int fd = -1;

	if (time(NULL) <= st->st_ctime + NEW_SECONDS)
		return true;
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/* what launchers without mount namespaces have on disk */
struct places {
	int runs; /* directories of runs in that of our launcher; -1: not to be seen */
	int dead; /* directories of ours that nobody holds any longer */
};

static void look_at_place(const struct battery *b, int dir_fd, const char *name,
			  struct places *out)
{
	struct stat st;
	pid_t owner;
	int below;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	owner = owner_of(&st);
	if (owner == 0 && st.st_uid == geteuid() && !is_held(dir_fd, name, &st))
		out->dead++;
	if (owner != b->launcher)
		return;
	below = count_directories(dir_fd, name, DEPTH_MOST - 1);
	out->runs = below;
}

static struct places look_at_places(const struct battery *b)
{
	struct places found = {-1, 0};
	struct dirent *d;
	unsigned i;
	DIR *dir;

	for (i = 0; i < SETUP_RUN_DIRS && b->run_dirs[i][0]; i++) {
		dir = opendir(b->run_dirs[i]);
		while (dir && (d = readdir(dir))) {
			if (strncmp(d->d_name, PLACE, strlen(PLACE)) == 0)
				look_at_place(b, dirfd(dir), d->d_name, &found);
		}
		if (dir)
			closedir(dir);
	}
	return found;
}

void holdings_look(const struct battery *b, struct holdings *out)
{
	const struct places places = look_at_places(b);

	/* in a container we may be process 1 */
	sys_reap_adopted(&b->launcher, 1);
	*out = (struct holdings){
		.count = {[HOLD_PROCESSES] = (int)count_descendants(),
			  [HOLD_MOUNTS] = count_mounts(getpid()),
			  [HOLD_LAUNCHER_MOUNTS] = count_mounts(b->launcher),
			  [HOLD_CGROUPS] = count_cgroups(b),
			  [HOLD_RUN_DIRS] = places.runs,
			  [HOLD_DEAD_DIRS] = places.dead,
			  [HOLD_FDS] = count_fds(getpid()),
			  [HOLD_LAUNCHER_FDS] = count_fds(b->launcher)},
		.own_kb = resident_kb(getpid()),
		.launcher_kb = resident_kb(b->launcher),
	};
	/* with namespaces there is no such directory */
	if (b->report->level >= LEVEL_NAMESPACES)
		out->count[HOLD_RUN_DIRS] = 0;
}

static const struct {
	const char *name;
	const char *why_not;
} kinds[HOLD_KINDS] = {
	[HOLD_PROCESSES] = {"processes", ""},
	[HOLD_MOUNTS] = {"mounts", "/proc cannot be read"},
	[HOLD_LAUNCHER_MOUNTS] = {"mounts of the launcher", "only root may look"},
	[HOLD_CGROUPS] = {"cgroups", "they cannot be read by this user"},
	[HOLD_RUN_DIRS] = {"directories of runs", "they cannot be read by this user"},
	[HOLD_DEAD_DIRS] = {"directories of launchers that are gone", ""},
	[HOLD_FDS] = {"descriptors", "/proc cannot be read"},
	[HOLD_LAUNCHER_FDS] = {"descriptors of the launcher", "only root may look"},
};

const char *holdings_name(enum holding kind)
{
	return kinds[kind].name;
}

const char *holdings_why_not(enum holding kind)
{
	return kinds[kind].why_not;
}

bool holdings_same(const struct holdings *a, const struct holdings *b)
{
	return memcmp(a->count, b->count, sizeof(a->count)) == 0;
}
