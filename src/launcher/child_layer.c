/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_layer.c - a run's layer of packages
 *
 * Runs in: process 1 of the sandbox, or the run's init. Python finds packages by
 * PYTHONPATH. Node looks for node_modules in every directory from the script's up, for
 * import and require alike: so there it stands above the working directory, which stays
 * the run's own.
 *
 * Before: the launcher made the mount: read-only, nosuid, nodev, in no place yet.
 * After:  it is at /packages or /node_modules; without a mount namespace a path or a link
 *         leads to it, and Landlock lets it be read. The directories of the host that
 *         packages come from are hidden from all but installs.
 */
#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "launcher/child.h"

#define VARIABLE "PYTHONPATH="

bool child_has_layer(const struct child *c)
{
	return c->plan.has_layer && !c->row->installs;
}

/* STORE/KEY, or with what the row calls the tree in it */
static int child_layer_place(const struct child *c, char *out, size_t room, bool tree)
{
	static const char hex[] = "0123456789abcdef";
	const size_t dir = strlen(c->setup->layer_dir), name = strlen(c->row->layer);
	char *at = out;
	unsigned i;

	if (dir + 2 * LAYER_KEY + name + 3 > room) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(at, c->setup->layer_dir, dir);
	at += dir;
	*at++ = '/';
	for (i = 0; i < LAYER_KEY; i++) {
		*at++ = hex[c->plan.layer[i] >> 4];
		*at++ = hex[c->plan.layer[i] & 15];
	}
	if (tree) {
		*at++ = '/';
		memcpy(at, c->row->layer, name);
		at += name;
	}
	*at = '\0';
	return 0;
}

/* where packages come from is for installs to see: others have nothing there */
static int child_hide_packages(const struct child *c)
{
	const unsigned long how = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
	const struct setup *s = c->setup;
	unsigned i;
	int r = 0;

	for (i = 0; r == 0 && i < s->binds; i++)
		if (s->bind[i].installs && !c->row->installs)
			r = mount("hidden", s->bind[i].path, "tmpfs", how,
				  "size=4k,nr_inodes=2,mode=755");
	return r;
}

int child_layer(struct child *c)
{
	char place[sizeof(c->row->layer) + 1] = "/";
	int r;

	if (child_hide_packages(c) < 0)
		return -1;
	if (!child_has_layer(c))
		return 0;
	memcpy(place + 1, c->row->layer, strlen(c->row->layer) + 1);
	r = sys_move_mount(c->layer_fd, "", AT_FDCWD, place, MOVE_MOUNT_F_EMPTY_PATH);
	close(c->layer_fd);
	c->layer_fd = -1;
	return r;
}

int child_layer_link(struct child *c)
{
	char target[SETUP_PATH + 96], name[SETUP_PATH + 32];
	const size_t len = strlen(c->place);

	if (!child_has_layer(c) || c->row->layer_path)
		return 0;
	if (child_layer_place(c, target, sizeof(target), true) < 0)
		return -1;
	memcpy(name, c->place, len);
	name[len] = '/';
	memcpy(name + len + 1, c->row->layer, strlen(c->row->layer) + 1);
	return symlink(target, name);
}

int child_layer_env(struct child *c)
{
	const size_t len = strlen(VARIABLE);

	if (!child_has_layer(c) || !c->row->layer_path)
		return 0;
	if (c->envc == CHILD_WORDS) {
		errno = E2BIG;
		return -1;
	}
	memcpy(c->layer_path, VARIABLE, len);
	if (child_shares(c)) {
		if (child_layer_place(c, c->layer_path + len, sizeof(c->layer_path) - len,
				      true) < 0)
			return -1;
	} else {
		c->layer_path[len] = '/';
		memcpy(c->layer_path + len + 1, c->row->layer, strlen(c->row->layer) + 1);
	}
	c->envp[c->envc++] = c->layer_path;
	return 0;
}

int child_layer_dir(const struct child *c, char *out, size_t room)
{
	return child_layer_place(c, out, room, false);
}
