/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tree_set.h - which inodes a layer brought; for tree.c
 */
#ifndef IMAGE_TREE_SET_H
#define IMAGE_TREE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_set {
	uint64_t *slot; /* 0: free; no inode has that number */
	size_t room, count;
};

bool tree_set_has(const struct tree_set *s, uint64_t ino);
void tree_set_add(struct tree_set *s, uint64_t ino);
void tree_set_done(struct tree_set *s);

#endif
