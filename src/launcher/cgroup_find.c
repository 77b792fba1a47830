/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup_find.c - where in the cgroup file systems this process is, and whose they are
 *
 * Runs in: the supervisor, once; names of owners in the launcher's sweep too.
 * A mount may show a part of its hierarchy only (containers): its root field says which,
 * and our path must lie below that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/fs.h"
#include "launcher/cgroup_kernel.h"

static const char *const names[] = {
	[CGROUP_MEMORY] = "memory",   [CGROUP_PIDS] = "pids",
	[CGROUP_CPU] = "cpu",         [CGROUP_CPUACCT] = "cpuacct",
	[CGROUP_DEVICES] = "devices", [CGROUP_FREEZER] = "freezer",
};

/* our paths as /proc/self/cgroup tells them: one per v1 controller, then v2 */
struct paths {
	char v1[CGROUP_CONTROLLERS][512];
	char v2[512];
};

struct mount {
	char *root, *point, *options, *type, *super;
};

void cgroup_refuse(struct cgroup_base *out, const char *fix, const char *fmt, ...)
{
	struct cgroup_base none = {.kind = CGROUP_NONE};
	va_list args;

	va_start(args, fmt); /* they may point into *out */
	(void)vsnprintf(none.reason, sizeof(none.reason), fmt, args); /* cut is fine */
	va_end(args);
	(void)snprintf(none.fix, sizeof(none.fix), "%s", fix);
	*out = none;
}

bool cgroup_first_of_mount(const struct cgroup_base *base, int c)
{
	for (int i = 0; i < c; i++)
		if (strcmp(base->dir[i], base->dir[c]) == 0)
			return false;
	return base->dir[c][0];
}

int cgroup_owner_name(pid_t pid, char *out, size_t room)
{
	char text[1024], path[64], boot[64] = "";
	const char *at;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (fs_read_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return -1;
	at = strrchr(text, ')'); /* the name before it may hold anything */
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at) {
		errno = EINVAL;
		return -1;
	}
	/* without it pid and start time must do */
	if (fs_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) <
	    8)
		(void)snprintf(boot, sizeof(boot), "00000000");
	(void)snprintf(out, room, "%.8s.%d.%llu", boot, (int)pid, strtoull(at, NULL, 10));
	return 0;
}

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += len)
		if ((p == list || p[-1] == ',' || p[-1] == ' ') &&
		    (!p[len] || strchr(", \n", p[len])))
			return true;
	return false;
}

static int read_paths(const char *file, struct paths *out)
{
	char text[16384], *line, *rest = text;

	memset(out, 0, sizeof(*out));
	if (fs_read_at(AT_FDCWD, file, text, sizeof(text)) < 0)
		return -1;
	while ((line = strsep(&rest, "\n"))) {
		char *list = strchr(line, ':');
		char *path = list ? strchr(list + 1, ':') : NULL;

		if (!path || strlen(path + 1) >= sizeof(out->v2))
			continue;
		*path++ = 0;
		list++;
		if (!*list && strncmp(line, "0:", 2) == 0)
			memcpy(out->v2, path, strlen(path) + 1);
		for (int c = 0; c < CGROUP_CONTROLLERS; c++)
			if (has_word(list, names[c]))
				memcpy(out->v1[c], path, strlen(path) + 1);
	}
	return 0;
}

/* \040 and its kind, in place */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		if (from[0] == '\\' && from[1] && from[2] && from[3]) {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 |
				     (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = 0;
}

/* ID PARENT DEVICE ROOT POINT OPTIONS [FIELDS...] - TYPE SOURCE SUPER */
static bool parse_mount(char *line, struct mount *out)
{
	char *tail = strstr(line, " - "), *source;
	char **fields[] = {NULL, NULL, NULL, &out->root, &out->point, &out->options};

	memset(out, 0, sizeof(*out));
	if (!tail)
		return false;
	*tail = 0;
	tail += 3;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		char *field = strsep(&line, " ");

		if (!field)
			return false;
		if (fields[i])
			*fields[i] = field;
	}
	out->type = strsep(&tail, " ");
	source = strsep(&tail, " ");
	out->super = strsep(&tail, " \n");
	if (!source || !out->super)
		return false;
	unescape(out->root);
	unescape(out->point);
	return true;
}

