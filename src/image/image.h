/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * image.h - the store of images: root file systems that sessions start from
 *
 *	DIR/NAME/rootfs/     the files, all of one owner, readable for everybody
 *	DIR/NAME/image.json  what it is, where it is from, its environment
 *	DIR/NAME/owners      "UID GID MODE PATH" and NUL for each entry of the archive,
 *	                     in its order: the last of a path that is there counts
 *	DIR/.new-*, .old-*   one that is being made or removed
 *
 * NAME is the reference with every byte but letters, digits, dot, dash and underscore as
 * %XX: one component, and nothing that the options of a mount give a meaning to. An image
 * appears by a rename, whole, and disappears by one. Who uses one holds a shared lock on
 * its directory (image_open), who makes or removes one holds the other kind. image.json
 * was written by a process that read hostile bytes: it is checked again by who reads it.
 *
 * Runs in: `sandbox-server image`, the server, the launcher. Nothing here waits.
 */
#ifndef IMAGE_IMAGE_H
#define IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define IMAGE_NAME 201 /* a reference and its NUL */
#define IMAGE_FILE 256 /* the same as a directory's name */
#define IMAGE_STAGED 32
#define IMAGE_ENV 64 /* the most variables */
#define IMAGE_TEXT (256u << 10)
#define IMAGE_ROOT "rootfs"
#define IMAGE_INFO "image.json"
#define IMAGE_OWNERS "owners"
/* what a shortcut becomes where the store has nothing for it; no image has this name */
#define IMAGE_HOST "host"

struct image_info {
	char name[IMAGE_NAME];
	char source[32];       /* "oci-archive", "docker-archive", "tar", "directory" */
	char digest[80];       /* "sha256:..." of its manifest; "" when it has none */
	char architecture[16]; /* "amd64"; "" when nobody said */
	char added[32];        /* 2026-01-31T12:00:00Z */
	uint64_t bytes;        /* of its files */
	char *env[IMAGE_ENV + 1]; /* "NAME=value", NULL ends; image_info_done frees */
};

/* --- image.c: names */

/* "golang:1.22", "team/tools@sha256:...": 1 to 200 bytes, parts begin with a letter or
 * digit; not "host" */
bool image_name_ok(const char *name);
/* -1: no name of an image, or one too long for a directory */
int image_encode(const char *name, char out[IMAGE_FILE]);
int image_decode(const char *file, char out[IMAGE_NAME]);

/* --- find.c: dir_fd: the store; -1: there is none, which is an empty one */

/*
 * What a client asked for, as the name of an image that is there: itself, with :latest
 * where it has no tag, or the only one that ends in /ASKED. Shortcuts (linux, bash,
 * shell, python, node, go; NULL is linux) become IMAGE_HOST at last. -1 and *e (400
 * image_not_found): names what there is, and how to add it.
 */
int image_find(int dir_fd, const char *asked, char out_name[IMAGE_NAME], struct err *e);
/* the same for who cannot look: of these, sorted as images_list() has them */
struct image_names {
	char (*name)[IMAGE_NAME];
	size_t count;
};
int image_find_among(const struct image_names *all, const char *asked,
		     char out_name[IMAGE_NAME], struct err *e);
/* what image.json says; -1 and *e */
int image_info_read(int dir_fd, const char *name, struct image_info *out, struct err *e);
void image_info_done(struct image_info *info);
/* all names that are there, sorted; the caller frees the array */
int images_list(int dir_fd, char (**out_names)[IMAGE_NAME], size_t *out_count);

/* --- store.c: use and change */

/* its directory, locked as in use until the descriptor and all its copies are closed;
 * IMAGE_ROOT is below it. -1 with errno; ENOENT also while it is being removed */
int image_open(int dir_fd, const char *name);
/* a new directory with a name of its own, locked; -1 with errno */
int image_stage(int dir_fd, char out_staged[IMAGE_STAGED]);
/* it becomes the image of this name; -1, errno EEXIST when there is one already */
int image_publish(int dir_fd, const char *staged, int staged_fd, const char *name);
/* -1, errno EBUSY when somebody has it open */
int image_remove(int dir_fd, const char *name);
/* what was being made or removed by somebody who is dead */
void images_sweep(int dir_fd);

#endif
