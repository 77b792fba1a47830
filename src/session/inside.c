/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inside.c - our own binary inside a session: reads, writes, lists, removes files
 *
 * Runs in: a session, as a command there with all that a command is denied. So whatever
 * a link, a race or a name leads to, it is something that a command could have reached
 * by itself. What it says is read by answer.c; its exit status is a row of the table
 * there.
 *
 *	read PATH OFFSET MOST           "SIZE\n" and the bytes
 *	write PATH MODE HOW LENGTH      the bytes come by stdin; "SIZE NEW\n"
 *	list PATH one|all BEHIND        "MORE\n" and entries
 *	delete PATH one|all
 */
#include "session/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/num.h"

#define CHUNK (64 * 1024)
#define WALK_FDS 32

static int status_of(int num)
{
	switch (num) {
	case ENOENT:
		return INSIDE_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
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

/* the kernel's own files are nobody's, by whatever name */
static bool is_kernels(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC ||
	       fs.f_type == SYSFS_MAGIC;
}

static int inside_read(char **words)
{
	static char bytes[CHUNK];
	auto_fd int fd = -1;
	uint64_t at, left;
	struct stat st;
	ssize_t n = 1;

	if (num_u64(words[1], &at) < 0 || num_u64(words[2], &left) < 0)
		return INSIDE_FAULT;
	/* a FIFO without a writer is opened, and not waited for */
	fd = open(words[0], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return status_of(errno);
	if (is_kernels(fd))
		return INSIDE_BLOCKED;
	if (S_ISDIR(st.st_mode))
		return INSIDE_IS_A_DIRECTORY;
	if (!S_ISREG(st.st_mode))
		return INSIDE_NOT_A_FILE;
	dprintf(STDOUT_FILENO, "%llu\n", (unsigned long long)st.st_size);
	while (left && n > 0) {
		n = pread(fd, bytes, left < CHUNK ? left : CHUNK, (off_t)at);
		if (n < 0 || (n > 0 && fs_write_all(STDOUT_FILENO, bytes, (size_t)n) < 0))
			return status_of(errno);
		at += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return 0;
}

/* the directory of a path, made when it is not there; *name: its last component */
static int open_parent(char *path, char **name)
{
	char *slash = strrchr(path, '/'), *at;

	*name = slash + 1;
	if (slash == path)
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*slash = '\0';
	for (at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST && errno != EROFS &&
		    errno != EACCES)
			return -1;
		*at = '/';
	}
	if (mkdir(path, 0755) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
		return -1;
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

/* A file without a name until it is whole; where the file system has none such, or one
 * is to be replaced, it has another name for a moment. */
static int open_nameless(int dir_fd, const char *temporary, bool *named)
{
	int fd = openat(dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);

	*named = fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT);
	return *named ? openat(dir_fd, temporary,
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
		      : fd;
}

static int give_name(int fd, int dir_fd, const char *name)
{
	char proc[40];

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, proc, dir_fd, name, AT_SYMLINK_FOLLOW);
}

struct placing {
	int dir_fd, fd;
	const char *temporary, *name;
	bool named, replace;
};

/* whole, and on the disk, or not there */
static int place(struct placing *p)
{
	if (fsync(p->fd) < 0)
		return -1;
	if (!p->named && give_name(p->fd, p->dir_fd, p->name) == 0)
		return fsync(p->dir_fd);
	if (!p->named && (errno != EEXIST || !p->replace ||
			  give_name(p->fd, p->dir_fd, p->temporary) < 0))
		return -1;
	p->named = true;
	if (p->replace ? renameat(p->dir_fd, p->temporary, p->dir_fd, p->name) < 0
		       : renameat2(p->dir_fd, p->temporary, p->dir_fd, p->name,
				   RENAME_NOREPLACE) < 0)
		return -1;
	p->named = false;
	return fsync(p->dir_fd);
}

static int inside_write(char **words)
{
	const bool may_new = strcmp(words[2], "existing") != 0;
	auto_fd int dir_fd = -1;
	auto_fd int fd = -1;
	char temporary[64], *name;
	struct placing p;
	unsigned mode;
	uint64_t len;
	struct stat st;
	bool there;
	int rc = 0;

	mode = (unsigned)strtoul(words[1], NULL, 8);
	if (num_u64(words[3], &len) < 0)
		return INSIDE_FAULT;
	dir_fd = open_parent(words[0], &name);
	if (dir_fd < 0)
		return status_of(errno);
	there = fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (there && S_ISDIR(st.st_mode))
		return INSIDE_IS_A_DIRECTORY;
	if (!there && !may_new)
		return INSIDE_TOO_MANY;
	snprintf(temporary, sizeof(temporary), ".sandbox-%d.partial", getpid());
	p = (struct placing){.dir_fd = dir_fd, .temporary = temporary, .name = name};
	p.replace = strcmp(words[2], "new") != 0;
	p.fd = fd = open_nameless(dir_fd, temporary, &p.named);
	if (fd < 0)
		return status_of(errno);
	if (copy_in(fd, len) < 0 || fchmod(fd, mode) < 0 || place(&p) < 0)
		rc = status_of(errno);
	if (p.named)
		(void)unlinkat(dir_fd, temporary, 0); /* it is not what was wanted */
	if (rc == 0)
		dprintf(STDOUT_FILENO, "%llu %d\n", (unsigned long long)len, !there);
	return rc;
}

/* ---- lists: a page of the first names behind one, in their order, however many there
 * are ---- */

struct entry {
	char *name;
	struct stat st;
};

static struct {
	struct entry list[2 * SESSION_ENTRIES];
	size_t count;
	bool more;
	const char *behind;
	size_t base; /* of a walk: what comes before the names */
} page;

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
}

static void add(const char *name, const struct stat *st)
{
	if (strcmp(name, page.behind) <= 0 && page.behind[0])
		return;
	if (page.count == 2 * (size_t)SESSION_ENTRIES)
		shrink();
	page.list[page.count].st = *st;
	page.list[page.count++].name = mem_copy(name);
}

static int on_walk(const char *path, const struct stat *st, int type, struct FTW *at)
{
	if (at->level > 0 && type != FTW_NS)
		add(path + page.base, st);
	return 0;
}

static int list_one(const char *path)
{
	struct dirent *d;
	struct stat st;
	DIR *dir = opendir(path);

	if (!dir)
		return -1;
	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
		    fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			add(d->d_name, &st);
	}
	closedir(dir);
	return 0;
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

static int inside_list(char **words)
{
	auto_fd int fd = open(words[0], O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return status_of(errno);
	if (is_kernels(fd))
		return INSIDE_BLOCKED;
	page.behind = words[2];
	page.base = strlen(words[0]) + (words[0][1] ? 1 : 0);
	if (strcmp(words[1], "all") == 0
		    ? nftw(words[0], on_walk, WALK_FDS, FTW_PHYS | FTW_MOUNT) < 0
		    : list_one(words[0]) < 0)
		return status_of(errno);
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
		return status_of(errno);
	if (!S_ISDIR(st.st_mode))
		return unlinkat(dir_fd, slash + 1, 0) < 0 ? status_of(errno) : 0;
	if (strcmp(words[1], "all") == 0)
		return fs_remove_tree(dir_fd, slash + 1) < 0 ? status_of(errno) : 0;
	return unlinkat(dir_fd, slash + 1, AT_REMOVEDIR) < 0 ? status_of(errno) : 0;
}

int session_inside_main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int words;
		int (*run)(char **words);
	} operations[] = {
		{"read", 3, inside_read},
		{"write", 4, inside_write},
		{"list", 3, inside_list},
		{"delete", 2, inside_delete},
	};

	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (argc == 2 + operations[i].words &&
		    strcmp(argv[1], operations[i].name) == 0 && argv[2][0] == '/')
			return operations[i].run(argv + 2);
	return INSIDE_FAULT;
}
