/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_order.c - what is done with all files of a session, when nothing of it is alive
 *
 * Runs in: the launcher. Nothing is copied: the layer that was written to is written to
 * no more, and who goes on gets an empty one on top of it. Each is one rename of the file
 * that names the layers; what was made for it before that is nobody's if we die on the
 * way.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "launcher/session_parts.h"

#define FLATTEN_DEPTH 24
#define UNMERGED_NS (60 * UINT64_C(1000000000))

struct session_order {
	struct session_order *next;
	struct message message;
};

bool session_orders(const struct plan *p)
{
	return p->session == SESSION_CLOSE || p->session == SESSION_FORK ||
	       p->session == SESSION_CHECKPOINT || p->session == SESSION_RESTORE;
}

static int carry_out(struct launcher *l, const struct plan *p)
{
	switch (p->session) {
	case SESSION_CLOSE:
		return session_dir_drop(l, p->session_key);
	case SESSION_FORK:
		return session_dir_fork(l, p->session_key, p->other_key, p->count);
	case SESSION_CHECKPOINT:
		return session_dir_checkpoint(l, p->session_key, p->other_key);
	case SESSION_RESTORE:
		return session_dir_restore(l, p->session_key, p->other_key);
	default:
		errno = EINVAL;
		return -1;
	}
}

static const char *step_of(const struct plan *p)
{
	return p->session == SESSION_CLOSE     ? "session_remove"
	       : p->session == SESSION_RESTORE ? "session_restore"
					       : "session_files";
}

int session_unmerged(const struct launcher *l, const uint8_t key[SESSION_KEY])
{
	const struct session_unmerged *u = l->sessions.unmerged;
	const uint64_t now = loop_now_ns();
	unsigned i;

	for (i = 0; i < SESSIONS_UNMERGED; i++)
		if (now < u[i].until_ns && memcmp(u[i].key, key, SESSION_KEY) == 0)
			return u[i].num;
	return 0;
}

void session_not_merged(struct launcher *l, const uint8_t key[SESSION_KEY], int num)
{
	struct sessions *s = &l->sessions;
	struct session_unmerged *u = &s->unmerged[s->unmerged_next++ % SESSIONS_UNMERGED];

	memcpy(u->key, key, SESSION_KEY);
	u->num = num;
	u->until_ns = loop_now_ns() + UNMERGED_NS;
}

static void obey_one(struct launcher *l, const struct message *m)
{
	const int why = session_unmerged(l, m->plan.session_key);

	if (carry_out(l, &m->plan) == 0)
		session_tell_done(l, m->run);
	else if (errno == EMLINK && why)
		session_tell_failed(l, m->run, "session_merge", why);
	else
		session_tell_failed(l, m->run, step_of(&m->plan), errno);
	/* also what is too deep to be frozen: the next one who asks finds it flat */
	if (session_dir_depth(l, m->plan.session_key) > FLATTEN_DEPTH)
		session_flatten(l, m->plan.session_key);
}

void session_obey(struct session *s)
{
	struct session_order *o;

	while ((o = s->orders)) {
		s->orders = o->next;
		obey_one(s->launcher, &o->message);
		free(o);
	}
}

/* what a command left behind may be ended; a command that somebody waits for may not */
static bool is_busy(const struct session *s)
{
	const struct command *c = s->commands;

	while (c && (c->lingers || c->cancelled))
		c = c->next;
	return c;
}

void session_order(struct launcher *l, struct session *s, const struct message *m)
{
	struct session_order **at, *o;

	if (!s) {
		obey_one(l, m);
		return;
	}
	if (m->plan.session != SESSION_CLOSE && !m->plan.force &&
	    s->state != SESSION_ENDING && is_busy(s)) {
		session_tell_failed(l, m->run, "session_busy", EBUSY);
		return;
	}
	o = mem_zero(sizeof(*o));
	o->message = *m;
	for (at = &s->orders; *at; at = &(*at)->next)
		;
	*at = o;
	if (m->plan.session == SESSION_CLOSE)
		session_late_refuse(s); /* nobody opens it anew on the way */
	if (s->state != SESSION_ENDING)
		session_end(s, "session_end", ECANCELED);
}
