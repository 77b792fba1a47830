/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ahead.h - the shared object that imports modules ahead, and how python3 comes by it
 *
 * src/python is built into an object that the binary carries (src/setup/embed_object.sh).
 * The launcher puts it into a sealed memfd, behind it the names of the modules, and the
 * interpreter's loader takes it from descriptor AHEAD_FD. The variable that says so
 * stands in the place of another one of the same length, and is that one again before
 * main(): neither environ nor /proc/self/environ tells.
 */
#ifndef WIRE_AHEAD_H
#define WIRE_AHEAD_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define AHEAD_FD 4
#define AHEAD_LOAD "LD_PRELOAD=/dev//////fd/4"
#define AHEAD_HIDES "PYTHONDONTWRITEBYTECODE=1"
static_assert(sizeof(AHEAD_LOAD) == sizeof(AHEAD_HIDES),
	      "the one must fit into the other's place");

#define AHEAD_NAMES 384 /* bytes, with the NUL; "numpy,pandas" */

/* The object marks the FIFO that stands for the script, when it is there to read from it
 * what comes before the script: lengths, and so many bytes of words, each with its NUL */
#define AHEAD_FIFO 0700
#define AHEAD_TAKEN 0500 /* and again when it has set what it read */
enum ahead_how { AHEAD_WORDS = 1, AHEAD_IMPORTS }; /* of a row: that, or modules too */
struct ahead_words {
	uint32_t args_len;
	uint32_t env_len; /* NAME=value */
};

/* the last bytes of the memfd */
struct ahead_tail {
	uint32_t forks; /* 1: runs are forked from it, launcher/fork.h */
	char names[AHEAD_NAMES];
};

extern const unsigned char ahead_object[];
extern const size_t ahead_object_len;

#endif