/* the directory that shows `path` through this mount; a writable one wins */
static void resolve(const struct mount *m, const char *path, char out[512],
		    bool *read_only)
{
	size_t root_len = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);
	bool ro = has_word(m->options, "ro") || has_word(m->super, "ro");
	char dir[512];
	int len;

	/* "/..": a cgroup namespace whose root is not above us */
	if (!*path || strstr(path, "/..") || strncmp(path, m->root, root_len) != 0)
		return;
	path += root_len;
	if (*path && *path != '/')
		return;
	len = snprintf(dir, sizeof(dir), "%s%s", m->point,
		       strcmp(path, "/") == 0 ? "" : path);
	if (len < 0 || (size_t)len >= sizeof(dir) || (*out && (ro || !*read_only)))
		return;
	memcpy(out, dir, (size_t)len + 1);
	*read_only = ro;
}

struct places {
	char v1[CGROUP_CONTROLLERS][512], v2[512];
	bool v1_ro[CGROUP_CONTROLLERS], v2_ro;
};

static int read_mounts(const char *name, const struct paths *paths, struct places *out)
{
	FILE *file = fopen(name, "re");
	auto_free char *line = NULL;
	size_t room = 0;
	struct mount m;

	memset(out, 0, sizeof(*out));
	if (!file)
		return -1;
	while (getline(&line, &room, file) > 0) {
		if (!parse_mount(line, &m))
			continue;
		if (strcmp(m.type, "cgroup2") == 0)
			resolve(&m, paths->v2, out->v2, &out->v2_ro);
		for (int c = 0; strcmp(m.type, "cgroup") == 0 && c < CGROUP_CONTROLLERS;
		     c++)
			if (has_word(m.super, names[c]))
				resolve(&m, paths->v1[c], out->v1[c], &out->v1_ro[c]);
	}
	fclose(file);
	return 0;
}

static void refuse_read_only(struct cgroup_base *out)
{
	cgroup_refuse(
		out,
		"make /sys/fs/cgroup writable: in a container that is --privileged, or "
		"a user namespace with a delegated cgroup",
		"the cgroup file system is mounted read-only");
}

void cgroup_find(const char *self_dir, struct cgroup_base *out)
{
	char cgroups[256], mounts[256];
	struct places at;
	struct paths paths;

	memset(out, 0, sizeof(*out));
	(void)snprintf(cgroups, sizeof(cgroups), "%s/cgroup", self_dir);
	(void)snprintf(mounts, sizeof(mounts), "%s/mountinfo", self_dir);
	if (read_paths(cgroups, &paths) < 0 || read_mounts(mounts, &paths, &at) < 0) {
		cgroup_refuse(out, "mount /proc", "cannot read '%s': %s", self_dir,
			      strerror(errno));
		return;
	}
	if (at.v1[CGROUP_MEMORY][0] && at.v1[CGROUP_PIDS][0] && at.v1[CGROUP_CPU][0]) {
		if (at.v1_ro[CGROUP_MEMORY] || at.v1_ro[CGROUP_PIDS] ||
		    at.v1_ro[CGROUP_CPU]) {
			refuse_read_only(out);
			return;
		}
		out->kind = CGROUP_V1;
		memcpy(out->dir, at.v1, sizeof(out->dir));
	} else if (at.v2[0]) {
		if (at.v2_ro) {
			refuse_read_only(out);
			return;
		}
		out->kind = CGROUP_V2;
		memcpy(out->dir[CGROUP_SLOT], at.v2, sizeof(at.v2));
	} else {
		cgroup_refuse(out, "mount -t cgroup2 cgroup2 /sys/fs/cgroup",
			      "no cgroup file system with our own cgroup is mounted");
	}
}
