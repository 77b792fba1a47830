/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sample.c - what a run uses at this moment, where no cgroup counts it
 *
 * Runs in: the launcher, every few milliseconds while the run goes on. What is read here
 * needs no right to look into the process. Pages of files are left out: most are the
 * interpreter's own. Nothing cheap tells which pages processes share with each other, or
 * map from the run's tmpfs. So of every process's shared memory and the tmpfs only the
 * largest counts, which is never too much, until all together could be: then every page
 * is looked at. Private pages count in each process, also those that a fork left in
 * common.
 */
#include "launcher/sample.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fs.h"
#include "launcher/child.h"

/* the n-th number (from 0) of a line of them; 0 when there are fewer */
static uint64_t number_at(const char *line, unsigned n)
{
	char *end;

	for (;; n--) {
		uint64_t value = strtoull(line, &end, 10);

		if (end == line)
			return 0;
		if (n == 0)
			return value;
		line = end;
	}
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t field_kb(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	return at ? number_at(at + strlen(name), 0) : 0;
}

/* Shared mappings without a file and those of the tmpfs; besides what statm does not
 * have: pages that were swapped out, and the tables to find pages, which can weigh more
 * than what is in them. */
static void more_memory_kb(int proc_fd, const char *pid, uint64_t *shared,
			   uint64_t *beside)
{
	char name[300], text[8192];

	snprintf(name, sizeof(name), "%s/status", pid);
	*shared = *beside = 0;
	if (fs_read_at(proc_fd, name, text, sizeof(text)) < 0)
		return;
	*shared = field_kb(text,
			   "\nRssShmem:"); /* a process's name has no newline here */
	*beside = field_kb(text, "\nVmSwap:") + field_kb(text, "\nVmPTE:");
}

/* its part of the pages that it shares: all parts together are what is there; `unseen`
 * where we may not look */
static uint64_t part_kb(int proc_fd, const char *pid, uint64_t unseen)
{
	char name[300], text[4096];
	const char *at;

	snprintf(name, sizeof(name), "%s/smaps_rollup", pid);
	if (fs_read_at(proc_fd, name, text, sizeof(text)) < 0)
		return unseen;
	at = strstr(text, "\nPss_Shmem:");
	return at ? number_at(at + strlen("\nPss_Shmem:"), 0) : unseen;
}

/* shared memory of several processes */
struct shared {
	enum sample_how how;
	uint64_t most, sum, parts;
};

static void add_shared(struct shared *s, int proc_fd, const char *pid, uint64_t kb)
{
	s->most = larger(s->most, kb);
	s->sum += kb;
	if (s->how != SAMPLE_SIZES && kb)
		s->parts += part_kb(proc_fd, pid, s->how == SAMPLE_PAGES ? kb : 0);
}

/* the tmpfs may be mapped too */
static void count_shared(const struct shared *s, uint64_t tmpfs, struct sample *out)
{
	out->most_kb = out->memory_kb + larger(s->sum, tmpfs);
	out->memory_kb += larger(larger(s->most, s->parts), tmpfs);
}

static uint64_t private_kb(int proc_fd, const char *pid)
{
	uint64_t resident, shared;
	char name[300], text[128];

	snprintf(name, sizeof(name), "%s/statm", pid);
	if (fs_read_at(proc_fd, name, text, sizeof(text)) < 0)
		return 0; /* it ended meanwhile */
	resident = number_at(text, 1);
	shared = number_at(text, 2);
	if (resident < shared)
		return 0;
	return (resident - shared) * ((uint64_t)sysconf(_SC_PAGESIZE) / 1024);
}

static uint64_t cpu_us(int proc_fd, const char *pid)
{
	const uint64_t tick_us = 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	char name[300], text[1024];
	const char *at;
	uint64_t ticks = 0;
	unsigned i;

	snprintf(name, sizeof(name), "%s/stat", pid);
	if (fs_read_at(proc_fd, name, text, sizeof(text)) < 0)
		return 0;
	/* the name in parentheses may hold anything; behind it and the state come numbers
	 */
	at = strrchr(text, ')');
	if (!at || strlen(at) < 4)
		return 0;
	for (i = 10; i < 14; i++) /* utime stime cutime cstime */
		ticks += number_at(at + 4, i);
	return ticks * tick_us;
}

static uint64_t tmpfs_kb(int fd)
{
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return 0;
	return (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize / 1024;
}

void sample_take(int proc_fd, int work_fd, enum sample_how how, struct sample *out)
{
	struct shared all = {.how = how};
	uint64_t shared, beside;
	struct dirent *d;
	DIR *dir;
	int fd;

	memset(out, 0, sizeof(*out));
	fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((d = readdir(dir))) {
		if (d->d_name[0] < '1' || d->d_name[0] > '9')
			continue;
		more_memory_kb(proc_fd, d->d_name, &shared, &beside);
		add_shared(&all, proc_fd, d->d_name, shared);
		out->memory_kb += private_kb(proc_fd, d->d_name) + beside;
		out->cpu_us += cpu_us(proc_fd, d->d_name);
	}
	closedir(dir);
	count_shared(&all, tmpfs_kb(work_fd), out);
}

struct tree {
	pid_t init;
	struct shared all;
	struct sample *out;
};

static void sample_one(int proc_fd, pid_t pid, void *arg)
{
	const uint64_t tick_us = 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	struct tree *t = arg;
	uint64_t shared, beside;
	struct process p;
	char name[16];

	if (pid != t->init && child_below(proc_fd, pid, t->init) == 0)
		return;
	if (child_process(proc_fd, pid, &p) < 0)
		return; /* it ended meanwhile */
	snprintf(name, sizeof(name), "%d", (int)pid);
	more_memory_kb(proc_fd, name, &shared, &beside);
	add_shared(&t->all, proc_fd, name, shared);
	t->out->memory_kb += private_kb(proc_fd, name) + beside;
	t->out->cpu_us += p.ticks * tick_us;
	/* who is dead waits for init, which may be slower than they are made; a leader's
	 * other threads may live on */
	if (pid != t->init)
		t->out->pids += p.state == 'Z' && p.threads ? p.threads - 1 : p.threads;
}

void sample_tree(int proc_fd, pid_t init, int work_fd, enum sample_how how,
		 struct sample *out)
{
	struct tree t = {.init = init, .all = {.how = how}, .out = out};

	memset(out, 0, sizeof(*out));
	(void)child_each_process(proc_fd, sample_one, &t); /* the next look is soon */
	count_shared(&t.all, tmpfs_kb(work_fd), out);
}
