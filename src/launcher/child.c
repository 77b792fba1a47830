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
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/sys.h"

/* at which levels a row applies: the others do without it by design, never by failing */
#define EVERY LEVEL_PROCESS, LEVEL_FULL
#define APART LEVEL_NAMESPACES, LEVEL_FULL   /* namespaces of its own */
#define SHARED LEVEL_PROCESS, LEVEL_LANDLOCK /* the host's namespaces */
#define LOCKED LEVEL_LANDLOCK, LEVEL_FULL

/* and to whom: a run, one that goes on in an interpreter that it is forked from, process
 * 1 of a session, which makes its namespaces and runs nothing, or a command in a session,
 * which finds them made */
enum { RUN = 1, FORKED = 2, HOLDER = 4, COMMAND = 8 };
#define RUNS (RUN | FORKED)
#define ALL (RUNS | HOLDER | COMMAND)
#define MAKERS (RUNS | HOLDER)
#define PROGRAMS (RUNS | COMMAND)
#define UNFORKED (RUN | COMMAND)

/* The order is the design: a row may take away what the rows above it needed. */
static const struct {
	int (*run)(struct child *c);
	const char *name;
	int from, to; /* enum isolation_level */
	unsigned who;
} steps[] = {
	/* process 1, or where pids are shared: the run's init */
	{child_id_maps, "id_maps", APART, MAKERS},
	/* after the ids: a change of them clears it */
	{child_parent_death, "parent_death", EVERY, ALL},
	{child_session, "session", EVERY, ALL},
	{child_network, "network", APART,
	 MAKERS}, /* before the namespaces' limits are 0 */
	/* born in its cgroup: that is its root */
	{child_cgroup_namespace, "cgroup_namespace", APART, MAKERS},
	{child_proc, "proc", APART, MAKERS},
	/* before /proc/sys turns read-only */
	{child_namespace_limits, "namespace_limits", APART, MAKERS},
	{child_proc_masks, "proc_masks", APART, MAKERS},
	{child_scratch, "scratch", APART, RUNS},
	{child_go_cache, "go_cache", APART,
	 RUNS}, /* its upper layer is on the scratch tmpfs */
	{child_places, "places", APART, RUNS}, /* covers the scratch tmpfs's own root */
	/* on top of the session's own directories, which its worker bound */
	{child_session_places, "session_places", APART, HOLDER},
	{child_layer, "layer", APART, RUNS}, /* on a mount point of the root */
	{child_directory, "directory", SHARED, RUNS},
	{child_layer_link, "layer_link", SHARED, RUNS},
	{child_go_links, "go_links", SHARED, RUNS},
	{child_inputs, "inputs", EVERY, UNFORKED},
	{child_hostname, "hostname", APART, MAKERS},
	{child_root_check, "root_check", APART, ALL},
	{child_hand_over, "hand_over", EVERY, MAKERS},
	{child_tell_namespaces, "tell_namespaces", APART, HOLDER},
	/* before any user byte, process 1 included */
	{child_capabilities, "capabilities", EVERY, ALL},
	{child_no_new_privs, "no_new_privs", EVERY, ALL},
	{child_subreaper, "subreaper", SHARED,
	 RUNS}, /* before there is anything to reap */
	{child_take_in, "take_in", APART, COMMAND},
	{child_fork, "fork", EVERY, ALL},
	/* the program; where process 1 has its interpreter's memory, no byte of a request
	 * comes there */
	{child_inputs, "inputs", EVERY, FORKED},
	{child_follow_init, "follow_init", SHARED, RUNS},
	{child_streams, "streams", EVERY, PROGRAMS},
	{child_limits, "limits", EVERY, PROGRAMS},
	{child_identity, "identity", EVERY, PROGRAMS},
	{child_landlock, "landlock", LOCKED,
	 PROGRAMS}, /* opens paths, so before seccomp */
	{child_cwd, "cwd", EVERY, PROGRAMS},
	{child_descriptors, "descriptors", EVERY, PROGRAMS},
	/* whatever follows must be in the allow list */
	{child_seccomp, "seccomp", EVERY, PROGRAMS},
	{child_listener, "listener", EVERY, PROGRAMS},
	{child_open_files, "open_files", EVERY, PROGRAMS}, /* below what sending needs */
	/* nothing is left to do but what the order says */
	{child_order, "order", APART, RUNS},
	{child_exec, "exec", EVERY, PROGRAMS},
};

