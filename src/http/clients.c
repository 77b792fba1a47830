/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * clients.c - who has a token, and what it uses at the moment
 */
#include "http/clients.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define MS_NS UINT64_C(1000000)
#define SEC_NS UINT64_C(1000000000)

struct clients {
	struct tokens *tokens;
	struct client **of; /* of each token */
	struct client *first;
};

static struct client *by_name(const struct clients *c, const char *name)
{
	struct client *one = c->first;

	while (one && strcmp(one->name, name) != 0)
		one = one->next;
	return one;
}

static void forget_unused(struct clients *c)
{
	struct client **at = &c->first;

	while (*at) {
		struct client *one = *at;

		if (one->listed || one->refs) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		free(one);
	}
}

static struct client *take(struct clients *c, const struct token *t)
{
	struct client *one = by_name(c, t->name);

	if (!one) {
		one = mem_zero(sizeof(*one));
		memcpy(one->name, t->name, sizeof(one->name));
		one->next = c->first;
		c->first = one;
	}
	one->listed = true;
	one->concurrency = t->concurrency;
	one->rate = t->rate;
	one->rate_ms = t->rate_ms;
	one->sessions = t->sessions ? t->sessions : TOKEN_SESSIONS;
	return one;
}

void clients_set(struct clients *c, const struct tokens *t)
{
	for (struct client *one = c->first; one; one = one->next)
		one->listed = false;
	*c->tokens = *t;
	for (size_t i = 0; i < t->count; i++)
		c->of[i] = take(c, &t->one[i]);
	forget_unused(c);
}

struct clients *clients_new(const struct tokens *t)
{
	struct clients *c = mem_zero(sizeof(*c));

	c->tokens = mem_zero(sizeof(*c->tokens));
	c->of = mem_array(TOKENS_MOST, sizeof(struct client *));
	clients_set(c, t);
	return c;
}

void clients_free(struct clients *c)
{
	if (!c)
		return;
	while (c->first) {
		struct client *one = c->first;

		c->first = one->next;
		free(one);
	}
	free(c->of);
	free(c->tokens);
	free(c);
}

size_t clients_count(const struct clients *c)
{
	return c->tokens->count;
}

/* every hash is compared whole, whether or not one was found */
struct client *clients_find(const struct clients *c, struct span token)
{
	uint8_t hash[SHA256_BYTES];
	size_t found = 0;

	token_hash(token.p, token.len, hash);
	for (size_t i = 0; i < c->tokens->count; i++) {
		unsigned differ = 0;

		for (size_t b = 0; b < SHA256_BYTES; b++)
			differ |= (unsigned)(hash[b] ^ c->tokens->one[i].hash[b]);
		/* all ones where nothing differs, without a branch */
		found |= (i + 1) & (0 - (size_t)((differ - 1) >> 31));
	}
	return found ? c->of[found - 1] : NULL;
}

void client_hold(struct client *one)
{
	one->refs++;
}

void client_drop(struct clients *c, struct client *one)
{
	one->refs--;
	if (!one->refs && !one->listed)
		forget_unused(c);
}

/* Each request costs its share of the time. A client that asked for nothing may be that
 * time ahead, with `rate` requests at once; then one by one as time goes by. */
int client_rate(struct client *one, uint64_t now_ns, unsigned *out_wait_sec,
		struct err *e)
{
	const uint64_t window_ns = one->rate_ms * MS_NS;
	uint64_t cost_ns, from_ns;

	if (!one->rate)
		return 0;
	cost_ns = window_ns / one->rate;
	from_ns = one->spent_ns > now_ns ? one->spent_ns : now_ns;
	if (from_ns + cost_ns > now_ns + window_ns) {
		*out_wait_sec = (unsigned)((from_ns + cost_ns - now_ns - window_ns +
					    SEC_NS - 1) /
					   SEC_NS);
		return err_client(e, 429, "rate_limited",
				  "more than %u requests in %u s with this token",
				  one->rate, one->rate_ms / 1000);
	}
	one->spent_ns = from_ns + cost_ns;
	return 0;
}

int client_may_run(const struct client *one, struct err *e)
{
	if (!one || !one->concurrency || one->running < one->concurrency)
		return 0;
	return err_client(e, 429, "token_at_capacity",
			  "at capacity (%u/%u concurrent executions of this token)",
			  one->running + 1, one->concurrency);
}
