/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_tree.c - who is below whom, where no pid namespace says it
 *
 * Runs in: a run's init, and in the launcher. A process is known by walking up from it,
 * each line read anew: whoever lost its parent on the way is found by the next look,
 * below the reaper that took it in. What is killed is held by a pidfd first, so that a
 * number that somebody else has by then harms nobody.
 */
#include <dirent.h>
#include <string.h>

#include "base/sys.h"
#include "launcher/child.h"

#define PF_EXITING 4    /* the kernel's own, in every version */
#define DEPTH_MOST 4096 /* of a walk: more than any pid limit lets anybody nest */

/* "PID/stat" */
static void child_stat_name(char out[32], pid_t pid)
{
	char digits[12];
	size_t n = 0, at = 0;

	do {
		digits[n++] = (char)('0' + pid % 10);
		pid /= 10;
	} while (pid);
	while (n)
		out[at++] = digits[--n];
	memcpy(out + at, "/stat", 6);
}

static uint64_t child_next_number(const char **at)
{
	uint64_t n = 0;

	while (**at == ' ' || **at == '-')
		(*at)++;
	for (; **at >= '0' && **at <= '9'; (*at)++)
		n = n * 10 + (uint64_t)(**at - '0');
	return n;
}

int child_process(int proc_fd, pid_t pid, struct process *out)
{
	char name[32], text[1024];
	const char *at;
	ssize_t len;
	int fd, i;

	child_stat_name(name, pid);
	fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return -1;
	text[len] = '\0';
	/* the name in parentheses may hold anything; behind it: state and numbers */
	at = strrchr(text, ')');
	if (!at || strlen(at) < 4)
		return -1;
	out->pid = pid;
	out->state = at[2];
	at += 3;
	out->parent = (pid_t)child_next_number(&at);
	for (i = 5; i < 14; i++) {
		const uint64_t n = child_next_number(&at);

		if (i == 9) /* flags */
			out->exiting = n & PF_EXITING;
	}
	out->ticks = 0;
	for (; i < 18; i++) /* utime stime cutime cstime */
		out->ticks += child_next_number(&at);
	(void)child_next_number(&at);
	(void)child_next_number(&at);
	out->threads = (uint32_t)child_next_number(&at);
	return 0;
}

pid_t child_below(int proc_fd, pid_t pid, pid_t top)
{
	struct process p;
	int i;

	for (i = 0; i < DEPTH_MOST && pid > 1 && pid != top; i++) {
		if (child_process(proc_fd, pid, &p) < 0)
			return 0;
		if (p.parent == top)
			return pid;
		pid = p.parent;
	}
	return 0;
}

int child_each_process(int proc_fd, void (*fn)(int proc_fd, pid_t pid, void *arg),
		       void *arg)
{
	char bytes[4096] __attribute__((aligned(8)));
	const char *name;
	long n, at;
	pid_t pid;
	int fd;

	fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while ((n = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0) {
		for (at = 0; at < n; at += ((struct dirent64 *)(bytes + at))->d_reclen) {
			name = ((struct dirent64 *)(bytes + at))->d_name;
			pid = 0;
			for (; *name >= '0' && *name <= '9'; name++)
				pid = pid * 10 + (*name - '0');
			if (pid > 0 && *name == '\0')
				fn(proc_fd, pid, arg);
		}
	}
	close(fd);
	return n < 0 ? -1 : 0;
}

void child_kill_below(int proc_fd, pid_t pid, pid_t top)
{
	/* first, so that it cannot become another one while we look */
	const int pid_fd = sys_pidfd_open(pid, 0);

	if (pid_fd < 0)
		return; /* it is gone */
	if (child_below(proc_fd, pid, top) != 0)
		(void)sys_pidfd_send_signal(pid_fd, SIGKILL);
	close(pid_fd);
}
