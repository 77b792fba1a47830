/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sockets.c - what a run's unix sockets hold, where no cgroup counts it
 *
 * Runs in: the launcher; sockets_open in a slot's worker. The kernel lists the unix
 * sockets of a network namespace. What was sent and not yet read is counted to its
 * sender. When that one is closed nobody has it any more, but it is still there: in a
 * socket whose peer is gone, or in a connection that was not accepted. Each of those
 * counts as the most that a sender can leave behind.
 */
#include "launcher/sockets.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/defer.h"

#define SOCKET_BYTES 2048      /* the socket itself, its file and inode */
#define LAST_BYTES (72u << 10) /* a sender that has room left may send as much at once */
#define ANSWER_BYTES 32768     /* as many as the kernel writes at once */

/* one socket, as far as it was told */
struct seen {
	uint32_t sndbuf, wmem;
	uint32_t unread; /* bytes; of one that listens: connections */
	uint32_t uid;
	bool has_uid, has_peer;
};

static uint32_t word_at(const struct rtattr *a, unsigned n)
{
	uint32_t word = 0;

	if (RTA_PAYLOAD(a) >= (n + 1) * sizeof(word))
		memcpy(&word, (const char *)RTA_DATA(a) + n * sizeof(word), sizeof(word));
	return word;
}

static void look_at(const struct unix_diag_msg *m, size_t len, struct seen *out)
{
	const struct rtattr *a = (const void *)(m + 1);

	memset(out, 0, sizeof(*out));
	for (len -= sizeof(*m); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		switch (a->rta_type) {
		case UNIX_DIAG_MEMINFO:
			out->sndbuf = word_at(a, SK_MEMINFO_SNDBUF);
			out->wmem = word_at(a, SK_MEMINFO_WMEM_ALLOC);
			break;
		case UNIX_DIAG_RQLEN:
			out->unread = word_at(a, 0);
			break;
		case UNIX_DIAG_PEER:
			out->has_peer = word_at(a, 0) != 0; /* a number of a socket */
			break;
		case UNIX_DIAG_UID:
			out->uid = word_at(a, 0);
			out->has_uid = true;
			break;
		default:
			break;
		}
	}
}

static uint64_t bytes_of(const struct unix_diag_msg *m, size_t len, uid_t uid)
{
	uint64_t left;
	struct seen s;

	look_at(m, len, &s);
	if (uid != SOCKETS_OF_ALL && (!s.has_uid || s.uid != uid))
		return 0;
	left = (uint64_t)s.sndbuf + LAST_BYTES;
	if (m->udiag_state == TCP_LISTEN)
		left *= s.unread;
	else if (s.has_peer || s.unread == 0)
		left = 0;
	return SOCKET_BYTES + s.wmem + left;
}

static int ask(int fd)
{
	struct {
		struct nlmsghdr head;
		struct unix_diag_req body;
	} request = {
		.head = {.nlmsg_len = sizeof(request),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.body = {.sdiag_family = AF_UNIX,
			 .udiag_states = ~0u,
			 .udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN |
				       UDIAG_SHOW_MEMINFO | UDIAG_SHOW_UID},
	};
	const ssize_t n = send(fd, &request, sizeof(request), MSG_DONTWAIT);

	return n == (ssize_t)sizeof(request) ? 0 : -1;
}

/* 1: there is more; 0: that was all; -1 with errno */
static int add_up(const struct nlmsghdr *h, size_t len, uid_t uid, uint64_t *bytes)
{
	const size_t least = NLMSG_LENGTH(sizeof(struct unix_diag_msg));
	int num = 0;

	for (; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) {
			/* both begin with 0 or a negative errno */
			if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(num)))
				memcpy(&num, NLMSG_DATA(h), sizeof(num));
			errno = -num;
			return num ? -1 : 0;
		}
		if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY && h->nlmsg_len >= least)
			*bytes += bytes_of(NLMSG_DATA(h), NLMSG_PAYLOAD(h, 0), uid);
	}
	return 1;
}

int sockets_kb(int fd, uid_t uid, uint64_t *out)
{
	static char text[ANSWER_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	uint64_t bytes = 0;
	ssize_t n;
	int r;

	if (ask(fd) < 0)
		return -1;
	do { /* each call writes the next part: there is nothing to wait for */
		n = recv(fd, text, sizeof(text), MSG_DONTWAIT);
		if (n < 0)
			return -1;
		r = add_up((const void *)text, (size_t)n, uid, &bytes);
	} while (r > 0);
	if (r < 0)
		return -1;
	*out = bytes / 1024;
	return 0;
}

/* 64 kB in a pair of its own: seen, also when the sender is closed? */
static int try_pair(int fd, uid_t uid, int pair[2])
{
	static char block[65536];
	uint64_t before, filled, left;

	if (sockets_kb(fd, uid, &before) < 0 ||
	    send(pair[0], block, sizeof(block), MSG_DONTWAIT) < 0 ||
	    sockets_kb(fd, uid, &filled) < 0)
		return -1;
	close(pair[0]);
	pair[0] = -1;
	if (sockets_kb(fd, uid, &left) < 0)
		return -1;
	errno = ENOMSG;
	return before && filled >= before + 64 && left >= filled ? 0 : -1;
}

static int try_it(int fd, uid_t uid)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	r = try_pair(fd, uid, pair);
	defer_close(&pair[0]);
	defer_close(&pair[1]);
	return r;
}

int sockets_open(uid_t uid)
{
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0 || try_it(fd, uid) < 0)
		return -1;
	return take_fd(&fd);
}
