/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inside.c - our own binary inside a session: reads, writes, removes files
 *
 * Runs in: a session, as a command there with all that a command is denied. So whatever
 * a link, a race or a name leads to, it is something that a command could have reached
 * by itself. Where there are no sessions (kept.c) it is the same in a run, whose paths
 * begin with "./". What it says is read by answer.c; its exit status is a row of the
 * table there.
 *
 *	read PATH OFFSET|-LAST MOST     "SIZE\n" and the bytes
 *	write PATH MODE any|new LENGTH NEED LISTED
 *	                                stdin: LISTED bytes, which are paths, then those
 *	                                of the file. Made only if NEED of the paths are
 *	                                gone. "SIZE NEW\n" and the paths that are gone
 *	list PATH one|all BEHIND        "MORE\n" and entries; inside_list.c
 *	delete PATH one|all any|directory
 */
#include "session/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/num.h"
#include "session/store.h"

#define CHUNK (64 * 1024)
#define LISTED_MOST (1u << 20) /* of paths, more than a session is given */

int inside_status(int num)
{
	switch (num) {
	case ENOENT:
		return INSIDE_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
	case EBUSY: /* something is mounted there */
	case ETXTBSY:
	case EXDEV:
		return INSIDE_BLOCKED;
	case ENOTDIR:
		return INSIDE_NOT_A_DIRECTORY;
	case EISDIR:
		return INSIDE_IS_A_DIRECTORY;
	case EEXIST:
		return INSIDE_EXISTS;
	case ENOTEMPTY:
		return INSIDE_NOT_EMPTY;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return INSIDE_NO_SPACE;
	case ENXIO:
		return INSIDE_NOT_A_FILE;
	case ELOOP:
	case ENAMETOOLONG:
		return INSIDE_BAD;
	default:
		return INSIDE_FAULT;
	}
}

bool inside_is_kernels(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC ||
	       fs.f_type == SYSFS_MAGIC;
}

/* "12", or "-12": so many at the end */
static int read_offset(const char *word, uint64_t size, uint64_t *out)
{
	const bool last = word[0] == '-';
	uint64_t n;

	if (num_u64(word + last, &n) < 0)
		return -1;
	*out = !last ? n : n < size ? size - n : 0;
	return 0;
}

