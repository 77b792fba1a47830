/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * layer_store.c - the store of layers: who is in it, who uses it, who has to go
 *
 * Runs in: the launcher (layer_open alone: it never waits), the processes that make and
 * tidy layers for it, and `sandbox-server layers`.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/num.h"
#include "launcher/layer.h"

#define HEX "0123456789abcdef"
#define USED_SEC 60 /* a use is written down that often */
#define STAGE_TRIES 16

void layer_name(const uint8_t key[LAYER_KEY], char out[LAYER_NAME])
{
	for (unsigned i = 0; i < LAYER_KEY; i++) {
		out[2 * i] = HEX[key[i] >> 4];
		out[2 * i + 1] = HEX[key[i] & 15];
	}
	out[LAYER_NAME - 1] = '\0';
}

bool layer_name_ok(const char *name)
{
	return strlen(name) == LAYER_NAME - 1 && strspn(name, HEX) == LAYER_NAME - 1;
}

static int open_directory(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* the directory of this name is still the one that is open */
static bool is_still(int dir_fd, const char *name, int fd)
{
	struct stat named, open;

	return fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &open) == 0 && named.st_dev == open.st_dev &&
	       named.st_ino == open.st_ino;
}

int layer_open(int dir_fd, const char *name)
{
	auto_fd int fd = open_directory(dir_fd, name);
	struct timespec now;
	struct stat st;

	if (fd < 0)
		return -1;
	/* who removes it holds the other lock, and renames it first */
	if (flock(fd, LOCK_SH | LOCK_NB) < 0 || !is_still(dir_fd, name, fd)) {
		errno = ENOENT;
		return -1;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	if (fstat(fd, &st) == 0 && now.tv_sec - st.st_mtim.tv_sec >= USED_SEC)
		(void)futimens(fd, NULL); /* refused: it only seems to be older */
	return take_fd(&fd);
}

static int other_name(const char *name, const char *end, char out[LAYER_NAME + 32])
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -1;
	snprintf(out, LAYER_NAME + 32, "%s.%016llx.%s", name, (unsigned long long)random,
		 end);
	return 0;
}

int layer_stage(int dir_fd, const char *name, char out[LAYER_NAME + 32])
{
	/* who tidies may find it before it is locked, and take it for a dead one's */
	for (int tries = 0; tries < STAGE_TRIES; tries++) {
		auto_fd int fd = -1;

		if (other_name(name, "new", out) < 0 || mkdirat(dir_fd, out, 0700) < 0)
			return -1;
		fd = open_directory(dir_fd, out);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
		    is_still(dir_fd, out, fd))
			return take_fd(&fd);
		if (fd < 0 && errno != ENOENT)
			return -1;
	}
	errno = EAGAIN;
	return -1;
}

int layer_publish(int dir_fd, const char *staged, int staged_fd, const char *name)
{
	/* what has the name is complete, on disk too */
	if (fchmod(staged_fd, 0755) < 0 || syncfs(staged_fd) < 0)
		return -1;
	if (renameat(dir_fd, staged, dir_fd, name) < 0) {
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -1;
		return fs_remove_tree(dir_fd, staged);
	}
	return fsync(dir_fd);
}

int layer_remove(int dir_fd, const char *name)
{
	auto_fd int fd = open_directory(dir_fd, name);
	char old[LAYER_NAME + 32];

	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			errno = EBUSY;
		return -1;
	}
	/* another one may have removed it, and a new one that is in use has its name */
	if (!is_still(dir_fd, name, fd)) {
		errno = ENOENT;
		return -1;
	}
	/* half of it must not be found under its name */
	if (other_name(name, "old", old) < 0 || renameat(dir_fd, name, dir_fd, old) < 0)
		return -1;
	return fs_remove_tree(dir_fd, old);
}

static int by_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct layer_seen *)a)->used;
	const struct timespec *y = &((const struct layer_seen *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? 1 : -1;
	return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

static void look(int dir_fd, const char *name, struct layer_seen *out)
{
	auto_fd int fd = open_directory(dir_fd, name);
	struct stat st = {0};
	char text[32] = "";

	snprintf(out->name, sizeof(out->name), "%.*s", (int)sizeof(out->name) - 1, name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return; /* gone meanwhile */
	out->used = st.st_mtim;
	if (fs_read_at(fd, LAYER_SIZE, text, sizeof(text)) > 0) {
		text[strcspn(text, "\n")] = '\0';
		(void)num_u64(text, &out->bytes);
	}
}

static DIR *open_list(int dir_fd)
{
	const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

int layers_list(int dir_fd, struct layer_seen **out, size_t *out_count)
{
	struct layer_seen *seen = NULL, *more;
	size_t count = 0, room = 0;
	DIR *dir = open_list(dir_fd);
	struct dirent *d;

	if (!dir)
		return -1;
	while ((d = readdir(dir))) {
		if (!layer_name_ok(d->d_name))
			continue;
		if (count == room) {
			room = room ? room * 2 : 64;
			more = mem_array(room, sizeof(*more));
			if (count)
				memcpy(more, seen, count * sizeof(*more));
			free(seen);
			seen = more;
		}
		look(dir_fd, d->d_name, &seen[count++]);
	}
	closedir(dir);
	if (count)
		qsort(seen, count, sizeof(*seen), by_use);
	*out = seen;
	*out_count = count;
	return 0;
}

/* "NAME.RANDOM.new" and ".old" whose owner is dead: nobody holds their lock */
static void sweep(int dir_fd)
{
	DIR *dir = open_list(dir_fd);
	struct dirent *d;

	while (dir && (d = readdir(dir))) {
		const char *end = strrchr(d->d_name, '.');
		auto_fd int fd = -1;

		if (!end || strlen(d->d_name) != LAYER_NAME - 1 + 21 ||
		    (strcmp(end, ".new") != 0 && strcmp(end, ".old") != 0))
			continue;
		fd = open_directory(dir_fd, d->d_name);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			(void)fs_remove_tree(dir_fd, d->d_name); /* the next one tries too
								  */
	}
	if (dir)
		closedir(dir);
}

int layers_tidy(int dir_fd, const struct layer_bounds *most, const char *spare,
		struct layers_state *out)
{
	struct layer_seen *seen;
	struct layers_state left = {0};
	struct timespec now;
	size_t count;

	sweep(dir_fd);
	if (layers_list(dir_fd, &seen, &count) < 0)
		return -1;
	clock_gettime(CLOCK_REALTIME, &now);
	for (size_t i = 0; i < count; i++) {
		const uint64_t age = now.tv_sec > seen[i].used.tv_sec
					     ? (uint64_t)(now.tv_sec -
							  seen[i].used.tv_sec)
					     : 0;
		const bool goes = left.bytes + seen[i].bytes > most->bytes ||
				  age > most->age_sec;

		if (goes && (!spare || strcmp(spare, seen[i].name) != 0) &&
		    layer_remove(dir_fd, seen[i].name) == 0)
			continue;
		left.count++;
		left.bytes += seen[i].bytes;
	}
	free(seen);
	*out = left;
	return 0;
}
