/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_stack.c - what a session's root is made of: an image, and layers on it
 *
 * Runs in: the launcher, and what it forks to remove layers. A line a fact:
 *
 *	version 1
 *	image NAME          none: the host's runtime
 *	read_only
 *	root
 *	volume NAME
 *	layer NAME          the one that is written to first
 */
#include "launcher/session_stack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "launcher/quota.h"

#define TEXT (128 * (STACK_DEPTH + SETUP_VOLUMES))
#define VERSION "version 1"
#define NAME_TRIES 16

bool stack_image_ok(const char *name)
{
	static const char fit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789._%+@=-";

	return name[0] && name[0] != '.' && strspn(name, fit) == strlen(name);
}

static bool layer_ok(const char *name)
{
	return strlen(name) == STACK_NAME - 1 &&
	       strspn(name, "0123456789abcdef") == STACK_NAME - 1;
}

static int bad(void)
{
	errno = EBADMSG;
	return -1;
}

static int take_image(const struct setup *setup, const char *word,
		      struct session_stack *out)
{
	(void)setup;
	if (strlen(word) >= sizeof(out->image) || !stack_image_ok(word))
		return bad();
	memcpy(out->image, word, strlen(word) + 1);
	return 0;
}

static int take_read_only(const struct setup *setup, const char *word,
			  struct session_stack *out)
{
	(void)setup;
	out->read_only = 1;
	return word[0] ? bad() : 0;
}

static int take_root(const struct setup *setup, const char *word,
		     struct session_stack *out)
{
	(void)setup;
	out->root = 1;
	return word[0] ? bad() : 0;
}

/* one that the operator has taken back is missed, not left out */
static int take_volume(const struct setup *setup, const char *word,
		       struct session_stack *out)
{
	unsigned i = 0;

	while (i < setup->volumes && strcmp(setup->volume[i].name, word) != 0)
		i++;
	if (i == setup->volumes) {
		errno = ENODEV;
		return -1;
	}
	out->volumes |= 1U << i;
	return 0;
}

static int take_layer(const struct setup *setup, const char *word,
		      struct session_stack *out)
{
	(void)setup;
	if (out->depth == STACK_DEPTH || !layer_ok(word))
		return bad();
	memcpy(out->layer[out->depth++], word, STACK_NAME);
	return 0;
}

static int take_line(const struct setup *setup, char *line, struct session_stack *out)
{
	static const struct {
		const char *name;
		int (*take)(const struct setup *, const char *, struct session_stack *);
	} lines[] = {
		{"image", take_image}, {"read_only", take_read_only},
		{"root", take_root},   {"volume", take_volume},
		{"layer", take_layer},
	};
	char *word = strchrnul(line, ' ');
	size_t i;

	if (*word)
		*word++ = '\0';
	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (strcmp(line, lines[i].name) == 0)
			return lines[i].take(setup, word, out);
	return bad();
}

int stack_read(const struct setup *setup, int dir_fd, const char *file,
	       struct session_stack *out)
{
	struct session_stack s = {0};
	char text[TEXT], *at = text, *line;
	bool missed = false;

	if (fs_read_at(dir_fd, file, text, sizeof(text)) < 0)
		return -1;
	line = strsep(&at, "\n");
	if (strcmp(line, VERSION) != 0) {
		errno = EPROTONOSUPPORT; /* of another version of ours */
		return -1;
	}
	while ((line = strsep(&at, "\n")) && *line) {
		if (take_line(setup, line, &s) == 0)
			continue;
		if (errno != ENODEV)
			return -1;
		missed = true; /* its layers are known all the same */
	}
	if (s.depth == 0)
		return bad();
	*out = s;
	if (missed)
		errno = ENODEV;
	return missed ? -1 : 0;
}

int stack_write(const struct setup *setup, int dir_fd, const char *file,
		const struct session_stack *s)
{
	char text[TEXT];
	size_t len = (size_t)snprintf(text, sizeof(text), VERSION "\n");
	unsigned i;

#define ADD(...) len += (size_t)snprintf(text + len, sizeof(text) - len, __VA_ARGS__)
	if (s->image[0])
		ADD("image %s\n", s->image);
	if (s->read_only)
		ADD("read_only\n");
	if (s->root)
		ADD("root\n");
	for (i = 0; i < setup->volumes; i++)
		if (s->volumes & (1U << i))
			ADD("volume %s\n", setup->volume[i].name);
	for (i = 0; i < s->depth; i++)
		ADD("layer %s\n", s->layer[i]);
#undef ADD
	return fs_create_whole(dir_fd, file, text, len);
}

bool stack_has(const struct session_stack *s, const char *layer)
{
	unsigned i = 0;

	while (i < s->depth && strcmp(s->layer[i], layer) != 0)
		i++;
	return i < s->depth;
}

bool stack_is_below(const struct session_stack *now, const struct session_stack *frozen)
{
	return now->depth > frozen->depth &&
	       memcmp(now->layer[now->depth - frozen->depth], frozen->layer,
		      frozen->depth * sizeof(frozen->layer[0])) == 0;
}

void stack_pop(struct session_stack *s)
{
	s->depth--;
	memmove(s->layer[0], s->layer[1], s->depth * sizeof(s->layer[0]));
}

