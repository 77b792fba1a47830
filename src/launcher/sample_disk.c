/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sample_disk.c - what trees of files hold, whoever writes to them meanwhile
 *
 * Runs in: the launcher, and what it forks to look. Who makes files in a directory has
 * its lock nearly all the time, and each look at its names waits for that: so many of
 * them are fetched at once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/mem.h"
#include "launcher/sample.h"

#define DEPTH_MOST 128 /* to here each level holds a descriptor */
#define NAME_BYTES 32  /* of a short one */
#define NAMES_LEAST (32u << 10)
#define NAMES_MOST (1u << 20)
#define SEEN_ROOM 1024

struct walk {
	uint64_t most;
	size_t room;                 /* for the names of a directory: */
	char *names[DEPTH_MOST + 1]; /* at each depth those of one at a time */
	bool opens;                  /* what is closed to us */
	bool whole; /* at any depth: nobody writes to it, so the way back is ".." */
	struct sample_seen *seen; /* NULL: whatever has several names counts for each */
	struct disk_use *out;
};

static bool insert(struct sample_seen *s, uint64_t ino)
{
	size_t at = (ino * 0x9e3779b97f4a7c15u) & (s->room - 1);

	while (s->ino[at] && s->ino[at] != ino)
		at = (at + 1) & (s->room - 1);
	if (s->ino[at])
		return false;
	s->ino[at] = ino;
	s->count++;
	return true;
}

/* false: it was here already */
static bool see(struct sample_seen *s, uint64_t ino)
{
	const struct sample_seen old = *s;
	size_t i;

	if (2 * s->count >= s->room) {
		s->room = old.room ? 2 * old.room : SEEN_ROOM;
		s->ino = mem_array(s->room, sizeof(*s->ino));
		s->count = 0;
		for (i = 0; i < old.room; i++)
			if (old.ino[i])
				(void)insert(s, old.ino[i]); /* each is new to it */
		free(old.ino);
	}
	return insert(s, ino);
}

void sample_seen_done(struct sample_seen *s)
{
	free(s->ino);
	*s = (struct sample_seen){0};
}

/* who was quicker than we took it away; anything else hides what is in it */
static void missed(struct disk_use *out)
{
	if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
		out->unseen = true;
}

static void walk(struct walk *w, int fd, unsigned depth);

/* true: it is a directory */
static bool count_one(struct walk *w, int dir_fd, const char *name)
{
	struct disk_use *out = w->out;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		missed(out);
		return false;
	}
	if (w->seen && !S_ISDIR(st.st_mode) && st.st_nlink > 1 &&
	    !see(w->seen, st.st_ino))
		return false;
	out->entries++;
	/* a file of many names counts once for each: on the safe side */
	out->bytes += (uint64_t)st.st_blocks * 512;
	return S_ISDIR(st.st_mode);
}

static int open_one(struct walk *w, int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == EACCES && w->opens)
		fd = fs_open_shut(dir_fd, name);
	if (fd < 0)
		missed(w->out);
	return fd;
}

static bool goes_on(const struct walk *w)
{
	return w->out->entries <= w->most && !w->out->too_deep;
}

/* ---- far down: one descriptor, and the names of directories still to be seen */

struct deep_level {
	struct buf names; /* each with its NUL */
	size_t next;
	ino_t ino;
};

struct deep {
	int fd; /* of the deepest */
	struct deep_level *level;
	size_t depth, room;
};

static void deep_scan(struct walk *w, int fd, struct buf *names)
{
	_Alignas(struct dirent64) char bytes[16384];
	const struct dirent64 *one;
	ssize_t got, at;

	while (goes_on(w) && (got = getdents64(fd, bytes, sizeof(bytes))) != 0) {
		if (got < 0) {
			missed(w->out);
			break;
		}
		for (at = 0; at < got && goes_on(w); at += one->d_reclen) {
			const char *name;

			one = (const struct dirent64 *)(const void *)(bytes + at);
			name = one->d_name;
			if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
			    count_one(w, fd, name) &&
			    buf_add(names, name, strlen(name) + 1) < 0)
				w->out->unseen = true;
		}
	}
}

