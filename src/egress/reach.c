/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reach.c - the rules asked, the name resolved once, the way to a checked address
 *
 * Runs in: a thread of a run's broker. A name is looked for in the rules before a
 * resolver hears of it: a question to a resolver is a message to whoever serves the name.
 * Where a proxy stands between, it resolves again and has the last word; what this host
 * resolves is checked all the same.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/defer.h"
#include "egress/broker.h"

#define ANSWERS_MOST 16
#define CONNECT_MS 10000
#define ONE_CONNECT_MS 4000

struct answers {
	struct address address[ANSWERS_MOST];
	unsigned count;
	unsigned refused; /* those that were not taken */
};

int reach_wait(int fd, short events, uint64_t until_ns)
{
	struct pollfd p = {.fd = fd, .events = events};
	int rc;

	do {
		const uint64_t now = broker_now_ns();

		if (now >= until_ns) {
			errno = ETIMEDOUT;
			return -1;
		}
		rc = poll(&p, 1, (int)((until_ns - now) / 1000000) + 1);
	} while (rc == 0 || (rc < 0 && errno == EINTR));
	return rc < 0 ? -1 : 0;
}

int reach_send(int fd, const void *bytes, size_t len, uint64_t until_ns)
{
	const char *at = bytes;

	while (len > 0) {
		const ssize_t n = send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			at += n;
			len -= (size_t)n;
		} else if ((n < 0 && errno != EAGAIN && errno != EINTR) ||
			   reach_wait(fd, POLLOUT, until_ns) < 0) {
			return -1;
		}
	}
	return 0;
}

enum how {
	AS_CHECKED, /* with a dot it is whole, whatever resolv.conf has of search lists: a
		     * domain behind it would make a name that no rule has seen */
	AS_HOST,    /* as this host's other programs */
};

/* every answer; -1: there is none. A last dot would say the same to DNS, but is in no
 * line of /etc/hosts; the options are this thread's */
static int resolve(const char *host, enum how how, struct answers *out)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *all, *i;

	memset(out, 0, sizeof(*out));
	if (res_init() < 0)
		return -1;
	if (how == AS_CHECKED && strchr(host, '.'))
		_res.options &= ~(unsigned long)RES_DNSRCH;
	if (getaddrinfo(host, NULL, &hints, &all) != 0)
		return -1;
	for (i = all; i && out->count < ANSWERS_MOST; i = i->ai_next)
		if (address_from_socket(i->ai_addr, &out->address[out->count]) == 0)
			out->count++;
	freeaddrinfo(all);
	return out->count ? 0 : -1;
}

/*
 * Leaves what may be reached. An index that the operator named may be private, as no
 * other name may: where all of them are, in a network of the operator's, so may be the
 * hosts that they name.
 */
static void check(struct broker *b, unsigned port, int reach, struct answers *a)
{
	const bool of_index = reach >= REACH_PRIVATE;
	unsigned i, kept = 0;

	for (i = 0; of_index && i < a->count; i++) {
		if (address_reach(&a->address[i]) == REACH_PUBLIC)
			b->index_public = true;
		else
			b->index_private = true;
	}
	if (!of_index && b->index_private && !b->index_public)
		reach = REACH_PRIVATE;
	for (i = 0; i < a->count; i++)
		if (rules_address(&b->order.rules, &a->address[i], port, reach))
			a->address[kept++] = a->address[i];
	a->refused = a->count - kept;
	a->count = kept;
}

static int connect_one(const struct address *a, uint16_t port, uint64_t until_ns)
{
	struct sockaddr_storage to;
	const socklen_t len = address_to_socket(a, port, &to);
	const uint64_t own_ns = broker_now_ns() + ONE_CONNECT_MS * 1000000ull;
	auto_fd int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
				0);
	int error = 0;
	socklen_t size = sizeof(error);

	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&to, len) == 0)
		return take_fd(&fd);
	if (errno != EINPROGRESS ||
	    reach_wait(fd, POLLOUT, own_ns < until_ns ? own_ns : until_ns) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error)
		return -1;
	return take_fd(&fd);
}