#define STEP_COUNT ((int)(sizeof(steps) / sizeof(steps[0])))

const char *child_step_name(int step)
{
	return step >= 0 && step < STEP_COUNT ? steps[step].name : "";
}

bool child_step_applies(int step, uint32_t level)
{
	return (int)level >= steps[step].from && (int)level <= steps[step].to;
}

bool child_step_of_runs(int step, uint32_t level)
{
	return steps[step].who & RUN && child_step_applies(step, level);
}

int child_step_count(void)
{
	return STEP_COUNT;
}

int child_step_find(const char *name)
{
	int i = STEP_COUNT - 1;

	while (i >= 0 && strcmp(steps[i].name, name) != 0)
		i--;
	return i;
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

enum { FAULT_NONE, FAULT_FAIL, FAULT_LEAVE_OUT };

#ifdef SANDBOX_TEST_HOOKS
static bool child_in_list(const char *list, const char *name)
{
	const size_t len = strlen(name);
	const char *at = list;

	while (at && (strncmp(at, name, len) != 0 || (at[len] && at[len] != ','))) {
		at = strchr(at, ',');
		at = at ? at + 1 : NULL;
	}
	return at;
}

/* make bench wants to know how long each step took: told on the program's standard
 * error, as the step's name and when it began */
static void child_tell_times(const struct child *c, int step)
{
	static uint64_t began_ns[STEP_COUNT];
	int i;

	if (strcmp(c->setup->test_fault, "times") != 0)
		return;
	began_ns[step] = child_now_ns();
	for (i = 0; step == STEP_COUNT - 1 && i < STEP_COUNT; i++) {
		if (began_ns[i])
			dprintf(2, "%s %llu\n", steps[i].name,
				(unsigned long long)began_ns[i]);
	}
}

/* a test wants to see this step fail, or what its lack leads to; canaries are let
 * through, or there would be no server, unless they are what is tested: "!step" */
static int child_fault(const struct child *c, int step)
{
	const char *wanted = c->setup->test_fault;

	child_tell_times(c, step);
	if (wanted[0] == '!')
		return child_in_list(wanted + 1, steps[step].name) ? FAULT_LEAVE_OUT
								   : FAULT_NONE;
	if ((c->plan.errand != ERRAND_NONE && !child_keeps_session(c)) || !wanted[0])
		return FAULT_NONE;
	if (wanted[0] == '-')
		return child_in_list(wanted + 1, steps[step].name) ? FAULT_LEAVE_OUT
								   : FAULT_NONE;
	return strcmp(wanted, steps[step].name) == 0 ? FAULT_FAIL : FAULT_NONE;
}
#else
static int child_fault(const struct child *c, int step)
{
	(void)c;
	(void)step;
	return FAULT_NONE;
}
#endif

_Noreturn void child_fail(const struct child *c, int step)
{
	const struct child_news n = {
		.type = NEWS_FAILED, .step = step, .num = errno, .at_ns = child_now_ns()};

	(void)child_send(c, &n, NULL,
			 0); /* nobody listens: the launcher is gone, and so are we */
	_exit(127);
}

static unsigned child_who(const struct child *c)
{
	return child_keeps_session(c) ? HOLDER
	       : child_enters(c)      ? COMMAND
	       : c->fork              ? FORKED
				      : RUN;
}

void child_go_on(struct child *c)
{
	int fault;

	while (++c->step < STEP_COUNT) {
		errno = 0;
		if (!child_step_applies(c->step, c->abilities.level) ||
		    !(steps[c->step].who & child_who(c)))
			continue;
		fault = child_fault(c, c->step);
		if (fault == FAULT_LEAVE_OUT)
			continue;
		if (fault == FAULT_FAIL) {
			errno = EIO;
			break;
		}
		if (steps[c->step].run(c) < 0)
			break;
	}
	/* the last step does not return when it works, but for one who goes on */
	if (c->step < STEP_COUNT || !c->fork)
		child_fail(c, c->step);
}

void child_main(struct child *c)
{
	c->step = -1;
	child_go_on(c);
}
