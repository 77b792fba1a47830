/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * layer.h - layers of packages, and where they are kept
 *
 *	STORE/NAME/packages, node_modules   a tree of one of these names, frozen
 *	          /requirements.txt         what it was made of, for people
 *	          /size                     bytes it takes
 *	          /unbuilt                  there if scripts of packages were not run
 *	STORE/NAME.RANDOM.new, .old         one that is being made or removed
 *
 * NAME is the key in hexadecimal. Whoever uses a layer holds a shared lock on its
 * directory, and who makes or removes one the other kind: so several servers may have
 * one store, and what a crash left is known by its lock that nobody holds. The time of
 * the directory is that of its last use.
 */
#ifndef LAUNCHER_LAYER_H
#define LAUNCHER_LAYER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "wire/plan.h"

struct err;

#define LAYER_NAME (2 * LAYER_KEY + 1)
#define LAYER_SIZE "size"
#define LAYER_LIST "requirements.txt"
#define LAYER_UNBUILT "unbuilt"

void layer_name(const uint8_t key[LAYER_KEY], char out[LAYER_NAME]);
bool layer_name_ok(const char *name);

/* --- layer_store.c; dir_fd: the store */
/* its directory, locked against removal as long as it is open, and used now; -1 with
 * errno, ENOENT when there is none */
int layer_open(int dir_fd, const char *name);
/* an empty directory for one that is to be made, locked; its name in out */
int layer_stage(int dir_fd, const char *name, char out[LAYER_NAME + 32]);
/* what was staged gets its name; when another one has it by now, that one is as good */
int layer_publish(int dir_fd, const char *staged, int staged_fd, const char *name);
/* -1 with errno; EBUSY: somebody uses it */
int layer_remove(int dir_fd, const char *name);

struct layer_seen {
	char name[LAYER_NAME];
	uint64_t bytes;
	struct timespec used;
};
/* all of them, the one that was used last first; freed by the caller; -1 with errno */
int layers_list(int dir_fd, struct layer_seen **out, size_t *out_count);

struct layer_bounds {
	uint64_t bytes;   /* of all together, */
	uint64_t age_sec; /* and since the last use */
};
/* Removes what crashes left, then layers that are too old, then the oldest until the rest
 * fits; never one in use, and never `spare` (or NULL). What is left, in out */
int layers_tidy(int dir_fd, const struct layer_bounds *most, const char *spare,
		struct layers_state *out);

/* --- layer_copy.c: runs with no right but to read `from` and write `to` */
struct layer_copy {
	uint64_t bytes;    /* the most; what is left of it, afterwards */
	uint32_t entries;  /* the same */
	uint32_t depth;    /* of directories */
	uint64_t until_ns; /* CLOCK_MONOTONIC */
	bool by_content;   /* installers could set no mode here: it does not tell what is
			      a program */
	uint64_t disk_bytes; /* out: what the copy takes; small files take a block too */
};
/* what `from` holds into `to`, an empty directory: files 0444 or, programs, 0555,
 * directories 0555, times as they were, links as long as they stay inside */
enum layer_result layer_copy(int from_fd, int to_fd, struct layer_copy *c);

/* --- layer_scripts.c: in the tree of what was staged */
bool layer_has_scripts(int staged_fd, const char *tree);

#endif
