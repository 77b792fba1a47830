/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * message.c - send and receive one message, with its descriptors
 *
 * Runs in: server and launcher. What arrives is checked as far as one message can be
 * checked alone: size, type, descriptors, enums in range, strings that end. Whether it
 * fits the moment, and a plan its ceilings, is the receiver's business.
 */
#include "wire/message.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIGNAL_MAX 64

/* room for the descriptors of one message, aligned as the kernel wants it */
union control {
	char bytes[CMSG_SPACE(sizeof(int) * MESSAGE_FDS)];
	struct cmsghdr align;
};

/* how many descriptors a message of this type brings, -1 for an unknown one */
static int expected_fds(const struct message *m)
{
	switch (m->type) {
	case MSG_RUN:
		return 1;
	case MSG_STREAMS:
		return 3;
	case MSG_DONE:
		return m->outcome.files ? 1 : 0;
	case MSG_KILL:
	case MSG_REPORT:
	case MSG_STARTED:
	case MSG_FAILED:
		return 0;
	default:
		return -1;
	}
}

static bool ends(const char *text, size_t room)
{
	return memchr(text, 0, room) != NULL;
}

static bool report_ok(const struct report *r)
{
	if (r->level >= LEVEL_COUNT || !ends(r->summary, sizeof(r->summary)))
		return false;
	for (int i = 0; i < LAYER_COUNT; i++) {
		const struct layer *l = &r->layer[i];

		if (!ends(l->evidence, sizeof(l->evidence)) ||
		    !ends(l->reason, sizeof(l->reason)) || !ends(l->fix, sizeof(l->fix)))
			return false;
	}
	return true;
}

static bool outcome_ok(const struct outcome *o)
{
	if (o->signal == 0 && (o->exit_code < 0 || o->exit_code > 255))
		return false;
	return o->verdict < VERDICT_COUNT && o->files <= 1 && o->signal >= 0 &&
	       o->signal <= SIGNAL_MAX &&
	       ends(o->memory_reason, sizeof(o->memory_reason)) &&
	       ends(o->pids_reason, sizeof(o->pids_reason));
}

static bool content_ok(const struct message *m)
{
	switch (m->type) {
	case MSG_REPORT:
		return report_ok(&m->report);
	case MSG_DONE:
		return outcome_ok(&m->outcome);
	case MSG_FAILED:
		return ends(m->failure.step, sizeof(m->failure.step));
	default:
		return true;
	}
}

int message_send(int socket_fd, const struct message *m, const int *fds)
{
	union control control = {0};
	struct iovec bytes = {(void *)(uintptr_t)m, sizeof(*m)};
	struct msghdr head = {.msg_iov = &bytes, .msg_iovlen = 1};
	ssize_t n;

	assert(expected_fds(m) >= 0 && m->fds == (uint32_t)expected_fds(m));
	if (m->fds) {
		struct cmsghdr *c;

		head.msg_control = control.bytes;
		head.msg_controllen = CMSG_SPACE(sizeof(int) * m->fds);
		c = CMSG_FIRSTHDR(&head);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * m->fds);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * m->fds);
	}
	do
		n = sendmsg(socket_fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

/* the descriptors that came along; how many, or -1 when there is anything else */
static int take_fds(struct msghdr *head, int out_fds[MESSAGE_FDS])
{
	int count = 0, rc = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
			rc = -1;
			continue;
		}
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (count < MESSAGE_FDS) {
				out_fds[count++] = fd;
			} else {
				close(fd);
				rc = -1;
			}
		}
	}
	return rc < 0 ? -1 : count;
}

static int refuse(int fds[MESSAGE_FDS])
{
	for (int i = 0; i < MESSAGE_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
	errno = EPROTO;
	return -1;
}

int message_receive(int socket_fd, struct message *out_m, int out_fds[MESSAGE_FDS])
{
	union control control = {0};
	struct message m = {0};
	struct iovec bytes = {&m, sizeof(m)};
	struct msghdr head = {.msg_iov = &bytes,
			      .msg_iovlen = 1,
			      .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes)};
	int fds[MESSAGE_FDS] = {-1, -1, -1};
	int count;
	ssize_t n;

	do
		n = recvmsg(socket_fd, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -1;
	count = take_fds(&head, fds);
	if (n == 0 && count == 0) {
		memcpy(out_fds, fds, sizeof(fds));
		return 0;
	}
	if (count < 0 || n != sizeof(m) || (head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    expected_fds(&m) != count || m.fds != (uint32_t)count || !content_ok(&m))
		return refuse(fds);
	*out_m = m;
	memcpy(out_fds, fds, sizeof(fds));
	return 1;
}