static int connect_any(const struct answers *a, uint16_t port)
{
	const uint64_t until_ns = broker_now_ns() + CONNECT_MS * 1000000ull;
	int fd = -1;

	for (unsigned i = 0; fd < 0 && i < a->count; i++)
		fd = connect_one(&a->address[i], port, until_ns);
	return fd;
}

static int ask_tunnel(int fd, const struct upstream *u, const struct proxy_request *r)
{
	const bool six = r->host.is_address && !address_is_ipv4(&r->host.address);
	const uint64_t until_ns = broker_now_ns() + CONNECT_MS * 1000000ull;
	char text[NAME_ROOM * 2 + sizeof(u->credentials) + 128], answer[4096];
	size_t len = 0;
	int status = 0, used;

	snprintf(text, sizeof(text),
		 "CONNECT %s%s%s:%u HTTP/1.1\r\nHost: %s%s%s:%u\r\n%s%s%s\r\n",
		 six ? "[" : "", r->host.text, six ? "]" : "", r->port, six ? "[" : "",
		 r->host.text, six ? "]" : "", r->port,
		 u->credentials[0] ? "Proxy-Authorization: Basic " : "", u->credentials,
		 u->credentials[0] ? "\r\n" : "");
	if (reach_send(fd, text, strlen(text), until_ns) < 0)
		return -1;
	/* byte by byte at its end: what follows the head is the host's */
	while ((used = proxy_http_status(answer, len, &status)) == PROXY_MORE) {
		if (len == sizeof(answer) || reach_wait(fd, POLLIN, until_ns) < 0 ||
		    recv(fd, answer + len, 1, 0) != 1)
			return -1;
		len++;
	}
	return used > 0 && status >= 200 && status < 300 ? 0 : -1;
}

/* what is checked is what this host resolves; a proxy may know names that it does not */
static enum egress_verdict reach_by(struct broker *b, const struct proxy_request *r,
				    int reach, const struct upstream *u, int *out_fd)
{
	struct answers a;
	auto_fd int fd = -1;

	if (resolve(r->host.text, AS_CHECKED, &a) == 0) {
		check(b, r->port, reach, &a);
		if (a.refused)
			return EGRESS_BAD_ADDRESS;
	}
	if (resolve(u->host, AS_HOST, &a) < 0)
		return EGRESS_NOT_CONNECTED;
	fd = connect_any(&a, u->port);
	/* nobody here knows where chunks end, and behind them might stand a request for
	 * another host: it must not be the proxy who reads it */
	if (fd < 0 ||
	    ((r->kind != PROXY_PLAIN || r->chunked) && ask_tunnel(fd, u, r) < 0))
		return EGRESS_NOT_CONNECTED;
	*out_fd = take_fd(&fd);
	return EGRESS_OK;
}

enum egress_verdict reach_host(struct broker *b, const struct proxy_request *r,
			       int *out_fd, const struct upstream **out_via)
{
	const int reach = rules_host(&b->order.rules, &r->host, r->port);
	struct answers a;
	int fd;

	if (reach < 0)
		return EGRESS_NOT_LISTED;
	*out_via = upstream_for(b->world, r->kind, &r->host);
	if (*out_via)
		return reach_by(b, r, reach, *out_via, out_fd);
	if (resolve(r->host.text, AS_CHECKED, &a) < 0)
		return EGRESS_NOT_RESOLVED;
	check(b, r->port, reach, &a);
	if (a.count == 0)
		return EGRESS_BAD_ADDRESS;
	fd = connect_any(&a, r->port);
	if (fd < 0)
		return EGRESS_NOT_CONNECTED;
	*out_fd = fd;
	return EGRESS_OK;
}
