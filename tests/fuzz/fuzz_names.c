/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_names.c - path names: the rule for them, opening beneath, and what is collected
 *
 * The first byte of an input chooses. The rule must say the same as a slow and plain
 * reading of it; no path, with links lying about, leads out of its directory; and of a
 * tree that hostile code left, the names collected are valid and lie within it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/utf8.h"
#include "launcher/collect.h"
#include "scratch.h"
#include "wire/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NAME_MOST 4095

static bool plain_component(const char *p, size_t len)
{
	if (len < 1 || len > 255)
		return false;
	return !(p[0] == '.' && (len == 1 || (len == 2 && p[1] == '.')));
}

/* what fs_name_ok promises, read word by word */
static bool by_the_rule(const char *p, size_t len, size_t most)
{
	if (len < 1 || len > most || !utf8_valid(p, len))
		return false;
	for (size_t i = 0, n; i < len; i += n) {
		const unsigned char *c = (const unsigned char *)p + i;

		n = utf8_char(p + i, len - i);
		if (n == 1 && (c[0] < ' ' || c[0] == 0x7f))
			return false;
		if (n == 2 && c[0] == 0xc2 && c[1] < 0xa0) /* U+0080 to U+009F */
			return false;
	}
	for (size_t start = 0, i = 0; i <= len; i++) {
		if (i < len && p[i] != '/')
			continue;
		if (!plain_component(p + start, i - start))
			return false;
		start = i + 1;
	}
	return true;
}

static void rule(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data;

	assert(fs_name_ok(p, size, NAME_MOST) == by_the_rule(p, size, NAME_MOST));
	assert(fs_name_ok(p, size, 63) == by_the_rule(p, size, 63));
}

/* the input as a string: up to its first NUL, never too long for the kernel */
static char *string(const uint8_t *data, size_t size)
{
	size_t len = strnlen((const char *)data, size < 4000 ? size : 4000);
	char *path = malloc(len + 1);

	assert(path);
	if (len)
		memcpy(path, data, len);
	path[len] = 0;
	return path;
}

static void beneath(const uint8_t *data, size_t size)
{
	char *path = string(data, size);
	bool fit = fs_name_ok(path, strlen(path), NAME_MOST);
	int work_fd = scratch_work(), fd;

	assert(symlinkat("..", work_fd, "u") == 0 && symlinkat("/", work_fd, "r") == 0);
	assert(symlinkat("/proc/self/root", work_fd, "m") == 0);
	assert(mkdirat(work_fd, "d", 0755) == 0);
	assert(symlinkat("../../..", work_fd, "d/u") == 0);
	fd = fs_make_path(work_fd, path, 0755);
	if (fd >= 0)
		scratch_beneath(fd), close(fd);
	else
		assert(!fit || errno == ENOTDIR || errno == ELOOP);
	fd = fs_open_beneath(work_fd, path, O_RDONLY, 0);
	if (fd >= 0)
		scratch_beneath(fd), close(fd);
	fd = fs_open_beneath(work_fd, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd >= 0)
		scratch_beneath(fd), close(fd);
	scratch_check();
	close(work_fd);
	free(path);
}

/* one thing in the tree; whatever its path says, it is made nowhere else */
static void plant(int out_fd, char kind, const char *path)
{
	static const char *const links[] = {"/etc/passwd", "..", ".", "x"};
	const char *slash = strrchr(path, '/'), *leaf = slash ? slash + 1 : path;
	char parent[300] = ".";
	int dir_fd, fd = -1, rc = 0; /* what cannot be made is not there */

	if (slash)
		snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	dir_fd = fs_open_beneath(out_fd, parent, O_RDONLY | O_DIRECTORY, 0);
	if (dir_fd < 0)
		return;
	switch (kind & 7) {
	case 0:
	case 1:
		rc = mkdirat(dir_fd, leaf, 0755);
		break;
	case 2:
		rc = symlinkat(links[kind >> 3 & 3], dir_fd, leaf);
		break;
	case 3:
		rc = mkfifoat(dir_fd, leaf, 0644);
		break;
	default:
		fd = openat(dir_fd, leaf, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
			    kind & 8 ? 0 : 0644);
		rc = fd < 0 ? -1 : ftruncate(fd, kind & 0x7f);
	}
	assert(rc == 0 || (rc == -1 && fd < 0));
	if (fd >= 0)
		close(fd);
	close(dir_fd);
}

/* a line each: a letter for the kind, then the path */
static void grow(int out_fd, const uint8_t *data, size_t size)
{
	char path[300];

	for (size_t at = 0, len, lines = 0; at < size && lines < 64; lines++) {
		const char *line = (const char *)data + at;
		const char *end = memchr(line, '\n', size - at);

		len = end ? (size_t)(end - line) : size - at;
		at += len + 1;
		if (len < 2 || len > sizeof(path) || memchr(line, 0, len))
			continue;
		memcpy(path, line + 1, len - 1);
		path[len - 1] = 0;
		plant(out_fd, line[0], path);
	}
}

static void check_record(int out_fd, const struct files_record *rec)
{
	char name[FILES_NAME_MAX + 1];
	struct stat st;

	assert(utf8_valid(rec->name, rec->name_len) && rec->name_len <= FILES_NAME_MAX);
	assert(!memchr(rec->name, 0, rec->name_len));
	if (rec->kind != FILES_FILE)
		return;
	memcpy(name, rec->name, rec->name_len);
	name[rec->name_len] = 0;
	assert(name[0] && name[0] != '/');
	/* found again beneath, where no link leads, a regular file of that size */
	assert(fstatat(out_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
	assert(S_ISREG(st.st_mode) && (uint64_t)st.st_size == rec->data_len);
}

static void tree(const uint8_t *data, size_t size)
{
	int work_fd = scratch_work(), mem_fd = memfd_create("files", MFD_ALLOW_SEALING);
	struct collect_job job = {.work_fd = work_fd,
				  .output_dir = "out",
				  .max_files = 20,
				  .max_depth = 4,
				  .max_entries = 50,
				  .wall_ms = 5000,
				  .max_bytes = 1000};
	struct files_record rec;
	struct files_reader r;
	unsigned files = 0;
	uint64_t bytes = 0;
	int out_fd, rc;

	assert(mem_fd >= 0 && mkdirat(work_fd, "out", 0755) == 0);
	out_fd = openat(work_fd, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	grow(out_fd, data, size);
	assert(collect_walk(&job, mem_fd) == 0);
	assert(fcntl(mem_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) ==
	       0);
	assert(files_open(&r, mem_fd) == 0);
	while ((rc = files_next(&r, &rec)) == 1) {
		check_record(out_fd, &rec);
		files += rec.kind == FILES_FILE;
		bytes += rec.kind == FILES_FILE ? rec.data_len : 0;
	}
	assert(rc == 0 && files <= job.max_files && bytes <= job.max_bytes);
	files_close(&r);
	close(out_fd);
	close(mem_fd);
	close(work_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(const uint8_t *, size_t) = {rule, beneath, tree};

	if (size > 0)
		kinds[data[0] % 3](data + 1, size - 1);
	return 0;
}
