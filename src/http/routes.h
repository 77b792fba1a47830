/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * routes.h - method and path choose a handler
 */
#ifndef HTTP_ROUTES_H
#define HTTP_ROUTES_H

#include <stdbool.h>

#include "http/admit.h"

struct conn;
struct err;

enum {
	ROUTE_QUIET = 1, /* logged at debug only */
	ROUTE_FREE = 2,  /* a probe: needs no token */
	ROUTE_PROBE = ROUTE_QUIET | ROUTE_FREE,
};

struct route {
	const char *path; /* as the log names it */
	unsigned methods; /* bits by enum http_method */
	bool below;       /* paths below it too */
	unsigned flags;   /* ROUTE_... */
	/* NULL or a look at the head before the body is read: 0, or -1 and *e */
	int (*admit)(struct conn *k, struct err *e);
	/* the body is complete; answers, or keeps the connection waiting */
	void (*handle)(struct conn *k);
	/* NULL, or a look at what follows the path: 0, or -1 and *e */
	int (*check)(const char *below, size_t len, struct err *e);
};

/* *e: 404 not_found, 405 method_not_allowed, or what check says */
const struct route *routes_find(enum http_method method, struct span path, struct err *e);
const struct route *routes_at(size_t i); /* NULL: there are no more */
/* "GET, HEAD" for the Allow header of a 405; "" for a path that is not there */
const char *routes_allow(struct span path);

#endif
