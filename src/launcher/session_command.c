/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_command.c - the commands in a session, and what they write
 *
 * Runs in: the launcher. A command has a slot as a run has, which is made for it and goes
 * when nothing of it is alive: a command that has ended may leave something behind.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher.h"
#include "launcher/session_parts.h"

#define MS 1000000ull
#define EMPTY_MS 500 /* between looks whether what commands left has ended */

/* ---- answers ---- */

void session_tell_done(struct launcher *l, uint64_t run)
{
	struct message m = {.type = MSG_DONE, .run = run};

	m.outcome.verdict = VERDICT_OK;
	m.outcome.violations = VIOLATIONS_ALL;
	launcher_send(l, &m, NULL);
}

void session_tell_failed(struct launcher *l, uint64_t run, const char *step, int num)
{
	struct message m = {.type = MSG_FAILED, .run = run};

	m.failure.num = num;
	m.failure.busy = num == EBUSY;
	m.failure.lost_layer = l->lost.now ? l->lost.layer + 1 : 0;
	snprintf(m.failure.step, sizeof(m.failure.step), "%s", step);
	launcher_send(l, &m, NULL);
}

void session_tell_ended(struct launcher *l, const uint8_t key[SESSION_KEY])
{
	struct message m = {.type = MSG_SESSION};

	memcpy(m.session_key, key, SESSION_KEY);
	launcher_send(l, &m, NULL);
}

/* somebody further up may still be in it: freed when the loop has its turn */
struct buried {
	struct loop_timer timer; /* its owner's first bytes are no longer of use */
	void *what;
};

static void on_bury(void *arg)
{
	struct buried *b = arg;

	free(b->what);
	free(b);
}

void session_bury(struct launcher *l, void *what)
{
	struct buried *b = mem_zero(sizeof(*b));

	b->what = what;
	b->timer.fn = on_bury;
	b->timer.arg = b;
	loop_timer_at(l->loop, &b->timer, 0);
}

void session_look_soon(struct session *s, uint64_t ms)
{
	const uint64_t at = loop_now_ns() + ms * MS;

	if (!s->look.place || s->look.due_ns > at)
		loop_timer_at(s->launcher->loop, &s->look, at);
}

static void close_asked(struct command *c)
{
	defer_close(&c->asked.fds[RUN_INPUT]);
	defer_close(&c->asked.fds[RUN_EGRESS]);
	c->asked.fds[RUN_INPUT] = c->asked.fds[RUN_EGRESS] = -1;
}

void session_command_free(struct command *c)
{
	struct session *s = c->slot.session;
	struct command **at = &s->commands;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	run_clear(&c->slot.run);
	slot_unbuild(&c->slot);
	loop_timer_stop(s->launcher->loop, &c->slot.retry);
	close_asked(c);
	s->launcher->sessions.places--;
	session_bury(s->launcher, c);
}

/* ---- commands ---- */

static void tell_open(struct session *s, uint64_t run)
{
	struct message m = {.type = MSG_DONE, .run = run};

	m.outcome.verdict = VERDICT_OK;
	m.outcome.violations = VIOLATIONS_ALL;
	session_disk_tell(s, &m.outcome);
	launcher_send(s->launcher, &m, NULL);
}

void session_command_go(struct command *c)
{
	struct session *s = c->slot.session;

	if (c->asked.message.plan.session == SESSION_OPEN) {
		tell_open(s, c->asked.message.run);
		session_command_free(c);
		return;
	}
	slot_build(&c->slot);
	session_look_soon(s, 0);
}

