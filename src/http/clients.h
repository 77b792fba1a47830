/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * clients.h - who has a token, and what it uses at the moment
 *
 * A client is a name of the token file. It outlives the file it came from for as long as
 * one of its requests does: a rolled file takes nothing from those that are under way.
 */
#ifndef HTTP_CLIENTS_H
#define HTTP_CLIENTS_H

#include <stdint.h>

#include "config/tokens.h"
#include "http/admit.h"

struct err;

struct client {
	struct client *next;
	char name[TOKEN_NAME];
	unsigned refs; /* requests */
	bool listed;   /* in the present file */
	uint32_t concurrency, rate, rate_ms;
	uint32_t sessions; /* that it may keep */
	unsigned running;  /* requests that a job works for */
	uint64_t held;     /* bytes of answers that it has not read yet */
	uint64_t spent_ns; /* until then its requests are paid for, see client_rate() */
};

struct clients;

struct clients *clients_new(const struct tokens *t);
void clients_free(struct clients *c);
/* another file: counts go on for the names that are there still */
void clients_set(struct clients *c, const struct tokens *t);
/* NULL: nobody's. Takes as long for a wrong token as for a right one */
struct client *clients_find(const struct clients *c, struct span token);
size_t clients_count(const struct clients *c); /* tokens */

void client_hold(struct client *one);
void client_drop(struct clients *c, struct client *one);
/* counts a request: 0, or -1, 429 rate_limited and in how many seconds there is room */
int client_rate(struct client *one, uint64_t now_ns, unsigned *out_wait_sec,
		struct err *e);
/* 0, or -1 and 429 token_at_capacity; NULL may */
int client_may_run(const struct client *one, struct err *e);

#endif
