/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * find.c - which image is meant, and what it is
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "image/image.h"

#define STANDS_FOR 3

/* what stands in its place when the store has no entry of its name, the best first */
static const struct {
	const char *name;
	const char *stands_for[STANDS_FOR];
} shortcuts[] = {
	{"linux", {"ubuntu:22.04"}},          {"bash", {"linux", "ubuntu:22.04"}},
	{"shell", {"linux", "ubuntu:22.04"}}, {"python", {"python:3.11-slim"}},
	{"node", {"node:20-slim"}},           {"go", {"golang:1.22"}},
};

#define SHORTCUTS (sizeof(shortcuts) / sizeof(shortcuts[0]))

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static DIR *open_list(int dir_fd)
{
	const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

int images_list(int dir_fd, char (**out_names)[IMAGE_NAME], size_t *out_count)
{
	char(*names)[IMAGE_NAME] = NULL;
	size_t count = 0, room = 0;
	struct dirent *d;
	DIR *dir;

	dir = dir_fd < 0 ? NULL : open_list(dir_fd);
	if (dir_fd >= 0 && !dir)
		return -1;
	while (dir && (d = readdir(dir))) {
		if (count == room) {
			char(*more)[IMAGE_NAME];

			room = room ? room * 2 : 16;
			more = mem_array(room, sizeof(*more));
			if (count)
				memcpy(more, names, count * sizeof(*more));
			free(names);
			names = more;
		}
		if (image_decode(d->d_name, names[count]) == 0)
			count++;
	}
	if (dir)
		closedir(dir);
	if (count)
		qsort(names, count, sizeof(*names), by_name);
	*out_names = names;
	*out_count = count;
	return 0;
}

static bool is_there(const struct image_names *all, const char *name,
		     char out[IMAGE_NAME])
{
	if (strlen(name) >= IMAGE_NAME || !all->count ||
	    !bsearch(name, all->name, all->count, sizeof(*all->name), by_name))
		return false;
	memcpy(out, name, strlen(name) + 1);
	return true;
}

/* how many names end in "/asked"; the last of them in out */
static unsigned ending_in(const struct image_names *all, const char *asked,
			  char out[IMAGE_NAME])
{
	const size_t len = strlen(asked);
	unsigned found = 0;

	for (size_t i = 0; i < all->count; i++) {
		const size_t n = strlen(all->name[i]);

		if (n > len && all->name[i][n - len - 1] == '/' &&
		    strcmp(all->name[i] + n - len, asked) == 0) {
			memcpy(out, all->name[i], n + 1);
			found++;
		}
	}
	return found;
}

/* a tag or digest behind the last slash: then it is not :latest that is meant */
static bool has_tag(const char *name)
{
	const char *slash = strrchr(name, '/');

	return strpbrk(slash ? slash : name, ":@") != NULL;
}

/* 1: found; 0: not there; -1: more than one */
static int look_up(const struct image_names *all, const char *asked, char out[IMAGE_NAME])
{
	char latest[IMAGE_NAME + sizeof(":latest")];
	unsigned found;

	if (!image_name_ok(asked))
		return 0;
	if (is_there(all, asked, out))
		return 1;
	snprintf(latest, sizeof(latest), "%s%s", asked, has_tag(asked) ? "" : ":latest");
	if (is_there(all, latest, out))
		return 1;
	found = ending_in(all, asked, out);
	if (found == 0)
		found = ending_in(all, latest, out);
	return found > 1 ? -1 : (int)found;
}

static int refuse(const struct image_names *all, const char *asked, bool many,
		  struct err *e)
{
	char list[240] = "";
	size_t len = 0, i;

	for (i = 0; i < all->count && len + strlen(all->name[i]) + 8 < sizeof(list); i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s, ",
					all->name[i]);
	if (i < all->count)
		snprintf(list + len, sizeof(list) - len, "..., ");
	return err_client(
		e, 400, "image_not_found",
		"%s '%.60s%s'; there are: %s" IMAGE_HOST
		"; the operator adds one by: sandbox-server image pull REFERENCE",
		many ? "more than one image ends in" : "there is no image",
		image_name_ok(asked) ? asked : "", strlen(asked) > 60 ? "..." : "", list);
}

static int find_shortcut(const struct image_names *all, size_t which,
			 char out[IMAGE_NAME])
{
	const char *const *other = shortcuts[which].stands_for;

	if (is_there(all, shortcuts[which].name, out))
		return 0;
	for (size_t i = 0; i < STANDS_FOR && other[i]; i++)
		if (look_up(all, other[i], out) > 0)
			return 0;
	memcpy(out, IMAGE_HOST, sizeof(IMAGE_HOST));
	return 0;
}

int image_find_among(const struct image_names *all, const char *asked,
		     char out_name[IMAGE_NAME], struct err *e)
{
	int found;

	if (!asked)
		asked = shortcuts[0].name;
	for (size_t i = 0; i < SHORTCUTS; i++)
		if (strcmp(shortcuts[i].name, asked) == 0)
			return find_shortcut(all, i, out_name);
	if (strcmp(asked, IMAGE_HOST) == 0) {
		memcpy(out_name, IMAGE_HOST, sizeof(IMAGE_HOST));
		return 0;
	}
	found = look_up(all, asked, out_name);
	return found > 0 ? 0 : refuse(all, asked, found < 0, e);
}

int image_find(int dir_fd, const char *asked, char out_name[IMAGE_NAME], struct err *e)
{
	struct image_names all = {0};
	int rc;

	if (images_list(dir_fd, &all.name, &all.count) < 0)
		return err_errno(e, "list the images");
	rc = image_find_among(&all, asked, out_name, e);
	free(all.name);
	return rc;
}

static void take_text(const struct json *v, const char *name, char *out, size_t room)
{
	const struct json *m = json_member(v, name);
	size_t len = 0;
	const char *text = m ? json_text(m, &len) : NULL;

	if (text && len < room && strlen(text) == len && fs_name_ok(text, len, room))
		memcpy(out, text, len + 1);
}

/* "NAME=value", fit for an environment */
static bool is_variable(const char *text, size_t len)
{
	const char *equals = text ? strchr(text, '=') : NULL;

	return equals && equals != text && strlen(text) == len;
}

static void take_info(const struct json *v, struct image_info *info)
{
	const struct json *bytes = json_member(v, "bytes"), *env = json_member(v, "env");
	size_t n = 0;

	take_text(v, "source", info->source, sizeof(info->source));
	take_text(v, "digest", info->digest, sizeof(info->digest));
	take_text(v, "architecture", info->architecture, sizeof(info->architecture));
	take_text(v, "added", info->added, sizeof(info->added));
	if (bytes && json_is_number(bytes) && json_double(bytes) >= 0 &&
	    json_double(bytes) < 1e18)
		info->bytes = (uint64_t)json_double(bytes);
	for (size_t i = 0; i < json_count(env) && n < IMAGE_ENV; i++) {
		size_t len = 0;
		const char *text = json_text(json_item(env, i), &len);

		if (is_variable(text, len))
			info->env[n++] = mem_copy(text);
	}
}

int image_info_read(int dir_fd, const char *name, struct image_info *out, struct err *e)
{
	auto_fd int fd = -1;
	auto_free char *text = mem_zero(IMAGE_TEXT);
	char file[IMAGE_FILE];
	struct json *v;
	ssize_t len;

	memset(out, 0, sizeof(*out));
	if (image_encode(name, file) < 0)
		return err_bad(e, "'%.80s' is no name of an image", name);
	fd = openat(dir_fd, file, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	len = fd < 0 ? -1 : fs_read_at(fd, IMAGE_INFO, text, IMAGE_TEXT);
	if (len < 0)
		return err_errno(e, "read what the image '%s' is", name);
	v = json_parse(text, (size_t)len, &json_request_limits, e);
	if (!v)
		return err_ours(e, IMAGE_INFO " of the image '%s' is damaged", name);
	memcpy(out->name, name, strlen(name) + 1);
	take_info(v, out);
	json_free(v);
	return 0;
}

void image_info_done(struct image_info *info)
{
	for (size_t i = 0; info && info->env[i]; i++)
		free(info->env[i]);
	if (info)
		memset(info, 0, sizeof(*info));
}
