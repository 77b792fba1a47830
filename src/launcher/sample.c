/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sample.c - what a run uses at this moment, where no cgroup counts it
 *
 * Runs in: the launcher, every few milliseconds while the run goes on. statm and stat
 * need no right to look into the process. Shared pages are left out: most are the
 * interpreter's own files.
 */
#include "launcher/sample.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fs.h"

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

static uint64_t memory_kb(int proc_fd, const char *pid)
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

void sample_take(int proc_fd, int work_fd, struct sample *out)
{
	struct statfs fs;
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
		out->memory_kb += memory_kb(proc_fd, d->d_name);
		out->cpu_us += cpu_us(proc_fd, d->d_name);
	}
	closedir(dir);
	if (work_fd >= 0 && fstatfs(work_fd, &fs) == 0)
		out->memory_kb += (uint64_t)(fs.f_blocks - fs.f_bfree) *
				  (uint64_t)fs.f_bsize / 1024;
}
