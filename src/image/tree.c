/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tree.c - layers of an image onto each other, in a directory
 *
 * Runs in: a process that may write nothing but this directory. It is the only one that
 * does, so that what was looked at stays as it was seen.
 */
#include "image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"

#define OWNERS_PIECE (64u << 10)
#define CHUNK (64u << 10)
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define OTHERS_OWN ".wh..wh." /* what aufs kept for itself */

void tree_init(struct tree *t, int root_fd, int owners_fd, uint64_t bytes_most,
	       uint64_t entries_most)
{
	memset(t, 0, sizeof(*t));
	t->root_fd = root_fd;
	t->owners_fd = owners_fd;
	t->bytes_most = bytes_most;
	t->entries_most = entries_most;
	t->file_fd = -1;
	buf_init(&t->owners, OWNERS_PIECE + 2 * TAR_PATH);
}

void tree_done(struct tree *t)
{
	defer_close(&t->file_fd);
	t->file_fd = -1;
	tree_set_done(&t->ours);
	buf_done(&t->owners);
}

void tree_next_layer(struct tree *t)
{
	tree_set_done(&t->ours);
}

static int bad(const char *path, const char *why, struct err *e)
{
	char shown[TAR_SHOWN];

	return err_bad(e, "the entry '%s' %s", tar_shown(path, shown), why);
}

static int failed(const char *path, struct err *e)
{
	char shown[TAR_SHOWN];

	return err_errno(e, "write '%s'", tar_shown(path, shown));
}

static int flush_owners(struct tree *t, struct err *e)
{
	if (t->owners_fd >= 0 &&
	    fs_write_all(t->owners_fd, t->owners.bytes, t->owners.len) < 0)
		return err_errno(e, "write the owners of files");
	t->owners.len = 0;
	return 0;
}

/* as the archive has it: on disk all files are of one owner */
static int note_owner(struct tree *t, const struct tar_entry *n, struct err *e)
{
	if (t->owners.len > OWNERS_PIECE && flush_owners(t, e) < 0)
		return -1;
	if (buf_printf(&t->owners, "%llu %llu %o %s", (unsigned long long)n->uid,
		       (unsigned long long)n->gid, n->mode, n->path) < 0 ||
	    buf_add(&t->owners, "", 1) < 0)
		return err_errno(e, "keep the owners of files");
	return 0;
}

static int count_entry(struct tree *t, uint64_t more, struct err *e)
{
	t->counts.entries += more;
	return t->counts.entries > t->entries_most
		       ? err_bad(e, "it has more than %llu entries",
				 (unsigned long long)t->entries_most)
		       : 0;
}

