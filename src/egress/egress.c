/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * egress.c - the server's side of the egress broker
 *
 * Runs in: the server, and whoever else starts runs. Nothing here waits.
 */
#include "egress/egress.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/defer.h"
#include "base/fdpass.h"
#include "base/fs.h"
#include "egress/broker.h"

const char *egress_verdict_name(uint32_t verdict)
{
	static const char *const names[] = {
		[EGRESS_OK] = "ok",
		[EGRESS_BAD_REQUEST] = "bad_request",
		[EGRESS_BAD_NAME] = "bad_name",
		[EGRESS_NOT_LISTED] = "not_listed",
		[EGRESS_BAD_ADDRESS] = "bad_address",
		[EGRESS_BAD_TLS_NAME] = "bad_tls_name",
		[EGRESS_NO_SECRET] = "no_secret",
		[EGRESS_NOT_RESOLVED] = "not_resolved",
		[EGRESS_NOT_CONNECTED] = "not_connected",
		[EGRESS_TOO_MANY] = "too_many",
		[EGRESS_TOO_MUCH] = "too_much",
		[EGRESS_TOO_SLOW] = "too_slow",
	};

	static_assert(sizeof(names) / sizeof(names[0]) == EGRESS_VERDICTS,
		      "a verdict lacks its name");
	return verdict < EGRESS_VERDICTS ? names[verdict] : "unknown";
}

int egress_open(int mother_fd, const struct egress_order *o, struct egress_channel *out)
{
	const uint32_t word = MOTHER_ORDER;
	auto_fd int order_fd = fs_sealed("egress", o, sizeof(*o));
	int control[2] = {-1, -1}, run[2] = {-1, -1}, fds[3];
	int rc = -1;

	if (order_fd >= 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0 &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, run) == 0) {
		fds[0] = order_fd;
		fds[1] = control[1];
		fds[2] = run[1];
		rc = fdpass_send(mother_fd, &word, sizeof(word), fds, 3);
	}
	defer_close(&control[1]);
	defer_close(&run[1]);
	if (rc < 0) {
		defer_close(&control[0]);
		defer_close(&run[0]);
		return -1;
	}
	*out = (struct egress_channel){.control_fd = control[0], .run_fd = run[0]};
	return 0;
}

static void count(struct egress_channel *c, const struct egress_news *n)
{
	if (n->type == EGRESS_LISTENS) {
		c->port = n->port;
		return;
	}
	if (n->verdict == EGRESS_OK || n->sent_bytes || n->received_bytes)
		c->count.connections++;
	else
		c->count.refused++;
	c->count.sent_bytes += n->sent_bytes;
	c->count.received_bytes += n->received_bytes;
}

int egress_read(struct egress_channel *c, struct egress_news *out)
{
	int fds[FDPASS_MAX], rc;
	struct egress_news n = {0};
	size_t i, fd_count;

	rc = fdpass_receive(c->control_fd, &n, sizeof(n), fds, &fd_count, FDPASS_NOW);
	if (rc != 1)
		return rc;
	for (i = 0; i < fd_count; i++)
		close(fds[i]);
	if (fd_count || n.type == 0 || n.type >= EGRESS_NEWS_TYPES ||
	    n.verdict >= EGRESS_VERDICTS || !memchr(n.host, 0, sizeof(n.host))) {
		errno = EPROTO;
		return -1;
	}
	count(c, &n);
	*out = n;
	return 1;
}

void egress_end(struct egress_channel *c)
{
	if (c->control_fd >= 0)
		shutdown(c->control_fd, SHUT_WR);
}

void egress_close(struct egress_channel *c)
{
	defer_close(&c->control_fd);
	defer_close(&c->run_fd);
	c->control_fd = c->run_fd = -1;
}
