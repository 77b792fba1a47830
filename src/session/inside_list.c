/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inside_list.c - a page of a listing: the first names behind one, in their order
 *
 * Runs in: a session. However many names there are, no more than two pages of them are
 * kept. A tree is walked without following a link or going into another file system, one
 * directory open at a time; what goes away meanwhile is left out.
 */
#include "session/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/mem.h"
#include "session/store.h"

struct entry {
	char *name;
	struct stat st;
};

static struct {
	struct entry list[2 * SESSION_ENTRIES];
	size_t count;
	bool more;
	const char *behind; /* "": of the first page */
	const char *last; /* once there is a full page: what comes later is of the next */
} page;

/* directories that are still to be read */
struct todo {
	struct todo *next;
	char path[]; /* below the one that is listed */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static void shrink(void)
{
	qsort(page.list, page.count, sizeof(page.list[0]), by_name);
	while (page.count > SESSION_ENTRIES) {
		free(page.list[--page.count].name);
		page.more = true;
	}
	if (page.count == SESSION_ENTRIES)
		page.last = page.list[page.count - 1].name;
}

static void add(const char *name, const struct stat *st)
{
	if (page.behind[0] && strcmp(name, page.behind) <= 0)
		return;
	if (page.last && strcmp(name, page.last) > 0) {
		page.more = true;
		return;
	}
	if (page.count == 2 * (size_t)SESSION_ENTRIES)
		shrink();
	page.list[page.count].st = *st;
	page.list[page.count++].name = mem_copy(name);
}

/* nothing below it is of this page: all of that begins with its name and a slash */
static bool is_elsewhere(const char *path)
{
	const size_t len = strlen(path);
	const int order = strncmp(path, page.behind, len);

	if (order < 0 || (order == 0 && (unsigned char)page.behind[len] > '/'))
		return page.behind[0];
	return page.last && strcmp(path, page.last) > 0;
}

static void add_todo(struct todo **all, const char *path)
{
	const size_t room = strlen(path) + 1;
	struct todo *t;

	if (is_elsewhere(path))
		return;
	t = mem_zero(sizeof(*t) + room);
	memcpy(t->path, path, room);
	t->next = *all;
	*all = t;
}

/* takes the descriptor; base: what comes before the names; all: NULL: not below it */
static int list_one(int dir_fd, const char *base, struct todo **all)
{
	DIR *dir = fdopendir(dir_fd);
	char path[PATH_MAX];
	struct dirent *d;
	struct stat st;

	if (!dir) {
		close(dir_fd);
		return -1;
	}
	while ((d = readdir(dir))) {
		const int len = snprintf(path, sizeof(path), "%s%s%s", base,
					 base[0] ? "/" : "", d->d_name);

		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (partial_is(d->d_name)) {
			partial_sweep(dir_fd, d->d_name);
			continue;
		}
		/* one with a longer path could not be asked for */
		if (len >= PATH_MAX ||
		    fstatat(dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		add(path, &st);
		if (all && S_ISDIR(st.st_mode))
			add_todo(all, path);
	}
	closedir(dir);
	return 0;
}

/* what cannot be read, or is another file system, is not gone into */
static void list_below(int top_fd, struct todo *all)
{
	struct todo *t;

	while ((t = all)) {
		int fd = fs_open_beneath(top_fd, t->path,
					 O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);

		all = t->next;
		if (fd >= 0)
			(void)list_one(fd, t->path, &all);
		free(t);
	}
}

static char letter(mode_t mode)
{
	return S_ISREG(mode)    ? 'f'
	       : S_ISDIR(mode)  ? 'd'
	       : S_ISLNK(mode)  ? 'l'
	       : S_ISFIFO(mode) ? 'p'
	       : S_ISSOCK(mode) ? 's'
				: 'c';
}

static int print(void)
{
	shrink();
	printf("%d\n", page.more);
	for (size_t i = 0; i < page.count; i++) {
		const struct entry *n = &page.list[i];

		printf("%c %llu %u %lld %s%c", letter(n->st.st_mode),
		       (unsigned long long)n->st.st_size, n->st.st_mode & 07777,
		       n->st.st_mtime < 0 ? 0LL : (long long)n->st.st_mtime, n->name, 0);
	}
	return fflush(stdout) == 0 ? 0 : INSIDE_FAULT;
}

int inside_list(char **words)
{
	auto_fd int top_fd = open(words[0],
				  O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	const bool recursive = strcmp(words[1], "all") == 0;
	struct todo *all = NULL;
	int fd;

	if (top_fd < 0)
		return inside_status(errno);
	if (inside_is_kernels(top_fd))
		return INSIDE_BLOCKED;
	page.behind = words[2];
	fd = fcntl(top_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || list_one(fd, "", recursive ? &all : NULL) < 0)
		return inside_status(errno);
	list_below(top_fd, all);
	return print();
}
