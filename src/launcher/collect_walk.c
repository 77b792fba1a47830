/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * collect_walk.c - look through the output directory and write down what is in it
 *
 * Runs in: the collector, with the run's uid and no right at all.
 * Iterative, in the order of names, with a budget for everything: entries, depth, files,
 * bytes, time, records of what was skipped. Bytes are counted as they are read, so that
 * neither holes nor hard links make a small tree large.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "launcher/collect.h"
#include "wire/files.h"

#define DEPTH_MOST 64
#define CHUNK 65536

/* one directory being walked, with its names sorted */
struct level {
	int fd;
	char **names;
	size_t count, next;
	size_t path_len; /* of its own path, with the slash behind it */
};

struct walk {
	const struct collect_job *job;
	int mem_fd;
	off_t end;
	uint64_t deadline_ns, bytes;
	uint32_t files, entries, skipped;
	bool over; /* out of time or entries: nothing more is looked at */
	struct level level[DEPTH_MOST + 1];
	uint32_t depth;
	char path[FILES_NAME_MAX];
	char chunk[CHUNK];
};

static bool late(const struct walk *w)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec >= w->deadline_ns;
}

static int put(struct walk *w, const void *bytes, size_t len)
{
	if (fs_write_all(w->mem_fd, bytes, len) < 0)
		return -1;
	w->end += (off_t)len;
	return 0;
}

static int put_padding(struct walk *w)
{
	static const char zero[FILES_ALIGN];

	return put(w, zero, (size_t)(-(uint64_t)w->end % FILES_ALIGN));
}

static int put_head(struct walk *w, enum files_kind kind, size_t name_len,
		    uint64_t data_len)
{
	const struct files_head head = {
		.kind = kind, .name_len = (uint32_t)name_len, .data_len = data_len};

	return put(w, &head, sizeof(head));
}

/* valid UTF-8 for any bytes: what is not becomes U+FFFD; the end of a long one is cut */
static size_t readable(const char *name, size_t len, char out[FILES_NAME_MAX])
{
	size_t used = 0, take;

	for (size_t i = 0; i < len; i += take) {
		size_t good = utf8_char(name + i, len - i);

		take = good ? good : utf8_bad(name + i, len - i);
		if (used + (good ? good : 3) > FILES_NAME_MAX)
			break;
		memcpy(out + used, good ? name + i : "\xef\xbf\xbd", good ? good : 3);
		used += good ? good : 3;
	}
	return used;
}

static int skip(struct walk *w, const char *name, size_t len, enum files_reason reason)
{
	char clean[FILES_NAME_MAX];
	const char *word;

	if (w->skipped > FILES_SKIPPED_MAX)
		return 0;
	if (w->skipped++ == FILES_SKIPPED_MAX) {
		len = 0;
		reason = FILES_MORE;
	}
	word = files_reason_text(reason);
	len = readable(name, len, clean);
	if (put_head(w, FILES_SKIPPED, len, strlen(word)) < 0 || put(w, clean, len) < 0 ||
	    put(w, word, strlen(word)) < 0)
		return -1;
	return put_padding(w);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* all names of the directory, or as many as the budget lets; false: it does not let all
 */
static bool read_names(struct walk *w, DIR *dir, struct level *l)
{
	size_t room = 0;
	struct dirent *d;

	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (w->entries >= w->job->max_entries)
			return false;
		w->entries++;
		if (l->count == room) {
			char **more = mem_array(room ? room * 2 : 64, sizeof(*more));

			if (l->count)
				memcpy(more, l->names, l->count * sizeof(*more));
			free(l->names);
			l->names = more;
			room = room ? room * 2 : 64;
		}
		l->names[l->count++] = mem_copy(d->d_name);
	}
	return true;
}

/* takes fd over; its own path is the first path_len bytes of w->path */
static int enter(struct walk *w, int fd, size_t path_len)
{
	struct level *l = &w->level[w->depth];
	int list_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = list_fd < 0 ? NULL : fdopendir(list_fd);
	bool all;

	*l = (struct level){.fd = fd, .path_len = path_len};
	w->depth++;
	if (!dir)
		return -1;
	all = read_names(w, dir, l);
	closedir(dir);
	if (l->count)
		qsort(l->names, l->count, sizeof(*l->names), by_name);
	if (all)
		return 0;
	return skip(w, w->path, path_len ? path_len - 1 : 0, FILES_TOO_MANY_ENTRIES);
}

static void leave(struct walk *w)
{
	struct level *l = &w->level[--w->depth];

	for (size_t i = 0; i < l->count; i++)
		free(l->names[i]);
	free(l->names);
	close(l->fd);
}