int stack_open_layer(int pool_fd, const char *layer)
{
	char path[STACK_NAME + sizeof(STACK_FILES) + 1];

	snprintf(path, sizeof(path), "%s/" STACK_FILES, layer);
	return openat(pool_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int stack_open_top(const struct session_stack *s, int pool_fd)
{
	return stack_open_layer(pool_fd, s->layer[0]);
}

bool stack_top_empty(const struct session_stack *s, int pool_fd)
{
	auto_fd int fd = stack_open_top(s, pool_fd);
	struct dirent *d;
	bool empty = true;
	DIR *dir;

	dir = s->depth < 2 || fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return false;
	(void)take_fd(&fd);
	while (empty && (d = readdir(dir)))
		empty = d->d_name[0] == '.' &&
			(!d->d_name[1] || !strcmp(d->d_name, ".."));
	closedir(dir);
	return empty;
}

static int make_place(int dir_fd, const char *name, mode_t mode, uid_t uid)
{
	if (mkdirat(dir_fd, name, 0700) < 0 || fchmodat(dir_fd, name, mode, 0) < 0)
		return -1;
	return uid == (uid_t)-1 || uid == getuid()
		       ? 0
		       : fchownat(dir_fd, name, uid, uid, AT_SYMLINK_NOFOLLOW);
}

/* "/": nobody's who runs in it, but root's, who may have changed it meanwhile */
static int own_root(const struct session_stack *s, int pool_fd, int layer_fd, uid_t uid)
{
	struct stat st = {.st_mode = 0755, .st_uid = uid, .st_gid = uid};
	char path[STACK_NAME + sizeof(STACK_FILES) + 1];

	if (!s->root || uid == (uid_t)-1)
		return 0;
	snprintf(path, sizeof(path), "%s/" STACK_FILES, s->layer[0]);
	if (s->depth && fstatat(pool_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (fchownat(layer_fd, STACK_FILES, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) <
	    0)
		return -1;
	return fchmodat(layer_fd, STACK_FILES, st.st_mode & 07777, 0);
}

/* the first of a session has its two places */
static int fill_first(int layer_fd, uid_t uid)
{
	auto_fd int fd = openat(layer_fd, STACK_FILES,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 || make_place(fd, "work", 0755, uid) < 0 ||
			       make_place(fd, "tmp", 01777, uid) < 0
		       ? -1
		       : 0;
}

/* of the upper half of the numbers, since people count from 1; names are random */
uint32_t stack_project(const char *layer)
{
	return 0x80000000u | ((uint32_t)strtoul(layer + 8, NULL, 16) & 0x7ffffffeu);
}

/* a random one, for whose project nothing counts yet, not even what outlived its layer */
static int new_name(int pool_fd, char name[STACK_NAME])
{
	const bool counts = quota_possible(pool_fd);
	struct quota_use use;
	uint64_t number;
	unsigned tries;

	for (tries = 0; tries < NAME_TRIES; tries++) {
		if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
			return -1;
		snprintf(name, STACK_NAME, "%016llx", (unsigned long long)number);
		if (!counts || quota_used(pool_fd, stack_project(name), &use) < 0 ||
		    use.entries == 0)
			return 0;
	}
	errno = EEXIST;
	return -1;
}

/* its places, and on the disk */
static int fill(const struct session_stack *s, int pool_fd, const char *name, uid_t uid,
		bool first)
{
	auto_fd int fd = openat(pool_fd, name,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	/* what is merged is linked from layers that count for others, and nobody writes
	 * to it; who may not mark it is measured */
	if (fd >= 0 && uid != (uid_t)-1 && quota_possible(fd))
		(void)quota_mark(fd, stack_project(name));
	return fd < 0 || make_place(fd, STACK_FILES, 0755, (uid_t)-1) < 0 ||
			       make_place(fd, STACK_WORK, 0700, (uid_t)-1) < 0 ||
			       own_root(s, pool_fd, fd, uid) < 0 ||
			       (first && fill_first(fd, uid) < 0) || fsync(fd) < 0 ||
			       fsync(pool_fd) < 0
		       ? -1
		       : 0;
}

static void remove_new(int pool_fd, const char *name)
{
	const int saved = errno;

	(void)fs_remove_tree(pool_fd, name); /* the next start does else */
	errno = saved;
}

static int push(struct session_stack *s, int pool_fd, uid_t uid, bool first)
{
	char name[STACK_NAME];

	if (s->depth == STACK_DEPTH) {
		errno = EMLINK;
		return -1;
	}
	if (new_name(pool_fd, name) < 0 || mkdirat(pool_fd, name, 0700) < 0)
		return -1;
	if (fill(s, pool_fd, name, uid, first) < 0) {
		remove_new(pool_fd, name);
		return -1;
	}
	memmove(s->layer[1], s->layer[0], s->depth * sizeof(s->layer[0]));
	memcpy(s->layer[0], name, sizeof(name));
	s->depth++;
	return 0;
}

void stack_undo_push(struct session_stack *s, int pool_fd)
{
	remove_new(pool_fd, s->layer[0]);
	stack_pop(s);
}

int stack_push(struct session_stack *s, int pool_fd, uid_t uid)
{
	return push(s, pool_fd, uid, s->depth == 0);
}

int stack_push_empty(struct session_stack *s, int pool_fd)
{
	return push(s, pool_fd, (uid_t)-1, false);
}
