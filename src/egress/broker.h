/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * broker.h - the processes that connect for runs
 *
 *	mother.c      one at a time, forks a broker for each order of the server
 *	order.c       in a run's, first: may it be told that
 *	broker.c      a run's: accepts, counts, tells, ends
 *	connection.c  in a thread of that one: a client's words, the answer
 *	reach.c       in the same: the rules asked, the name resolved, the way there
 *	relay.c       in the same: bytes to and fro, within bounds
 *	upstream.c    the proxy by which this host itself reaches the world
 */
#ifndef EGRESS_BROKER_H
#define EGRESS_BROKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "egress/egress.h"
#include "egress/proxy.h"

struct err;

/* ---- upstream.c */

struct upstream {
	char host[NAME_ROOM]; /* "": none, connections are direct */
	uint16_t port;
	char credentials[512]; /* base64, behind "Basic "; "": none */
};

struct egress_world {
	struct upstream tunnel; /* for CONNECT and SOCKS5 */
	struct upstream plain;  /* for requests with a whole URI */
	struct rules direct;    /* hosts that are reached without, on any port */
	bool all_direct;
};

/* http://[user:password@]host[:port] */
int upstream_parse(const char *url, struct upstream *out, struct err *e);
/*
 * setting: SANDBOX_EGRESS_PROXY; NULL: what http_proxy, https_proxy, all_proxy and
 * no_proxy of the environment say, in either case; "none": direct
 */
int upstream_find(const char *setting, struct egress_world *out, struct err *e);
/* NULL: directly */
const struct upstream *upstream_for(const struct egress_world *w, enum proxy_kind kind,
				    const struct name *host);

/* ---- order.c */

/* the operator's word, whatever has become of the server */
struct egress_ceiling {
	struct rules runs;     /* SANDBOX_NETWORK */
	struct rules installs; /* of the indexes, and what these may name */
	bool listens;          /* installs may be at the level landlock */
};

enum order_fault {
	ORDER_FINE,
	ORDER_FRAME, /* size, descriptors */
	ORDER_NO_SENSE,
	ORDER_RULES,
	ORDER_LISTENS,
	ORDER_FAULTS
};

/* an order as it came from another process */
enum order_fault order_judge(const struct egress_order *o,
			     const struct egress_ceiling *most);
const char *order_fault_name(enum order_fault why); /* "rules" */

/* ---- mother.c: until the socket ends; the exit status. Confined before */
int mother_main(int socket_fd, const struct egress_world *w,
		const struct egress_ceiling *most);
#define MOTHER_ORDER 0x65677231u /* what a message to her is; with it come */
enum { ORDER_WHAT, ORDER_CONTROL, ORDER_RUN, ORDER_FDS };
#define MOTHER_BROKERS 512

/* ---- broker.c */

#define BROKER_CONNECTIONS 256   /* the most at the same time, */
#define BROKER_TOTAL 4096        /* and all together, */
#define BROKER_STAYS_TOTAL 65536 /* in the life of a session */

struct broker;

struct connection {
	struct broker *broker;
	bool used;
	int client_fd, server_fd;
	uint64_t began_ns;
	struct proxy_request request; /* host_ok: known */
	/* EGRESS_OK: not refused so far. Known before its client hears it: that one may
	 * end at once, and the broker with it */
	_Atomic enum egress_verdict refused;
	uint64_t
		may_send; /* behind the head: another proxy would read more as requests */
	_Atomic uint64_t sent_bytes, received_bytes; /* by the client */
};

struct broker {
	const struct egress_world *world;
	struct egress_order order;
	int control_fd, listen_fd;
	uint64_t deadline_ns;
	unsigned total, active;
	_Atomic uint64_t bytes_left;
	/* where the names of an install's indexes led so far */
	_Atomic bool index_private, index_public;
	pthread_mutex_t lock; /* of connection[].used and descriptors, active, and news */
	struct connection connection[BROKER_CONNECTIONS];
};

/* an order that is refused is the status by which it ends */
#define BROKER_REFUSES 64 /* + enum order_fault */
/* never returns; takes order, the server's end and the run's */
_Noreturn void broker_main(const struct egress_world *w,
			   const struct egress_ceiling *most, int fds[]);
uint64_t broker_now_ns(void);

/* ---- connection.c: the whole life of one; client_fd is its own */
enum egress_verdict connection_serve(struct connection *c);

/* ---- reach.c */

/* 0, or -1: until then it was not ready, or -1 at an error */
int reach_wait(int fd, short events, uint64_t until_ns);
int reach_send(int fd, const void *bytes, size_t len, uint64_t until_ns);
/* EGRESS_OK: *out_fd leads there; *out_via: by this proxy, which has agreed to it */
enum egress_verdict reach_host(struct broker *b, const struct proxy_request *r,
			       int *out_fd, const struct upstream **out_via);

/* ---- relay.c: until both sides have ended. tls: the only host that TLS may name, or
 * NULL; ahead: what the client has sent already */
/* these bytes are of those that the run may send and receive; false: it may not */
bool relay_charge(struct broker *b, size_t n);
enum egress_verdict relay(struct connection *c, const struct name *tls, const char *ahead,
			  size_t ahead_len);

#endif