/* this directory and those above it are part of this layer */
static int claim(struct tree *t, int dir_fd, const char *path)
{
	char part[TAR_PATH];
	struct stat st;

	if (fstat(dir_fd, &st) < 0)
		return -1;
	if (tree_set_has(&t->ours, st.st_ino))
		return 0;
	for (size_t i = 0; path[i]; i++) {
		if (path[i + 1] && path[i + 1] != '/')
			continue;
		memcpy(part, path, i + 1);
		part[i + 1] = '\0';
		if (fstatat(t->root_fd, part, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -1;
		tree_set_add(&t->ours, st.st_ino);
	}
	return 0;
}

static int open_below(const struct tree *t, const char *path)
{
	return fs_open_beneath(t->root_fd, path[0] ? path : ".",
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

/* "a/b/c": "a/b" in out_dir, and "c" */
static const char *split(const char *path, char out_dir[TAR_PATH])
{
	const char *slash = strrchr(path, '/');
	const size_t len = slash ? (size_t)(slash - path) : 0;

	memcpy(out_dir, path, len);
	out_dir[len] = '\0';
	return slash ? slash + 1 : path;
}

static int no_parent(const char *path, struct err *e)
{
	if (errno == ELOOP || errno == ENOTDIR || errno == EXDEV)
		return bad(path, "leads through a symbolic link or a file", e);
	return failed(path, e);
}

/* the directory that an entry is in; made where the archive does not have it */
static int open_parent(struct tree *t, const char *path, const char **out_name,
		       struct err *e)
{
	char dir[TAR_PATH];
	auto_fd int fd = -1;
	uint64_t depth = 1;

	*out_name = split(path, dir);
	fd = open_below(t, dir);
	if (fd < 0 && errno == ENOENT) {
		for (const char *c = dir; *c; c++)
			depth += *c == '/';
		if (count_entry(t, depth, e) < 0)
			return -1;
		fd = fs_make_path(t->root_fd, dir, 0755);
	}
	if (fd < 0 || claim(t, fd, dir) < 0)
		return no_parent(path, e);
	return take_fd(&fd);
}

/* whatever has the name: a later entry wins */
static int make_way(int dir_fd, const char *name)
{
	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	return fs_remove_tree(dir_fd, name);
}

static int mark(struct tree *t, int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	tree_set_add(&t->ours, st.st_ino);
	return 0;
}

/* what everybody can read, and nobody gains rights by */
static mode_t open_mode(struct tree *t, const struct tar_entry *n)
{
	const bool dir = n->kind == TAR_DIRECTORY;
	const mode_t had = n->mode, least = dir || had & 0100 ? 0555 : 0444;

	t->counts.set_id += (!dir && had & 06000) || n->has_caps;
	t->counts.opened += (had & least) != least;
	return (had & (dir ? 01777 : 0777)) | least | (dir ? 0700 : 0200);
}

static int make_directory(struct tree *t, int dir_fd, const char *name, mode_t mode)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode)) {
		if (make_way(dir_fd, name) < 0 || mkdirat(dir_fd, name, 0700) < 0)
			return -1;
	}
	return fchmodat(dir_fd, name, mode, 0) < 0 ? -1 : mark(t, dir_fd, name);
}

static int make_file(struct tree *t, int dir_fd, const char *name,
		     const struct tar_entry *n, mode_t mode)
{
	if (make_way(dir_fd, name) < 0)
		return -1;
	t->file_fd = openat(dir_fd, name,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (t->file_fd < 0)
		return -1;
	t->file_mode = mode;
	t->file_time = (struct timespec){.tv_sec = n->mtime_sec};
	memcpy(t->file_path, n->path, sizeof(t->file_path));
	return mark(t, dir_fd, name);
}

static int make_symlink(struct tree *t, int dir_fd, const char *name,
			const struct tar_entry *n)
{
	const struct timespec when = {.tv_sec = n->mtime_sec};

	if (make_way(dir_fd, name) < 0 || symlinkat(n->target, dir_fd, name) < 0)
		return -1;
	(void)utimensat(dir_fd, name, (struct timespec[]){when, when},
			AT_SYMLINK_NOFOLLOW); /* not on every file system */
	return mark(t, dir_fd, name);
}

/* Landlock's first version lets no link into another directory; some file systems have
 * few links or none */
static int copy_file(struct tree *t, int from_dir, const char *from, int to_dir,
		     const char *to)
{
	auto_fd int in_fd = openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int out_fd = -1;
	static char chunk[CHUNK];
	struct stat st;
	ssize_t len;

	if (in_fd < 0 || fstat(in_fd, &st) < 0)
		return -1;
	t->counts.bytes += (uint64_t)st.st_size;
	if (t->counts.bytes > t->bytes_most) {
		errno = EFBIG;
		return -1;
	}
	out_fd = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);
	if (out_fd < 0)
		return -1;
	while ((len = read(in_fd, chunk, sizeof(chunk))) > 0)
		if (fs_write_all(out_fd, chunk, (size_t)len) < 0)
			return -1;
	if (len < 0 || futimens(out_fd, (struct timespec[]){st.st_mtim, st.st_mtim}) < 0)
		return -1;
	return fchmod(out_fd, st.st_mode & 0777);
}

static int make_hardlink(struct tree *t, int dir_fd, const char *name,
			 const struct tar_entry *n, struct err *e)
{
	char dir[TAR_PATH], shown[TAR_SHOWN];
	const char *other = split(n->target, dir);
	auto_fd int other_fd = open_below(t, dir);
	struct stat st, old;
	int rc;

	if (other_fd < 0 || fstatat(other_fd, other, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    S_ISDIR(st.st_mode))
		return err_bad(e, "the entry '%s' is a hard link to no file of the image",
			       tar_shown(n->path, shown));
	if (fstatat(dir_fd, name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	    old.st_ino == st.st_ino)
		return 0; /* linked already, or to itself */
	if (make_way(dir_fd, name) < 0)
		return failed(n->path, e);
	rc = linkat(other_fd, other, dir_fd, name, 0);
	if (rc < 0 && S_ISREG(st.st_mode) &&
	    (errno == EXDEV || errno == EACCES || errno == EMLINK || errno == EPERM))
		rc = copy_file(t, other_fd, other, dir_fd, name);
	return rc < 0 || mark(t, dir_fd, name) < 0 ? failed(n->path, e) : 0;
}

/* what earlier layers have of this name; a directory that this layer has too stays, and
 * only what is in it goes */
static int hide(struct tree *t, int dir_fd, const char *name);

static int hide_all(struct tree *t, int dir_fd, const char *name)
{
	const int fd = openat(dir_fd, name,
			      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	int rc = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while (rc == 0 && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			rc = hide(t, dirfd(dir), d->d_name);
	closedir(dir);
	return rc;
}

static int hide(struct tree *t, int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	if (!tree_set_has(&t->ours, st.st_ino))
		return fs_remove_tree(dir_fd, name);
	return S_ISDIR(st.st_mode) ? hide_all(t, dir_fd, name) : 0;
}

static int apply_whiteout(struct tree *t, const struct tar_entry *n, const char *name,
			  struct err *e)
{
	const bool all = strcmp(name, OPAQUE) == 0;
	const char *what = name + strlen(WHITEOUT);
	char dir[TAR_PATH];
	auto_fd int dir_fd = -1;

	if (!all && strncmp(name, OTHERS_OWN, strlen(OTHERS_OWN)) == 0)
		return TAR_UNWANTED;
	if (!what[0] || strcmp(what, ".") == 0 || strcmp(what, "..") == 0)
		return bad(n->path, "removes something outside", e);
	(void)split(n->path, dir);
	dir_fd = open_below(t, dir);
	if (dir_fd < 0)
		return errno == ENOENT ? TAR_UNWANTED : no_parent(n->path, e);
	if (all ? hide_all(t, dir_fd, ".") < 0 : hide(t, dir_fd, what) < 0)
		return failed(n->path, e);
	return TAR_UNWANTED;
}

static int make_entry(struct tree *t, const struct tar_entry *n, struct err *e)
{
	const char *name = NULL;
	auto_fd int dir_fd = open_parent(t, n->path, &name, e);
	int rc = 0;

	if (dir_fd < 0)
		return -1;
	switch (n->kind) {
	case TAR_FILE:
		rc = make_file(t, dir_fd, name, n, open_mode(t, n));
		break;
	case TAR_DIRECTORY:
		rc = make_directory(t, dir_fd, name, open_mode(t, n));
		break;
	case TAR_SYMLINK:
		rc = make_symlink(t, dir_fd, name, n);
		break;
	case TAR_HARDLINK:
		return make_hardlink(t, dir_fd, name, n, e);
	case TAR_SPECIAL:
		t->counts.special++;
		rc = make_way(dir_fd, name);
		break;
	}
	return rc < 0 ? failed(n->path, e) : 0;
}

static int on_entry(void *arg, const struct tar_entry *n, struct err *e)
{
	struct tree *t = arg;
	const char *slash = strrchr(n->path, '/');
	const char *name = slash ? slash + 1 : n->path;
	char shown[TAR_SHOWN];

	if (count_entry(t, 1, e) < 0)
		return -1;
	if (n->size > t->bytes_most - t->counts.bytes)
		return err_bad(e,
			       "the entry '%s' has %llu bytes: more than --max-mb "
			       "leaves for it",
			       tar_shown(n->path, shown), (unsigned long long)n->size);
	t->counts.bytes += n->size;
	if (!n->path[0]) /* the root is there, and is everybody's to read */
		return n->kind == TAR_DIRECTORY ? 0 : bad(".", "is no directory", e);
	if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0)
		return apply_whiteout(t, n, name, e);
	if (make_entry(t, n, e) < 0 || note_owner(t, n, e) < 0)
		return -1;
	return TAR_WANTED;
}

static int on_data(void *arg, const char *bytes, size_t len, struct err *e)
{
	struct tree *t = arg;

	return fs_write_all(t->file_fd, bytes, len) < 0 ? failed(t->file_path, e) : 0;
}

static int on_end(void *arg, struct err *e)
{
	struct tree *t = arg;
	auto_fd int fd = take_fd(&t->file_fd);

	if (futimens(fd, (struct timespec[]){t->file_time, t->file_time}) < 0 ||
	    fchmod(fd, t->file_mode) < 0)
		return failed(t->file_path, e);
	return 0;
}

struct tar_handler tree_handler(struct tree *t)
{
	return (struct tar_handler){t, on_entry, on_data, on_end};
}

int tree_finish(struct tree *t, struct err *e)
{
	return flush_owners(t, e);
}
