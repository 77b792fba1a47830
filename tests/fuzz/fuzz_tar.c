/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_tar.c - a layer of an image that anybody may have made: it is read the same
 * whatever its pieces, names come out clean, and nothing is written outside the directory
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/sha256.h"
#include "image/tar.h"
#include "image/tree.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MOST (1 << 16)
#define ENTRIES_MOST 200

struct heard {
	struct sha256 sum;
	uint64_t left; /* of a file that is wanted */
	bool in_file;
};

static void check_clean(const char *name)
{
	char again[TAR_PATH];

	assert(tar_clean(name, again) == 0 && strcmp(name, again) == 0);
	assert(name[0] != '/' && strlen(name) < TAR_PATH);
}

static int on_entry(void *arg, const struct tar_entry *n, struct err *e)
{
	struct heard *h = arg;

	(void)e;
	assert(!h->in_file);
	check_clean(n->path);
	assert(n->mode <= 07777 && n->mtime_sec >= 0);
	assert(n->kind == TAR_FILE || n->size == 0);
	assert(n->kind != TAR_SYMLINK || n->target[0]);
	if (n->kind == TAR_HARDLINK)
		check_clean(n->target);
	sha256_add(&h->sum, n->path, strlen(n->path) + 1);
	sha256_add(&h->sum, &n->size, sizeof(n->size));
	h->in_file = n->kind == TAR_FILE;
	h->left = n->size;
	return TAR_WANTED;
}

static int on_data(void *arg, const char *bytes, size_t len, struct err *e)
{
	struct heard *h = arg;

	(void)e;
	assert(h->in_file && len && len <= h->left);
	h->left -= len;
	sha256_add(&h->sum, bytes, len);
	return 0;
}

static int on_end(void *arg, struct err *e)
{
	struct heard *h = arg;

	(void)e;
	assert(h->in_file && h->left == 0);
	h->in_file = false;
	return 0;
}

static int feed(const struct tar_handler *handler, const uint8_t *data, size_t size,
		size_t piece)
{
	struct err e = {0};
	struct tar t;
	int rc = 0;

	tar_init(&t, handler);
	for (size_t at = 0; rc == 0 && at < size; at += piece)
		rc = tar_feed(&t, (const char *)data + at,
			      size - at < piece ? size - at : piece, &e);
	if (rc == 0)
		rc = tar_end(&t, &e);
	assert(rc == 0 || (e.kind != ERR_NONE && e.text[0]));
	tar_done(&t);
	return rc;
}

static int hear(const uint8_t *data, size_t size, size_t piece, uint8_t out[SHA256_BYTES])
{
	struct heard h = {.left = 0};
	const struct tar_handler handler = {&h, on_entry, on_data, on_end};
	int rc;

	sha256_begin(&h.sum);
	rc = feed(&handler, data, size, piece);
	sha256_end(&h.sum, out);
	return rc;
}

/* twice, as two layers */
static void unpack(const uint8_t *data, size_t size)
{
	const int root_fd = scratch_work();
	struct tar_handler handler;
	struct tree t;

	tree_init(&t, root_fd, -1, BYTES_MOST, ENTRIES_MOST);
	handler = tree_handler(&t);
	for (int i = 0; i < 2; i++) {
		tree_next_layer(&t);
		(void)feed(&handler, data, size, 777);
	}
	assert(t.counts.bytes <= BYTES_MOST);
	tree_done(&t);
	close(root_fd);
	scratch_check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t one[SHA256_BYTES], other[SHA256_BYTES];
	const int rc = hear(data, size, size ? size : 1, one);

	assert(hear(data, size, 1 + size % 600, other) == rc);
	assert(memcmp(one, other, sizeof(one)) == 0);
	unpack(data, size);
	return 0;
}