/* the bytes, as many as there are; the head is written over once they are counted */
static int copy_file(struct walk *w, int fd, size_t path_len)
{
	off_t start = w->end;
	uint64_t left = w->job->max_bytes - w->bytes, len = 0;
	struct files_head head = {.kind = FILES_FILE, .name_len = (uint32_t)path_len};
	ssize_t got = 0;

	if (put_head(w, FILES_FILE, path_len, 0) < 0 || put(w, w->path, path_len) < 0)
		return -1;
	while (len < left && !w->over) {
		size_t want = left - len < CHUNK ? (size_t)(left - len) : CHUNK;

		got = read(fd, w->chunk, want);
		if (got <= 0)
			break;
		if (put(w, w->chunk, (size_t)got) < 0)
			return -1;
		len += (uint64_t)got;
		w->over = late(w);
	}
	if (got < 0 || w->over) { /* half a file is none: take it back */
		w->end = start;
		if (ftruncate(w->mem_fd, start) < 0 ||
		    lseek(w->mem_fd, start, SEEK_SET) < 0)
			return -1;
		return skip(w, w->path, path_len,
			    w->over ? FILES_TIME : FILES_UNREADABLE);
	}
	w->bytes += len;
	w->files++;
	head.data_len = len;
	if (pwrite(w->mem_fd, &head, sizeof(head), start) != (ssize_t)sizeof(head))
		return -1;
	return put_padding(w);
}

static int take_file(struct walk *w, int dir_fd, const char *name, size_t path_len,
		     uint64_t size)
{
	auto_fd int fd = -1;
	struct stat st;

	if (size > w->job->max_bytes)
		return skip(w, w->path, path_len, FILES_TOO_LARGE);
	if (w->files >= w->job->max_files)
		return skip(w, w->path, path_len, FILES_TOO_MANY);
	if (size > w->job->max_bytes - w->bytes)
		return skip(w, w->path, path_len, FILES_TOTAL_SIZE);
	fd = fs_open_beneath(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY,
			     0);
	if (fd < 0)
		return skip(w, w->path, path_len, FILES_UNREADABLE);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return skip(w, w->path, path_len, FILES_NOT_REGULAR);
	return copy_file(w, fd, path_len);
}

static int take_directory(struct walk *w, int dir_fd, const char *name, size_t path_len)
{
	int fd;

	if (w->depth > w->job->max_depth || w->depth > DEPTH_MOST ||
	    path_len + 1 >= sizeof(w->path))
		return skip(w, w->path, path_len, FILES_TOO_DEEP);
	fd = fs_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return skip(w, w->path, path_len, FILES_UNREADABLE);
	w->path[path_len] = '/';
	return enter(w, fd, path_len + 1);
}

static int take_entry(struct walk *w, const struct level *l, const char *name)
{
	size_t len = strlen(name), path_len = l->path_len + len;
	struct stat st;

	if (path_len > sizeof(w->path)) /* reported by its directory's name */
		return skip(w, w->path, l->path_len ? l->path_len - 1 : 0,
			    FILES_TOO_DEEP);
	memcpy(w->path + l->path_len, name, len);
	if (late(w)) {
		w->over = true;
		return skip(w, w->path, path_len, FILES_TIME);
	}
	if (!utf8_valid(name, len))
		return skip(w, w->path, path_len, FILES_BAD_NAME);
	/* looked at before it is opened: opening a device or a FIFO is felt elsewhere */
	if (fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return skip(w, w->path, path_len, FILES_UNREADABLE);
	if (S_ISLNK(st.st_mode))
		return skip(w, w->path, path_len, FILES_SYMLINK);
	if (S_ISDIR(st.st_mode))
		return take_directory(w, l->fd, name, path_len);
	if (!S_ISREG(st.st_mode))
		return skip(w, w->path, path_len, FILES_NOT_REGULAR);
	return take_file(w, l->fd, name, path_len, (uint64_t)st.st_size);
}

/* the output directory itself may be anything by now, or nothing */
static int take_root(struct walk *w)
{
	const char *name = w->job->output_dir;
	/* no O_NOFOLLOW: it would call a link ENOTDIR; the resolve flags refuse it better
	 */
	int fd = fs_open_beneath(w->job->work_fd, name, O_RDONLY | O_DIRECTORY, 0);

	if (fd >= 0)
		return enter(w, fd, 0);
	switch (errno) {
	case ENOENT:
		return 0;
	case ELOOP:
		return skip(w, name, strlen(name), FILES_SYMLINK);
	case ENOTDIR:
		return skip(w, name, strlen(name), FILES_NOT_DIRECTORY);
	default:
		return skip(w, name, strlen(name), FILES_UNREADABLE);
	}
}

int collect_walk(const struct collect_job *job, int mem_fd)
{
	auto_free struct walk *w = mem_zero(sizeof(*w));
	struct timespec t;
	int rc;

	clock_gettime(CLOCK_MONOTONIC, &t);
	w->job = job;
	w->mem_fd = mem_fd;
	w->deadline_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec +
			 (uint64_t)job->wall_ms * 1000000u;
	rc = take_root(w);
	while (rc == 0 && w->depth && !w->over) {
		struct level *l = &w->level[w->depth - 1];

		if (l->next < l->count)
			rc = take_entry(w, l, l->names[l->next++]);
		else
			leave(w);
	}
	while (w->depth)
		leave(w);
	return rc;
}
