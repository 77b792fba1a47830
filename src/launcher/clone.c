/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * clone.c - a run's process 1, and the pipes it is born with
 *
 * Runs in: a slot's worker, be it our own or an interpreter that runs are forked from.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/sys.h"
#include "launcher/worker.h"

int pipes_make(struct pipes *s)
{
	int p[3][2], i;

	for (i = 0; i < 3; i++)
		s->child[i] = s->ours[i] = -1;
	for (i = 0; i < 3; i++) {
		if (pipe2(p[i], O_CLOEXEC) < 0)
			return -1;
		s->child[i] = p[i][i == 0 ? 0 : 1];
		s->ours[i] = p[i][i == 0 ? 1 : 0];
		/* the server's end must never make it wait; the program's end is ordinary
		 */
		if (fcntl(s->ours[i], F_SETFL, O_NONBLOCK) < 0)
			return -1;
	}
	return 0;
}

void pipes_close(struct pipes *s)
{
	int i;

	for (i = 0; i < 3; i++) {
		defer_close(&s->child[i]);
		defer_close(&s->ours[i]);
	}
}

/*
 * CLONE_PARENT: the launcher is the parent and waits. If clone3 is refused, the same set
 * through clone(2), never a smaller one; without clone3 nothing can be born in another
 * cgroup.
 */
pid_t clone_into(unsigned long namespaces, int cgroup_fd, int *out_pid_fd)
{
	struct clone_args args = {
		.flags = namespaces | CLONE_PARENT | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)out_pid_fd,
	};
	pid_t pid;

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = sys_clone3(&args, sizeof(args));
	if (pid < 0 && errno == ENOSYS && cgroup_fd < 0)
		pid = (pid_t)syscall(SYS_clone, namespaces | CLONE_PARENT | CLONE_PIDFD,
				     0, out_pid_fd, 0, 0);
	return pid;
}
