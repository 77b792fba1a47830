/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * store.c - images come and go, each by one rename
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "image/image.h"

#define NEW ".new-"
#define OLD ".old-"

static int open_directory(int dir_fd, const char *file)
{
	return openat(dir_fd, file, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int other_name(const char *begin, char out[IMAGE_STAGED])
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -1;
	snprintf(out, IMAGE_STAGED, "%s%016llx", begin, (unsigned long long)random);
	return 0;
}

/* the directory of this name is still the one that is open */
static bool is_still(int dir_fd, const char *file, int fd)
{
	struct stat named, open;

	return fstatat(dir_fd, file, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &open) == 0 && named.st_dev == open.st_dev &&
	       named.st_ino == open.st_ino;
}

int image_open(int dir_fd, const char *name)
{
	char file[IMAGE_FILE];
	auto_fd int fd = -1;

	if (image_encode(name, file) < 0)
		return -1;
	fd = open_directory(dir_fd, file);
	if (fd < 0)
		return -1;
	/* who removes it holds the other lock, and renames it first */
	if (flock(fd, LOCK_SH | LOCK_NB) < 0 || !is_still(dir_fd, file, fd)) {
		errno = ENOENT;
		return -1;
	}
	return take_fd(&fd);
}

int image_stage(int dir_fd, char out_staged[IMAGE_STAGED])
{
	char staged[IMAGE_STAGED];
	auto_fd int fd = -1;

	if (other_name(NEW, staged) < 0 || mkdirat(dir_fd, staged, 0700) < 0)
		return -1;
	fd = open_directory(dir_fd, staged);
	/* who sweeps at the same moment may be quicker */
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_still(dir_fd, staged, fd))
		return -1;
	memcpy(out_staged, staged, sizeof(staged));
	return take_fd(&fd);
}

int image_publish(int dir_fd, const char *staged, int staged_fd, const char *name)
{
	char file[IMAGE_FILE];

	if (image_encode(name, file) < 0)
		return -1;
	/* what has the name is complete, on disk too */
	if (fchmod(staged_fd, 0755) < 0 || syncfs(staged_fd) < 0)
		return -1;
	if (renameat(dir_fd, staged, dir_fd, file) < 0) {
		if (errno == ENOTEMPTY)
			errno = EEXIST;
		return -1;
	}
	if (fsync(dir_fd) < 0)
		return -1;
	return flock(staged_fd, LOCK_UN);
}

int image_remove(int dir_fd, const char *name)
{
	char file[IMAGE_FILE], old[IMAGE_STAGED];
	auto_fd int fd = -1;

	if (image_encode(name, file) < 0)
		return -1;
	fd = open_directory(dir_fd, file);
	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			errno = EBUSY;
		return -1;
	}
	/* another one may have removed it, and a new one that is in use has its name */
	if (!is_still(dir_fd, file, fd)) {
		errno = ENOENT;
		return -1;
	}
	/* half of it must not be found under its name */
	if (other_name(OLD, old) < 0 || renameat(dir_fd, file, dir_fd, old) < 0)
		return -1;
	return fs_remove_tree(dir_fd, old);
}

void images_sweep(int dir_fd)
{
	const int list_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = list_fd < 0 ? NULL : fdopendir(list_fd);
	struct dirent *d;

	if (list_fd >= 0 && !dir)
		close(list_fd);
	while (dir && (d = readdir(dir))) {
		auto_fd int fd = -1;

		if (strncmp(d->d_name, NEW, sizeof(NEW) - 1) != 0 &&
		    strncmp(d->d_name, OLD, sizeof(OLD) - 1) != 0)
			continue;
		fd = open_directory(dir_fd, d->d_name);
		/* a failure is tried again by the next one */
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			(void)fs_remove_tree(dir_fd, d->d_name);
	}
	if (dir)
		closedir(dir);
}
