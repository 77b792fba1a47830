/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child.c - the order of the steps, and the report of the one that failed
 *
 * Runs in: the new process, from clone3 to execve. First as process 1 of the sandbox with
 * every capability over its own namespaces and none over the host's; after "fork" as the
 * program. Before: the worker's uid is the slot's, no capability, empty network
 * namespace, prepared root. After:  execve, or one message naming the step and its errno,
 * and exit.
 */
#include "launcher/child.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/sys.h"

/* The order is the design: a row may take away what the rows above it needed. */
static const struct {
	int (*run)(struct child *c);
	const char *name;
} steps[] = {
	/* process 1 */
	{child_id_maps, "id_maps"},
	{child_parent_death,
	 "parent_death"}, /* after the ids: a change of them clears it */
	{child_session, "session"},
	{child_cgroup_namespace,
	 "cgroup_namespace"}, /* born in its cgroup: that is its root */
	{child_proc, "proc"},
	{child_namespace_limits,
	 "namespace_limits"}, /* before /proc/sys turns read-only */
	{child_proc_masks, "proc_masks"},
	{child_scratch, "scratch"},
	{child_go_cache, "go_cache"}, /* its upper layer is on the scratch tmpfs */
	{child_places, "places"},     /* covers the scratch tmpfs's own root */
	{child_inputs, "inputs"},
	{child_hostname, "hostname"},
	{child_root_check, "root_check"},
	{child_hand_over, "hand_over"},
	{child_capabilities,
	 "capabilities"}, /* before any user byte, process 1 included */
	{child_no_new_privs, "no_new_privs"},
	{child_fork, "fork"},
	/* the program */
	{child_streams, "streams"},
	{child_limits, "limits"},
	{child_identity, "identity"},
	{child_landlock, "landlock"}, /* opens paths, so before seccomp */
	{child_cwd, "cwd"},
	{child_descriptors, "descriptors"},
	{child_seccomp, "seccomp"}, /* whatever follows must be in the allow list */
	{child_exec, "exec"},
};

#define STEP_COUNT ((int)(sizeof(steps) / sizeof(steps[0])))

const char *child_step_name(int step)
{
	return step >= 0 && step < STEP_COUNT ? steps[step].name : "";
}

int child_step_count(void)
{
	return STEP_COUNT;
}

int child_write_at(int dir_fd, const char *name, const char *text)
{
	size_t len = strlen(text);
	ssize_t n;
	int fd, saved;

	fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -1;
	n = write(fd, text, len);
	saved = n < 0 ? errno : EIO;
	close(fd);
	if (n == (ssize_t)len)
		return 0;
	errno = saved;
	return -1;
}

int child_send(const struct child *c, const struct child_news *n, const int *fds,
	       int count)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec io = {(void *)n, sizeof(*n)};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
	struct cmsghdr *h;

	if (count > 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		h = &control.align; /* CMSG_FIRSTHDR, known to be there */
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(h), fds, (size_t)count * sizeof(int));
	}
	return sendmsg(c->news_fd, &m, MSG_NOSIGNAL) == (ssize_t)sizeof(*n) ? 0 : -1;
}

static uint64_t child_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#ifdef SANDBOX_TEST_HOOKS
/* a test wants to see this step fail; canaries are let through, or there would be no
 * server */
static bool child_fault(const struct child *c, int step)
{
	return c->plan.errand == ERRAND_NONE && c->setup->test_fault[0] &&
	       strcmp(c->setup->test_fault, steps[step].name) == 0;
}
#else
static bool child_fault(const struct child *c, int step)
{
	(void)c;
	(void)step;
	return false;
}
#endif

_Noreturn void child_main(struct child *c)
{
	struct child_news n = {.type = NEWS_FAILED};
	int i;

	for (i = 0; i < STEP_COUNT; i++) {
		errno = 0;
		if (child_fault(c, i)) {
			errno = EIO;
			break;
		}
		if (steps[i].run(c) < 0)
			break;
	}
	/* only a failure comes here: the last step does not return when it works */
	n.step = i;
	n.num = errno;
	n.at_ns = child_now_ns();
	(void)child_send(c, &n, NULL,
			 0); /* nobody listens: the launcher is gone, and so are we */
	_exit(127);
}
