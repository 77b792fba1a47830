/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pack.h - a directory as a tar
 */
#ifndef IMAGE_PACK_H
#define IMAGE_PACK_H

struct err;

/*
 * All below dir_fd to out_fd, which tar.h reads: files, directories, symbolic and hard
 * links; sockets, FIFOs and devices as entries that the reader counts. No link is
 * followed and no other mount is entered. What cannot be read ends it with its name.
 */
int pack_tree(int dir_fd, int out_fd, struct err *e);

#endif
