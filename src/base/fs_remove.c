/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fs_remove.c - remove a tree that somebody else grew
 *
 * Two descriptors are open at any time, however deep it is: the way back is "..", and
 * what is found there must be the directory that was left (by device and inode number).
 * The names of subdirectories are kept in lists that start small and double with each
 * reading of a directory, so memory stays below what the tree itself holds. No other
 * mount is entered: what a crash left bound inside the tree is somebody else's.
 */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"

enum { FIRST_BATCH = 32 };

/* a directory on the way down */
struct level {
	dev_t dev;
	ino_t ino;
	char *names; /* subdirectories still to do, each with its NUL */
	size_t len, room;
	size_t last, next; /* the one being done, the one after it */
	size_t batch;      /* how many to collect in one reading */
	bool more;         /* the reading stopped at the batch */
	bool progress;     /* something went since it began */
	bool stuck;        /* something stayed */
};

struct walk {
	struct level *levels;
	size_t depth, room;
	int fd; /* of the deepest level */
	int first_errno;
};

static void note(struct walk *w, int num)
{
	if (!w->first_errno)
		w->first_errno = num;
	if (w->depth)
		w->levels[w->depth - 1].stuck = true;
}

static int keep_name(struct level *lv, const char *name)
{
	size_t size = strlen(name) + 1, room = lv->room;
	char *names;

	if (size > room - lv->len) {
		room = room ? room * 2 : 512;
		names = realloc(lv->names, room);
		if (!names)
			return -1;
		lv->names = names;
		lv->room = room;
	}
	memcpy(lv->names + lv->len, name, size);
	lv->len += size;
	return 0;
}

/* Remove one entry if that is possible at once; 1: a directory with something in it. */
static int remove_entry(struct walk *w, struct level *lv, const char *name, bool is_dir)
{
	if (!is_dir && unlinkat(w->fd, name, 0) == 0) {
		lv->progress = true;
		return 0;
	}
	if (!is_dir && errno != EISDIR) {
		if (errno != ENOENT)
			note(w, errno);
		return 0;
	}
	if (unlinkat(w->fd, name, AT_REMOVEDIR) == 0) {
		lv->progress = true;
		return 0;
	}
	return errno != ENOENT; /* full, or not ours yet: enter() finds out */
}

/* Read the directory from its start: files go, subdirectories are listed. */
static void scan(struct walk *w)
{
	struct level *lv = &w->levels[w->depth - 1];
	_Alignas(struct dirent64) char bytes[16384];
	const struct dirent64 *d;
	size_t found = 0;
	ssize_t n;

	lv->len = lv->next = lv->last = 0;
	lv->more = lv->progress = false;
	if (lseek(w->fd, 0, SEEK_SET) < 0) {
		note(w, errno);
		return;
	}
	while ((n = getdents64(w->fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t at = 0; at < n; at += d->d_reclen) {
			d = (const struct dirent64 *)(bytes + at);
			if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
				continue;
			if (remove_entry(w, lv, d->d_name, d->d_type == DT_DIR) == 0)
				continue;
			if (found == lv->batch) {
				lv->more = true;
				lv->batch *= 2;
				return;
			}
			if (keep_name(lv, d->d_name) < 0) {
				note(w, ENOMEM);
				return;
			}
			found++;
		}
	}
	if (n < 0)
		note(w, errno);
}

/* It is opened by its name only, and its mode changed through that: the name may mean
 * something else by then, the descriptor cannot. */
int fs_open_shut(int dir_fd, const char *name)
{
	auto_fd int path_fd = fs_open_beneath(dir_fd, name, O_PATH | O_DIRECTORY, 0);
	char proc[40];

	if (path_fd < 0)
		return -1;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path_fd);
	if (chmod(proc, 0700) < 0)
		return -1;
	return fs_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
}

