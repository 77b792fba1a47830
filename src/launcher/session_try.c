/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_try.c - whether there can be sessions here
 *
 * Runs in: the launcher; try_mount() in what it forks. What may be mounted, and on what,
 * depends on the kernel, the file system, the container around us and who we are: so it
 * is tried once, with a file written through it. An upper layer that keeps no attributes
 * can be mounted all the same, but not hide what is below a directory.
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
#include "base/sys.h"
#include "launcher/session_parts.h"
#include "launcher/session_view.h"

#define TRY SESSION_NEW "try" /* swept as what is half made */

/* by its path: an overlay takes only what is in its own mount namespace, which is new */
static int try_mount(const char *session_dir)
{
	static const char *const names[] = {TRY "/below", TRY "/" STACK_FILES,
					    TRY "/" STACK_WORK};
	auto_fd int fd = -1;
	unsigned i;

	if (unshare(CLONE_NEWNS) < 0 || chdir(session_dir) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || mkdir(TRY, 0700) < 0)
		return -1;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (mkdir(names[i], 0755) < 0)
			return -1;
	if (mount("session", TRY "/below", "overlay", MS_NOSUID | MS_NODEV,
		  "userxattr,lowerdir=" TRY "/below,upperdir=" TRY "/" STACK_FILES
		  ",workdir=" TRY "/" STACK_WORK) < 0)
		return -1;
	if (setxattr(TRY "/" STACK_FILES, VIEW_OPAQUE, "y", 1, 0) < 0)
		return -1;
	fd = open(TRY "/below/file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : 0;
}

/* a test wants to see a host that lets nobody mount one */
static bool test_refused(const struct launcher *l)
{
#ifdef SANDBOX_TEST_HOOKS
	return strcmp(l->setup->test_fault, "overlay") == 0;
#else
	(void)l;
	return false;
#endif
}

/* 0, or errno */
static int try_overlay(const struct launcher *l)
{
	auto_fd int all_fd = session_dir_open(l);
	int status = 0;
	pid_t pid;

	if (test_refused(l))
		return EPERM;
	if (all_fd < 0 || fs_remove_tree(all_fd, TRY) < 0)
		return errno;
	pid = fork();
	if (pid == 0)
		_exit(try_mount(l->setup->session_dir) < 0 ? errno : 0);
	if (pid < 0 || sys_reap(pid, &status, NULL) < 0)
		return errno;
	(void)fs_remove_tree(all_fd, TRY); /* the next start does */
	return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
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
		l->sessions.refused = try_overlay(l);
	l->sessions.tried = true;
	if (l->sessions.refused)
		snprintf(why, room,
			 "no overlay can be mounted on the state directory: %s; that "
			 "needs Linux 5.11 or newer and a disk's own file system",
			 strerror(l->sessions.refused));
	return l->sessions.refused == 0;
}
