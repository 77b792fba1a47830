/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * binds.h - what of the host a run sees: the list of paths in struct setup
 *
 * Every path is bound read-only at the same place. No path of the list lies below another
 * one.
 */
#ifndef CONFIG_BINDS_H
#define CONFIG_BINDS_H

#include <stdbool.h>

struct err;
struct setup;

/* how names are resolved here: for runs that share this host's network */
int binds_names(struct setup *s, struct err *e);
/* /usr, the top directories beside it, the few files of /etc that runtimes read */
int binds_system(struct setup *s, struct err *e);
/* a path that exists, whatever it is; ENOENT is success; -1 too where it is in what
 * installs alone see */
int binds_add(struct setup *s, const char *path, struct err *e);
bool binds_cover(const struct setup *s, const char *path);
/*
 * A tree that a runtime names as its own, under that name and under its real one. 1 when
 * it is bound; 0 when it may not be: it holds a home directory or is one (then nothing
 * was added).
 */
int binds_tree(struct setup *s, const char *path, struct err *e);
/* the same for a real directory that installs alone see, unless a run sees it anyway; 0
 * also where a runtime is in it */
int binds_packages(struct setup *s, const char *path, struct err *e);
/* nobody sees these directories any more; false: there was none */
bool binds_drop_packages(struct setup *s);
/* a program: every link on the way to it that no other bind covers, as a single file */
int binds_program(struct setup *s, const char *path, struct err *e);

#endif
