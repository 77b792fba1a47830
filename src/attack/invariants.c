/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * invariants.c - what must hold after every case
 *
 *	G1  the launcher lives             (the ordinary program beside every case)
 *	G2  others get theirs on time      (the same; 95 of 100 within 3 times the usual)
 *	G3  nothing is left: processes, mounts, cgroups, descriptors
 *	G4  neither we nor the launcher have grown
 *	G5  no secret came back: one is in a file outside, the same in our environment
 *	G6  the kernel's log tells of no fault
 *
 * What cannot be looked at here is said once, at the end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/num.h"

#define GROWTH_MOST_KB (16u << 10)
#define REST_MS 3000 /* slots that are built again need a moment */
#define BASELINE_RUNS 5
#define LOG_BYTES (1u << 20)
#define GRACE_MS 50 /* for the clock and whoever else wants the processor */

static unsigned count_entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	if (!dir)
		return 0;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static unsigned count_fds(pid_t pid)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	return count_entries(path);
}

static pid_t parent_of(const char *pid)
{
	char path[300], text[512], *at;
	uint64_t parent;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	if (fs_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return 0;
	at = strrchr(text, ')'); /* ") S 123 ..." */
	if (!at || strlen(at) < 5)
		return 0;
	at += 4;
	at[strcspn(at, " ")] = '\0';
	return num_u64(at, &parent) == 0 ? (pid_t)parent : 0;
}

struct process {
	pid_t pid, parent;
	bool ours;
};

/* every process that can be seen; the caller's to free */
static struct process *list_processes(size_t *out_count)
{
	struct process *all = NULL, *grown;
	DIR *dir = opendir("/proc");
	struct dirent *d;
	uint64_t pid;
	size_t n = 0;

	while (dir && (d = readdir(dir))) {
		if (num_u64(d->d_name, &pid) < 0)
			continue;
		grown = reallocarray(all, n + 1, sizeof(*all));
		if (!grown)
			abort();
		all = grown;
		all[n++] = (struct process){(pid_t)pid, parent_of(d->d_name), false};
	}
	if (dir)
		closedir(dir);
	*out_count = n;
	return all;
}

static bool is_below_us(const struct process *p, const struct process *all, size_t count)
{
	if (p->parent == getpid())
		return true;
	for (size_t i = 0; i < count; i++)
		if (all[i].ours && all[i].pid == p->parent)
			return true;
	return false;
}

/* processes below us: the launcher, its workers, and whatever they started */
unsigned find_descendants(pid_t *out, unsigned room)
{
	unsigned found = 0, before;
	size_t n, i;
	struct process *all = list_processes(&n);

	do {
		before = found;
		for (i = 0; i < n; i++) {
			if (all[i].ours || !is_below_us(&all[i], all, n))
				continue;
			all[i].ours = true;
			if (found < room)
				out[found] = all[i].pid;
			found++;
		}
	} while (found != before);
	free(all);
	return found;
}

unsigned count_descendants(void)
{
	return find_descendants(NULL, 0);
}

/* mounts that could be ours: others come and go on a host that does other things */
static unsigned count_mounts(pid_t pid)
{
	char path[40], line[4096];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "sandbox") || strstr(line, " scratch ") ||
		     strstr(line, "/go-cache");
	if (f)
		fclose(f);
	return n;
}

static unsigned count_directories(int dir_fd, const char *name, unsigned depth)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *d;
	unsigned n = 0;
	DIR *dir;

	if (fd < 0 || depth > 6)
		return 0;
	dir = fdopendir(dup(fd));
	while (dir && (d = readdir(dir))) {
		if (d->d_type == DT_DIR && d->d_name[0] != '.')
			n += 1 + count_directories(fd, d->d_name, depth + 1);
	}
	if (dir)
		closedir(dir);
	return n;
}

uint64_t resident_kb(pid_t pid)
{
	char path[40], line[256];
	unsigned long kb = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "VmRSS:", 6) == 0)
			kb = strtoul(line + 6, NULL, 10);
	}
	if (f)
		fclose(f);
	return kb;
}

/* lines of the kernel's log that tell of a fault; -1: it cannot be read */
static int count_alarms(void)
{
	static const char *const words[] = {"BUG:",
					    "WARNING:",
					    "Oops",
					    "general protection fault",
					    "Unable to handle",
					    "KASAN",
					    "UBSAN"};
	auto_free char *text = mem_zero(LOG_BYTES + 1);
	int len = klogctl(3, text, (int)LOG_BYTES); /* SYSLOG_ACTION_READ_ALL */
	unsigned i;
	int n = 0;

	if (len < 0)
		return -1;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *at = text;

		while ((at = strstr(at, words[i]))) {
			n++;
			at++;
		}
	}
	return n;
}

static void look(const struct battery *b, struct holdings *h)
{
	unsigned i;

	memset(h, 0, sizeof(*h));
	h->processes = count_descendants();
	h->mounts = count_mounts(getpid()) + count_mounts(b->launcher);
	for (i = 0; i < INVARIANT_CGROUPS && b->cgroups[i]; i++)
		h->cgroups += count_directories(AT_FDCWD, b->cgroups[i], 0);
	h->own_fds = count_fds(getpid());
	h->launcher_fds = count_fds(b->launcher);
	h->own_kb = resident_kb(getpid());
	h->launcher_kb = resident_kb(b->launcher);
}