static void deep_enter(struct walk *w, struct deep *d, int fd)
{
	struct deep_level *level;
	struct stat st = {0};

	if (d->depth == d->room) {
		d->room = d->room ? 2 * d->room : 64;
		level = mem_array(d->room, sizeof(*level));
		if (d->depth)
			memcpy(level, d->level, d->depth * sizeof(*level));
		free(d->level);
		d->level = level;
	}
	if (d->fd >= 0)
		close(d->fd);
	d->fd = fd;
	if (fstat(fd, &st) < 0)
		missed(w->out);
	level = &d->level[d->depth++];
	*level = (struct deep_level){.ino = st.st_ino};
	buf_init(&level->names, SIZE_MAX);
	deep_scan(w, fd, &level->names);
}

/* false: nothing is above it, or not what was */
static bool deep_leave(struct walk *w, struct deep *d)
{
	struct stat st;
	int fd;

	buf_done(&d->level[--d->depth].names);
	if (d->depth == 0)
		return false;
	fd = openat(d->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(d->fd);
	d->fd = fd;
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == d->level[d->depth - 1].ino)
		return true;
	w->out->unseen = true;
	return false;
}

/* takes fd */
static void walk_deep(struct walk *w, int fd)
{
	struct deep d = {.fd = -1};
	bool more = true;

	deep_enter(w, &d, fd);
	while (more && goes_on(w)) {
		struct deep_level *level = &d.level[d.depth - 1];
		const char *name;

		if (level->next == level->names.len) {
			more = deep_leave(w, &d);
			continue;
		}
		name = level->names.bytes + level->next;
		level->next += strlen(name) + 1;
		fd = open_one(w, d.fd, name);
		if (fd >= 0)
			deep_enter(w, &d, fd);
	}
	while (d.depth)
		buf_done(&d.level[--d.depth].names);
	free(d.level);
	if (d.fd >= 0)
		close(d.fd);
}

/* ---- all of it */

static void walk_one(struct walk *w, int dir_fd, const char *name, unsigned depth)
{
	int fd;

	if (!count_one(w, dir_fd, name))
		return;
	if (depth == DEPTH_MOST && !w->whole) {
		w->out->too_deep = true;
		return;
	}
	fd = open_one(w, dir_fd, name);
	if (fd < 0)
		return;
	if (depth == DEPTH_MOST) {
		walk_deep(w, fd);
		return;
	}
	walk(w, fd, depth + 1);
	close(fd);
}

/* fd: at its beginning */
static void walk(struct walk *w, int fd, unsigned depth)
{
	const struct dirent64 *d;
	ssize_t got, at;
	char *names;

	if (!w->names[depth])
		w->names[depth] = mem_array(w->room, 1);
	names = w->names[depth];
	while (goes_on(w) && (got = getdents64(fd, names, w->room)) != 0) {
		if (got < 0) {
			missed(w->out);
			break;
		}
		for (at = 0; at < got && goes_on(w); at += d->d_reclen) {
			d = (const struct dirent64 *)(const void *)(names + at);
			if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
				walk_one(w, fd, d->d_name, depth);
		}
	}
}

static void walk_all(struct walk *w, int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned i;

	if (fd < 0) {
		missed(w->out);
		return;
	}
	w->room = NAMES_MOST;
	if (w->most < NAMES_MOST / NAME_BYTES)
		w->room = w->most * NAME_BYTES < NAMES_LEAST
				  ? NAMES_LEAST
				  : (size_t)w->most * NAME_BYTES;
	walk(w, fd, 0);
	close(fd);
	for (i = 0; i <= DEPTH_MOST; i++)
		free(w->names[i]);
}

void sample_disk_more(int dir_fd, uint64_t most, struct sample_seen *seen,
		      struct disk_use *use)
{
	struct walk w = {.most = most, .seen = seen, .out = use};

	walk_all(&w, dir_fd);
}

void sample_disk_open(int dir_fd, uint64_t most, struct disk_use *out)
{
	struct walk w = {.most = most, .opens = true, .out = out};

	*out = (struct disk_use){0};
	walk_all(&w, dir_fd);
}

void sample_disk_whole(int dir_fd, uint64_t most, struct sample_seen *seen,
		       struct disk_use *use)
{
	struct walk w = {.most = most, .whole = true, .seen = seen, .out = use};

	walk_all(&w, dir_fd);
}

void sample_add(struct disk_use *all, const struct disk_use *more)
{
	all->bytes += more->bytes;
	all->entries += more->entries;
	all->too_deep = all->too_deep || more->too_deep;
	all->unseen = all->unseen || more->unseen;
}

void sample_disk(int dir_fd, uint64_t most, struct disk_use *out)
{
	*out = (struct disk_use){0};
	sample_disk_more(dir_fd, most, NULL, out);
}
