/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_diff.c - what a session has changed since its image, or a checkpoint
 *
 * Runs in: a process that the launcher forks, with the right to read any file and no
 * other, and Landlock lets it read below the layers and the image alone. It says names,
 * and of files only whether they are the same.
 *
 *	A path NUL      added
 *	M path NUL      modified: bytes, mode, owner, or what it is
 *	D path NUL      deleted
 *	T NUL           there is more
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/fs.h"
#include "launcher/session_parts.h"
#include "launcher/session_view.h"
#include "wire/files.h"

#define CHUNK 65536
#define ENTRIES_MOST 20000
#define TEXT_MOST (4u << 20)
#define PATH_MOST 4096

/* a directory on the way down */
struct level {
	struct view_names names;
	size_t next;
	size_t len; /* of its path */
};

struct diff {
	struct buf *out;
	struct view *a, *b; /* as it is, and as it was */
	struct level *levels;
	size_t depth, room;
	char path[PATH_MOST];
	size_t len;
	unsigned entries;
	bool host, more;
	uid_t root; /* the first of a range; 0: it has none */
};

static bool is_one_of(const char *path, const char *const *paths, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(path, paths[i]) == 0)
			return true;
	return false;
}

/* what every root of the host's runtime has: then what is there instead was changed */
static bool made_for_all(const struct diff *d)
{
	static const char *const paths[] = {
		"/etc/passwd",        "/etc/group",      "/etc/hostname", "/etc/hosts",
		"/etc/nsswitch.conf", "/etc/os-release", "/var/tmp"};

	return d->host && is_one_of(d->path, paths, sizeof(paths) / sizeof(paths[0]));
}

static int tell(struct diff *d, char what)
{
	if (d->entries == ENTRIES_MOST || d->out->len + d->len + 2 > TEXT_MOST - 2) {
		d->more = true;
		return 0;
	}
	if (what == 'A' && made_for_all(d))
		what = 'M';
	d->entries++;
	return buf_add(d->out, &what, 1) < 0 ? -1 : buf_add(d->out, d->path, d->len + 1);
}

