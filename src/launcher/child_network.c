/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_network.c - the one socket by which a run reaches its broker
 *
 * Runs in: process 1 of the sandbox, which has the capabilities of its new and empty
 * network namespace. A socket stays in the namespace it was made in: the broker outside
 * accepts from it, and there is still no interface but the loopback and no route.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "launcher/child.h"

#define BACKLOG 128

static int child_up(int fd)
{
	struct ifreq lo = {.ifr_name = "lo"};

	lo.ifr_flags = IFF_UP;
	return ioctl(fd, SIOCSIFFLAGS, &lo);
}

static int child_listen(int fd)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons(NETWORK_PORT),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	if (child_up(fd) < 0 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return -1;
	return listen(fd, BACKLOG);
}

static int child_give_socket(const struct child *c, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	char byte = 'S';
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *h = &control.align; /* CMSG_FIRSTHDR, known to be there */

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	return sendmsg(c->egress_fd, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

/* where no cgroup counts what sockets hold, the launcher asks the kernel here */
static int child_tell_sockets(const struct child *c)
{
	const struct child_news n = {.type = NEWS_SOCKETS, .step = -1};
	int fd, r;

	if (!c->abilities.poll_memory)
		return 0;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return -1;
	r = child_send(c, &n, &fd, 1);
	close(fd);
	return r;
}

/* a session's own, by which its commands reach each other's servers */
static int child_loopback(void)
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r, saved;

	if (fd < 0)
		return -1;
	r = child_up(fd);
	saved = errno;
	close(fd);
	errno = saved;
	return r;
}

int child_network(struct child *c)
{
	int fd, r, saved;

	if (child_keeps_session(c) && c->plan.network != NETWORK_BROKER)
		return child_tell_sockets(c) < 0 ? -1 : child_loopback();
	if (c->plan.network != NETWORK_BROKER)
		return 0;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	r = child_tell_sockets(c);
	if (r == 0)
		r = child_listen(fd);
	if (r == 0)
		r = child_give_socket(c, fd);
	saved = errno;
	close(fd);
	close(c->egress_fd);
	c->egress_fd = -1;
	errno = saved;
	return r;
}
