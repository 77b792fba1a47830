/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * idmap.c - which ids a user namespace has
 */
#include "base/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/num.h"

#define MAP_TEXT 16384 /* 340 lines of 33 bytes fit */

/* the next word of a line, all digits, no more than 32 bits */
static int take_number(char **line, uint64_t *out)
{
	char *word;

	do
		word = strsep(line, " ");
	while (word && !*word);
	if (!word || num_range(word, 0, UINT32_MAX, out) < 0) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

static int parse_line(struct idmap *m, char *line)
{
	uint64_t first, outer, count;

	if (m->count == IDMAP_EXTENTS || take_number(&line, &first) < 0 ||
	    take_number(&line, &outer) < 0 || take_number(&line, &count) < 0 ||
	    count == 0 || line) {
		errno = EINVAL;
		return -1;
	}
	m->extent[m->count].first = first;
	m->extent[m->count].last = first + count - 1;
	m->extent[m->count++].outer = outer;
	return 0;
}

int idmap_parse(struct idmap *out, const char *text)
{
	char copy[MAP_TEXT], *rest = copy, *line;

	memset(out, 0, sizeof(*out));
	if (strlen(text) >= sizeof(copy)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(copy, text, strlen(text) + 1);
	while ((line = strsep(&rest, "\n")))
		if (*line && parse_line(out, line) < 0)
			return -1;
	return 0;
}

int idmap_read(struct idmap *out, const char *file)
{
	char text[MAP_TEXT];

	if (fs_read_at(AT_FDCWD, file, text, sizeof(text)) < 0)
		return -1;
	return idmap_parse(out, text);
}

/* the extent that an id is in, or -1 */
static int extent_of(const struct idmap *m, uint64_t id)
{
	for (unsigned i = 0; i < m->count; i++)
		if (m->extent[i].first <= id && id <= m->extent[i].last)
			return (int)i;
	return -1;
}

bool idmap_has(const struct idmap *m, uint64_t first, uint64_t last)
{
	int i;

	for (; first <= last; first = m->extent[i].last + 1) {
		i = extent_of(m, first);
		if (i < 0)
			return false;
	}
	return true;
}

bool idmap_outer(const struct idmap *m, uint64_t id, uint64_t *out)
{
	int i = extent_of(m, id);

	if (i < 0)
		return false;
	*out = m->extent[i].outer + (id - m->extent[i].first);
	return true;
}

void idmap_text(const struct idmap *m, char *out, size_t room)
{
	size_t len = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < m->count && len < room; i++) {
		len += (size_t)snprintf(out + len, room - len, "%s%" PRIu64,
					i ? ", " : "", m->extent[i].first);
		if (len < room && m->extent[i].last > m->extent[i].first)
			len += (size_t)snprintf(out + len, room - len, "-%" PRIu64,
						m->extent[i].last);
	}
}
