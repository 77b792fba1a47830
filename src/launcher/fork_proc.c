/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fork_proc.c - what an interpreter that runs are forked from sees of /proc
 *
 * Runs in: the slot's worker, with the launcher's rights; then in a process that keeps
 * one of them, for one thing.
 *
 * The host's /proc must be in sight where a run mounts its own, but what a module reads
 * when it is imported may be in every run. So a cover lies on it, with the interpreter's
 * own process and what any run reads too, until all is imported. To a run's namespace the
 * cover would be locked, and an interpreter has no right to take it off: who still has
 * one does.
 */
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/sys.h"
#include "launcher/fork.h"
#include "launcher/template.h"

#define SHUT \
	(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)
#define KEEPER_FD 3

/* its own process, by the other name that libraries ask for */
static int show_by_id(const struct building *t)
{
	char own[32];

	snprintf(own, sizeof(own), "/proc/%d", (int)getpid());
	return template_bind(t, "/proc/self", own, SHUT);
}

/* a loader finds its own place by "self", the C library its stack; libraries read the
 * others for their sizes, and what allocators and ciphers go by */
int template_cover_proc(struct building *t)
{
	static const struct {
		const char *path;
		bool everywhere;
	} shown[] = {{"/proc/self", true},
		     {"/proc/cpuinfo", true},
		     {"/proc/meminfo", true},
		     {"/proc/stat", true},
		     {"/proc/sys/vm/overcommit_memory", false},
		     {"/proc/sys/crypto/fips_enabled", false}};
	struct mount_attr attr = {.attr_set = SHUT};
	auto_fd int cover_fd = -1;
	unsigned i;

	if (!t->forks)
		return 0;
	cover_fd = template_tmpfs("64k", "32");
	if (cover_fd < 0 ||
	    sys_move_mount(cover_fd, "", AT_FDCWD, "proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -1;
	for (i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		if (template_bind(t, shown[i].path, shown[i].path, SHUT) < 0 &&
		    (shown[i].everywhere || errno != ENOENT))
			return -1;
	}
	if (show_by_id(t) < 0)
		return -1;
	return sys_mount_setattr(cover_fd, "", AT_EMPTY_PATH, &attr);
}

/*
 * What a module forked and left has the other end too, so that its end says nothing; and
 * a dying worker may send no signal to root.
 */
static _Noreturn void keep(int fd, pid_t worker)
{
	const unsigned right = 1u << CAP_SYS_ADMIN;
	const struct __user_cap_data_struct only[2] = {
		{.effective = right, .permitted = right}};
	struct pollfd p[] = {{.fd = KEEPER_FD, .events = POLLIN}, {.events = POLLIN}};
	char byte;

	if ((fd != KEEPER_FD && dup2(fd, KEEPER_FD) < 0) ||
	    sys_close_range(KEEPER_FD + 1, ~0U, 0) < 0 || sys_capset(only) < 0)
		_exit(1);
	p[1].fd = sys_pidfd_open(worker, 0);
	if (p[1].fd < 0 || getppid() != worker)
		_exit(1);
	if (poll(p, 2, FORK_START_MS) <= 0 || p[1].revents)
		_exit(1);
	if (read(KEEPER_FD, &byte, 1) != 1 || umount2("/proc", MNT_DETACH) < 0 ||
	    write(KEEPER_FD, &byte, 1) != 1)
		_exit(1); /* whoever waits for an answer hears that there is none */
	_exit(0);
}

int fork_proc_keep(pid_t *out_pid)
{
	const pid_t worker = getpid();
	auto_fd int theirs = -1, ours = -1;
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	ours = pair[0];
	theirs = pair[1];
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0)
		keep(theirs, worker);
	*out_pid = pid;
	return take_fd(&ours);
}
