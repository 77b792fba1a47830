/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inside_partial.c - names of files that are being written
 *
 * Runs in: a session. The lock of a file goes with the process that wrote it, however
 * that ends: so what is not locked is nobody's any more. Under the lock nobody else gives
 * or takes the name.
 */
#include "session/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"

#define BEFORE ".sandbox-"
#define BEHIND ".partial"
#define NAMES 1024 /* more than may be written at once */

static void name_of(unsigned n, char out[32])
{
	snprintf(out, 32, BEFORE "%u" BEHIND, n);
}

bool partial_is(const char *name)
{
	const size_t skip = strlen(BEFORE);
	size_t digits;

	if (strncmp(name, BEFORE, skip) != 0)
		return false;
	digits = strspn(name + skip, "0123456789");
	return digits > 0 && strcmp(name + skip + digits, BEHIND) == 0;
}

/* the file that is open here has that name */
static bool is_named(int fd, int dir_fd, const char *name)
{
	struct stat own, there;

	return fstat(fd, &own) == 0 && S_ISREG(own.st_mode) &&
	       fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

void partial_sweep(int dir_fd, const char *name)
{
	auto_fd int fd = openat(dir_fd, name,
				O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && is_named(fd, dir_fd, name))
		(void)unlinkat(dir_fd, name, 0); /* else it stays, and is not shown */
}

void partial_sweep_all(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		defer_close(&fd);
		return;
	}
	while ((d = readdir(dir)))
		if (partial_is(d->d_name))
			partial_sweep(dir_fd, d->d_name);
	closedir(dir);
}

int partial_open(int dir_fd, char out_name[32])
{
	for (unsigned n = 0; n < 2 * NAMES; n++) {
		auto_fd int fd = -1;

		name_of(n / 2, out_name); /* each twice: what was left makes room */
		fd = openat(dir_fd, out_name,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -1;
		if (fd < 0)
			partial_sweep(dir_fd, out_name);
		/* before it had its lock it may have been taken for such a one */
		else if (flock(fd, LOCK_EX | LOCK_NB) == 0 &&
			 is_named(fd, dir_fd, out_name))
			return take_fd(&fd);
	}
	errno = EBUSY;
	return -1;
}

int partial_link(int fd, int dir_fd, char out_name[32])
{
	char proc[40];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	for (unsigned n = 0; n < 2 * NAMES; n++) {
		name_of(n / 2, out_name);
		if (linkat(AT_FDCWD, proc, dir_fd, out_name, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		if (errno != EEXIST)
			return -1;
		partial_sweep(dir_fd, out_name);
	}
	errno = EBUSY;
	return -1;
}
