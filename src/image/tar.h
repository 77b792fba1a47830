/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tar.h - reads tar archives that somebody hostile may have made
 *
 * ustar, the long names of GNU, pax headers. Bytes are fed as they come, in pieces of any
 * size; what they are is told to a handler. Names are clean when it hears of them:
 * relative, without "." and "..", components of at most 255 bytes, TAR_DEPTH of them; a
 * name that cannot be made so ends the reading. Whether a name leads through a symbolic
 * link is the handler's to know.
 */
#ifndef IMAGE_TAR_H
#define IMAGE_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

#define TAR_BLOCK 512
#define TAR_PATH 4096 /* with its NUL */
#define TAR_DEPTH 256
#define TAR_SHOWN 124

enum tar_kind {
	TAR_FILE,
	TAR_DIRECTORY,
	TAR_SYMLINK,
	TAR_HARDLINK,
	TAR_SPECIAL, /* a device or a FIFO */
};

struct tar_entry {
	enum tar_kind kind;
	bool has_caps;         /* capabilities of a file, in an attribute */
	char path[TAR_PATH];   /* "": the root itself */
	char target[TAR_PATH]; /* of a symlink: as it is; of a hard link: clean */
	uint64_t size;         /* of a file; else 0 */
	uint32_t mode;         /* permissions and set-id bits */
	uint64_t uid, gid;
	int64_t mtime_sec;
};

enum { TAR_WANTED, TAR_UNWANTED };

struct tar_handler {
	void *arg;
	/* a new entry; TAR_UNWANTED: neither its data nor its end is told; -1 and *e */
	int (*on_entry)(void *arg, const struct tar_entry *entry, struct err *e);
	int (*on_data)(void *arg, const char *bytes, size_t len, struct err *e);
	/* of a file whose data was wanted, also of an empty one */
	int (*on_end)(void *arg, struct err *e);
};

enum tar_body { TAR_BODY_NONE, TAR_BODY_DATA, TAR_BODY_SKIP, TAR_BODY_META };

struct tar {
	struct tar_handler handler;
	struct tar_entry entry;
	unsigned char block[TAR_BLOCK];
	size_t have;     /* of a header */
	uint64_t offset; /* bytes that were read so far */
	uint64_t left, pad;
	enum tar_body body;
	char meta; /* the kind of header that body belongs to */
	struct buf text;
	struct { /* said of the next entry by headers before it */
		bool path, target, size, uid, gid, mtime;
	} given;
	bool ended; /* a block of zeros was there; what follows has no meaning */
};

void tar_init(struct tar *t, const struct tar_handler *handler);
void tar_done(struct tar *t);
/* 0, or -1 and *e: then there is no going on */
int tar_feed(struct tar *t, const char *bytes, size_t len, struct err *e);
/* nothing follows: was it whole? */
int tar_end(const struct tar *t, struct err *e);
/* so many of the next bytes have no meaning; tar_skip: they were left out */
uint64_t tar_skippable(const struct tar *t);
void tar_skip(struct tar *t);

/* the clean form of a name; -1: it has none */
int tar_clean(const char *name, char out[TAR_PATH]);
/* a name for a message and a terminal: no control characters, cut */
const char *tar_shown(const char *name, char out[TAR_SHOWN]);

#endif
