/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sweep.c - the end of sessions that nobody uses, and of those that are old
 *
 * Runs in: the server. A restart counts as use: when one was used last is not kept.
 */
#include "session/store.h"

#include <string.h>

#include "base/err.h"
#include "base/log.h"

#define SWEEP_NS 5000000000ull

static bool is_over(const struct sessions *s, const struct session *one, uint64_t now)
{
	if (one->closing || strcmp(one->id, s->own) == 0)
		return false;
	if (s->lifetime_sec && now >= one->created_sec + s->lifetime_sec)
		return true;
	return s->idle_sec && !one->busy && now >= one->used_sec + s->idle_sec;
}

static void on_sweep(void *arg)
{
	struct sessions *s = arg;
	const uint64_t now = store_now_sec();
	uint64_t step = SWEEP_NS;
	struct session *one, *next;
	struct err e;

	for (one = s->first; one; one = next) {
		next = one->next;
		if (!is_over(s, one, now))
			continue;
		log_info("session.expired", "session=%s", one->id);
		if (session_close_one(s, one, NULL, &e) < 0)
			log_debug("session.expired", "error=\"%s\"", e.text);
	}
	/* short times are for who tries them out */
	if ((s->idle_sec && s->idle_sec < 10) ||
	    (s->lifetime_sec && s->lifetime_sec < 10))
		step = SWEEP_NS / 10;
	loop_timer_at(s->loop, &s->sweep, loop_now_ns() + step);
}

void sweep_start(struct sessions *s)
{
	s->sweep.fn = on_sweep;
	s->sweep.arg = s;
	if (s->idle_sec || s->lifetime_sec)
		loop_timer_at(s->loop, &s->sweep, loop_now_ns());
}
