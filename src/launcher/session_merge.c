/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_merge.c - one layer of many that show the same together
 *
 * Runs in: a process that the launcher forks. The layers are written to no more, so files
 * are not copied: the new one has the same by another name. What hides something of an
 * image below stays, since that may be there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/defer.h"
#include "launcher/session_parts.h"
#include "launcher/session_view.h"

static int merge(const struct view *v, int to_fd, unsigned depth);

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

static int merge_directory(const struct view_entry *e, int to_fd, const char *name,
			   unsigned depth)
{
	auto_fd int fd = -1;

	if (e->dir.count == 0) { /* these layers go, and so does what is made of them */
		errno = ENOENT;
		return -1;
	}
	if (mkdirat(to_fd, name, 0700) < 0)
		return -1;
	fd = openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || merge(&e->dir, fd, depth + 1) < 0)
		return -1;
	return dress(fd, e->dir.fd[0], &e->st, e->dir.cut);
}

static int merge_name(const struct view *v, int to_fd, const char *name, unsigned depth)
{
	struct view_entry e;
	int rc = 0;

	if (view_look(v, name, &e) < 0)
		return -1;
	if (e.kind == VIEW_DIRECTORY)
		rc = merge_directory(&e, to_fd, name, depth);
	else if (e.kind == VIEW_FILE)
		rc = linkat(e.at_fd, name, to_fd, name, 0);
	else if (e.kind == VIEW_HIDDEN)
		rc = mknodat(to_fd, name, S_IFCHR, makedev(0, 0));
	view_close(&e.dir);
	return rc;
}

static int merge(const struct view *v, int to_fd, unsigned depth)
{
	struct view_names names = {0};
	unsigned i;
	size_t n;
	int rc = 0;

	if (depth > VIEW_DEPTH) {
		errno = ELOOP; /* then it stays as deep as it is */
		return -1;
	}
	for (i = 0; rc == 0 && i < v->count; i++)
		rc = view_names_add(&names, v->fd[i]);
	view_names_sort(&names);
	for (n = 0; rc == 0 && n < names.count; n++)
		rc = merge_name(v, to_fd, names.name[n], depth);
	view_names_done(&names);
	return rc;
}

int session_merge(const struct view *v, int to_fd)
{
	struct stat st;

	if (fstat(v->fd[0], &st) < 0 || merge(v, to_fd, 0) < 0)
		return -1;
	if (dress(to_fd, v->fd[0], &st, false) < 0)
		return -1;
	session_kept_merged(to_fd);
	return syncfs(to_fd);
}
