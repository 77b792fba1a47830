/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * memory.c - how much a run uses where no cgroup counts it
 *
 * Runs in: the launcher, sampled while the run goes on. statm needs no right to look into the
 * process. Shared pages are left out: most are the interpreter's own files.
 */
#include "launcher/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"

static uint64_t process_kb(int proc_fd, const char *pid)
{
	unsigned long size, resident, shared;
	char name[300], text[128];

	snprintf(name, sizeof(name), "%s/statm", pid);
	if (fs_read_at(proc_fd, name, text, sizeof(text)) < 0)
		return 0; /* it ended meanwhile */
	if (sscanf(text, "%lu %lu %lu", &size, &resident, &shared) != 3 || resident < shared)
		return 0;
	return (uint64_t)(resident - shared) * ((unsigned long)sysconf(_SC_PAGESIZE) / 1024);
}

uint64_t memory_in_use_kb(int proc_fd, int work_fd)
{
	struct statfs fs;
	struct dirent *d;
	uint64_t sum = 0;
	DIR *dir;
	int fd;

	fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return 0;
	}
	while ((d = readdir(dir))) {
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9')
			sum += process_kb(proc_fd, d->d_name);
	}
	closedir(dir);
	if (work_fd >= 0 && fstatfs(work_fd, &fs) == 0)
		sum += (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize / 1024;
	return sum;
}
