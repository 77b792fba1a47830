/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * own.c - a directory for the sessions of one process, which go with it
 *
 * Runs in: the supervisor. Below the state directory, which others use at the same time.
 * Who has one holds a lock on it as long as he lives; what nobody holds is of one that
 * was killed, and the next who comes by removes it.
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
#include "base/log.h"
#include "cmd/cmd.h"

#define OWN_DIR "stdio"

/* a descriptor that holds it; -1: somebody else does, or it is gone */
static int hold(int all_fd, const char *name)
{
	auto_fd int fd = openat(all_fd, name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
		return -1;
	if (st.st_nlink == 0) {
		errno = ENOENT;
		return -1;
	}
	return take_fd(&fd);
}

void own_sweep(int state_fd)
{
	auto_fd int fd = openat(state_fd, OWN_DIR,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir)
		return;
	(void)take_fd(&fd);
	while ((d = readdir(dir))) {
		auto_fd int held_fd = d->d_name[0] == '.' ? -1
							  : hold(dirfd(dir), d->d_name);

		if (held_fd >= 0 && fs_remove_tree(dirfd(dir), d->d_name) < 0)
			log_warn("session.left", "what=%s error=\"%s\"", d->d_name,
				 strerror(errno));
	}
	closedir(dir);
}

int own_make(struct own *o, int state_fd)
{
	auto_fd int all_fd = fs_make_path(state_fd, OWN_DIR, 0755);
	uint64_t number;

	if (all_fd < 0)
		return -1;
	do { /* who sweeps may have found it before we held it */
		if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
			return -1;
		snprintf(o->name, sizeof(o->name), "%016llx", (unsigned long long)number);
		if (mkdirat(all_fd, o->name, 0755) < 0)
			return -1;
		o->fd = hold(all_fd, o->name);
	} while (o->fd < 0 && (errno == ENOENT || errno == EWOULDBLOCK));
	if (o->fd < 0)
		return -1;
	o->all_fd = take_fd(&all_fd);
	return snprintf(o->path, sizeof(o->path), OWN_DIR "/%s", o->name);
}

void own_done(struct own *o)
{
	if (o->fd >= 0 && fs_remove_tree(o->all_fd, o->name) < 0)
		log_warn("session.left", "what=%s error=\"%s\"", o->name,
			 strerror(errno));
	defer_close(&o->fd);
	defer_close(&o->all_fd);
	o->fd = o->all_fd = -1;
}