void session_slot_ready(struct slot *slot)
{
	struct command *c = (struct command *)slot;
	bool over;

	if (!session_entered(slot)) {
		/* one that ends before it began gets no process 1, which nobody would
		 * end */
		if (slot->session->state != SESSION_ENDING)
			session_hold(slot);
		return;
	}
	if (c->cancelled) {
		session_command_free(c);
		return;
	}
	if (!c->wants_ns)
		c->wants_ns = loop_now_ns();
	c->waits = session_disk_wait(slot->session, c->wants_ns);
	if (c->waits)
		return;
	over = session_disk_over(slot->session);
	if (session_disk_never(slot->session)) {
		session_tell_failed(slot->launcher, c->asked.message.run, "session_disk",
				    EDQUOT);
		session_command_free(c);
		return;
	}
	c->started = true;
	if (over)
		c->asked.message.plan.limits.disk_mb = 0; /* of a file */
	slot_start_run(slot, &c->asked.message, c->asked.fds, c->asked.arrived_ns);
	close_asked(c);
}

void session_commands_go_on(struct launcher *l)
{
	struct session *s;
	struct command *c, *next;

	for (s = l->sessions.first; s; s = s->next) {
		for (c = s->commands; c; c = next) {
			next = c->next;
			if (c->waits)
				session_slot_ready(&c->slot);
		}
	}
}

void session_slot_over(struct slot *slot)
{
	struct command *c = (struct command *)slot;
	struct session *s = slot->session;

	if (!session_entered(slot)) {
		session_ended(&slot->run);
		return;
	}
	slot_drop_worker(slot);
	if (c->waits && !c->cancelled) /* its worker died meanwhile */
		session_tell_failed(s->launcher, c->asked.message.run, "worker", ECHILD);
	c->started = c->waits = false;
	if (session_command_gone(c)) {
		session_command_free(c);
	} else {
		c->lingers = true;
		slot->state = SLOT_FREE;
		loop_timer_stop(s->launcher->loop, &slot->run.timer);
	}
	session_look_soon(s, s->state == SESSION_ENDING ? 0 : EMPTY_MS);
}

void session_left_over(struct slot *slot)
{
	session_look_soon(slot->session, 0);
}

static unsigned command_number(const struct session *s, unsigned *out_count)
{
	const struct command *c;
	unsigned n = 0;
	bool again = true;

	for (*out_count = 0, c = s->commands; c; c = c->next)
		(*out_count)++;
	while (again) {
		again = false;
		for (c = s->commands; c; c = c->next)
			again = again || c->slot.n == n;
		n += again;
	}
	return n;
}

void session_command_new(struct session *s, const struct message *m, int *fds,
			 uint64_t arrived_ns)
{
	struct command *c;
	unsigned count, n = command_number(s, &count);

	if (count >= SESSION_COMMANDS) {
		session_tell_failed(s->launcher, m->run, "session_commands", EBUSY);
		return;
	}
	c = mem_zero(sizeof(*c));
	slot_init(&c->slot, s->launcher, n);
	c->slot.uid = s->slot.uid;
	c->slot.gid = s->slot.gid;
	c->slot.session = s;
	c->asked.message = *m;
	/* it finds the session's, and makes none */
	c->asked.message.plan.network = NETWORK_NONE;
	c->asked.message.plan.root = s->stack.root;
	c->asked.fds[RUN_INPUT] = take_fd(&fds[RUN_INPUT]);
	c->asked.fds[RUN_EGRESS] = -1;
	c->asked.arrived_ns = arrived_ns;
	c->next = s->commands;
	s->commands = c;
	s->used_ns = loop_now_ns();
	s->launcher->sessions.places++;
	if (s->state == SESSION_READY)
		session_command_go(c);
}

bool session_kill(struct launcher *l, uint64_t run)
{
	struct session *s;
	struct command *c;

	for (s = l->sessions.first; s; s = s->next) {
		if (session_late_kill(s, run))
			return true;
		for (c = s->commands; c; c = c->next) {
			if (c->started && c->slot.run.id == run) {
				c->slot.run.killed = true;
				run_kill(&c->slot.run);
				return true;
			}
			if (c->started || c->lingers || c->cancelled ||
			    c->asked.message.run != run)
				continue;
			session_tell_failed(l, run, "killed", ECANCELED);
			c->cancelled = true;
			if (c->slot.state == SLOT_EMPTY)
				session_command_free(c);
			return true;
		}
	}
	return false;
}
