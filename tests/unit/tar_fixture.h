/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tar_fixture.h - archives, written by hand
 */
#pragma once

#include <stdio.h>
#include <string.h>

#include "image/tar.h"

struct tar_text {
	char bytes[1 << 17];
	size_t len;
};

/* the sum of a header, after something was changed in it */
static inline void tar_text_sum(char *h)
{
	unsigned sum = 0;

	memset(h + 148, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
}

/* where its header is */
static inline char *tar_text_add(struct tar_text *t, char type, const char *name,
				 const char *link, const char *data)
{
	char *h = t->bytes + t->len;
	const size_t size = strlen(data);

	memset(h, 0, TAR_BLOCK);
	memcpy(h, name, strnlen(name, 100));
	memcpy(h + 157, link, strnlen(link, 100));
	memcpy(h + 100, "0000644", 8);
	memcpy(h + 108, "0000000", 8);
	memcpy(h + 116, "0000000", 8);
	snprintf(h + 124, 12, "%011o", (unsigned)size);
	memcpy(h + 136, "00000000017", 12);
	h[156] = type;
	memcpy(h + 257, "ustar", 6);
	memcpy(h + 263, "00", 2);
	tar_text_sum(h);
	memcpy(h + TAR_BLOCK, data, size);
	t->len += TAR_BLOCK + (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	return h;
}

static inline void tar_text_end(struct tar_text *t)
{
	t->len += (size_t)2 * TAR_BLOCK; /* zeros: the fixture is static */
}
