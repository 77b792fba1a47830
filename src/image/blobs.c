/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * blobs.c - the files of an archive, by name, where they are
 */
#include "image/blobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "image/tar.h"

#define NAMES_MOST (64u << 20)
#define LINKS_MOST 8
#define CHUNK (64u << 10)
#define ALGORITHM "sha256:"

struct scan {
	struct blobs *b;
	struct tar tar;
};

static void add(struct blobs *b, const struct blob *one)
{
	struct blob *more;

	if (b->count == b->room) {
		b->room = b->room ? b->room * 2 : 64;
		more = mem_array(b->room, sizeof(*more));
		if (b->count)
			memcpy(more, b->blob, b->count * sizeof(*more));
		free(b->blob);
		b->blob = more;
	}
	b->blob[b->count++] = *one;
}

/* what a symbolic link in the directory of `name` leads to; "" when that is outside */
static void follow(const char *name, const char *target, char out[TAR_PATH])
{
	char dir[TAR_PATH], joined[2 * TAR_PATH];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", name);
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	else
		dir[0] = '\0';
	while (strncmp(target, "../", 3) == 0 && dir[0]) {
		slash = strrchr(dir, '/');
		*(slash ? slash : dir) = '\0';
		target += 3;
	}
	snprintf(joined, sizeof(joined), "%s/%s", dir[0] ? dir : ".", target);
	if (strlen(joined) >= TAR_PATH || tar_clean(joined, out) < 0)
		out[0] = '\0';
}

static int on_entry(void *arg, const struct tar_entry *n, struct err *e)
{
	struct scan *s = arg;
	struct blob one = {.offset = s->tar.offset, .size = n->size};
	char target[TAR_PATH];

	if (n->kind == TAR_DIRECTORY || n->kind == TAR_SPECIAL)
		return TAR_UNWANTED;
	s->b->name_bytes += strlen(n->path) + strlen(n->target) + sizeof(one);
	if (s->b->name_bytes > NAMES_MOST)
		return err_bad(e, "it has too many entries");
	if (n->kind == TAR_SYMLINK) {
		follow(n->path, n->target, target);
		one.link = mem_copy(target);
	} else if (n->kind == TAR_HARDLINK) {
		one.link = mem_copy(n->target);
	}
	one.name = mem_copy(n->path);
	add(s->b, &one);
	return TAR_UNWANTED;
}

static int on_data(void *arg, const char *bytes, size_t len, struct err *e)
{
	(void)arg;
	(void)bytes;
	(void)len;
	(void)e;
	return 0;
}

static int on_end(void *arg, struct err *e)
{
	(void)arg;
	(void)e;
	return 0;
}

/* headers are read, what is between them is stepped over */
static int scan(struct scan *s, uint64_t size, struct err *e)
{
	char chunk[4096];
	ssize_t n;

	while (!s->tar.ended) {
		if (tar_skippable(&s->tar)) {
			tar_skip(&s->tar);
			continue;
		}
		if (s->tar.offset >= size)
			break;
		/* up to the next header's end: what is behind it may be stepped over */
		n = pread(s->b->fd, chunk, TAR_BLOCK - s->tar.have, (off_t)s->tar.offset);
		if (n < 0)
			return err_errno(e, "read the archive");
		if (n == 0)
			break;
		if (tar_feed(&s->tar, chunk, (size_t)n, e) < 0)
			return -1;
	}
	return tar_end(&s->tar, e);
}

int blobs_init(struct blobs *b, int fd, struct err *e)
{
	struct scan *s;
	struct stat st;
	int rc;

	memset(b, 0, sizeof(*b));
	b->fd = fd;
	if (fstat(fd, &st) < 0)
		return err_errno(e, "read the archive");
	s = mem_zero(sizeof(*s));
	s->b = b;
	tar_init(&s->tar, &(struct tar_handler){s, on_entry, on_data, on_end});
	rc = scan(s, (uint64_t)st.st_size, e);
	tar_done(&s->tar);
	free(s);
	return rc;
}

