/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_kept.c - what a session has on the disk beside the layer that it writes to
 *
 * Runs in: the launcher, and what it forks to look at much. What counts are the layers
 * that its files name, its own and those of its checkpoints, each once; whoever else has
 * them counts them too. A layer that was frozen never changes, so what it holds is
 * written into it when somebody has looked:
 *
 *	BYTES ENTRIES          "use", of a layer
 *	BYTES ENTRIES merged   whose files have names in those it was made of, too
 *
 * It is nothing but a memory of ours: where it is missing, or not whole, somebody looks
 * again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/num.h"
#include "launcher/quota.h"
#include "launcher/session_parts.h"

#define USE_FILE "use"
#define MERGED "merged"

struct layer_use {
	struct quota_use use;
	bool merged;
};

static int open_layer(const struct launcher *l, const char *name)
{
	return openat(l->sessions.pool_fd, name,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_files(int layer_fd)
{
	return openat(layer_fd, STACK_FILES,
		      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- the memory of a layer ---- */

static void write_use(int layer_fd, const struct layer_use *u)
{
	auto_fd int fd = openat(layer_fd, USE_FILE,
				O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
				0600);
	char text[64];
	const int len = snprintf(
		text, sizeof(text), "%llu %llu%s\n", (unsigned long long)u->use.bytes,
		(unsigned long long)u->use.entries, u->merged ? " " MERGED : "");

	if (fd >= 0)
		(void)fs_write_all(fd, text, (size_t)len); /* half of it is none */
}

static bool read_use(int layer_fd, struct layer_use *out)
{
	char text[64], *at = text, *bytes, *entries, *end;
	const ssize_t len = fs_read_at(layer_fd, USE_FILE, text, sizeof(text));

	if (len <= 0 || !(end = strchr(text, '\n')))
		return false;
	*end = '\0';
	bytes = strsep(&at, " ");
	entries = strsep(&at, " ");
	out->merged = at && strcmp(at, MERGED) == 0;
	return entries && num_u64(bytes, &out->use.bytes) == 0 &&
	       num_u64(entries, &out->use.entries) == 0;
}

/* of one that others were merged into; its files */
void session_kept_merged(int files_fd)
{
	auto_fd int fd = openat(files_fd, "..",
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct layer_use u = {.merged = true};
	struct disk_use seen = {0};

	sample_disk_whole(files_fd, UINT64_MAX, NULL, &seen);
	u.use = (struct quota_use){seen.bytes, seen.entries};
	if (fd >= 0)
		write_use(fd, &u);
}

/* false: it has more than `most` entries, and nobody has looked yet */
static bool learn_use(int layer_fd, const char *name, uint64_t most,
		      struct layer_use *out)
{
	const uint32_t project = stack_project(name);
	auto_fd int fd = open_files(layer_fd);
	struct disk_use seen = {0};

	*out = (struct layer_use){0};
	if (fd < 0 || read_use(layer_fd, out))
		return true; /* one that is not there holds nothing */
	*out = (struct layer_use){0};
	if (quota_possible(fd) && quota_marked(fd, project) &&
	    quota_used(fd, project, &out->use) == 0)
		return true;
	sample_disk_whole(fd, most, NULL, &seen);
	out->use = (struct quota_use){seen.bytes, seen.entries};
	if (seen.entries > most)
		return false;
	write_use(layer_fd, out);
	return true;
}

/* ---- the layers of a session ---- */

struct kept {
	const struct launcher *l;
	char (*name)[STACK_NAME];
	size_t count, room;
	size_t own; /* of its stack, without the one it writes to */
};

static void add(struct kept *k, const char *name)
{
	if (k->count == k->room) {
		k->room = k->room ? 2 * k->room : 256;
		k->name = realloc(k->name, k->room * sizeof(k->name[0]));
		if (!k->name)
			abort();
	}
	memcpy(k->name[k->count++], name, STACK_NAME);
}

static int add_file(int dir_fd, const char *name, void *arg)
{
	const bool own = strcmp(name, STACK_FILE) == 0;
	struct session_stack s = {0};
	struct kept *k = arg;
	unsigned i;

	if (name[0] == '.')
		return 0;
	if (stack_read(k->l->setup, dir_fd, name, &s) < 0 && errno != ENODEV)
		return -1;
	for (i = own; i < s.depth; i++)
		add(k, s.layer[i]);
	if (own)
		k->own = s.depth - 1;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void make_unique(struct kept *k)
{
	size_t i, n = 0;

	if (k->count)
		qsort(k->name, k->count, sizeof(k->name[0]), by_name);
	for (i = 0; i < k->count; i++)
		if (n == 0 || strcmp(k->name[n - 1], k->name[i]) != 0)
			memmove(k->name[n++], k->name[i], STACK_NAME);
	k->count = n;
}

/* true: all of it is known; *merged: some are made of others */
static bool add_up(const struct kept *k, uint64_t most, struct disk_use *out,
		   bool *merged)
{
	struct layer_use u;
	bool whole = true;
	size_t i;

	for (i = 0; i < k->count; i++) {
		auto_fd int fd = open_layer(k->l, k->name[i]);
		const uint64_t left = most > out->entries ? most - out->entries : 0;

		if (fd < 0)
			continue;
		whole = learn_use(fd, k->name[i], left, &u) && whole;
		*merged = *merged || u.merged;
		out->bytes += u.use.bytes;
		out->entries += u.use.entries;
	}
	return whole;
}

/* Checkpoints have what was merged: the same files by two names, which are looked at all
 * together. A stack alone never has both. */
static bool look_at_all(const struct kept *k, uint64_t most, struct disk_use *out)
{
	struct sample_seen seen = {0};
	size_t i;

	*out = (struct disk_use){0};
	for (i = 0; i < k->count && out->entries <= most; i++) {
		auto_fd int layer_fd = open_layer(k->l, k->name[i]);
		auto_fd int fd = layer_fd < 0 ? -1 : open_files(layer_fd);

		if (fd >= 0)
			sample_disk_whole(fd, most, &seen, out);
	}
	sample_seen_done(&seen);
	return out->entries <= most;
}

bool session_kept(const struct launcher *l, const uint8_t key[SESSION_KEY], uint64_t most,
		  struct disk_use *out)
{
	struct kept k = {.l = l};
	struct session_stack now;
	bool merged = false, whole;
	uid_t uid;
	auto_fd int fd = session_dir_read(l, key, NULL, &now, &uid);

	*out = (struct disk_use){0};
	if (fd < 0 || session_each_name(fd, add_file, &k) < 0) {
		free(k.name);
		return false;
	}
	make_unique(&k);
	whole = add_up(&k, most, out, &merged);
	if (whole && merged && k.count > k.own)
		whole = look_at_all(&k, most, out);
	free(k.name);
	return whole;
}
