/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * layer_copy.c - a tree that an installer left, as a layer
 *
 * Runs in: a process that may do nothing but this. Whoever wrote the tree may mean ill:
 * nothing is followed, nothing but files, directories and links into the tree itself is
 * taken, and everything is bounded. One thing that does not fit refuses the whole: half
 * a package would only fail later, and elsewhere.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "launcher/layer.h"

#define CHUNK 65536
#define BLOCK 4096 /* of most file systems */

static enum layer_result why(int num)
{
	switch (num) {
	case ENOSPC:
	case EDQUOT:
		return LAYER_NO_ROOM;
	case EACCES:
	case EPERM:
		return LAYER_UNREADABLE;
	default:
		return LAYER_FAULT;
	}
}

static bool late(const struct layer_copy *c)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec >= c->until_ns;
}

/* what an entry of the layer takes, itself and its bytes */
static void count_entry(struct layer_copy *c, uint64_t bytes)
{
	c->disk_bytes += (bytes / BLOCK + 1) * BLOCK;
}

static enum layer_result copy_bytes(int from_fd, int to_fd, struct layer_copy *c)
{
	static char chunk[CHUNK];
	const uint64_t most = c->bytes;
	ssize_t n;

	while ((n = read(from_fd, chunk, sizeof(chunk))) > 0) {
		if ((uint64_t)n > c->bytes || late(c))
			return LAYER_TOO_LARGE;
		c->bytes -= (uint64_t)n;
		if (fs_write_all(to_fd, chunk, (size_t)n) < 0)
			return why(errno);
	}
	count_entry(c, most - c->bytes);
	return n < 0 ? why(errno) : LAYER_MADE;
}

/* as the kernel knows them: "#!" and ELF */
static bool begins_as_program(int fd)
{
	char bytes[4];
	const ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

	return (n >= 2 && memcmp(bytes, "#!", 2) == 0) ||
	       (n == SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0);
}

/* with its time: what python compiled ahead names that of its source */
static enum layer_result copy_file(int from_dir, int to_dir, const char *name,
				   struct layer_copy *c)
{
	auto_fd int from_fd = fs_open_beneath(
		from_dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY, 0);
	auto_fd int to_fd = -1;
	enum layer_result r;
	bool program;
	struct stat st;

	if (from_fd < 0 || fstat(from_fd, &st) < 0)
		return why(errno);
	if (!S_ISREG(st.st_mode))
		return LAYER_SPECIAL;
	to_fd = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       0600);
	if (to_fd < 0)
		return why(errno);
	program = st.st_mode & 0111 || (c->by_content && begins_as_program(from_fd));
	r = copy_bytes(from_fd, to_fd, c);
	if (r == LAYER_MADE &&
	    (futimens(to_fd, (struct timespec[]){st.st_mtim, st.st_mtim}) < 0 ||
	     fchmod(to_fd, program ? 0555 : 0444) < 0))
		r = why(errno);
	return r;
}

/* Up first, then down: what stands behind a name may be a link itself, and ".." there
 * would lead who knows where. `depth`: of the directory that the link is in. */
static bool stays_inside(const char *target, uint32_t depth)
{
	bool down = false;

	if (target[0] == '/' || target[0] == '\0')
		return false;
	while (*target) {
		const size_t len = strcspn(target, "/");

		if (len == 2 && memcmp(target, "..", 2) == 0) {
			if (down || depth-- == 0)
				return false;
		} else if (len > 0 && !(len == 1 && target[0] == '.')) {
			down = true;
		}
		target += len + (target[len] == '/');
	}
	return true;
}

static enum layer_result copy_link(int from_dir, int to_dir, const char *name,
				   uint32_t depth)
{
	char target[PATH_MAX];
	const ssize_t len = readlinkat(from_dir, name, target, sizeof(target) - 1);

	if (len < 0)
		return why(errno);
	target[len] = '\0';
	if (!stays_inside(target, depth))
		return LAYER_BAD_LINK;
	return symlinkat(target, to_dir, name) < 0 ? why(errno) : LAYER_MADE;
}

static enum layer_result copy_all(int from_fd, int to_fd, uint32_t depth,
				  struct layer_copy *c);

static enum layer_result copy_directory(int from_dir, int to_dir, const char *name,
					uint32_t depth, struct layer_copy *c)
{
	auto_fd int from_fd = fs_open_beneath(from_dir, name,
					      O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	auto_fd int to_fd = -1;
	enum layer_result r;

	if (from_fd < 0 || mkdirat(to_dir, name, 0700) < 0)
		return why(errno);
	to_fd = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to_fd < 0)
		return why(errno);
	if (depth >= c->depth)
		return LAYER_TOO_LARGE;
	r = copy_all(from_fd, to_fd, depth + 1, c);
	if (r == LAYER_MADE && fchmod(to_fd, 0555) < 0)
		r = why(errno);
	return r;
}

static enum layer_result copy_entry(int from_fd, int to_fd, const char *name,
				    uint32_t depth, struct layer_copy *c)
{
	struct stat st;

	if (c->entries == 0 || late(c))
		return LAYER_TOO_LARGE;
	c->entries--;
	/* looked at before it is opened: opening a device or a FIFO is felt elsewhere */
	if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return why(errno);
	if (S_ISREG(st.st_mode))
		return copy_file(from_fd, to_fd, name, c);
	count_entry(c, 0);
	if (S_ISDIR(st.st_mode))
		return copy_directory(from_fd, to_fd, name, depth, c);
	if (S_ISLNK(st.st_mode))
		return copy_link(from_fd, to_fd, name, depth);
	return LAYER_SPECIAL;
}

static enum layer_result copy_all(int from_fd, int to_fd, uint32_t depth,
				  struct layer_copy *c)
{
	const int list_fd = fcntl(from_fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = list_fd < 0 ? NULL : fdopendir(list_fd);
	enum layer_result r = LAYER_MADE;
	struct dirent *d;

	if (!dir) {
		r = why(errno);
		if (list_fd >= 0)
			close(list_fd);
		return r;
	}
	while (r == LAYER_MADE && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = copy_entry(from_fd, to_fd, d->d_name, depth, c);
	}
	closedir(dir);
	return r;
}

enum layer_result layer_copy(int from_fd, int to_fd, struct layer_copy *c)
{
	return copy_all(from_fd, to_fd, 0, c);
}