static int open_dir(int dir_fd, const char *name, struct stat *out_st)
{
	auto_fd int fd = fs_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0 && errno == EACCES)
		fd = fs_open_shut(dir_fd, name);
	if (fd < 0 || fstat(fd, out_st) < 0)
		return -1;
	/* Fails for who is no owner; it may be allowed to go on nevertheless. */
	if ((out_st->st_mode & 0700) != 0700)
		(void)fchmod(fd, 0700);
	return take_fd(&fd);
}

/* Go down into `name` of from_fd, which becomes ours to close unless it is the start. */
static int enter(struct walk *w, int from_fd, const char *name)
{
	auto_fd int fd = -1;
	struct level *levels;
	struct stat st;
	size_t room;

	if (w->depth == w->room) {
		room = w->room ? w->room * 2 : 64;
		levels = reallocarray(w->levels, room, sizeof(*levels));
		if (!levels)
			return -1;
		w->levels = levels;
		w->room = room;
	}
	fd = open_dir(from_fd, name, &st);
	if (fd < 0)
		return -1;
	if (w->depth)
		close(w->fd);
	w->fd = take_fd(&fd);
	w->levels[w->depth++] = (struct level){
		.dev = st.st_dev, .ino = st.st_ino, .batch = FIRST_BATCH};
	scan(w);
	return 0;
}

/* The deepest level is done: go back up and remove it there. */
static int leave(struct walk *w)
{
	struct level done = w->levels[w->depth - 1], *up = &w->levels[w->depth - 2];
	int fd = openat(w->fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	close(w->fd);
	w->fd = fd;
	free(done.names);
	w->depth--;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return -1;
	if (st.st_dev != up->dev || st.st_ino != up->ino) {
		errno = ESTALE; /* moved while we were in it: nothing here is ours to
				   judge */
		return -1;
	}
	if (unlinkat(fd, up->names + up->last, AT_REMOVEDIR) == 0 || errno == ENOENT)
		up->progress = true;
	else if (errno == ENOTEMPTY && done.progress && !done.stuck)
		up->next = up->last; /* a reading that missed something: once more */
	else
		note(w, errno);
	return 0;
}

/* Until nothing is left to do below the first level. */
static int descend(struct walk *w)
{
	struct level *lv;

	for (;;) {
		lv = &w->levels[w->depth - 1];
		if (lv->next < lv->len) {
			lv->last = lv->next;
			lv->next += strlen(lv->names + lv->next) + 1;
			if (enter(w, w->fd, lv->names + lv->last) < 0 && errno != ENOENT)
				note(w, errno);
		} else if (lv->more) {
			scan(w);
		} else if (w->depth == 1) {
			return 0;
		} else if (leave(w) < 0) {
			return -1;
		}
	}
}

static int remove_dir(int dir_fd, const char *name)
{
	struct walk w = {.fd = -1};
	bool again = true;

	while (again) {
		if (enter(&w, dir_fd, name) < 0) {
			if (errno != ENOENT)
				note(&w, errno);
		} else if (descend(&w) < 0) {
			note(&w, errno);
		}
		again = w.depth && w.levels[0].progress && !w.levels[0].stuck;
		while (w.depth)
			free(w.levels[--w.depth].names);
		if (w.fd >= 0)
			close(w.fd);
		w.fd = -1;
		if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			break;
		if (errno != ENOTEMPTY || !again)
			note(&w, errno);
		again = again && errno == ENOTEMPTY;
	}
	free(w.levels);
	errno = w.first_errno;
	return w.first_errno ? -1 : 0;
}

int fs_remove_tree(int dir_fd, const char *name)
{
	auto_fd int parent_fd = -1;
	auto_free char *parent = NULL;
	const char *slash = strrchr(name, '/');

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -1;
	if (!slash)
		return remove_dir(dir_fd, name);
	/* the last component is held to the rules for the tree, the way to it is not */
	parent = strndup(name, (size_t)(slash - name) + 1);
	if (!parent)
		return -1;
	parent_fd = openat(dir_fd, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return parent_fd < 0 ? -1 : remove_dir(parent_fd, slash + 1);
}
