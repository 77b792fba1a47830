/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * idmap.h - which ids a user namespace has, as its uid_map or gid_map says
 */
#ifndef BASE_IDMAP_H
#define BASE_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IDMAP_EXTENTS 340 /* the kernel's own limit */

struct idmap {
	unsigned count;
	struct {
		uint64_t first, last; /* as seen inside */
		uint64_t outer;       /* what the first one is in the parent namespace */
	} extent[IDMAP_EXTENTS];
};

/* 0, or -1 with errno; EINVAL for a text that is no map */
int idmap_parse(struct idmap *out, const char *text);
int idmap_read(struct idmap *out, const char *file);
/* is every id from first to last there? */
bool idmap_has(const struct idmap *m, uint64_t first, uint64_t last);
/* what an id is in the parent namespace; false: it is not mapped */
bool idmap_outer(const struct idmap *m, uint64_t id, uint64_t *out);
/* "0, 1000-65535"; cut when there is no room */
void idmap_text(const struct idmap *m, char *out, size_t room);

#endif