static int open_entry(const struct view_entry *e, const char *name)
{
	return openat(e->at_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static bool same_bytes(const struct view_entry *a, const struct view_entry *b,
		       const char *name)
{
	static char one[CHUNK], two[CHUNK];
	auto_fd int a_fd = open_entry(a, name);
	auto_fd int b_fd = open_entry(b, name);
	ssize_t n;

	if (a_fd < 0 || b_fd < 0)
		return false;
	while ((n = read(a_fd, one, CHUNK)) > 0)
		if (read(b_fd, two, (size_t)n) != n || memcmp(one, two, (size_t)n) != 0)
			return false;
	return n == 0;
}

static bool same_target(const struct view_entry *a, const struct view_entry *b,
			const char *name)
{
	char one[PATH_MOST], two[PATH_MOST];
	const ssize_t n = readlinkat(a->at_fd, name, one, sizeof(one));

	return n >= 0 && readlinkat(b->at_fd, name, two, sizeof(two)) == n &&
	       memcmp(one, two, (size_t)n) == 0;
}

/* as it is inside: what is of no id of the range is the image's, and so root's */
static unsigned shown(const struct diff *d, unsigned id)
{
	return d->root && id - d->root >= SETUP_ROOT_IDS ? d->root : id;
}

static bool same(const struct diff *d, const struct view_entry *a,
		 const struct view_entry *b, const char *name)
{
	if (a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino)
		return true;
	if (a->st.st_mode != b->st.st_mode ||
	    shown(d, a->st.st_uid) != shown(d, b->st.st_uid) ||
	    shown(d, a->st.st_gid) != shown(d, b->st.st_gid))
		return false;
	if (S_ISREG(a->st.st_mode))
		return a->st.st_size == b->st.st_size && same_bytes(a, b, name);
	return S_ISLNK(a->st.st_mode) ? same_target(a, b, name) : true;
}

static bool is_there(const struct view_entry *e)
{
	return e->kind == VIEW_FILE || e->kind == VIEW_DIRECTORY;
}

/* the two places that every session has from the start, and those that every root of the
 * host's runtime has */
static bool is_own_place(const struct diff *d, const struct view_entry *a)
{
	static const char *const paths[] = {"/work",     "/tmp",      "/etc",
					    "/run",      "/var",      "/root",
					    "/go-cache", "/packages", "/node_modules"};

	return a->kind == VIEW_DIRECTORY &&
	       is_one_of(d->path, paths, d->host ? sizeof(paths) / sizeof(paths[0]) : 2);
}

/* what every root has is in no layer that is looked at, but what hides it is */
static bool is_gone(const struct diff *d, const struct view_entry *a,
		    const struct view_entry *b)
{
	if (is_there(a))
		return false;
	return is_there(b) ||
	       (a->kind == VIEW_HIDDEN && b->kind == VIEW_NONE && made_for_all(d));
}

/* of the layers that only one of them has; of all, where one of those hides others */
static int names_of(const struct view *v, bool all, struct view_names *n)
{
	unsigned i;

	for (i = 0; i < v->count; i++)
		if (view_shows(v, i) && (all || v->own[i]) &&
		    view_names_add(n, v->fd[i]) < 0)
			return -1;
	return 0;
}

/* with the names of where the views are */
static int begin(struct diff *d)
{
	const bool all = view_hides_others(d->a) || view_hides_others(d->b);
	struct level *level;

	if (d->depth == d->room) {
		d->room = d->room ? 2 * d->room : 64;
		d->levels = reallocarray(d->levels, d->room, sizeof(*d->levels));
		if (!d->levels)
			abort(); /* only this process */
	}
	level = &d->levels[d->depth++];
	*level = (struct level){.len = d->len};
	if (names_of(d->a, all, &level->names) < 0 ||
	    names_of(d->b, all, &level->names) < 0)
		return -1;
	view_names_sort(&level->names);
	return 0;
}

static int compare(struct diff *d, struct view_entry *a, struct view_entry *b,
		   const char *name)
{
	int rc = 0;

	if (is_there(a) && !is_there(b))
		rc = is_own_place(d, a) ? 0 : tell(d, 'A');
	else if (is_gone(d, a, b))
		rc = tell(d, 'D');
	else if (is_there(a) && !same(d, a, b, name) && !is_own_place(d, a))
		rc = tell(d, 'M');
	if (rc < 0 || (a->kind != VIEW_DIRECTORY && b->kind != VIEW_DIRECTORY))
		return rc;
	return view_enter(d->a, a) < 0 || view_enter(d->b, b) < 0 ? -1 : begin(d);
}

static int compare_name(struct diff *d, const char *name)
{
	const size_t len = d->levels[d->depth - 1].len, add = strlen(name) + 1;
	struct view_entry in_a, in_b;
	int rc;

	if (len + add >= sizeof(d->path)) {
		d->more = true;
		return 0;
	}
	if (view_look(d->a, name, &in_a) < 0)
		return -1;
	if (view_look(d->b, name, &in_b) < 0) {
		view_close(&in_a);
		return -1;
	}
	d->path[len] = '/';
	memcpy(d->path + len + 1, name, add);
	d->len = len + add;
	rc = compare(d, &in_a, &in_b, name);
	view_close(&in_a);
	view_close(&in_b);
	return rc;
}

/* whoever moves what we are in shows us nothing more: then there is more */
static int go_up(struct diff *d)
{
	view_names_done(&d->levels[--d->depth].names);
	if (view_leave(d->a) == 0 && view_leave(d->b) == 0)
		return 0;
	if (errno != ESTALE && errno != ENOENT)
		return -1;
	d->more = true;
	return 0;
}

static int compare_all(struct diff *d)
{
	int rc = begin(d);

	while (rc == 0 && !d->more) {
		struct level *level = &d->levels[d->depth - 1];

		if (level->next < level->names.count)
			rc = compare_name(d, level->names.name[level->next++]);
		else if (d->depth > 1)
			rc = go_up(d);
		else
			break;
	}
	while (d->depth)
		view_names_done(&d->levels[--d->depth].names);
	free(d->levels);
	return rc;
}

int session_diff_write(struct view *now, struct view *then, bool host, uid_t root,
		       struct buf *out)
{
	struct diff d = {.out = out, .a = now, .b = then, .host = host, .root = root};

	buf_init(out, TEXT_MOST);
	if (compare_all(&d) < 0)
		return -1;
	return d.more ? buf_add(out, "T", 2) : 0;
}

int session_diff_send(int mem_fd, const struct buf *text)
{
	static const char name[] = "diff", zeros[FILES_ALIGN];
	const struct files_head head = {
		.kind = FILES_FILE, .name_len = sizeof(name) - 1, .data_len = text->len};
	const size_t size = sizeof(head) + head.name_len + text->len;
	const size_t pad = (FILES_ALIGN - size % FILES_ALIGN) % FILES_ALIGN;

	return fs_write_all(mem_fd, &head, sizeof(head)) < 0 ||
			       fs_write_all(mem_fd, name, head.name_len) < 0 ||
			       fs_write_all(mem_fd, text->bytes, text->len) < 0 ||
			       fs_write_all(mem_fd, zeros, pad) < 0
		       ? -1
		       : 0;
}
