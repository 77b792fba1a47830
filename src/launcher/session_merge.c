/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_merge.c - one layer of many that show the same together
 *
 * Runs in: a process that the launcher forks. The layers are written to no more, so files
 * are not copied: the new one has the same by another name. What hides something of an
 * image below stays, since that may be there. Programs make trees as deep as they like:
 * few descriptors are open at any time, and the way back is "..".
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/defer.h"
#include "launcher/session_parts.h"
#include "launcher/session_view.h"

/* a directory on the way down */
struct level {
	struct view_names names;
	size_t next;
	struct stat st; /* as it is shown */
	ino_t ino;      /* as it is made */
	bool cut;
};

struct merge {
	struct view *v;
	int to_fd; /* of the deepest */
	struct level *levels;
	size_t depth, room;
};

static bool begins(const char *name, const char *begin)
{
	return strncmp(name, begin, strlen(begin)) == 0;
}

/* what programs give a directory, and no notes of an overlay */
static bool is_shown(const char *name)
{
	return begins(name, "system.posix_acl_") ||
	       (begins(name, "user.") && !begins(name, "user.overlay."));
}

static int copy_attributes(int from_fd, int to_fd)
{
	static char names[XATTR_LIST_MAX], value[XATTR_SIZE_MAX];
	const ssize_t len = flistxattr(from_fd, names, sizeof(names));
	const char *at;

	if (len < 0)
		return errno == ENOTSUP ? 0 : -1;
	for (at = names; at < names + len; at += strlen(at) + 1) {
		ssize_t n;

		if (!is_shown(at))
			continue;
		n = fgetxattr(from_fd, at, value, sizeof(value));
		if (n < 0 || fsetxattr(to_fd, at, value, (size_t)n, 0) < 0)
			return -1;
	}
	return 0;
}

/* as the highest is, which is the one that was shown */
static int dress(int fd, int as_fd, const struct stat *st, bool opaque)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	if ((opaque && fsetxattr(fd, VIEW_OPAQUE, "y", 1, 0) < 0) ||
	    copy_attributes(as_fd, fd) < 0)
		return -1;
	if (fchown(fd, st->st_uid, st->st_gid) < 0 || fchmod(fd, st->st_mode & 07777) < 0)
		return -1;
	return futimens(fd, times);
}

/* with the names of where the view is */
static int begin(struct merge *m, const struct stat *st, bool cut)
{
	struct level *level;
	struct stat made;
	unsigned i;

	if (m->depth == m->room) {
		m->room = m->room ? 2 * m->room : 64;
		m->levels = reallocarray(m->levels, m->room, sizeof(*m->levels));
		if (!m->levels)
			abort(); /* only this process */
	}
	if (fstat(m->to_fd, &made) < 0)
		return -1;
	level = &m->levels[m->depth++];
	*level = (struct level){.st = *st, .ino = made.st_ino, .cut = cut};
	for (i = 0; i < m->v->count; i++)
		if (view_shows(m->v, i) && view_names_add(&level->names, m->v->fd[i]) < 0)
			return -1;
	view_names_sort(&level->names);
	return 0;
}

static int go_down(struct merge *m, struct view_entry *e, const char *name)
{
	const bool cut = e->dirs.cut;
	auto_fd int fd = -1;

	if (e->dirs.count == 0) { /* these layers go, and so does what is made of them */
		errno = ENOENT;
		return -1;
	}
	if (mkdirat(m->to_fd, name, 0700) < 0)
		return -1;
	fd = openat(m->to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || view_enter(m->v, e) < 0)
		return -1;
	close(m->to_fd);
	m->to_fd = take_fd(&fd);
	return begin(m, &e->st, cut);
}

static int finish(const struct merge *m)
{
	const struct level *level = &m->levels[m->depth - 1];

	return dress(m->to_fd, view_top(m->v), &level->st, level->cut);
}

static int go_up(struct merge *m)
{
	auto_fd int fd = openat(m->to_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || finish(m) < 0 || view_leave(m->v) < 0)
		return -1;
	view_names_done(&m->levels[--m->depth].names);
	if (st.st_ino != m->levels[m->depth - 1].ino) {
		errno = ESTALE;
		return -1;
	}
	close(m->to_fd);
	m->to_fd = take_fd(&fd);
	return 0;
}

static int merge_name(struct merge *m, const char *name)
{
	struct view_entry e;
	int rc = 0;

	if (view_look(m->v, name, &e) < 0)
		return -1;
	if (e.kind == VIEW_DIRECTORY)
		rc = go_down(m, &e, name);
	else if (e.kind == VIEW_FILE)
		rc = linkat(e.at_fd, name, m->to_fd, name, 0);
	else if (e.kind == VIEW_HIDDEN)
		rc = mknodat(m->to_fd, name, S_IFCHR, makedev(0, 0));
	view_close(&e);
	return rc;
}

static int merge(struct merge *m)
{
	for (;;) {
		struct level *level = &m->levels[m->depth - 1];
		int rc = 0;

		if (level->next < level->names.count)
			rc = merge_name(m, level->names.name[level->next++]);
		else if (m->depth > 1)
			rc = go_up(m);
		else
			return finish(m);
		if (rc < 0)
			return -1;
	}
}

static void merge_done(struct merge *m)
{
	const int saved = errno;

	while (m->depth)
		view_names_done(&m->levels[--m->depth].names);
	free(m->levels);
	if (m->to_fd >= 0)
		close(m->to_fd);
	errno = saved;
}

int session_merge(struct view *v, int to_fd)
{
	struct merge m = {.v = v};
	struct stat st;
	int rc;

	m.to_fd = openat(to_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = m.to_fd < 0 || fstat(v->fd[0], &st) < 0 || begin(&m, &st, false) < 0 ||
			     merge(&m) < 0
		     ? -1
		     : 0;
	merge_done(&m);
	if (rc < 0)
		return -1;
	session_kept_merged(to_fd);
	return syncfs(to_fd);
}
