/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * template.h - roots: those that a slot's runs start from, and those of sessions
 */
#ifndef LAUNCHER_TEMPLATE_H
#define LAUNCHER_TEMPLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/session_stack.h"

struct abilities;
struct setup;
struct stat;

/* what a session's root is made of */
struct session_root {
	const struct session_stack *stack;
	uid_t uid; /* where its user is root: what that is outside */
};

/* 0, or -1 with errno and the step's name. seed_dir: a compile cache to be filled, bound
 * writable; NULL for every slot but one. session: NULL for every slot of runs. forks: an
 * interpreter is started in it, and what that sees may be in every run. */
int template_build(const struct setup *setup, const struct abilities *a,
		   const char *seed_dir, const struct session_root *session, bool forks,
		   const char **out_step);

/* ---- inside of template*.c ---- */

struct building {
	const struct setup *setup;
	const struct abilities *abilities;
	const char *seed_dir;
	const struct session_root *session;
	bool forks;
	int root_fd;      /* the new root */
	int mapping_fd;   /* of ids, as a user namespace; -1: none is needed */
	int below_fd;     /* of a session: what was that before its layers came */
	bool places_only; /* nothing is bound: it is the lowest layer of a session, */
	bool on_session;  /* or what the session has written is there already */
};

static inline bool template_has_image(const struct building *t)
{
	return t->session && t->session->stack->image[0];
}

/* a tmpfs that is mounted nowhere yet; -1 with errno */
int template_tmpfs(const char *size, const char *inodes);
/* the tree at `from` appears at `to` below the new root, recursively with these
 * attributes */
int template_bind(const struct building *t, const char *from, const char *to,
		  uint64_t attributes);
int template_bind_runtime(const struct building *t);

/* fork_proc.c: nothing but where an interpreter is started */
int template_cover_proc(struct building *t);

/* template_ids.c: nothing but where the user is root; an image of such a session is to be
 * found at this place of the lowest layer */
#define TEMPLATE_IMAGE "run"
/* before anything lies on "/": then the kernel makes no user namespace any more */
int template_session_mapping(struct building *t);
/* a user namespace in which nothing ever happens: it stands for a mapping of the owner of
 * what `from` is about; -1 with errno */
int template_mapping(const struct stat *from, uid_t to);
int template_session_ids(struct building *t);

/* template_session.c: nothing for a run */
int template_session_root(struct building *t);
int template_session_mounts(struct building *t);
int template_open_image(const struct building *t);
int template_bind_volumes(const struct building *t);
/* a mount to a path below the root where somebody may have put links */
int template_move_safely(const struct building *t, int tree_fd, const char *path);

#endif
