/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pack.c - a directory as a tar
 *
 * Runs in: a process that may read this directory and nothing else. Whoever wrote the
 * files may still do so: what a file grew by meanwhile is left out, what it lost is zero.
 */
#include "image/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "image/tar.h"

#define PIECE (64u << 10)
#define NAME_ROOM 100
#define SIZE_MOST 077777777777u /* in octal digits */
#define ID_MOST 07777777u

/* a file with several names, by the first of them */
struct linked {
	dev_t dev;
	ino_t ino;
	char *path;
};

struct pack {
	int out_fd;
	struct err *e;
	dev_t dev;
	char path[TAR_PATH];
	size_t len; /* of path */
	unsigned depth;
	void *links;     /* tsearch's */
	char out[PIECE]; /* to be written */
	size_t have;
};

static int by_inode(const void *a, const void *b)
{
	const struct linked *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void free_linked(void *what)
{
	struct linked *l = what;

	free(l->path);
	free(l);
}

static int cannot(struct pack *p, const char *what)
{
	char shown[TAR_SHOWN];

	return err_errno(p->e, "%s '%s'", what, tar_shown(p->path, shown));
}

static int flush(struct pack *p)
{
	if (fs_write_all(p->out_fd, p->out, p->have) < 0)
		return err_errno(p->e, "pass on the directory");
	p->have = 0;
	return 0;
}

/* bytes NULL: zeros */
static int put(struct pack *p, const char *bytes, size_t len)
{
	while (len) {
		const size_t room = sizeof(p->out) - p->have, n = len < room ? len : room;

		if (bytes)
			memcpy(p->out + p->have, bytes, n);
		else
			memset(p->out + p->have, 0, n);
		p->have += n;
		bytes = bytes ? bytes + n : NULL;
		len -= n;
		if (p->have == sizeof(p->out) && flush(p) < 0)
			return -1;
	}
	return 0;
}

static int fill_block(struct pack *p, uint64_t size)
{
	return put(p, NULL, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

static void octal(char *out, size_t room, uint64_t n)
{
	for (size_t i = room - 1; i > 0; i--, n >>= 3)
		out[i - 1] = (char)('0' + (n & 7));
}

static int put_header(struct pack *p, char type, const char *name, const char *target,
		      const struct stat *st)
{
	char h[TAR_BLOCK + 1] = "";
	const uint64_t size = type == '0' || type == 'x' ? (uint64_t)st->st_size : 0;
	unsigned sum = 0;

	snprintf(h, NAME_ROOM, "%s", name);
	snprintf(h + 157, NAME_ROOM, "%s", target);
	octal(h + 100, 8, st->st_mode & 07777);
	octal(h + 108, 8, st->st_uid <= ID_MOST ? st->st_uid : 0);
	octal(h + 116, 8, st->st_gid <= ID_MOST ? st->st_gid : 0);
	octal(h + 124, 12, size <= SIZE_MOST ? size : 0);
	octal(h + 136, 12, st->st_mtime > 0 ? (uint64_t)st->st_mtime : 0);
	memset(h + 148, ' ', 8);
	h[156] = type;
	memcpy(h + 257,
	       "ustar\0"
	       "00",
	       8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
	return put(p, h, TAR_BLOCK);
}

/* "LENGTH KEY=VALUE\n": the length counts its own digits */
static int add_pair(struct buf *b, const char *key, const char *value)
{
	const size_t rest = strlen(key) + strlen(value) + 3;
	size_t all = rest + 1;

	while (all != rest + (size_t)snprintf(NULL, 0, "%zu", all))
		all++;
	return buf_printf(b, "%zu %s=%s\n", all, key, value);
}

static int add_number(struct buf *b, const char *key, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return add_pair(b, key, text);
}

/* what has no room in a header, before it */
static int put_long(struct pack *p, const char *target, const struct stat *st)
{
	struct stat about = {.st_mode = 0600};
	struct buf b;
	int rc = 0;

	buf_init(&b, 4 * TAR_PATH);
	if ((p->len >= NAME_ROOM && add_pair(&b, "path", p->path) < 0) ||
	    (strlen(target) >= NAME_ROOM && add_pair(&b, "linkpath", target) < 0) ||
	    (S_ISREG(st->st_mode) && (uint64_t)st->st_size > SIZE_MOST &&
	     add_number(&b, "size", (uint64_t)st->st_size) < 0) ||
	    (st->st_uid > ID_MOST && add_number(&b, "uid", st->st_uid) < 0) ||
	    (st->st_gid > ID_MOST && add_number(&b, "gid", st->st_gid) < 0))
		rc = err_errno(p->e, "pass on the directory");
	about.st_size = (off_t)b.len;
	if (rc == 0 && b.len)
		rc = put_header(p, 'x', "pax", "", &about) < 0 ||
				     put(p, b.bytes, b.len) < 0 ||
				     fill_block(p, b.len) < 0
			     ? -1
			     : 0;
	buf_done(&b);
	return rc;
}

static int put_entry(struct pack *p, char type, const char *target, const struct stat *st)
{
	return put_long(p, target, st) < 0 ? -1
					   : put_header(p, type, p->path, target, st);
}

static int put_bytes(struct pack *p, int fd, uint64_t size)
{
	static char chunk[PIECE];
	uint64_t left = size;
	ssize_t n;

	while (left) {
		n = read(fd, chunk, left < sizeof(chunk) ? (size_t)left : sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cannot(p, "read");
		if (n == 0)
			break;
		if (put(p, chunk, (size_t)n) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	for (; left > PIECE; left -= PIECE)
		if (put(p, NULL, PIECE) < 0)
			return -1;
	return put(p, NULL, (size_t)left) < 0 ? -1 : fill_block(p, size);
}

/* the path that this file has in the tar already; NULL: none, and it is kept */
static const char *known_path(struct pack *p, const struct stat *st)
{
	struct linked *mine, **found;

	if (st->st_nlink < 2)
		return NULL;
	mine = mem_zero(sizeof(*mine));
	mine->dev = st->st_dev;
	mine->ino = st->st_ino;
	found = tsearch(mine, &p->links, by_inode);
	if (found && *found == mine) {
		mine->path = mem_copy(p->path);
		return NULL;
	}
	free(mine);
	return found ? (*found)->path : NULL;
}

static int pack_file(struct pack *p, int dir_fd, const char *name)
{
	auto_fd int fd = openat(
		dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	const char *known;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cannot(p, "read");
	if (!S_ISREG(st.st_mode)) {
		errno = ESTALE; /* it was one a moment ago */
		return cannot(p, "read");
	}
	known = known_path(p, &st);
	if (known)
		return put_entry(p, '1', known, &st);
	return put_entry(p, '0', "", &st) < 0 ? -1
					      : put_bytes(p, fd, (uint64_t)st.st_size);
}

static int pack_symlink(struct pack *p, int dir_fd, const char *name,
			const struct stat *st)
{
	char target[TAR_PATH];
	const ssize_t len = readlinkat(dir_fd, name, target, sizeof(target) - 1);

	if (len < 0)
		return cannot(p, "read");
	target[len] = '\0';
	return put_entry(p, '2', target, st);
}

static int pack_all(struct pack *p, int dir_fd);

static int pack_directory(struct pack *p, int dir_fd, const char *name,
			  const struct stat *st)
{
	auto_fd int fd = -1;
	int rc;

	if (put_entry(p, '5', "", st) < 0)
		return -1;
	if (st->st_dev != p->dev)
		return 0; /* something is mounted there, which is not part of it */
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return cannot(p, "read");
	if (++p->depth > TAR_DEPTH) {
		errno = ELOOP;
		return cannot(p, "go deeper than");
	}
	rc = pack_all(p, fd);
	p->depth--;
	return rc;
}

static int pack_one(struct pack *p, int dir_fd, const char *name)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cannot(p, "read");
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return pack_file(p, dir_fd, name);
	case S_IFDIR:
		return pack_directory(p, dir_fd, name, &st);
	case S_IFLNK:
		return pack_symlink(p, dir_fd, name, &st);
	default:
		return put_entry(p, '6', "", &st);
	}
}

static int pack_all(struct pack *p, int dir_fd)
{
	const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const size_t len = p->len;
	struct dirent *d;
	int rc = 0, n;

	if (!dir) {
		rc = cannot(p, "read");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	while (rc == 0 && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		n = snprintf(p->path + len, sizeof(p->path) - len, "%s%s", len ? "/" : "",
			     d->d_name);
		p->len = len + (size_t)n;
		if (p->len >= sizeof(p->path)) {
			errno = ENAMETOOLONG;
			rc = cannot(p, "read");
		} else {
			rc = pack_one(p, dirfd(dir), d->d_name);
		}
	}
	closedir(dir);
	p->len = len;
	p->path[len] = '\0';
	return rc;
}

int pack_tree(int dir_fd, int out_fd, struct err *e)
{
	struct pack *p = mem_zero(sizeof(*p));
	struct stat st;
	int rc = -1;

	p->out_fd = out_fd;
	p->e = e;
	if (fstat(dir_fd, &st) < 0) {
		err_errno(e, "read the directory");
	} else {
		p->dev = st.st_dev;
		rc = pack_all(p, dir_fd);
	}
	/* two blocks of zeros are its end: without them it is cut short */
	if (rc == 0)
		rc = put(p, NULL, (size_t)2 * TAR_BLOCK) < 0 ? -1 : flush(p);
	tdestroy(p->links, free_linked);
	free(p);
	return rc;
}
