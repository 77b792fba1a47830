/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_sockets.c - what sockets hold is counted, also when who sent it is gone
 */
#include "launcher/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../tap.h"

#define SENT_KB 200 /* at least, by as much as a socket takes */

/* in a network namespace where there are no others */
static int own(void)
{
	int fd;

	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		SKIP("no network namespace can be made");
	fd = sockets_open(SOCKETS_OF_ALL);
	CHECK(fd >= 0);
	return fd;
}

static uint64_t held(int fd)
{
	uint64_t kb = 0;

	CHECK(sockets_kb(fd, SOCKETS_OF_ALL, &kb) == 0);
	return kb;
}

static void fill(int fd, size_t piece)
{
	static char block[65536];

	while (send(fd, block, piece, MSG_DONTWAIT) > 0)
		;
	CHECK(errno == EAGAIN);
}

static void pair(int out[2])
{
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) == 0);
}

TEST(a_namespace_without_sockets_holds_nothing)
{
	CHECK(held(own()) == 0);
}

TEST(what_was_sent_counts_until_it_is_read)
{
	const int fd = own();
	static char block[65536];
	int p[2];

	pair(p);
	CHECK(held(fd) < 16);
	fill(p[0], 65536);
	CHECK(held(fd) >= SENT_KB && held(fd) < 2 * SENT_KB);
	while (recv(p[1], block, sizeof(block), MSG_DONTWAIT) > 0)
		;
	CHECK(held(fd) < 16);
}

TEST(answers_of_the_kernel_that_nobody_reads_count)
{
	const struct {
		struct nlmsghdr head;
		struct ifinfomsg body;
	} request = {
		.head = {.nlmsg_len = sizeof(request),
			 .nlmsg_type = RTM_GETLINK,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.ifi_index = 1},
	};
	const int fd = own();
	const int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	unsigned i;

	CHECK(s >= 0 && held(fd) < 16);
	for (i = 0; i < 1000; i++)
		(void)send(s, &request, sizeof(request), MSG_DONTWAIT);
	CHECK(held(fd) >= SENT_KB);
	CHECK(close(s) == 0 && held(fd) == 0);
}

/* large messages or small ones, whose frames weigh much more than they do */
TEST(what_a_closed_sender_left_counts)
{
	const int fd = own();
	unsigned i;
	int p[2];

	for (i = 0; i < 20; i++) {
		pair(p);
		fill(p[0], i % 2 ? 1 : 65536);
		CHECK(close(p[0]) == 0);
	}
	CHECK(held(fd) >= 20 * SENT_KB && held(fd) < 40 * SENT_KB);
}

TEST(a_pair_that_is_half_closed_and_empty_counts_as_next_to_nothing)
{
	const int fd = own();
	int p[2];

	pair(p);
	CHECK(send(p[0], "x", 1, 0) == 1 && recv(p[1], (char[1]){0}, 1, 0) == 1);
	CHECK(close(p[0]) == 0);
	CHECK(held(fd) < 16);
}

TEST(what_was_sent_in_connections_that_nobody_accepts_counts)
{
	const struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0x"};
	const int fd = own(), type = SOCK_STREAM | SOCK_CLOEXEC;
	const int server = socket(AF_UNIX, type, 0);
	unsigned i;

	CHECK(bind(server, (const void *)&name, sizeof(name)) == 0);
	CHECK(listen(server, 64) == 0);
	for (i = 0; i < 20; i++) {
		const int client = socket(AF_UNIX, type, 0);

		CHECK(connect(client, (const void *)&name, sizeof(name)) == 0);
		fill(client, 65536);
		CHECK(close(client) == 0);
	}
	CHECK(held(fd) >= 20 * SENT_KB);
}

TEST(what_is_on_its_way_through_another_socket_counts)
{
	char room[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct iovec one = {"x", 1};
	struct msghdr m = {.msg_iov = &one,
			   .msg_iovlen = 1,
			   .msg_control = room,
			   .msg_controllen = sizeof(room)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&m);
	const int fd = own();
	int way[2], p[2];

	pair(way);
	pair(p);
	fill(p[0], 65536);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(p));
	memcpy(CMSG_DATA(head), p, sizeof(p));
	CHECK(sendmsg(way[0], &m, 0) == 1);
	CHECK(close(p[0]) == 0 && close(p[1]) == 0);
	CHECK(held(fd) >= SENT_KB);
}

/* many are told in many parts */
TEST(none_of_a_thousand_is_left_out)
{
	const int fd = own();
	unsigned i;
	int p[2];

	for (i = 0; i < 400; i++) {
		pair(p);
		CHECK(send(p[0], "x", 1, 0) == 1);
	}
	CHECK(held(fd) >= 400 * 2 * 2 && held(fd) < 400 * 2 * 4);
}

TEST(a_uid_is_told_from_others)
{
	uint64_t mine = 0, others = 0;
	int fd, p[2];

	if (geteuid() != 0)
		SKIP("only root has other uids");
	CHECK(seteuid(4711) == 0);
	fd = sockets_open(4711);
	CHECK(fd >= 0);
	pair(p);
	fill(p[0], 65536);
	CHECK(sockets_kb(fd, 4711, &mine) == 0 && sockets_kb(fd, 4712, &others) == 0);
	CHECK(mine >= SENT_KB && others == 0);
	/* a sanitizer looks for leaks as a tracer of ours would */
	CHECK(seteuid(0) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
}

TEST(who_cannot_be_asked_says_so)
{
	uint64_t kb = 7;

	CHECK(sockets_kb(-1, SOCKETS_OF_ALL, &kb) == -1 && errno == EBADF);
	CHECK(sockets_kb(open("/dev/null", O_RDWR | O_CLOEXEC), SOCKETS_OF_ALL, &kb) ==
		      -1 &&
	      errno == ENOTSOCK);
	CHECK(kb == 7);
}

static int tcp_listener(struct sockaddr_in *out)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*out);

	*out = (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0);
	CHECK(bind(fd, (struct sockaddr *)out, sizeof(*out)) == 0 && listen(fd, 8) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)out, &len) == 0);
	return fd;
}

static uint64_t held_with_tcp(int fd)
{
	uint64_t kb = 0;
	const int rc = sockets_tcp_kb(fd, &kb);

	if (rc < 0 && errno == ENOENT)
		SKIP("this kernel does not list sockets of TCP");
	CHECK(rc == 0);
	return kb;
}

TEST(what_connections_of_tcp_hold_counts_accepted_or_not)
{
	struct sockaddr_in at;
	int fd = own(), listener = tcp_listener(&at), first, second, accepted;
	uint64_t before = held_with_tcp(fd), one;

	first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(connect(first, (struct sockaddr *)&at, sizeof(at)) == 0);
	fill(first, 65536);
	one = held_with_tcp(fd);
	CHECK(one >= before + SENT_KB);
	accepted = accept(listener, NULL, NULL);
	CHECK(accepted >= 0 && held_with_tcp(fd) >= before + SENT_KB);
	/* a sender that is closed leaves it with the receiver, and with the kernel */
	close(first);
	CHECK(held_with_tcp(fd) >= before + SENT_KB);
	second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(connect(second, (struct sockaddr *)&at, sizeof(at)) == 0);
	fill(second, 65536);
	CHECK(held_with_tcp(fd) >= before + 2 * SENT_KB);
	/* what is not TCP counts as before */
	CHECK(held(fd) < SENT_KB);
}
