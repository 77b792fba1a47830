/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fdpass.c - one datagram and its descriptors over a unix socket
 */
#include "base/fdpass.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCM_MAX_FD 253 /* the kernel's: more do not fit a message */

/* the descriptors of one message, aligned as the kernel wants it. Room for all that can
 * come: what does not fit the kernel closes, which may wait */
union control {
	char bytes[CMSG_SPACE(sizeof(int) * SCM_MAX_FD)];
	struct cmsghdr align;
};

int fdpass_send(int socket_fd, const void *bytes, size_t len, const int *fds,
		size_t count)
{
	union control control;
	struct iovec io = {(void *)(uintptr_t)bytes, len};
	struct msghdr head = {.msg_iov = &io, .msg_iovlen = 1};
	struct cmsghdr *c;
	ssize_t n;

	assert(count <= FDPASS_MAX);
	if (count) {
		head.msg_control = control.bytes;
		head.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		memset(control.bytes, 0, head.msg_controllen);
		c = &control.align; /* CMSG_FIRSTHDR, known to be there */
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
	}
	do
		n = sendmsg(socket_fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -1 : 0;
}

static void refuse(int fd, enum fdpass_how how)
{
	if (how != FDPASS_OR_END)
		close(fd);
}

/* every descriptor that came along, kept or refused; false when there is anything else */
static bool take(struct msghdr *head, int out_fds[FDPASS_MAX], size_t *out_count,
		 enum fdpass_how how)
{
	struct cmsghdr *c;
	bool fine = true;
	size_t i, n;
	int fd;

	for (c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
			fine = false;
			continue;
		}
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (*out_count < FDPASS_MAX) {
				out_fds[(*out_count)++] = fd;
			} else {
				refuse(fd, how);
				fine = false;
			}
		}
	}
	return fine;
}

int fdpass_receive(int socket_fd, void *out, size_t len, int out_fds[FDPASS_MAX],
		   size_t *out_count, enum fdpass_how how)
{
	union control control;
	struct iovec io = {out, len};
	struct msghdr head = {
		.msg_iov = &io,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	size_t i;
	ssize_t n;

	*out_count = 0;
	for (i = 0; i < FDPASS_MAX; i++)
		out_fds[i] = -1;
	do
		n = recvmsg(socket_fd, &head,
			    MSG_CMSG_CLOEXEC | (how == FDPASS_WAIT ? 0 : MSG_DONTWAIT));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -1;
	if (take(&head, out_fds, out_count, how) && (size_t)n == len &&
	    !(head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return 1;
	for (i = 0; i < *out_count; i++) {
		refuse(out_fds[i], how);
		out_fds[i] = -1;
	}
	if (n == 0 && *out_count == 0)
		return 0;
	*out_count = 0;
	/* there is room for all that can come, so they were cut because none are left */
	errno = (size_t)n == len && (head.msg_flags & MSG_CTRUNC) ? EMFILE : EPROTO;
	return -1;
}
