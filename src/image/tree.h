/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tree.h - layers of an image onto each other, in a directory
 *
 * tree_handler() is for tar_init(). Nothing outside the directory is touched whatever
 * names and links an archive has; what does not fit ends the reading with its name. Files
 * are those of the process, readable for everybody, without set-id bits. Devices and
 * FIFOs are left out. Whiteouts remove what earlier layers brought, never what this one
 * does.
 */
#ifndef IMAGE_TREE_H
#define IMAGE_TREE_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "image/tar.h"
#include "image/tree_set.h"

struct err;

struct tree_counts {
	uint64_t entries; /* all that were read */
	uint64_t bytes;   /* of files, those included that a later layer replaced */
	uint64_t special; /* devices and FIFOs, left out */
	uint64_t set_id;  /* set-id bits and capabilities that were taken away */
	uint64_t opened;  /* that not everybody could read */
};

struct tree {
	int root_fd;
	int owners_fd; /* -1: nowhere */
	uint64_t bytes_most, entries_most;
	struct tree_counts counts;
	struct tree_set ours; /* what this layer brought */
	struct buf owners;    /* to be written */
	int file_fd;          /* being filled */
	mode_t file_mode;
	struct timespec file_time;
	char file_path[TAR_PATH];
};

/* takes neither descriptor over */
void tree_init(struct tree *t, int root_fd, int owners_fd, uint64_t bytes_most,
	       uint64_t entries_most);
void tree_done(struct tree *t);
struct tar_handler tree_handler(struct tree *t);
/* what follows is of another layer */
void tree_next_layer(struct tree *t);
/* all layers are there */
int tree_finish(struct tree *t, struct err *e);

#endif
