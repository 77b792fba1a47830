/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tree_set.c - which inodes a layer brought
 */
#include "image/tree_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* the slot that it is in, or would be */
static uint64_t *find(const struct tree_set *s, uint64_t ino)
{
	size_t i = (size_t)(ino * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (s->room - 1);

	while (s->slot[i] && s->slot[i] != ino)
		i = (i + 1) & (s->room - 1);
	return &s->slot[i];
}

bool tree_set_has(const struct tree_set *s, uint64_t ino)
{
	return s->room && *find(s, ino) == ino;
}

void tree_set_add(struct tree_set *s, uint64_t ino)
{
	struct tree_set more = {.room = s->room ? s->room * 2 : 1024, .count = s->count};

	if (s->count * 2 >= s->room) {
		more.slot = mem_array(more.room, sizeof(*more.slot));
		for (size_t i = 0; i < s->room; i++)
			if (s->slot[i])
				*find(&more, s->slot[i]) = s->slot[i];
		free(s->slot);
		*s = more;
	}
	if (*find(s, ino) == ino)
		return;
	*find(s, ino) = ino;
	s->count++;
}

void tree_set_done(struct tree_set *s)
{
	free(s->slot);
	memset(s, 0, sizeof(*s));
}
