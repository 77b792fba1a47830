/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * written.c - which files sandbox_fs_write has made in a session
 *
 * Runs in: the server. There may be max_files of them. Whether one is still there, a
 * command or a delete may have changed, so it is asked for, inside, when a session has
 * all that it may have: those that are gone make room. One that is being written may be
 * new: it counts until it is known.
 */
#include "session/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

static size_t find(const struct session *one, const char *path)
{
	size_t i = 0;

	while (i < one->written_count && strcmp(one->written[i], path) != 0)
		i++;
	return i;
}

/* another call writes it right now */
static bool is_under_way(const struct sessions *s, const struct session *one,
			 const char *path)
{
	for (const struct session_call *c = s->calls; c; c = c->next)
		if (c->tool == TOOL_WRITE && strcmp(c->path, path) == 0 &&
		    store_of(s, c) == one)
			return true;
	return false;
}

uint64_t written_need(const struct sessions *s, const struct session *one,
		      const char *path, struct buf *paths)
{
	uint64_t count = one->written_count;

	for (const struct session_call *c = s->calls; c; c = c->next)
		if (c->tool == TOOL_WRITE && !c->uncounted && store_of(s, c) == one &&
		    find(one, c->path) == one->written_count)
			count++;
	if (count < one->max_files || find(one, path) < one->written_count)
		return 0;
	for (size_t i = 0; i < one->written_count; i++)
		if (!is_under_way(s, one, one->written[i]))
			(void)buf_add(paths, one->written[i],
				      strlen(one->written[i]) + 1); /* or it stays */
	return count - one->max_files + 1;
}

static void add(struct session *one, const char *path)
{
	char **all;

	if (find(one, path) < one->written_count)
		return;
	all = mem_array(one->written_count + 1, sizeof(*all));
	if (one->written_count)
		memcpy(all, one->written, one->written_count * sizeof(*all));
	free(one->written);
	one->written = all;
	all[one->written_count++] = mem_copy(path);
}

void written_change(struct session *one, const char *gone, size_t len, const char *made)
{
	const char *const end = gone + len;

	for (const char *at = gone; at < end && memchr(at, 0, (size_t)(end - at));
	     at += strlen(at) + 1) {
		const size_t i = find(one, at);

		if (i == one->written_count)
			continue; /* somebody else noticed it before */
		free(one->written[i]);
		one->written[i] = one->written[--one->written_count];
	}
	if (made)
		add(one, made);
}

void written_copy(const struct session *from, struct session *to)
{
	for (size_t i = 0; i < from->written_count; i++)
		add(to, from->written[i]);
}

int written_describe(const struct session *one, struct buf *b)
{
	for (size_t i = 0; i < one->written_count; i++)
		if ((i && buf_puts(b, ",") < 0) ||
		    buf_json_string(b, one->written[i], strlen(one->written[i])) < 0)
			return -1;
	return 0;
}

void written_fill(struct session *one, const struct json *list)
{
	for (size_t i = 0; i < json_count(list); i++) {
		const char *path = json_text(json_item(list, i), NULL);

		if (path)
			add(one, path);
	}
}

void written_free(struct session *one)
{
	for (size_t i = 0; i < one->written_count; i++)
		free(one->written[i]);
	free(one->written);
	one->written = NULL;
	one->written_count = 0;
}
