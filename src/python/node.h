/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * node.h - arguments of a request, for a node that has started
 */
#ifndef PYTHON_NODE_H
#define PYTHON_NODE_H

#include <stdbool.h>
#include <stddef.h>

/* is it a node that shows what the other call needs? */
bool node_shows(void);
/* Words of `len` bytes, each with its NUL, behind those of process.argv; only while node
 * opens its script. -1: this node does not show how. */
int node_add_args(const char *words, size_t len);

#endif
