/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * unpack.h - an archive or a stream as an image that is being made
 *
 * Runs in: a process with no right but to write below staged_fd and to read what it was
 * given open.
 */
#ifndef IMAGE_UNPACK_H
#define IMAGE_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "image/image.h"
#include "image/tree.h"

struct err;

#define UNPACK_ENTRIES 1000000

struct unpack {
	const char *name; /* of the image */
	int source_fd;    /* an archive; or the tar of a directory, as it comes */
	bool directory;   /* that: its layer is what follows, whatever is in it */
	int spool_fd;     /* an empty file, for what cannot be read twice */
	int staged_fd;    /* IMAGE_ROOT, IMAGE_INFO and IMAGE_OWNERS are made here */
	uint64_t bytes_most;
	int progress_fd; /* a terminal that likes to know; -1: nobody does */
};

struct unpacked {
	struct tree_counts counts;
	char source[32];
	unsigned layers;
};

int unpack_run(const struct unpack *u, struct unpacked *out, struct err *e);

#endif
