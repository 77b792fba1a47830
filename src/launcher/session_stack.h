/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_stack.h - what a session's root is made of: an image, and layers on it
 *
 * Layers are directories of one place, named at random; which of them a session has, and
 * in which order, stands in a file of its own. The first is written to, by one session
 * alone; the others are never changed again, and others may have them too. So whatever is
 * done with files is one rename of that file, and a layer that stands in none is
 * nobody's.
 */
#ifndef LAUNCHER_SESSION_STACK_H
#define LAUNCHER_SESSION_STACK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/plan.h"
#include "wire/setup.h"

#define STACK_DEPTH 64 /* the kernel takes more, a page of names at most */
#define STACK_NAME 17
#define STACK_FILE "stack"
#define STACK_POOL "layers" /* beside the directories of sessions */
#define STACK_FILES "files" /* of a layer: what was written, */
#define STACK_WORK "work"   /* and a place for the kernel */

struct session_stack {
	char image[SESSION_IMAGE]; /* "": the host's runtime */
	uint32_t read_only;
	uint32_t root;    /* its user is: then "/" is its own too */
	uint32_t volumes; /* of struct setup, a bit each */
	unsigned depth;
	char layer[STACK_DEPTH][STACK_NAME];
};

/* each 0, or -1 with errno; dir_fd: the directory of a session */
int stack_read(const struct setup *setup, int dir_fd, const char *file,
	       struct session_stack *out);
/* on the disk when this returns, whole or not at all */
int stack_write(const struct setup *setup, int dir_fd, const char *file,
		const struct session_stack *s);
/* a new layer on top, which no file names yet; pool_fd: where layers are. uid: whose what
 * is written to it will be */
int stack_push(struct session_stack *s, int pool_fd, uid_t uid);
/* the same without anything in it */
int stack_push_empty(struct session_stack *s, int pool_fd);
/* of one that no file came to name; keeps errno */
void stack_undo_push(struct session_stack *s, int pool_fd);
/* without the one that is written to */
void stack_pop(struct session_stack *s);
/* what counts what is in a layer, where the file system does */
uint32_t stack_project(const char *layer);
/* the files of a layer; -1 with errno */
int stack_open_layer(int pool_fd, const char *layer);
/* of the one that is written to */
int stack_open_top(const struct session_stack *s, int pool_fd);
/* nothing has been written since it was made */
bool stack_top_empty(const struct session_stack *s, int pool_fd);
bool stack_has(const struct session_stack *s, const char *layer);
/* layers were frozen on these since, and none of them was taken away */
bool stack_is_below(const struct session_stack *now, const struct session_stack *frozen);
/* the name of an image's directory, and nothing that leads elsewhere */
bool stack_image_ok(const char *name);

#endif
