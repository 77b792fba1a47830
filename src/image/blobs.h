/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * blobs.h - the files of an archive, by name, where they are
 */
#ifndef IMAGE_BLOBS_H
#define IMAGE_BLOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/sha256.h"

struct buf;
struct err;

#define BLOB_DIGEST (7 + 2 * SHA256_BYTES + 1) /* "sha256:", 64 digits, NUL */

struct blob {
	char *name;
	char *link; /* NULL: it is a file; else the name of what it stands for */
	uint64_t offset, size;
};

struct blobs {
	int fd; /* a file that can be read anywhere; borrowed */
	struct blob *blob;
	size_t count, room;
	size_t name_bytes;
};

/* finds what is in a tar; *b is to be done with in any case */
int blobs_init(struct blobs *b, int fd, struct err *e);
void blobs_done(struct blobs *b);
/* NULL: there is none */
const struct blob *blobs_find(const struct blobs *b, const char *name);
/* all of a small one, with a NUL behind it */
int blobs_text(const struct blobs *b, const char *name, struct buf *out, struct err *e);
/* the part of it from `at` on; 0: its end; -1 and *e, also when the archive is shorter */
ssize_t blobs_read(const struct blobs *b, const struct blob *blob, uint64_t at,
		   char *bytes, size_t room, struct err *e);
/* "sha256:" and 64 digits */
bool blob_digest_ok(const char *digest);
void blob_digest_text(const uint8_t sum[SHA256_BYTES], char out[BLOB_DIGEST]);
/* are its bytes what the digest says? */
int blobs_check(const struct blobs *b, const struct blob *blob, const char *digest,
		struct err *e);

#endif
