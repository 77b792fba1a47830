/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * unread.c - answers in memory that their clients have not read yet
 *
 * What can be asked for again, as a file can, is refused while there is no room for it:
 * so nobody's download ends for another. A program's result comes once, and is taken even
 * then; who has his part of the room waits with new programs. Only when such results
 * alone are half as much again does an answer go: the largest of the token that holds
 * most.
 */
#include <mongoose.h>

#include "base/err.h"
#include "base/log.h"
#include "http/clients.h"
#include "http/conn.h"

void unread_hold(struct conn *k, size_t bytes)
{
	k->held = bytes;
	k->h->unsent_bytes += bytes;
	if (k->client)
		k->client->held += bytes;
}

void unread_drop(struct conn *k)
{
	k->h->unsent_bytes -= k->held;
	if (k->client)
		k->client->held -= k->held;
	k->held = 0;
}

static int refuse(struct err *e)
{
	return err_client(e, 503, "busy", "too many answers have not been read yet");
}

static int refuse_token(struct err *e)
{
	return err_client(e, 503, "busy",
			  "too many answers to this token have not been read yet");
}

static uint64_t held_by(const struct conn *k)
{
	return k->client ? k->client->held : 0;
}

/* what one token may hold when it asks for more */
static uint64_t share(const struct http_server *h)
{
	return h->unsent_budget - h->unsent_budget / 4;
}

/* above this answers go */
static uint64_t limit(const struct http_server *h)
{
	return h->unsent_budget + h->unsent_budget / 2;
}

int unread_admit(const struct conn *k, struct err *e)
{
	const struct http_server *h = k->h;
	const bool has_much = held_by(k) > h->unsent_budget / 8;

	if (held_by(k) > share(h))
		return refuse_token(e);
	/* what others hold is no reason to refuse who holds little */
	return h->unsent_bytes > (has_much ? h->unsent_budget : limit(h)) ? refuse(e) : 0;
}

/* one that nobody is in the way of has room, whatever its size */
int unread_room(const struct conn *k, size_t bytes, struct err *e)
{
	const struct http_server *h = k->h;

	if (bytes <= COPIED_BODY_BYTES)
		return 0;
	if (held_by(k) && held_by(k) + bytes > share(h))
		return refuse_token(e);
	return h->unsent_bytes && h->unsent_bytes + bytes > h->unsent_budget ? refuse(e)
									     : 0;
}

/* mongoose has the newest first */
static bool goes_before(const struct conn *a, const struct conn *b)
{
	return held_by(a) > held_by(b) || (held_by(a) == held_by(b) && a->held > b->held);
}

void unread_shed(struct http_server *h)
{
	while (h->unsent_bytes > limit(h)) {
		struct conn *first = NULL;

		for (struct mg_connection *c = h->mgr->conns; c; c = c->next) {
			struct conn *k = c->fn_data;

			if (k->held && (!first || goes_before(k, first)))
				first = k;
		}
		if (!first)
			return;
		log_info("request.cut", LOG_IDS " bytes=%zu token?=%s", CONN_IDS(first),
			 first->held, first->client ? first->client->name : "");
		answer_forget(first);
		conn_close(first);
	}
}
