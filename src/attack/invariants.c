/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * invariants.c - what must hold after every case
 *
 *	G1  the launcher lives             (the ordinary program beside every case)
 *	G2  others get theirs on time      (the same; 95 of 100 within 3 times the usual)
 *	G3  nothing is left: processes, mounts, cgroups, directories, descriptors
 *	G4  neither we nor the launcher have grown
 *	G5  no secret came back: one is in a file outside, the same in our environment
 *	G6  the kernel's log tells of no fault
 *
 * What cannot be looked at here is said once, at the end.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#define GRACE_MS 50 /* for the clock and whoever else wants the processor */

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

static void not_checked(struct battery *b, const char *what, const char *why)
{
	size_t len = strlen(b->not_checked);

	snprintf(b->not_checked + len, sizeof(b->not_checked) - len, "%s%s: %s",
		 len ? "; " : "", what, why);
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
	not_checked(b, "no secret in a file", "no directory here can be written");
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
			return err_ours(e,
					"an ordinary program does not run: %s (exit %d)",
					r.failed            ? r.error.text
					: r.err && r.err[0] ? r.err
							    : r.message,
					r.exit_code);
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
	/* what is to wait does: from here on one that was used is replaced */
	for (i = 0; battery_warm(b) && i < b->modes->count; i++)
		(void)battery_wait_warm(b, b->modes->mode[i].row);
	if (battery_warm(b))
		(void)battery_wait_warm(b, b->self_row);
	if (battery_forks(b))
		battery_wait_forks(b, b->forks);
	holdings_look(b, &b->before);
	for (i = 0; i < 100 && same < 5; i++) { /* every slot is built by then */
		battery_pause(b, 10);
		last = b->before;
		holdings_look(b, &b->before);
		same = holdings_same(&last, &b->before) ? same + 1 : 0;
	}
	for (i = 0; i < HOLD_KINDS; i++) {
		if (b->before.count[i] < 0)
			not_checked(b, holdings_name(i), holdings_why_not(i));
	}
	if (!b->before.launcher_kb)
		not_checked(b, "memory of the launcher", "/proc does not show it");
	b->log_read = kernel_log_begin(b);
	if (!b->log_read)
		not_checked(b, "the kernel's log", "it cannot be read by this user");
	return 0;
}

/* G6. A log that said more than it can hold is told of once, and read from there on */
static void check_log(struct battery *b, struct tries *t)
{
	char line[160] = "";
	int found;

	if (!b->log_read)
		return;
	found = kernel_log_fault(b, line, sizeof(line));
	invariant(t, found <= 0, "G6: the kernel's log tells of a fault: %s", line);
	if (found < 0)
		untested(t, "the kernel's log: what it said was gone before it was read");
	if (found < 0)
		b->log_read = kernel_log_begin(b);
}

void invariants_after(struct battery *b, const struct attack *a, struct tries *t)
{
	const struct holdings *was = &b->before;
	const uint64_t end = now_ms() + REST_MS;
	struct holdings is;
	unsigned i;

	invariant(t, !b->leaked, "G5: a secret of the host came back");
	if (!launcher_lives(b) && !b->stopped) {
		b->died_in = a->id;
		invariant(t, false, "G1: the launcher died");
		return; /* what it held is gone with it */
	}
	holdings_look(b, &is);
	while (!holdings_same(was, &is) && now_ms() < end && !b->stopped) {
		battery_pause(b, 10);
		holdings_look(b, &is);
	}
	for (i = 0; i < HOLD_KINDS; i++)
		invariant(t, is.count[i] == was->count[i], "G3: %d %s, not %d",
			  is.count[i], holdings_name(i), was->count[i]);
	invariant(t, is.own_kb < was->own_kb + GROWTH_MOST_KB, "G4: we grew by %llu kB",
		  (unsigned long long)(is.own_kb - was->own_kb));
	invariant(t, is.launcher_kb < was->launcher_kb + GROWTH_MOST_KB,
		  "G4: the launcher grew by %llu kB",
		  (unsigned long long)(is.launcher_kb - was->launcher_kb));
	check_log(b, t);
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
