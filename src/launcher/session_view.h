/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_view.h - what a stack of layers shows, without mounting it
 *
 * For processes that the launcher forks to compare stacks, or to make one layer of many.
 * As the kernel's overlay does it: of a name the highest counts, directories of the same
 * name are one, unless one of them is opaque, and a character device 0:0 hides all below.
 */
#ifndef LAUNCHER_SESSION_VIEW_H
#define LAUNCHER_SESSION_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "launcher/session_stack.h"

#define VIEW_LAYERS (STACK_DEPTH + 1) /* and an image */
#define VIEW_OPAQUE "user.overlay.opaque"

/* A stack, and where we are in it. Of each layer one directory is open, the deepest that
 * it has on the way here, so that any depth takes as many descriptors as there are
 * layers. */
struct view {
	int fd[VIEW_LAYERS];      /* the highest first */
	bool own[VIEW_LAYERS];    /* the other stack does not have this layer */
	unsigned at[VIEW_LAYERS]; /* the depth of its directory */
	unsigned count;
	unsigned depth; /* ours: of the layers that are at it we see the directories */
	unsigned room;
	struct view_level *level; /* the way here, without the beginning */
};

enum view_kind { VIEW_NONE, VIEW_HIDDEN, VIEW_FILE, VIEW_DIRECTORY };

/* those that are shown as one directory */
struct view_dirs {
	int fd[VIEW_LAYERS];
	unsigned layer[VIEW_LAYERS]; /* the highest first */
	unsigned count;
	bool cut; /* the lowest is opaque: nothing below it is shown */
};

struct view_entry {
	enum view_kind kind;
	struct stat st;
	int at_fd;             /* the directory that it is in */
	struct view_dirs dirs; /* of a directory; to be closed, or entered */
};

/* of where we are; 0, or -1 with errno */
int view_look(const struct view *v, const char *name, struct view_entry *out);
void view_close(struct view_entry *e);
/* down into it, which nothing may be, too: then nothing is shown there; closes it */
int view_enter(struct view *v, struct view_entry *e);
/* and up again; ESTALE: what we were in has been moved, and v is of no use any more */
int view_leave(struct view *v);
bool view_shows(const struct view *v, unsigned layer); /* it has where we are */
int view_top(const struct view *v); /* its highest directory where we are; -1: none */
/* nothing of other layers is seen where we are, or of `own` alone */
bool view_hides_others(const struct view *v);

/* names, sorted, each once */
struct view_names {
	char **name;
	size_t count, room;
};
int view_names_add(struct view_names *n, int dir_fd); /* -1 with errno */
void view_names_sort(struct view_names *n);
void view_names_done(struct view_names *n);

#endif