void blobs_done(struct blobs *b)
{
	for (size_t i = 0; i < b->count; i++) {
		free(b->blob[i].name);
		free(b->blob[i].link);
	}
	free(b->blob);
	memset(b, 0, sizeof(*b));
}

/* the last of a name counts */
static const struct blob *find_one(const struct blobs *b, const char *name)
{
	for (size_t i = b->count; i > 0; i--)
		if (strcmp(b->blob[i - 1].name, name) == 0)
			return &b->blob[i - 1];
	return NULL;
}

const struct blob *blobs_find(const struct blobs *b, const char *name)
{
	const struct blob *one = find_one(b, name);

	for (int i = 0; one && one->link && i < LINKS_MOST; i++)
		one = find_one(b, one->link);
	return one && !one->link ? one : NULL;
}

ssize_t blobs_read(const struct blobs *b, const struct blob *blob, uint64_t at,
		   char *bytes, size_t room, struct err *e)
{
	const uint64_t left = blob->size - at;
	ssize_t n;

	if (left == 0)
		return 0;
	n = pread(b->fd, bytes, left < room ? (size_t)left : room,
		  (off_t)(blob->offset + at));
	if (n < 0)
		return err_errno(e, "read the archive");
	return n == 0 ? err_bad(e, "the archive is cut short") : n;
}

int blobs_text(const struct blobs *b, const char *name, struct buf *out, struct err *e)
{
	const struct blob *one = blobs_find(b, name);
	char chunk[4096], shown[TAR_SHOWN];
	uint64_t at = 0;
	ssize_t n;

	if (!one)
		return err_bad(e, "the archive has no '%s'", tar_shown(name, shown));
	if (one->size > out->cap_bytes)
		return err_bad(e, "'%s' is too long", tar_shown(name, shown));
	while ((n = blobs_read(b, one, at, chunk, sizeof(chunk), e)) > 0) {
		if (buf_add(out, chunk, (size_t)n) < 0)
			return err_errno(e, "read '%s'", tar_shown(name, shown));
		at += (uint64_t)n;
	}
	if (n < 0)
		return -1;
	return buf_text(out) < 0 ? err_errno(e, "read the archive") : 0;
}

bool blob_digest_ok(const char *digest)
{
	const size_t begin = strlen(ALGORITHM);

	return strncmp(digest, ALGORITHM, begin) == 0 &&
	       strlen(digest) == BLOB_DIGEST - 1 &&
	       strspn(digest + begin, "0123456789abcdef") == (size_t)2 * SHA256_BYTES;
}

int blobs_check(const struct blobs *b, const struct blob *blob, const char *digest,
		struct err *e)
{
	auto_free char *chunk = mem_zero(CHUNK);
	uint8_t sum[SHA256_BYTES];
	char text[BLOB_DIGEST];
	struct sha256 s;
	uint64_t at = 0;
	ssize_t n;

	sha256_begin(&s);
	while ((n = blobs_read(b, blob, at, chunk, CHUNK, e)) > 0) {
		sha256_add(&s, chunk, (size_t)n);
		at += (uint64_t)n;
	}
	if (n < 0)
		return -1;
	sha256_end(&s, sum);
	blob_digest_text(sum, text);
	return strcmp(text, digest) == 0
		       ? 0
		       : err_bad(e, "what should be %s is %s: it was changed or damaged",
				 digest, text);
}

void blob_digest_text(const uint8_t sum[SHA256_BYTES], char out[BLOB_DIGEST])
{
	size_t len = strlen(ALGORITHM);

	memcpy(out, ALGORITHM, len + 1);
	for (size_t i = 0; i < SHA256_BYTES; i++, len += 2)
		snprintf(out + len, BLOB_DIGEST - len, "%02x", sum[i]);
}
