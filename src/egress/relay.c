/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * relay.c - bytes to and fro, within bounds
 *
 * Runs in: a thread of a run's broker. Each way has one buffer; while it is not empty
 * nothing more is read, so that a slow reader slows its writer and nobody else.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "egress/broker.h"

#define IDLE_MS 300000
#define ROOM (5 + 16384) /* a record of TLS: to see the host it names */

/* one way */
struct way {
	int from_fd, to_fd;
	_Atomic uint64_t *count;
	uint64_t left;  /* that may be sent; what comes behind is passed over */
	size_t at, len; /* bytes[at..len) wait to be sent */
	bool held;      /* not to be sent before it is known what they are */
	bool ended;     /* nothing more comes; told to the other side when all is sent */
	bool closed;
	char bytes[ROOM];
};

/* the client's first bytes: EGRESS_OK and still held means that more are needed */
static enum egress_verdict look(struct way *w, const struct name *tls)
{
	struct name name = {.is_address = false};
	int rc;

	if (!w->held || w->len == 0 || !tls)
		return EGRESS_OK;
	rc = proxy_is_tls(w->bytes, w->len) ? proxy_tls_name(w->bytes, w->len, &name) : 1;
	if (rc == PROXY_MORE && !w->ended)
		return EGRESS_OK;
	w->held = false;
	if (!proxy_is_tls(w->bytes, w->len))
		return EGRESS_OK;
	/* one that names no host is sent to the one that was asked for */
	return rc > 0 && (!name.text[0] || strcmp(name.text, tls->text) == 0)
		       ? EGRESS_OK
		       : EGRESS_BAD_TLS_NAME;
}

bool relay_charge(struct broker *b, size_t n)
{
	uint64_t left = b->bytes_left;

	do {
		if (left < n)
			return false;
	} while (!atomic_compare_exchange_weak(&b->bytes_left, &left, left - n));
	return true;
}

static size_t cut(struct way *w, size_t n)
{
	if (n > w->left)
		n = (size_t)w->left;
	w->left -= n;
	return n;
}

static enum egress_verdict take(struct way *w, struct broker *b)
{
	const size_t begin = w->held ? w->len : 0;
	const ssize_t n = recv(w->from_fd, w->bytes + begin, ROOM - begin, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? EGRESS_OK
							 : EGRESS_NOT_CONNECTED;
	if (n == 0) {
		w->ended = true;
		return EGRESS_OK;
	}
	if (!relay_charge(b, (size_t)n))
		return EGRESS_TOO_MUCH;
	w->at = 0;
	w->len = begin + cut(w, (size_t)n);
	return EGRESS_OK;
}

static enum egress_verdict give(struct way *w)
{
	const ssize_t n = send(w->to_fd, w->bytes + w->at, w->len - w->at,
			       MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? EGRESS_OK
							 : EGRESS_NOT_CONNECTED;
	*w->count += (uint64_t)n;
	w->at += (size_t)n;
	if (w->at == w->len)
		w->at = w->len = 0;
	return EGRESS_OK;
}

static bool has_bytes(const struct way *w)
{
	return w->len > w->at && !w->held;
}

static bool wants_bytes(const struct way *w)
{
	return !w->ended && (w->held || w->len == 0);
}

/* its end, when everything before it was sent */
static void pass_end(struct way *w)
{
	if (w->ended && !w->closed && w->len == 0) {
		shutdown(w->to_fd, SHUT_WR);
		w->closed = true;
	}
}

static enum egress_verdict step(struct way *w, struct broker *b, const struct name *tls,
				short from, short to)
{
	enum egress_verdict v = EGRESS_OK;

	if (wants_bytes(w) && from)
		v = take(w, b);
	if (v == EGRESS_OK)
		v = look(w, tls);
	if (v == EGRESS_OK && has_bytes(w) && to)
		v = give(w);
	if (v == EGRESS_OK)
		pass_end(w);
	return v;
}

static short events_of(const struct way *in, const struct way *out)
{
	return (short)((wants_bytes(in) ? POLLIN : 0) | (has_bytes(out) ? POLLOUT : 0));
}

/* way[0]: from the client, way[1]: to it */
static enum egress_verdict run(struct way *way, struct broker *b, const struct name *tls)
{
	enum egress_verdict v = look(&way[0], tls);

	while (v == EGRESS_OK && !(way[0].closed && way[1].closed)) {
		struct pollfd p[2] = {
			{.fd = way[0].from_fd, .events = events_of(&way[0], &way[1])},
			{.fd = way[1].from_fd, .events = events_of(&way[1], &way[0])}};
		int rc, i;

		/* with nothing to wait for there, its end alone would wake us for ever */
		for (i = 0; i < 2; i++)
			if (!p[i].events)
				p[i].fd = -1;
		rc = poll(p, 2, IDLE_MS);
		if (rc == 0)
			return EGRESS_TOO_SLOW;
		if (rc < 0 && errno != EINTR)
			return EGRESS_NOT_CONNECTED;
		if (rc < 0)
			continue;
		v = step(&way[0], b, tls, p[0].revents, p[1].revents);
		if (v == EGRESS_OK)
			v = step(&way[1], b, tls, p[1].revents, p[0].revents);
	}
	/* whichever side broke it: there was a connection, and it is over */
	return v == EGRESS_NOT_CONNECTED ? EGRESS_OK : v;
}

enum egress_verdict relay(struct connection *c, const struct name *tls, const char *ahead,
			  size_t ahead_len)
{
	struct way *way;
	enum egress_verdict v;

	if (!relay_charge(c->broker, ahead_len))
		return EGRESS_TOO_MUCH;
	way = calloc(2, sizeof(*way));
	if (!way || ahead_len > ROOM) {
		free(way);
		return EGRESS_TOO_MANY;
	}
	way[0].from_fd = way[1].to_fd = c->client_fd;
	way[1].from_fd = way[0].to_fd = c->server_fd;
	way[0].left = c->may_send;
	way[1].left = UINT64_MAX;
	way[0].count = &c->sent_bytes;
	way[1].count = &c->received_bytes;
	way[0].held = tls;
	memcpy(way[0].bytes, ahead, ahead_len);
	way[0].len = cut(&way[0], ahead_len);
	v = run(way, c->broker, tls);
	free(way);
	return v;
}
