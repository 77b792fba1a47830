/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * times.c - how long a connection may take for what it does
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <mongoose.h>

#include "base/err.h"
#include "http/conn.h"

#define SEC_NS UINT64_C(1000000000)
enum {
	HEAD_SEC = 5, /* from a head's first byte to its last */
	BODY_STALL_SEC = 15,
	RATE_AFTER_SEC = 10, /* from then on at least ... */
	RATE_BYTES = 8192,   /* ... this a second, in and out */
	IDLE_SEC = 60,
	WRITE_STALL_SEC = 10,
	LINGER_SEC = 1,
};

/* we do not read from it, so nothing tells us that the client went away */
static bool hung_up(const struct conn *k)
{
	struct tcp_info info;
	socklen_t len = sizeof(info);

	return getsockopt((int)(size_t)k->c->fd, IPPROTO_TCP, TCP_INFO, &info, &len) ==
		       0 &&
	       info.tcpi_state == TCP_CLOSE_WAIT;
}

static bool too_slow(uint64_t bytes, uint64_t ns)
{
	uint64_t sec = ns / SEC_NS;

	return sec >= RATE_AFTER_SEC && bytes < sec * RATE_BYTES;
}

static void time_out(struct conn *k, const char *what)
{
	struct err e;

	if (k->state == CONN_HEAD)
		auth_request_id((struct span){0}, k->request_id);
	err_client(&e, 408, "request_timeout", "the request's %s took too long", what);
	answer_refusal(k, &e);
}

void times_check(struct conn *k, uint64_t now_ns)
{
	uint64_t age = now_ns - k->since_ns, still = now_ns - k->progress_ns;

	switch (k->state) {
	case CONN_HEAD:
		if (k->head.len && age > HEAD_SEC * SEC_NS)
			time_out(k, "head");
		else if (!k->head.len && age > (k->h->draining ? 1 : IDLE_SEC) * SEC_NS)
			conn_close(k);
		break;
	case CONN_BODY:
		if (still > BODY_STALL_SEC * SEC_NS || too_slow(k->body.len, age))
			time_out(k, "body");
		break;
	case CONN_STREAM:
	case CONN_WRITE:
		if (answer_unsent(k) && still > WRITE_STALL_SEC * SEC_NS)
			conn_close(k);
		else if (k->state == CONN_STREAM && k->call)
			on_mcp_tick(k, now_ns);
		if (k->state == CONN_WRITE && too_slow(k->out_sent + k->tail_sent, age))
			conn_close(k);
		break;
	case CONN_LINGER:
		if (age > LINGER_SEC * SEC_NS)
			conn_close(k);
		break;
	case CONN_BUSY:
		break;
	}
	if (k->deaf && hung_up(k))
		conn_close(k);
}
