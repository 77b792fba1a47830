/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * egress.h - the server's side of the egress broker
 *
 *	server   egress_open() for a run that has network: an order to the broker's
 *	         mother, who forks a broker of that run
 *	run      its child, in a network namespace of its own, makes a listening socket
 *	         at EGRESS_PORT, sends it over channel.run_fd and closes it; programs
 *	         find it as http://127.0.0.1:EGRESS_PORT
 *	         that of a session stays: run_fd is kept, for each process 1 to come
 *	broker   accepts from outside, speaks HTTP (CONNECT and whole URIs) and SOCKS5,
 *	         asks the rules, resolves once, connects to what it has checked, and tells
 *	server   egress_read() as news come; egress_end() when the run is over, then
 *	         the rest of the news until the end of file
 */
#ifndef EGRESS_EGRESS_H
#define EGRESS_EGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "egress/rules.h"
#include "wire/plan.h"

#define EGRESS_PORT NETWORK_PORT
#define EGRESS_SECRET 65

enum egress_verdict {
	EGRESS_OK,
	EGRESS_BAD_REQUEST,  /* no protocol of a proxy, or not as it should be */
	EGRESS_BAD_NAME,     /* a host that name.h refuses */
	EGRESS_NOT_LISTED,   /* host or port */
	EGRESS_BAD_ADDRESS,  /* what the name leads to may not be reached */
	EGRESS_BAD_TLS_NAME, /* TLS for another host than asked for */
	EGRESS_NO_SECRET,    /* without the credentials of this broker */
	EGRESS_NOT_RESOLVED,
	EGRESS_NOT_CONNECTED,
	EGRESS_TOO_MANY, /* connections */
	EGRESS_TOO_MUCH, /* bytes */
	EGRESS_TOO_SLOW, /* nothing came for too long */
	EGRESS_VERDICTS
};
const char *egress_verdict_name(uint32_t verdict); /* "not_listed" */

/* what one broker is told */
struct egress_order {
	uint32_t connections; /* at the same time */
	uint32_t time_ms;     /* then it ends, whatever comes; but see stays */
	uint64_t bytes;       /* of all connections, both ways */
	/* 1: no socket comes; it listens on this host's loopback, and tells the port */
	uint32_t listens;
	/* 1: a session's, which ends with the server's end alone; each socket that comes
	 * takes the place of the one before, as its processes begin anew */
	uint32_t stays;
	char secret
		[EGRESS_SECRET]; /* "": none; else the password that clients must know */
	struct rules rules;
};

enum egress_news_type {
	EGRESS_LISTENS = 1, /* .port */
	EGRESS_CONNECTION,  /* one is over, or was refused */
	EGRESS_NEWS_TYPES
};

struct egress_news {
	uint32_t type;
	uint32_t verdict; /* enum egress_verdict */
	uint32_t port;
	uint32_t ms;
	uint64_t sent_bytes, received_bytes;
	char host[NAME_ROOM]; /* "": not known */
};

struct egress_count {
	uint64_t connections, refused; /* together: all there were */
	uint64_t sent_bytes, received_bytes;
};

struct egress_channel {
	int control_fd; /* to be watched: news */
	int run_fd;     /* for the run; -1 when the broker listens itself */
	unsigned port;  /* of EGRESS_LISTENS, 0 before */
	struct egress_count count;
};
#define EGRESS_NONE                            \
	{                                      \
		.control_fd = -1, .run_fd = -1 \
	}

/* 0, or -1 with errno: there is no broker. Does not wait */
int egress_open(int mother_fd, const struct egress_order *o, struct egress_channel *out);
/* one piece of news, which is counted: 1, 0 at the end, -1 with errno (EAGAIN) */
int egress_read(struct egress_channel *c, struct egress_news *out);
void egress_end(struct egress_channel *c);
void egress_close(struct egress_channel *c); /* also EGRESS_NONE */

#endif
