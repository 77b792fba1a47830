/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_view.c - what a stack of layers shows, without mounting it
 *
 * Runs in: processes that the launcher forks. No link is followed.
 */
#include "launcher/session_view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/mem.h"

static bool hides(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool is_opaque(int fd)
{
	char byte = 0;

	return fgetxattr(fd, VIEW_OPAQUE, &byte, 1) == 1 && byte == 'y';
}

static int add_directory(struct view *dir, int at_fd, const char *name, bool own)
{
	const int fd = openat(at_fd, name,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* in a session that is used it may be gone, or another thing, by now */
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
	dir->own[dir->count] = own;
	dir->fd[dir->count++] = fd;
	dir->cut = is_opaque(fd);
	return 0;
}

int view_look(const struct view *v, const char *name, struct view_entry *out)
{
	struct stat st;
	unsigned i;

	*out = (struct view_entry){.kind = VIEW_NONE, .at_fd = -1};
	for (i = 0; i < v->count && !out->dir.cut; i++) {
		if (fstatat(v->fd[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			view_close(&out->dir);
			return -1;
		}
		if (!S_ISDIR(st.st_mode) && out->kind == VIEW_DIRECTORY)
			break;
		if (out->kind == VIEW_NONE) {
			out->st = st;
			out->at_fd = v->fd[i];
			out->kind = hides(&st)            ? VIEW_HIDDEN
				    : S_ISDIR(st.st_mode) ? VIEW_DIRECTORY
							  : VIEW_FILE;
		}
		if (out->kind != VIEW_DIRECTORY)
			break;
		if (add_directory(&out->dir, v->fd[i], name, v->own[i]) < 0) {
			view_close(&out->dir);
			return -1;
		}
	}
	return 0;
}

void view_close(struct view *v)
{
	while (v->count)
		defer_close(&v->fd[--v->count]);
}

int view_names_add(struct view_names *n, int dir_fd)
{
	const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (n->count == n->room) {
			n->room = n->room ? 2 * n->room : 64;
			n->name = realloc(n->name, n->room * sizeof(*n->name));
			if (!n->name)
				abort(); /* only this process */
		}
		n->name[n->count++] = mem_copy(d->d_name);
	}
	closedir(dir);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void view_names_sort(struct view_names *n)
{
	size_t i, kept = 0;

	if (n->count == 0)
		return;
	qsort(n->name, n->count, sizeof(*n->name), by_name);
	for (i = 1; i < n->count; i++) {
		if (strcmp(n->name[kept], n->name[i]) == 0)
			free(n->name[i]);
		else
			n->name[++kept] = n->name[i];
	}
	n->count = kept + 1;
}

void view_names_done(struct view_names *n)
{
	while (n->count)
		free(n->name[--n->count]);
	free(n->name);
	*n = (struct view_names){0};
}