static int inside_read(char **words)
{
	static char bytes[CHUNK];
	auto_fd int fd = -1;
	uint64_t at, left;
	struct stat st;
	ssize_t n = 1;

	/* who waits for a FIFO's reader must not take us for it */
	if (stat(words[0], &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return INSIDE_NOT_A_FILE;
	/* if it is one by now it is opened, and not waited for */
	fd = open(words[0], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return inside_status(errno);
	if (inside_is_kernels(fd))
		return INSIDE_BLOCKED;
	if (S_ISDIR(st.st_mode))
		return INSIDE_IS_A_DIRECTORY;
	if (!S_ISREG(st.st_mode))
		return INSIDE_NOT_A_FILE;
	if (read_offset(words[1], (uint64_t)st.st_size, &at) < 0 ||
	    num_u64(words[2], &left) < 0)
		return INSIDE_FAULT;
	/* no more than its size, which is said first, though it may grow */
	if (at >= (uint64_t)st.st_size)
		left = 0;
	else if (left > (uint64_t)st.st_size - at)
		left = (uint64_t)st.st_size - at;
	dprintf(STDOUT_FILENO, "%llu\n", (unsigned long long)st.st_size);
	while (left && n > 0) {
		n = pread(fd, bytes, left < CHUNK ? left : CHUNK, (off_t)at);
		if (n < 0 || (n > 0 && fs_write_all(STDOUT_FILENO, bytes, (size_t)n) < 0))
			return inside_status(errno);
		at += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return 0;
}

/* what may not be made may be there all the same; *why: else this is the reason */
static int make_directory(const char *path, int *why)
{
	if (mkdir(path, 0755) == 0 || errno == EEXIST)
		return 0;
	if (errno == ENOENT) {
		errno = *why;
		return -1;
	}
	*why = errno;
	return errno == EROFS || errno == EACCES ? 0 : -1;
}

/* the directory of a path, made when it is not there; *name: its last component */
static int open_parent(char *path, char **name)
{
	char *slash = strrchr(path, '/'), *at;
	int why = ENOENT, fd;

	*name = slash + 1;
	if (slash == path)
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*slash = '\0';
	for (at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		if (make_directory(path, &why) < 0)
			return -1;
		*at = '/';
	}
	if (make_directory(path, &why) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		errno = why;
	return fd;
}

static int copy_in(int fd, uint64_t left)
{
	static char bytes[CHUNK];
	ssize_t n;

	while (left) {
		n = read(STDIN_FILENO, bytes, left < CHUNK ? left : CHUNK);
		if (n == 0)
			errno = EIO; /* the server is gone: then nothing is written */
		if (n <= 0 || fs_write_all(fd, bytes, (size_t)n) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	return 0;
}

struct placing {
	int dir_fd, fd;
	char partial[32]; /* the name that it has for a moment, if it is named */
	const char *name;
	mode_t mode;
	bool named, replace;
};

/* A file without a name until it is whole; where the file system has none such it has
 * another one. */
static int begin(struct placing *p)
{
	p->fd = openat(p->dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, p->mode);
	if (p->fd >= 0)
		return flock(p->fd, LOCK_EX | LOCK_NB);
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return -1;
	p->fd = partial_open(p->dir_fd, p->partial);
	p->named = p->fd >= 0;
	return p->fd < 0 ? -1 : 0;
}

static int give_name(const struct placing *p)
{
	char proc[40];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", p->fd);
	return linkat(AT_FDCWD, proc, p->dir_fd, p->name, AT_SYMLINK_FOLLOW);
}

/* whole, and on the disk, or not there */
static int place(struct placing *p)
{
	if (fsync(p->fd) < 0)
		return -1;
	if (!p->named && give_name(p) == 0)
		return fsync(p->dir_fd);
	if (!p->named && (errno != EEXIST || !p->replace ||
			  partial_link(p->fd, p->dir_fd, p->partial) < 0))
		return -1;
	p->named = true;
	if (renameat2(p->dir_fd, p->partial, p->dir_fd, p->name,
		      p->replace ? 0 : RENAME_NOREPLACE) < 0)
		return -1;
	p->named = false;
	return fsync(p->dir_fd);
}

static bool is_gone(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* of the paths that stdin begins with those that are gone, each with its NUL */
static int read_gone(uint64_t listed, struct buf *gone)
{
	char *all = mem_array(listed + 1, 1);
	size_t len = 0;
	ssize_t n = 1;

	while (len < listed && n > 0) {
		n = read(STDIN_FILENO, all + len, listed - len);
		len += n > 0 ? (size_t)n : 0;
	}
	for (const char *at = all; at < all + len; at += strlen(at) + 1)
		if (is_gone(at))
			(void)buf_add(gone, at, strlen(at) + 1); /* it has the room */
	free(all);
	return len == listed ? 0 : -1;
}

static size_t count_paths(const struct buf *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->len; i++)
		n += b->bytes[i] == 0;
	return n;
}

/* where modes cannot be changed a file has the right one from its beginning */
static int set_mode(const struct placing *p)
{
	struct stat st;

	if (fstat(p->fd, &st) < 0)
		return -1;
	return (st.st_mode & 07777) == p->mode ? 0 : fchmod(p->fd, p->mode);
}

/* "SIZE NEW\n"; words: of inside_write() from HOW on */
static int write_as(struct placing *p, char **words)
{
	uint64_t len, need, listed;
	struct buf gone;
	struct stat st;
	bool there;
	int rc = 0;

	if (num_u64(words[1], &len) < 0 || num_u64(words[2], &need) < 0 ||
	    num_range(words[3], 0, LISTED_MOST, &listed) < 0)
		return INSIDE_FAULT;
	buf_init(&gone, LISTED_MOST);
	there = fstatat(p->dir_fd, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	p->replace = strcmp(words[0], "any") == 0;
	if (read_gone(listed, &gone) < 0)
		rc = INSIDE_FAULT;
	else if (there && S_ISDIR(st.st_mode))
		rc = INSIDE_IS_A_DIRECTORY;
	else if (!there && count_paths(&gone) < need)
		rc = INSIDE_TOO_MANY;
	else if (begin(p) < 0 || copy_in(p->fd, len) < 0 || set_mode(p) < 0 ||
		 place(p) < 0)
		rc = inside_status(errno);
	if (p->named)
		(void)unlinkat(p->dir_fd, p->partial, 0); /* it is not what was wanted */
	if (rc == 0) {
		dprintf(STDOUT_FILENO, "%llu %d\n", (unsigned long long)len, !there);
		rc = fs_write_all(STDOUT_FILENO, gone.bytes, gone.len) < 0 ? INSIDE_FAULT
									   : 0;
	}
	buf_done(&gone);
	return rc;
}

static int inside_write(char **words)
{
	struct placing p = {.dir_fd = -1, .fd = -1};
	char *name;
	int rc;

	p.mode = (mode_t)strtoul(words[1], NULL, 8);
	p.dir_fd = open_parent(words[0], &name);
	if (p.dir_fd < 0)
		return inside_status(errno);
	p.name = name;
	/* it would be taken for what a killed write left */
	rc = partial_is(name) ? INSIDE_BLOCKED : write_as(&p, words + 2);
	defer_close(&p.fd);
	defer_close(&p.dir_fd);
	return rc;
}

/* empty is also one with nothing that is shown */
static int remove_empty(int dir_fd, const char *name)
{
	auto_fd int fd = -1;

	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY)
		return -1;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		partial_sweep_all(fd);
	return unlinkat(dir_fd, name, AT_REMOVEDIR);
}

static int inside_delete(char **words)
{
	static const char *const kept[] = {"/", "/work", "/tmp"};
	auto_fd int dir_fd = -1;
	struct stat st;
	char *slash;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (strcmp(words[0], kept[i]) == 0)
			return INSIDE_BLOCKED;
	slash = strrchr(words[0], '/');
	*slash = '\0';
	dir_fd = open(words[0][0] ? words[0] : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0 || fstatat(dir_fd, slash + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return inside_status(errno);
	if (!S_ISDIR(st.st_mode) && strcmp(words[2], "directory") == 0)
		return INSIDE_NOT_A_DIRECTORY;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(dir_fd, slash + 1, 0) < 0 ? inside_status(errno) : 0;
	if (strcmp(words[1], "all") == 0)
		return fs_remove_tree(dir_fd, slash + 1) < 0 ? inside_status(errno) : 0;
	return remove_empty(dir_fd, slash + 1) < 0 ? inside_status(errno) : 0;
}

int session_inside_main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int words;
		int (*run)(char **words);
	} operations[] = {
		{"read", 3, inside_read},
		{"write", 6, inside_write},
		{"list", 3, inside_list},
		{"delete", 3, inside_delete},
	};

	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (argc == 2 + operations[i].words &&
		    strcmp(argv[1], operations[i].name) == 0 &&
		    (argv[2][0] == '/' || strncmp(argv[2], "./", 2) == 0))
			return operations[i].run(argv + 2);
	return INSIDE_FAULT;
}
