/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * manifest.h - what an archive says of the image in it: its layers and its configuration
 */
#ifndef IMAGE_MANIFEST_H
#define IMAGE_MANIFEST_H

#include <stddef.h>

#include "image/blobs.h"
#include "image/image.h"

struct err;
struct json;

#define MANIFEST_LAYERS 256

enum manifest_kind {
	MANIFEST_NONE,   /* a root file system, or anything else */
	MANIFEST_OCI,    /* oci-layout and index.json */
	MANIFEST_DOCKER, /* manifest.json, as docker save writes it */
};

struct manifest {
	enum manifest_kind kind;
	char digest[BLOB_DIGEST]; /* of the manifest; of docker's the configuration */
	char architecture[16];
	struct {
		char *name;                /* in the archive */
		char digest[BLOB_DIGEST];  /* as it is there; "": not said */
		char diff_id[BLOB_DIGEST]; /* of the tar */
	} layer[MANIFEST_LAYERS];
	size_t layers;
	struct json *config;
};

enum manifest_kind manifest_kind(const struct blobs *b);
/* name: which one, where there are several. *m is to be done with in any case */
int manifest_read(struct manifest *m, const struct blobs *b, const char *name,
		  struct err *e);
void manifest_done(struct manifest *m);
/* of this host, as images name it */
const char *manifest_architecture(void);

#endif
