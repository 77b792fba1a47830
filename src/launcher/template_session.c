/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * template_session.c - the root of a session: an image below its own layers
 *
 * Runs in: the worker of a session's process 1, with the launcher's rights, once.
 * Before: "/" is covered by a small tmpfs with the places that every root needs.
 * After:  it is covered by an overlay: what the session writes on top, what it has
 *         frozen, its image, that tmpfs below all. The runtime of the host, devices and
 *         volumes are bound on it. What is on it is the session's, links too: they are
 *         not followed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/sys.h"
#include "launcher/child.h"
#include "launcher/template.h"

#define OPTIONS 4096 /* the kernel takes a page */
#define PLAIN (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

int template_move_safely(const struct building *t, int tree_fd, const char *path)
{
	const struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				     .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	auto_fd int place_fd = sys_openat2(t->root_fd, path, &how);

	if (place_fd < 0)
		return -1;
	return sys_move_mount(tree_fd, "", place_fd, "",
			      MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

/* in the store of images; nothing in its path is a link */
int template_open_image(const struct building *t)
{
	const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				     .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	auto_fd int store_fd = open(t->setup->image_dir,
				    O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[SESSION_IMAGE + 16];

	snprintf(path, sizeof(path), "%s/rootfs", t->session->stack->image);
	return store_fd < 0 ? -1 : sys_openat2(store_fd, path, &how);
}

/* relative to the pool, so that any number of layers has room; the rest by descriptor,
 * since a path may have signs that mean something here */
static int write_options(const struct building *t, int image_fd, char out[OPTIONS])
{
	const struct session_stack *s = t->session->stack;
	int len = snprintf(out, OPTIONS,
			   "userxattr,upperdir=%s/" STACK_FILES ",workdir=%s/" STACK_WORK
			   ",lowerdir=",
			   s->layer[0], s->layer[0]);
	unsigned i;

	for (i = 1; i < s->depth && len < OPTIONS; i++)
		len += snprintf(out + len, (size_t)(OPTIONS - len), "%s/" STACK_FILES ":",
				s->layer[i]);
	if (image_fd >= 0 && len < OPTIONS)
		len += snprintf(out + len, (size_t)(OPTIONS - len),
				"/proc/self/fd/%d:", image_fd);
	if (len < OPTIONS)
		len += snprintf(out + len, (size_t)(OPTIONS - len), "/proc/self/fd/%d",
				t->below_fd);
	errno = E2BIG;
	return len < OPTIONS ? 0 : -1;
}

/* by its path: an overlay takes only what is in its own mount namespace, which is new */
static int enter_pool(const struct building *t)
{
	auto_fd int all_fd = open(t->setup->session_dir,
				  O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd int fd = all_fd < 0
				 ? -1
				 : openat(all_fd, STACK_POOL,
					  O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -1 : fchdir(fd);
}

/* first at a place of the tmpfs below, where it gets a descriptor */
int template_session_root(struct building *t)
{
	auto_fd int image_fd = -1;
	auto_fd int root_fd = -1;
	char options[OPTIONS], place[32];

	if (!t->session)
		return 0;
	if (template_has_image(t)) {
		image_fd = t->session->stack->root
				   ? openat(t->root_fd, TEMPLATE_IMAGE,
					    O_PATH | O_DIRECTORY | O_CLOEXEC)
				   : template_open_image(t);
		if (image_fd < 0)
			return -1;
	}
	t->below_fd = take_fd(&t->root_fd);
	snprintf(place, sizeof(place), "/proc/self/fd/%d/proc", t->below_fd);
	if (write_options(t, image_fd, options) < 0 || enter_pool(t) < 0 ||
	    mount("session", place, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return -1;
	root_fd = openat(t->below_fd, "proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0 ||
	    sys_move_mount(root_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -1;
	t->root_fd = take_fd(&root_fd);
	t->on_session = true;
	return fchdir(t->root_fd);
}

/* a directory of `from_fd` with all that is mounted in it, at its place of the root */
static int move_over(const struct building *t, int from_fd, const char *name,
		     uint64_t attributes)
{
	const unsigned how = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
			     AT_SYMLINK_NOFOLLOW;
	struct mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};
	auto_fd int tree_fd = sys_open_tree(from_fd, name, how);

	if (tree_fd < 0 || sys_mount_setattr(tree_fd, "", AT_EMPTY_PATH, &attr) < 0)
		return -1;
	return template_move_safely(t, tree_fd, name);
}

int template_bind_volumes(const struct building *t)
{
	char to[96];
	unsigned i;

	for (i = 0; t->session && i < t->setup->volumes; i++) {
		const struct setup_volume *v = &t->setup->volume[i];

		if (!(t->session->stack->volumes & (1U << i)))
			continue;
		snprintf(to, sizeof(to), "/volumes/%s", v->name);
		if (template_bind(t, v->path, to,
				  PLAIN | (v->writable ? 0 : MOUNT_ATTR_RDONLY)) < 0)
			return -1;
	}
	return 0;
}

int template_session_mounts(struct building *t)
{
	static const char *const written[] = {"work", "tmp"};
	unsigned i;

	if (!t->session)
		return 0;
	if (template_bind_runtime(t) < 0 ||
	    move_over(t, t->below_fd, "dev", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID) < 0 ||
	    template_bind_volumes(t) < 0)
		return -1;
	/* mounts of their own, which stay writable when the root is not */
	for (i = 0;
	     t->session->stack->read_only && i < sizeof(written) / sizeof(written[0]);
	     i++)
		if (move_over(t, t->root_fd, written[i], PLAIN) < 0)
			return -1;
	return 0;
}
