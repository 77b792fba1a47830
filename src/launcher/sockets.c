/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sockets.c - what a run's sockets hold, where no cgroup counts it
 *
 * Runs in: the launcher; sockets_open in a slot's worker. The kernel lists the unix
 * sockets of a network namespace. What was sent and not yet read is counted to its
 * sender. When that one is closed nobody has it any more, but it is still there: in a
 * socket whose peer is gone, or in a connection that was not accepted. Each of those
 * counts as the most that a sender can leave behind.
 *
 * Netlink sockets, the only other ones that programs without network have, hold answers
 * of the kernel that were not read. They are listed too; with one uid's alone they need
 * not be, since without namespaces there are none. Those of TCP are listed where a run
 * has a network namespace of its own; what is in them is counted where it waits, and a
 * connection that was not accepted is one of them.
 */
#include "launcher/sockets.h"

#include <assert.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/netlink_diag.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
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

/* Our own, with what it is answered just now, is not the run's. Nobody else there can
 * have its number for this protocol. */
static uint64_t netlink_bytes(const struct netlink_diag_msg *m, size_t len, uint32_t own)
{
	const struct rtattr *a = (const void *)(m + 1);
	uint64_t bytes = m->ndiag_portid ? SOCKET_BYTES : 0; /* 0: the kernel's end */

	if (m->ndiag_protocol == NETLINK_SOCK_DIAG && m->ndiag_portid == own)
		return 0;
	for (len -= sizeof(*m); RTA_OK(a, len); a = RTA_NEXT(a, len))
		if (a->rta_type == NETLINK_DIAG_MEMINFO)
			bytes += (uint64_t)word_at(a, SK_MEMINFO_RMEM_ALLOC) +
				 word_at(a, SK_MEMINFO_WMEM_ALLOC);
	return bytes;
}

static uint64_t tcp_bytes(const struct inet_diag_msg *m, size_t len)
{
	const struct rtattr *a = (const void *)(m + 1);
	uint64_t bytes = SOCKET_BYTES;

	for (len -= sizeof(*m); RTA_OK(a, len); a = RTA_NEXT(a, len))
		if (a->rta_type == INET_DIAG_SKMEMINFO)
			bytes += (uint64_t)word_at(a, SK_MEMINFO_RMEM_ALLOC) +
				 word_at(a, SK_MEMINFO_WMEM_QUEUED) +
				 word_at(a, SK_MEMINFO_BACKLOG);
	return bytes;
}

static uint64_t bytes_in(const struct nlmsghdr *h, uid_t uid)
{
	const struct inet_diag_msg *tcp = NLMSG_DATA(h);
	const struct unix_diag_msg *one = NLMSG_DATA(h);
	const struct netlink_diag_msg *other = NLMSG_DATA(h);
	const size_t len = NLMSG_PAYLOAD(h, 0);

	if (len >= sizeof(*one) && one->udiag_family == AF_UNIX)
		return bytes_of(one, len, uid);
	if (len >= sizeof(*other) && other->ndiag_family == AF_NETLINK)
		return netlink_bytes(other, len, h->nlmsg_pid);
	if (len >= sizeof(*tcp) &&
	    (tcp->idiag_family == AF_INET || tcp->idiag_family == AF_INET6))
		return tcp_bytes(tcp, len);
	return 0;
}

static const struct unix_diag_req of_unix = {
	.sdiag_family = AF_UNIX,
	.udiag_states = ~0u,
	.udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_RQLEN | UDIAG_SHOW_MEMINFO |
		      UDIAG_SHOW_UID,
};
static const struct netlink_diag_req of_netlink = {
	.sdiag_family = AF_NETLINK,
	.sdiag_protocol = NDIAG_PROTO_ALL,
	.ndiag_show = NDIAG_SHOW_MEMINFO,
};

