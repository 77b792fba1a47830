/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * images.c - which images there are, for a server that may not look
 *
 * Packed by the supervisor, which may, at the start and whenever that changes: of each
 * image its name and its variables, each with its NUL, then an empty one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "session/store.h"

static int pack_one(int dir_fd, const char *name, struct buf *out)
{
	struct image_info info;
	struct err e;
	int rc = buf_add(out, name, strlen(name) + 1);

	/* one that cannot be read has none, and is still there */
	if (image_info_read(dir_fd, name, &info, &e) < 0)
		memset(&info, 0, sizeof(info));
	for (char **w = info.env; rc == 0 && *w; w++)
		rc = buf_add(out, *w, strlen(*w) + 1);
	image_info_done(&info);
	return rc < 0 ? -1 : buf_add(out, "", 1);
}

int session_images_pack(int dir_fd, struct buf *out)
{
	struct image_names all = {0};
	int rc = 0;

	buf_init(out, SESSION_IMAGES_BYTES);
	if (images_list(dir_fd, &all.name, &all.count) < 0)
		return -1;
	for (size_t i = 0; rc == 0 && i < all.count; i++)
		rc = pack_one(dir_fd, all.name[i], out);
	free(all.name);
	return rc;
}

static size_t count_packed(const char *bytes, size_t len)
{
	size_t n = 0;

	for (size_t at = 1; at < len; at++)
		n += !bytes[at] && !bytes[at - 1];
	return n;
}

static void forget(struct sessions *s)
{
	free(s->images.name);
	free(s->image_text);
	free(s->image_env);
	s->images = (struct image_names){0};
	s->image_text = NULL;
	s->image_env = NULL;
}

void sessions_set_images(struct sessions *s, const char *bytes, size_t len)
{
	const size_t count = count_packed(bytes, len);
	const char *at;

	forget(s);
	if (!count)
		return;
	s->images.name = mem_array(count, sizeof(*s->images.name));
	s->image_env = mem_array(count, sizeof(*s->image_env));
	s->image_text = mem_copy_n(bytes, len);
	for (at = s->image_text; s->images.count < count; at++) {
		if (strlen(at) >= IMAGE_NAME)
			return forget(s); /* nobody packed this */
		memcpy(s->images.name[s->images.count], at, strlen(at) + 1);
		at += strlen(at) + 1;
		s->image_env[s->images.count++] = at;
		while (*at)
			at += strlen(at) + 1;
	}
}

const char *session_image_env(const struct sessions *s, const char *name)
{
	size_t i = 0;

	while (i < s->images.count && strcmp(s->images.name[i], name) != 0)
		i++;
	return i < s->images.count ? s->image_env[i] : "";
}
