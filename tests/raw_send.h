/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * raw_send.h - what a peer that is not ours could send
 *
 * Any bytes, with RAW_SEND_MOST descriptors at most.
 */
#pragma once

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define RAW_SEND_MOST 253 /* the kernel takes no more */

static inline ssize_t raw_send(int socket_fd, const void *bytes, size_t len,
			       const int *fds, unsigned count)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * RAW_SEND_MOST)];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct msghdr head = {.msg_iov = &iov, .msg_iovlen = 1};

	if (count) {
		struct cmsghdr *c;

		head.msg_control = control.bytes;
		head.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		c = CMSG_FIRSTHDR(&head);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
	}
	return sendmsg(socket_fd, &head, 0);
}
