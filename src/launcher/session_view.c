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

struct view_level {
	bool cut;  /* as in struct view_dirs */
	ino_t *up; /* of each directory that is shown: what it was found in */
};

static bool hides(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool is_opaque(int fd)
{
	char byte = 0;

	return fgetxattr(fd, VIEW_OPAQUE, &byte, 1) == 1 && byte == 'y';
}

static int add_directory(struct view_dirs *dirs, int at_fd, const char *name,
			 unsigned layer)
{
	const int fd = openat(at_fd, name,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* in a session that is used it may be gone, or another thing, by now */
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
	dirs->layer[dirs->count] = layer;
	dirs->fd[dirs->count++] = fd;
	dirs->cut = is_opaque(fd);
	return 0;
}

int view_look(const struct view *v, const char *name, struct view_entry *out)
{
	struct stat st;
	unsigned i;

	*out = (struct view_entry){.kind = VIEW_NONE, .at_fd = -1};
	for (i = 0; i < v->count && !out->dirs.cut; i++) {
		if (!view_shows(v, i))
			continue;
		if (fstatat(v->fd[i], name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			view_close(out);
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
		if (add_directory(&out->dirs, v->fd[i], name, i) < 0) {
			view_close(out);
			return -1;
		}
	}
	return 0;
}

void view_close(struct view_entry *e)
{
	while (e->dirs.count)
		defer_close(&e->dirs.fd[--e->dirs.count]);
}

static int level_new(struct view *v, const struct view_dirs *dirs)
{
	struct view_level *level;
	struct stat st;
	unsigned i;

	if (v->depth == v->room) {
		v->room = v->room ? 2 * v->room : 64;
		v->level = reallocarray(v->level, v->room, sizeof(*v->level));
		if (!v->level)
			abort(); /* only this process */
	}
	level = &v->level[v->depth];
	*level = (struct view_level){.cut = dirs->cut};
	level->up = mem_array(dirs->count + 1, sizeof(*level->up));
	for (i = 0; i < dirs->count; i++) {
		if (fstat(v->fd[dirs->layer[i]], &st) < 0) {
			free(level->up);
			return -1;
		}
		level->up[i] = st.st_ino;
	}
	return 0;
}

int view_enter(struct view *v, struct view_entry *e)
{
	struct view_dirs *dirs = &e->dirs;
	unsigned i;

	if (level_new(v, dirs) < 0)
		return -1;
	v->depth++;
	for (i = 0; i < dirs->count; i++) {
		const unsigned layer = dirs->layer[i];

		close(v->fd[layer]);
		v->fd[layer] = take_fd(&dirs->fd[i]);
		v->at[layer] = v->depth;
	}
	dirs->count = 0;
	return 0;
}

/* a layer is one file system, with nothing mounted in it: the number tells */
static int layer_leave(struct view *v, unsigned layer, ino_t up)
{
	const int fd = openat(v->fd[layer], "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -1;
	close(v->fd[layer]);
	v->fd[layer] = fd;
	v->at[layer]--;
	if (fstat(fd, &st) < 0)
		return -1;
	if (st.st_ino == up)
		return 0;
	errno = ESTALE;
	return -1;
}

int view_leave(struct view *v)
{
	struct view_level *level = &v->level[v->depth - 1];
	unsigned i, n = 0;
	int rc = 0;

	for (i = 0; rc == 0 && i < v->count; i++)
		if (view_shows(v, i))
			rc = layer_leave(v, i, level->up[n++]);
	free(level->up);
	v->depth--;
	return rc;
}

bool view_shows(const struct view *v, unsigned layer)
{
	return v->at[layer] == v->depth;
}

int view_top(const struct view *v)
{
	unsigned i = 0;

	while (i < v->count && !view_shows(v, i))
		i++;
	return i < v->count ? v->fd[i] : -1;
}

bool view_hides_others(const struct view *v)
{
	const bool cut = v->depth && v->level[v->depth - 1].cut;
	unsigned i = v->count;

	while (i > 0 && !view_shows(v, i - 1))
		i--;
	return i == 0 || (cut && v->own[i - 1]);
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
