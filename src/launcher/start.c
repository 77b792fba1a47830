/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * start.c - rights and namespaces of the launcher itself
 *
 * Runs in: the launcher, at its start. With CAP_SYS_ADMIN it stays where it is and gives
 * every slot a uid of its own. Without, it makes a user namespace for itself, in which
 * the slots' namespaces are made, with its own uid as the only one; root without
 * CAP_SYS_ADMIN (an ordinary container) becomes the first slot's uid before that, since
 * code never has host root's.
 */
#include <errno.h>
#include <grp.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/sys.h"
#include "launcher/launcher.h"

static int write_map(const char *file, unsigned id)
{
	char line[40];

	snprintf(line, sizeof(line), "%u %u 1", id, id);
	return fs_write_at(AT_FDCWD, file, line);
}

static int leave_root(uid_t uid)
{
	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return -1;
	if (setresuid(0, 0, 0) == 0) {
		errno = EPERM;
		return -1;
	}
	/* the change of ids made /proc/self root's */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int own_user_namespace(const struct setup *setup)
{
	uid_t uid;
	gid_t gid;

	if (geteuid() == 0 && leave_root(setup->uid_base) < 0)
		return -1;
	uid = geteuid();
	gid = getegid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -1;
	if (fs_write_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0)
		return -1;
	return write_map("/proc/self/gid_map", gid) < 0 ||
			       write_map("/proc/self/uid_map", uid) < 0
		       ? -1
		       : 0;
}

/* Exactly 1, for us and whatever we start: at 0 a core_pattern that names a helper still
 * has it run, as root. A hard limit of 0 that is there already cannot be raised. */
static int forbid_core(void)
{
	struct rlimit core;

	if (getrlimit(RLIMIT_CORE, &core) < 0)
		return -1;
	if (core.rlim_max > 1)
		core.rlim_max = 1;
	core.rlim_cur = core.rlim_max;
	return setrlimit(RLIMIT_CORE, &core);
}

/* 0, or -1 with errno and the step's name */
static int take_place(struct launcher *l, const char **out_step)
{
	*out_step = "user_namespace";
	l->own_user_ns = !caps_have("cap_sys_admin");
	if (l->own_user_ns && own_user_namespace(l->setup) < 0)
		return -1;
	*out_step = "launcher_rights";
	if (!l->own_user_ns && setgroups(0, NULL) < 0)
		return -1;
	if (caps_keep_for_launcher() < 0)
		return -1;
	if (forbid_core() < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	umask(0077);
	return 0;
}

static void raise_descriptors(void)
{
	struct rlimit now;

	if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur < now.rlim_max) {
		now.rlim_cur = now.rlim_max;
		setrlimit(RLIMIT_NOFILE, &now);
	}
}

/* the host's; a directory of that name alone is not one */
static int open_proc(void)
{
	auto_fd int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return -1;
	if (fs.f_type != PROC_SUPER_MAGIC) {
		errno = ENOENT;
		return -1;
	}
	return take_fd(&fd);
}

int launcher_main(const struct launcher_start *start, int server_fd)
{
	static struct launcher l; /* large; and workers are forked from here */
	const pid_t supervisor = getppid();
	const char *step;
	int num = 0;

	prctl(PR_SET_NAME, "sandbox-launch", 0, 0, 0);
	l.start = start;
	l.setup = &start->setup;
	l.cgroups = start->cgroups;
	l.server_fd = server_fd;
	l.loop = loop_new();
	if (take_place(&l, &step) < 0)
		num = errno;
	/* after the change of ids, which clears it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != supervisor)
		return 1;
	raise_descriptors();
	l.proc_fd = open_proc();
	if (!l.loop || fcntl(server_fd, F_SETFL, O_NONBLOCK) < 0 ||
	    loop_add(l.loop, server_fd, EPOLLIN, launcher_on_server, &l) < 0)
		return 1;
	if (num == 0 && l.proc_fd < 0) {
		num = errno;
		step = "host_proc";
	}
	if (num == 0 && slots_make(&l) < 0) {
		num = errno;
		step = "slot_identity";
	}
	if (num)
		probe_refused(&l, step, num);
	else {
		cgroup_sweep(&l.cgroups);
		probe_start(&l);
	}
	num = loop_run(l.loop) < 0;
	slots_done(&l);
	return num;
}
