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
#define VIEW_DEPTH 128                /* of directories: deeper ones are not looked at */
#define VIEW_OPAQUE "user.overlay.opaque"

/* one directory: the descriptors of those that are shown as it, the highest first */
struct view {
	int fd[VIEW_LAYERS];
	bool own[VIEW_LAYERS]; /* of a layer that the other stack does not have */
	unsigned count;
	bool cut; /* the lowest is opaque: nothing below it is shown */
};

enum view_kind { VIEW_NONE, VIEW_HIDDEN, VIEW_FILE, VIEW_DIRECTORY };

struct view_entry {
	enum view_kind kind;
	struct stat st;
	int at_fd;       /* the directory that it is in */
	struct view dir; /* of a directory; to be closed */
};

/* 0, or -1 with errno */
int view_look(const struct view *v, const char *name, struct view_entry *out);
void view_close(struct view *v);

/* names, sorted, each once */
struct view_names {
	char **name;
	size_t count, room;
};
int view_names_add(struct view_names *n, int dir_fd); /* -1 with errno */
void view_names_sort(struct view_names *n);
void view_names_done(struct view_names *n);

#endif