static bool at_rest(const struct holdings *a, const struct holdings *b)
{
	return a->processes == b->processes && a->mounts == b->mounts &&
	       a->cgroups == b->cgroups && a->own_fds == b->own_fds &&
	       a->launcher_fds == b->launcher_fds;
}

static void not_checked(struct battery *b, const char *what)
{
	size_t len = strlen(b->not_checked);

	snprintf(b->not_checked + len, sizeof(b->not_checked) - len, "%s%s",
		 len ? "; " : "", what);
}

/* a file that everybody may read, where no sandbox may look */
static void hide_canary(struct battery *b)
{
	const char *const places[] = {getenv("HOME"), getenv("TMPDIR"), "/var/tmp",
				      "/tmp"};
	unsigned char random[16];
	unsigned i;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		abort(); /* a kernel without randomness is no place for this */
	for (i = 0; i < sizeof(random); i++)
		snprintf(b->canary + 2 * i, 3, "%02x", random[i]);
	setenv("CANARY", b->canary, 1);
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		auto_fd int fd = -1;

		if (!places[i] || places[i][0] != '/')
			continue;
		snprintf(b->canary_file, sizeof(b->canary_file),
			 "%s/sandbox-canary-%d.%.8s", places[i], (int)getpid(),
			 b->canary + 16);
		fd = open(b->canary_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd >= 0 && fchmod(fd, 0644) == 0 &&
		    fs_write_all(fd, b->canary, strlen(b->canary)) == 0)
			return;
	}
	b->canary_file[0] = '\0';
	not_checked(b, "no secret in a file: no directory here can be written");
}

/* what an ordinary program takes when nothing is attacked: at the begin, and at the end,
 * since a host may have become busier */
int invariants_baseline(struct battery *b, struct err *e)
{
	struct attack_run r = {.attack = "control"};
	unsigned i;

	for (i = 0; i < BASELINE_RUNS && !b->stopped; i++) {
		run_whole(b, &r);
		if (r.failed || r.exit_code != 0)
			return err_ours(e, "an ordinary program does not run: %s",
					r.failed            ? r.error.text
					: r.err && r.err[0] ? r.err
							    : r.message);
		if (r.over_ms - r.started_ms > b->baseline_ms && i > 0)
			b->baseline_ms = r.over_ms - r.started_ms;
		run_done(&r);
	}
	return 0;
}

int invariants_begin(struct battery *b, struct err *e)
{
	struct holdings last;
	unsigned i, same = 0;

	hide_canary(b);
	if (invariants_baseline(b, e) < 0)
		return -1;
	look(b, &b->before);
	for (i = 0; i < 100 && same < 5; i++) { /* every slot is built by then */
		battery_pause(b, 10);
		last = b->before;
		look(b, &b->before);
		same = at_rest(&last, &b->before) ? same + 1 : 0;
	}
	if (!b->before.launcher_fds)
		not_checked(b, "the launcher's descriptors: only root may look");
	b->alarms_before = count_alarms();
	if (b->alarms_before < 0)
		not_checked(b, "the kernel's log: it cannot be read by this user");
	return 0;
}

void invariants_secret(struct battery *b, const struct attack_run *r, struct tries *t)
{
	(void)b;
	invariant(t, !r->leaked, "G5: a secret of the host came back");
}

void invariants_after(struct battery *b, struct tries *t)
{
	const struct holdings *was = &b->before;
	const uint64_t end = now_ms() + REST_MS;
	struct holdings is;
	int alarms;

	look(b, &is);
	while (!at_rest(was, &is) && now_ms() < end && !b->stopped) {
		battery_pause(b, 10);
		look(b, &is);
	}
	invariant(t, is.processes == was->processes, "G3: %u processes, not %u",
		  is.processes, was->processes);
	invariant(t, is.mounts == was->mounts, "G3: %u mounts, not %u", is.mounts,
		  was->mounts);
	invariant(t, is.cgroups == was->cgroups, "G3: %u cgroups, not %u", is.cgroups,
		  was->cgroups);
	invariant(t, is.own_fds == was->own_fds && is.launcher_fds == was->launcher_fds,
		  "G3: %u and %u descriptors, not %u and %u", is.own_fds, is.launcher_fds,
		  was->own_fds, was->launcher_fds);
	invariant(t, is.own_kb < was->own_kb + GROWTH_MOST_KB, "G4: we grew by %llu kB",
		  (unsigned long long)(is.own_kb - was->own_kb));
	invariant(t, is.launcher_kb < was->launcher_kb + GROWTH_MOST_KB,
		  "G4: the launcher grew by %llu kB",
		  (unsigned long long)(is.launcher_kb - was->launcher_kb));
	alarms = b->alarms_before < 0 ? -1 : count_alarms();
	invariant(t, alarms <= b->alarms_before, "G6: the kernel's log tells of a fault");
	b->alarms_before = alarms;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

bool invariants_on_time(const struct battery *b, uint64_t *out_p95, uint64_t *out_most)
{
	auto_free uint64_t *all = mem_array(b->controls + 1, sizeof(*all));

	memcpy(all, b->control_ms, b->controls * sizeof(*all));
	qsort(all, b->controls, sizeof(*all), by_size);
	*out_p95 = b->controls ? all[(b->controls - 1) * 95 / 100] : 0;
	*out_most = 3 * b->baseline_ms + GRACE_MS;
	return *out_p95 <= *out_most;
}

void invariants_end(struct battery *b)
{
	if (b->canary_file[0])
		(void)unlink(b->canary_file); /* it may have been removed by somebody */
	unsetenv("CANARY");
}