static int ask(int fd, const void *body, size_t len)
{
	struct {
		struct nlmsghdr head;
		char body[sizeof(struct inet_diag_req_v2)];
	} request = {
		.head = {.nlmsg_len = (uint32_t)NLMSG_LENGTH(len),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
	};
	ssize_t n;

	static_assert(sizeof(struct inet_diag_req_v2) >= sizeof(of_unix) &&
			      sizeof(of_unix) >= sizeof(of_netlink),
		      "each has room");
	memcpy(request.body, body, len);
	n = send(fd, &request, request.head.nlmsg_len, MSG_DONTWAIT);
	return n == (ssize_t)request.head.nlmsg_len ? 0 : -1;
}

/* 1: there is more; 0: that was all; -1 with errno */
static int add_up(const struct nlmsghdr *h, size_t len, uid_t uid, uint64_t *bytes)
{
	int num = 0;

	for (; NLMSG_OK(h, len); h = NLMSG_NEXT(h, len)) {
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) {
			/* both begin with 0 or a negative errno */
			if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(num)))
				memcpy(&num, NLMSG_DATA(h), sizeof(num));
			errno = -num;
			return num ? -1 : 0;
		}
		if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY)
			*bytes += bytes_in(h, uid);
	}
	return 1;
}

static int add_all(int fd, uid_t uid, uint64_t *bytes)
{
	static char text[ANSWER_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	ssize_t n;
	int r;

	do { /* each call writes the next part: there is nothing to wait for */
		n = recv(fd, text, sizeof(text), MSG_DONTWAIT);
		if (n < 0)
			return -1;
		r = add_up((const void *)text, (size_t)n, uid, bytes);
	} while (r > 0);
	return r;
}

int sockets_kb(int fd, uid_t uid, uint64_t *out)
{
	uint64_t bytes = 0;

	if (ask(fd, &of_unix, sizeof(of_unix)) < 0 || add_all(fd, uid, &bytes) < 0)
		return -1;
	if (uid == SOCKETS_OF_ALL && (ask(fd, &of_netlink, sizeof(of_netlink)) < 0 ||
				      add_all(fd, uid, &bytes) < 0))
		return -1;
	*out = bytes / 1024;
	return 0;
}

int sockets_tcp_kb(int fd, uint64_t *out)
{
	struct inet_diag_req_v2 of_tcp = {
		.sdiag_family = AF_INET,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_ext = 1 << (INET_DIAG_SKMEMINFO - 1),
		.idiag_states = ~0u,
	};
	uint64_t bytes = 0, others;

	if (sockets_kb(fd, SOCKETS_OF_ALL, &others) < 0 ||
	    ask(fd, &of_tcp, sizeof(of_tcp)) < 0 ||
	    add_all(fd, SOCKETS_OF_ALL, &bytes) < 0)
		return -1;
	of_tcp.sdiag_family = AF_INET6;
	if (ask(fd, &of_tcp, sizeof(of_tcp)) < 0 ||
	    add_all(fd, SOCKETS_OF_ALL, &bytes) < 0)
		return -1;
	*out = others + bytes / 1024;
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

/* an answer that is not read: seen? */
static int try_netlink(int fd)
{
	auto_fd int asks = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	const struct {
		struct nlmsghdr head;
		struct ifinfomsg body;
	} request = {
		.head = {.nlmsg_len = sizeof(request),
			 .nlmsg_type = RTM_GETLINK,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.ifi_index = 1}, /* lo */
	};
	uint64_t before, filled;

	if (asks < 0 || sockets_kb(fd, SOCKETS_OF_ALL, &before) < 0 ||
	    send(asks, &request, sizeof(request), MSG_DONTWAIT) < 0 ||
	    sockets_kb(fd, SOCKETS_OF_ALL, &filled) < 0)
		return -1;
	errno = ENOMSG;
	return filled > before + SOCKET_BYTES / 1024 ? 0 : -1;
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

	if (fd < 0 || try_it(fd, uid) < 0 ||
	    (uid == SOCKETS_OF_ALL && try_netlink(fd) < 0))
		return -1;
	return take_fd(&fd);
}
