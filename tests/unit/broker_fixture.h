/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * broker_fixture.h - a broker and its mother, confined as they are, in a network
 * namespace that leads nowhere
 */
#pragma once

#include "egress/broker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"
#include "base/err.h"
#include "base/fdpass.h"
#include "cmd/cmd.h"
#include "config/filter.h"
#include "config/policy.h"
#include "wire/setup.h"

static struct egress_world world;
static struct egress_ceiling ceiling; /* order() allows what it asks for */

static inline bool lo_up(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;

	close(fd);
	return up;
}

static inline void leave(void)
{
	if (unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET) < 0)
		SKIP("no network namespace to be had");
	CHECK(lo_up());
}

static inline int listening(unsigned *out_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK(listen(fd, 8) == 0 && getsockname(fd, (struct sockaddr *)&a, &len) == 0);
	*out_port = ntohs(a.sin_port);
	return fd;
}

/* a server that answers whatever it was told first, with a word before it */
static inline unsigned target_saying(const char *status)
{
	char text[2048];
	const size_t word = (size_t)snprintf(text, sizeof(text), "HTTP/1.1 %s\r\n\r\n>",
					     status);
	unsigned port;
	int fd = listening(&port), client;
	ssize_t n;

	if (fork() != 0) {
		close(fd);
		return port;
	}
	while ((client = accept(fd, NULL, NULL)) >= 0) {
		n = read(client, text + word, sizeof(text) - word);
		if (n > 0)
			(void)!write(client, text, word + (size_t)n);
		close(client);
	}
	_exit(0);
}

static inline unsigned target(void)
{
	return target_saying("200 OK");
}

static inline int mother(void)
{
	static struct setup_filter calls;
	struct err e = {0};
	int pair[2];

	CHECK(filter_compile_own(POLICY_BROKER, &calls, &e) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	if (fork() == 0) {
		close(pair[0]);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    confine_broker(&calls) < 0)
			_exit(9);
		_exit(mother_main(pair[1], &world, &ceiling));
	}
	close(pair[1]);
	return pair[0];
}

static inline struct egress_order order(const char *list)
{
	struct egress_order o = {.connections = 8, .time_ms = 8000, .bytes = 1 << 20};
	struct err e = {0};

	CHECK(rules_parse(&o.rules, list, &e) == 0);
	ceiling.runs = o.rules;
	return o;
}

static inline int news(struct egress_channel *c, struct egress_news *out)
{
	struct pollfd p = {.fd = c->control_fd, .events = POLLIN};

	CHECK(poll(&p, 1, 8000) == 1);
	return egress_read(c, out);
}

static inline struct egress_channel opened(int mother_fd, const struct egress_order *o)
{
	struct egress_channel c = EGRESS_NONE;

	CHECK(egress_open(mother_fd, o, &c) == 0);
	return c;
}

/* as the child of a run does it; this namespace is as good */
static inline void give_socket(struct egress_channel *c)
{
	int fd = listening(&c->port);

	CHECK(fdpass_send(c->run_fd, "S", 1, &fd, 1) == 0);
	close(fd);
}

static inline struct egress_channel served(int mother_fd, const struct egress_order *o)
{
	struct egress_channel c = opened(mother_fd, o);

	give_socket(&c);
	return c;
}

static inline int dial(unsigned port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	return fd;
}

/* all that comes until the end */
static inline char *ask(unsigned port, const char *text, size_t len)
{
	static char out[8192];
	size_t at = 0;
	ssize_t n;
	int fd = dial(port);

	CHECK(send(fd, text, len, 0) == (ssize_t)len);
	while (at < sizeof(out) - 1 && (n = read(fd, out + at, sizeof(out) - 1 - at)) > 0)
		at += (size_t)n;
	out[at] = '\0';
	close(fd);
	return out;
}

/* one request with a whole URI, and how it was judged */
static inline uint32_t verdict_of(struct egress_channel *c, const char *uri,
				  char **out_text)
{
	struct egress_news n = {0};
	char text[512];
	char *got;

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", uri);
	got = ask(c->port, text, strlen(text));
	CHECK(news(c, &n) == 1 && n.type == EGRESS_CONNECTION);
	if (out_text)
		*out_text = got;
	return n.verdict;
}
