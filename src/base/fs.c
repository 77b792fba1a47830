/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fs.c - files through directory descriptors
 */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/sys.h"
#include "base/utf8.h"

enum { NAME_MOST = 255, SEAL_TRIES = 4 };

static int fail(int num)
{
	errno = num;
	return -1;
}

ssize_t fs_read_at(int dir_fd, const char *name, char *out, size_t room)
{
	auto_fd int fd = -1;
	auto_free char *bytes = NULL;
	size_t len = 0;
	ssize_t n;

	if (room == 0)
		return fail(EINVAL);
	/* not blocking: a FIFO in the place of a file must not hold us up */
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -1;
	bytes = malloc(room);
	if (!bytes)
		return -1;
	/* asks for one byte more than there may be, to see that it is not there */
	while (len < room) {
		n = read(fd, bytes + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	if (len == room)
		return fail(EFBIG);
	memcpy(out, bytes, len);
	out[len] = 0;
	return (ssize_t)len;
}

int fs_write_all(int fd, const void *bytes, size_t len)
{
	const char *p = bytes;
	ssize_t n;

	while (len) {
		n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			return fail(EIO);
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fs_write_at(int dir_fd, const char *name, const char *text)
{
	auto_fd int fd = openat(dir_fd, name, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -1 : fs_write_all(fd, text, strlen(text));
}

static int create_temporary(int dir_fd, char *out_name, size_t room)
{
	unsigned char random[12];
	size_t at = 0;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -1;
	at += (size_t)snprintf(out_name, room, ".tmp-");
	for (size_t i = 0; i < sizeof(random); i++)
		at += (size_t)snprintf(out_name + at, room - at, "%02x", random[i]);
	return openat(dir_fd, out_name,
		      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int fs_create_whole(int dir_fd, const char *name, const void *bytes, size_t len)
{
	auto_fd int fd = -1;
	char temporary[64];
	int saved;

	fd = create_temporary(dir_fd, temporary, sizeof(temporary));
	if (fd < 0)
		return -1;
	if (fs_write_all(fd, bytes, len) < 0 || fsync(fd) < 0 ||
	    renameat(dir_fd, temporary, dir_fd, name) < 0) {
		saved = errno;
		unlinkat(dir_fd, temporary, 0);
		return fail(saved);
	}
	/* The file is whole either way; this makes its name last as well, where it can.
	 */
	if (dir_fd != AT_FDCWD)
		(void)fsync(dir_fd);
	return 0;
}

/* one component, NUL-terminated; the length with the slashes behind it, 0 at the end */
static ssize_t next_component(const char *path, char out[NAME_MOST + 1])
{
	size_t len = strcspn(path, "/"), slashes = strspn(path + len, "/");

	if (len > NAME_MOST)
		return fail(ENAMETOOLONG);
	if (len == 2 && memcmp(path, "..", 2) == 0)
		return fail(EINVAL);
	memcpy(out, path, len);
	out[len] = 0;
	return (ssize_t)(len + slashes);
}

int fs_make_path(int dir_fd, const char *path, mode_t mode)
{
	/* on the way a directory need not be one that we may list: homes of others */
	const int last = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	const int way = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	auto_fd int at_fd = -1;
	char name[NAME_MOST + 1];
	ssize_t used;
	int next_fd;

	/* only who names no directory may name one from the root */
	if (path[0] == '/' && dir_fd != AT_FDCWD)
		return fail(EINVAL);
	at_fd = openat(dir_fd, path[0] == '/' ? "/" : ".",
		       path[strspn(path, "/")] ? way : last);
	if (at_fd < 0)
		return -1;
	for (path += strspn(path, "/"); *path; path += used) {
		used = next_component(path, name);
		if (used < 0)
			return -1;
		if (mkdirat(at_fd, name, mode) < 0 && errno != EEXIST)
			return -1;
		next_fd = openat(at_fd, name, path[used] ? way : last);
		if (next_fd < 0)
			return -1;
		close(at_fd);
		at_fd = next_fd;
	}
	return take_fd(&at_fd);
}

int fs_open_beneath(int dir_fd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV,
	};
	int fd = -1;

	if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))
		how.mode = mode & 07777;
	/* EAGAIN: something was renamed meanwhile and the kernel could not be sure */
	for (int tries = 0; tries < 32; tries++) {
		fd = sys_openat2(dir_fd, path, &how);
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd;
}

/* bytes of the component at p when it is a fit one, else 0 */
static size_t component_ok(const char *p, size_t len)
{
	const char *slash = memchr(p, '/', len);
	size_t n = slash ? (size_t)(slash - p) : len;

	if (n > NAME_MOST || (n == 1 && p[0] == '.') ||
	    (n == 2 && p[0] == '.' && p[1] == '.'))
		return 0;
	return n;
}

static bool has_control(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)p[i];

		if (c < 0x20 || c == 0x7f)
			return true;
		if (c == 0xc2 && i + 1 < len && (unsigned char)p[i + 1] < 0xa0)
			return true;
	}
	return false;
}

bool fs_name_ok(const char *path, size_t len, size_t most)
{
	size_t at = 0, n;

	if (len == 0 || len > most || !utf8_valid(path, len) || has_control(path, len))
		return false;
	for (;;) {
		n = component_ok(path + at, len - at);
		if (n == 0)
			return false;
		at += n;
		if (at == len)
			return true;
		at++; /* the slash; nothing behind it is an empty component */
	}
}

/* A page that the kernel holds for a moment, to move it say, makes sealing wait 150 ms
 * and then fail: nobody of ours can write it, so the next try gets it. */
int fs_seal(int fd)
{
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	int left = SEAL_TRIES;

	while (fcntl(fd, F_ADD_SEALS, seals) < 0)
		if (errno != EBUSY || --left == 0)
			return -1;
	return 0;
}

int fs_sealed(const char *label, const void *bytes, size_t len)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	auto_fd int fd = memfd_create(label, flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(label, flags); /* before Linux 6.3 */
	if (fd < 0 || fs_write_all(fd, bytes, len) < 0)
		return -1;
	if (lseek(fd, 0, SEEK_SET) < 0 || fs_seal(fd) < 0)
		return -1;
	return take_fd(&fd);
}
