/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_wait.c - a sandbox that was made before anybody asked for it
 *
 * Everything is in place but what a request brings. One without an interpreter worth
 * starting waits in the program itself, behind its filters and before execve. An
 * interpreter is started on a script that is a FIFO: it does all it does at a start,
 * opens the script, and the kernel lets it wait there. Process 1 then puts the real file
 * in the FIFO's place and writes the same bytes into the FIFO. So the interpreter has no
 * descriptor, argument, variable or module that one started later would not have. What a
 * request adds to its arguments and variables comes first, where the object of
 * wire/ahead.h reads it.
 *
 * Before: no byte of any request is in the sandbox, and process 1 has no capability.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "launcher/child.h"

#define LOOK_MS 5      /* how often process 1 looks whether the interpreter is there */
#define TAKEN_NS 50000 /* and whether it has taken the words of its request */

static int child_receive(struct child *c)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct child_order o;
	struct iovec io = {&o, sizeof(o)};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	const struct cmsghdr *h = &control.align; /* CMSG_FIRSTHDR */
	ssize_t n;

	do {
		n = recvmsg(c->news_fd, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -1;
	if (n != (ssize_t)sizeof(o) || m.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    m.msg_controllen < CMSG_LEN(sizeof(int)) || h->cmsg_level != SOL_SOCKET ||
	    h->cmsg_type != SCM_RIGHTS || h->cmsg_len != CMSG_LEN(sizeof(int)) ||
	    o.plan.row != c->plan.row || o.plan.errand != ERRAND_NONE) {
		errno = EBADMSG;
		return -1;
	}
	memcpy(&c->input_fd, CMSG_DATA(h), sizeof(int));
	c->plan = o.plan;
	return 0;
}

static int child_say_ready(const struct child *c)
{
	const struct child_news n = {.type = NEWS_READY,
				     .step = -1,
				     .status = c->waits == WAITS_EXEC || c->has_words};

	return child_send(c, &n, NULL, 0);
}

/* a hard limit only sinks; a lower one that is there already does */
static struct rlimit child_lower(struct rlimit want, const struct rlimit *now)
{
	if (now->rlim_max < want.rlim_max)
		want.rlim_max = now->rlim_max;
	if (want.rlim_cur > want.rlim_max)
		want.rlim_cur = want.rlim_max;
	return want;
}

/* the program's own step: behind the filters, with /work as its directory */
int child_order(struct child *c)
{
	struct rlimit limits[CHILD_LOWERED], now;
	int i;

	if (c->waits != WAITS_EXEC)
		return 0;
	if (child_say_ready(c) < 0 || child_receive(c) < 0)
		return -1;
	c->work_fd = AT_FDCWD;
	if (child_layer_env(c) < 0 || child_take_input(c) < 0)
		return -1;
	/* the calls themselves: of prlimit64 the filters do not let much pass */
	child_lowered(c, limits);
	for (i = 0; i < CHILD_LOWERED; i++) {
		if (syscall(SYS_getrlimit, child_lowered_what[i], &now) < 0)
			return -1;
		limits[i] = child_lower(limits[i], &now);
		if (syscall(SYS_setrlimit, child_lowered_what[i], &limits[i]) < 0)
			return -1;
	}
	return 0;
}

/* until the interpreter has opened its script; true: it has, false: it never will */
static bool child_opened(struct child *c, struct pollfd look[2])
{
	const int how = O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
	struct stat st;

	while ((c->script_fd = openat(c->work_fd, c->row->script, how)) < 0) {
		if (errno != ENXIO || poll(look, 2, LOOK_MS) != 0)
			return false;
	}
	if (fstat(c->script_fd, &st) < 0)
		return false;
	c->has_words = (st.st_mode & 07777) == AHEAD_FIFO;
	errno = ENOEXEC; /* what loads no objects does not hide that it should */
	return c->has_words == c->ahead && fcntl(c->script_fd, F_SETFL, 0) == 0;
}

static int child_lower_program(const struct child *c, pid_t program)
{
	struct rlimit limits[CHILD_LOWERED], now;
	int i;

	child_lowered(c, limits);
	for (i = 0; i < CHILD_LOWERED; i++) {
		if (syscall(SYS_prlimit64, program, child_lowered_what[i], NULL, &now) <
		    0)
			return -1;
		limits[i] = child_lower(limits[i], &now);
		if (syscall(SYS_prlimit64, program, child_lowered_what[i], &limits[i],
			    NULL) < 0)
			return -1;
	}
	return 0;
}

/* all of it, or what an end that reads no further has left */
static int child_write(const struct child *c, const void *data, uint64_t len)
{
	const char *at = data;
	ssize_t n;

	while (len > 0 && (n = write(c->script_fd, at, len)) > 0) {
		at += n;
		len -= (uint64_t)n;
	}
	return len == 0 ? 0 : -1;
}

static uint32_t child_words_len(const char *const *words)
{
	size_t n = 0;

	for (; *words; words++)
		n += strlen(*words) + 1;
	return (uint32_t)n;
}

/* what is not the row's own: an interpreter that has started reads it from its script's
 * FIFO, if it can */
static int child_give_words(const struct child *c, int own_envc)
{
	const char *const *lists[] = {c->argv + c->argc, c->envp + own_envc};
	const struct ahead_words w = {child_words_len(lists[0]),
				      child_words_len(lists[1])};
	int i;

	if (!c->has_words) {
		errno = EBADMSG;
		return w.args_len || w.env_len ? -1 : 0;
	}
	if (child_write(c, &w, sizeof(w)) < 0)
		return -1;
	for (i = 0; i < 2; i++) {
		for (; *lists[i]; lists[i]++)
			if (child_write(c, *lists[i], strlen(*lists[i]) + 1) < 0)
				return -1;
	}
	return 0;
}

/* One that would have found something of its layer at its start ends instead: it is not
 * what a cold one would be. */
static int child_await_taken(const struct child *c, struct pollfd *ended)
{
	const struct timespec moment = {0, TAKEN_NS};
	struct stat st;

	if (!child_has_layer(c) || !c->row->layer_path)
		return 0;
	for (;;) {
		if (fstat(c->script_fd, &st) < 0)
			return -1;
		if ((st.st_mode & 07777) == AHEAD_TAKEN)
			return 0;
		if (ppoll(ended, 1, &moment, NULL) != 0) {
			errno = CHILD_HAS_ALREADY;
			return -1;
		}
	}
}

static int child_give(struct child *c, pid_t program, struct pollfd *ended)
{
	const int own_envc = c->envc;
	const char *code;
	uint64_t len;

	if (unlinkat(c->work_fd, c->row->script, 0) < 0 || child_layer_env(c) < 0 ||
	    child_take_input(c) < 0 || child_script(c, &code, &len) < 0 ||
	    child_lower_program(c, program) < 0 || child_give_words(c, own_envc) < 0 ||
	    child_await_taken(c, ended) < 0)
		return -1;
	/* one that reads no further has seen an error in what it has read */
	return child_write(c, code, len) == 0 || errno == EPIPE ? 0 : -1;
}

void child_await_order(struct child *c, pid_t program)
{
	struct pollfd look[2] = {{.fd = c->news_fd, .events = POLLIN},
				 {.fd = sys_pidfd_open(program, 0), .events = POLLIN}};

	if (look[1].fd < 0 || !child_opened(c, look) || child_say_ready(c) < 0 ||
	    poll(look, 2, -1) < 1 || look[1].revents || child_receive(c) < 0 ||
	    child_give(c, program, &look[1]) < 0)
		child_fail(c, child_step_find("order"));
}
