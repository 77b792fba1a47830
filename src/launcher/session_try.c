/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_try.c - whether there can be sessions here
 *
 * Runs in: the launcher; try_mount() and try_mapped() in what it forks. What may be
 * mounted, and on what, depends on the kernel, the file system, the container around us
 * and who we are: so it is tried once, with a file written through it. An upper layer
 * that keeps no attributes can be mounted all the same, but not hide what is below a
 * directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/sys.h"
#include "launcher/session_parts.h"
#include "launcher/session_view.h"

#define TRY SESSION_NEW "try" /* swept as what is half made */

static const char layers[] = "userxattr,lowerdir=" TRY "/below,upperdir=" TRY
			     "/" STACK_FILES ",workdir=" TRY "/" STACK_WORK;

/* by its path: an overlay takes only what is in its own mount namespace, which is new */
static int make_places(const char *session_dir)
{
	static const char *const names[] = {TRY, TRY "/below", TRY "/" STACK_FILES,
					    TRY "/" STACK_WORK};
	unsigned i;

	if (unshare(CLONE_NEWNS) < 0 || chdir(session_dir) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (mkdir(names[i], 0755) < 0)
			return -1;
	return 0;
}

static int try_mount(const struct launcher *l)
{
	auto_fd int fd = -1;

	if (make_places(l->setup->session_dir) < 0 ||
	    mount("session", TRY "/below", "overlay", MS_NOSUID | MS_NODEV, layers) < 0)
		return -1;
	if (setxattr(TRY "/" STACK_FILES, VIEW_OPAQUE, "y", 1, 0) < 0)
		return -1;
	fd = open(TRY "/below/file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : 0;
}

/* As an image is shown to a session's root. Who cannot map anything here may do so where
 * images are, and is told of it there; what is asked is whether an overlay takes it. */
static int try_mapped(const struct launcher *l)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP,
				  .propagation = MS_PRIVATE};
	auto_fd int map_fd = -1, tree_fd = -1;
	struct stat st;

	if (make_places(l->setup->session_dir) < 0 || stat(TRY "/below", &st) < 0)
		return -1;
	map_fd = template_mapping(&st, l->setup->root_base);
	tree_fd = sys_open_tree(AT_FDCWD, TRY "/below",
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (map_fd < 0 || tree_fd < 0)
		return -1;
	attr.userns_fd = (uint64_t)map_fd;
	if (sys_mount_setattr(tree_fd, "", AT_EMPTY_PATH, &attr) < 0)
		return 0;
	if (sys_move_mount(tree_fd, "", AT_FDCWD, TRY "/below", MOVE_MOUNT_F_EMPTY_PATH) <
	    0)
		return -1;
	return mount("session", TRY "/below", "overlay", MS_NOSUID | MS_NODEV, layers);
}

/* a test wants to see a host that lets nobody mount one */
static bool test_refused(const struct launcher *l, const char *fault)
{
#ifdef SANDBOX_TEST_HOOKS
	return strcmp(l->setup->test_fault, fault) == 0;
#else
	(void)l;
	(void)fault;
	return false;
#endif
}

/* 0, or errno */
static int attempt(const struct launcher *l, int (*fn)(const struct launcher *),
		   const char *fault)
{
	auto_fd int all_fd = session_dir_open(l);
	int status = 0;
	pid_t pid;

	if (test_refused(l, fault))
		return EPERM;
	if (all_fd < 0 || fs_remove_tree(all_fd, TRY) < 0)
		return errno;
	pid = fork();
	if (pid == 0)
		_exit(fn(l) < 0 ? errno : 0);
	if (pid < 0 || sys_reap(pid, &status, NULL) < 0)
		return errno;
	(void)fs_remove_tree(all_fd, TRY); /* the next start does */
	return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

static void try_all(struct launcher *l)
{
	struct sessions *s = &l->sessions;

	s->tried = true;
	s->refused = attempt(l, try_mount, "overlay");
	/* nothing can be tried on a full disk; those that are there need no room, and a
	 * mount that fails then is an answer of its own */
	if (s->refused == ENOSPC || s->refused == EDQUOT) {
		log_warn("session.untried", "error=\"%s\"", strerror(s->refused));
		s->refused = 0;
		return;
	}
	if (s->refused || !l->setup->root_ranges || l->abilities.one_uid)
		return;
	s->unmapped = attempt(l, try_mapped, "mapped_overlay");
	if (s->unmapped)
		log_warn("session.root",
			 "without=images error=\"%s\" reason=\"no overlay takes an "
			 "idmapped layer, which needs Linux 5.19\"",
			 strerror(s->unmapped));
}

bool sessions_possible(struct launcher *l, char *why, size_t room)
{
	why[0] = '\0';
	if (launcher_shares(l)) {
		snprintf(why, room,
			 "sessions need namespaces, and this server has the level %s",
			 report_level_name((uint32_t)l->abilities.level));
		return false;
	}
	if (l->abilities.poll_memory && !l->abilities.sockets) {
		snprintf(why, room,
			 "sessions need a cgroup where nothing tells what sockets hold");
		return false;
	}
	if (!l->setup->session_dir[0])
		return false; /* the server knows why */
	if (!l->sessions.tried)
		try_all(l);
	if (l->sessions.refused)
		snprintf(why, room,
			 "no overlay can be mounted on the state directory: %s; that "
			 "needs Linux 5.11 or newer and a disk's own file system",
			 strerror(l->sessions.refused));
	return l->sessions.refused == 0;
}
