/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loop.c - messages in, events out
 *
 * Runs in: the launcher, from exec to exit. The server is not trusted: a message that is
 * not exactly as wire/message.h says ends the conversation, and one that asks for what
 * there is not (launcher/refusal.c) is refused; both are counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/engine.h"
#include "launcher/fork.h"
#include "launcher/launcher.h"
#include "launcher/refusal.h"

#define REFUSED_LOGGED 16     /* each; then the powers of two */
#define TELL_NS 1000000000ull /* the server hears of them that much later, all at once */
#define WAKE_MESSAGES 64   /* then deadlines have their turn, whatever the server sends */
#define UNSENT_REFUSED 256 /* of commands in sessions, which have no place: two each */
#define UNSENT_EACH \
	8 /* for a slot, beside violations: more than its run and the one that
			 waits can say */

static void server_lost(struct launcher *l)
{
	/* it has closed its end, as it does when it goes: reading would say no more */
	if (errno != EPIPE)
		log_error("server.lost", "error=\"%s\"", strerror(errno));
	loop_stop(l->loop);
}

static void send_unsent(struct launcher *l)
{
	struct unsent *u;
	int i;

	while ((u = l->unsent)) {
		if (message_send(l->server_fd, &u->message, u->fds) < 0) {
			if (errno != EAGAIN)
				server_lost(l);
			return;
		}
		l->unsent = u->next;
		l->unsent_count--;
		for (i = 0; i < MESSAGE_FDS; i++)
			defer_close(&u->fds[i]);
		free(u);
	}
	loop_change(l->loop, l->server_fd, EPOLLIN);
}

/*
 * A server that is busy with something long: a few messages for each slot pile up. One
 * that asks for more and more without reading what it is told is not ours any longer.
 */
static void keep_unsent(struct launcher *l, const struct message *m, const int *fds)
{
	struct unsent *u, **last = &l->unsent;
	uint32_t i;

	if (l->unsent_count >=
	    UNSENT_REFUSED + (UNSENT_EACH + notify_most(l->setup)) *
				     (l->slot_count + l->sessions.places)) {
		errno = ENOBUFS;
		server_lost(l);
		return;
	}
	l->unsent_count++;
	u = mem_zero(sizeof(*u));
	u->message = *m;
	for (i = 0; i < MESSAGE_FDS; i++)
		u->fds[i] = fds && i < m->fds ? fcntl(fds[i], F_DUPFD_CLOEXEC, 0) : -1;
	while (*last)
		last = &(*last)->next;
	*last = u;
	loop_change(l->loop, l->server_fd, EPOLLIN | EPOLLOUT);
}

void launcher_send(struct launcher *l, const struct message *m, const int *fds)
{
	if (!l->unsent && message_send(l->server_fd, m, fds) == 0)
		return;
	if (l->unsent || errno == EAGAIN)
		keep_unsent(l, m, fds);
	else
		server_lost(l);
}

void launcher_report(struct launcher *l)
{
	const struct message m = {.type = MSG_REPORT, .fds = 1};
	int fd;

	l->report.refused = l->ledger.refused;
	l->report.sessions = sessions_possible(l, l->report.sessions_why,
					       sizeof(l->report.sessions_why));
	l->report.kept = launcher_keeps(l);
	fd = message_make_report(&l->report);
	if (fd < 0) { /* a server that does not know would go on */
		log_error("report.failed", "error=\"%s\"", strerror(errno));
		loop_stop(l->loop);
		return;
	}
	launcher_send(l, &m, &fd);
	close(fd);
}

static void on_tell(void *arg)
{
	struct launcher *l = arg;

	if (!l->probe) /* else its end tells */
		launcher_report(l);
}

/* A server of ours never causes this. Whoever does it a million times fills no log. */
static void count_refused(struct launcher *l, enum refusal why, uint64_t run)
{
	const uint64_t n = ++l->ledger.refused;

	if (ledger_write(l->ledger_fd, &l->ledger) < 0)
		log_error("ledger.failed", "error=\"%s\"", strerror(errno));
	if (n <= REFUSED_LOGGED || (n & (n - 1)) == 0)
		log_error("message.refused", "reason=%s run=%llu refused=%llu",
			  refusal_name(why), (unsigned long long)run,
			  (unsigned long long)n);
	if (l->tell.place)
		return;
	l->tell.fn = on_tell;
	l->tell.arg = l;
	loop_timer_at(l->loop, &l->tell, loop_now_ns() + TELL_NS);
}

static void refuse(struct launcher *l, const struct message *m, const char *step, int num)
{
	struct message answer = {.type = MSG_FAILED, .run = m->run};

	answer.failure.num = num;
	if (l->lost.now)
		answer.failure.lost_layer = l->lost.layer + 1;
	else if (l->report.level < l->setup->min_level)
		answer.failure.lost_layer = FAILURE_BELOW_MINIMUM;
	snprintf(answer.failure.step, sizeof(answer.failure.step), "%s", step);
	launcher_send(l, &answer, NULL);
}

struct slot *launcher_free_slot(struct launcher *l)
{
	unsigned i;

	for (i = 0; i < l->slot_count; i++) {
		if (l->slots[i].state == SLOT_FREE && !l->slots[i].forks)
			return &l->slots[i];
	}
	return NULL;
}

static void start_in(struct slot *s, const struct message *m, const int fds[RUN_FDS],
		     uint64_t arrived_ns)
{
	struct launcher *l = s->launcher;

	if (m->plan.kept && !launcher_keeps(l))
		refuse(l, m, "kept", EOPNOTSUPP);
	else
		slot_start_run(s, m, fds, arrived_ns);
}

void launcher_start_cold(struct launcher *l, const struct message *m, int fds[RUN_FDS],
			 uint64_t arrived_ns)
{
	struct slot *s = l->probe ? NULL : launcher_free_slot(l);
	struct waiting *w;

	if (l->lost.now || (!l->probe && l->report.level < l->setup->min_level)) {
		refuse(l, m, "isolation", EPERM);
	} else if (s) {
		start_in(s, m, fds, arrived_ns);
	} else if (l->waiting_count < l->slot_count) {
		w = &l->waiting[l->waiting_count++];
		w->message = *m;
		w->fds[RUN_INPUT] = take_fd(&fds[RUN_INPUT]);
		w->fds[RUN_EGRESS] = take_fd(&fds[RUN_EGRESS]);
		w->arrived_ns = arrived_ns;
	} else {
		struct message answer = {.type = MSG_FAILED, .run = m->run};

		answer.failure.busy = 1;
		launcher_send(l, &answer, NULL);
	}
}

static void on_run(struct launcher *l, const struct message *m, int fds[RUN_FDS])
{
	const uint64_t now = loop_now_ns();

	lost_look(l);
	if (m->plan.session &&
	    (l->probe || l->lost.now || l->report.level < l->setup->min_level))
		refuse(l, m, "isolation", EPERM);
	else if (m->plan.session)
		session_ask(l, m, fds, now);
	else if (l->probe || l->lost.now || m->plan.network || m->plan.kept ||
		 (!warm_take(l, m, fds[RUN_INPUT], now) &&
		  !fork_take(l, m, fds[RUN_INPUT], now)))
		launcher_start_cold(l, m, fds, now);
}

static void close_waiting(struct waiting *w)
{
	defer_close(&w->fds[RUN_INPUT]);
	defer_close(&w->fds[RUN_EGRESS]);
}

static struct waiting take_waiting(struct launcher *l, unsigned i)
{
	struct waiting w = l->waiting[i];

	l->waiting_count--;
	memmove(&l->waiting[i], &l->waiting[i + 1],
		(l->waiting_count - i) * sizeof(l->waiting[0]));
	return w;
}

void launcher_next_waiting(struct launcher *l)
{
	struct slot *s;

	while (l->waiting_count && (s = launcher_free_slot(l))) {
		struct waiting w = take_waiting(l, 0);

		start_in(s, &w.message, w.fds, w.arrived_ns);
		close_waiting(&w);
	}
	warm_fill(l);
}

void launcher_refuse_waiting(struct launcher *l)
{
	while (l->waiting_count) {
		struct waiting w = take_waiting(l, 0);

		close_waiting(&w);
		refuse(l, &w.message, "isolation", EPERM);
	}
}

static void on_kill(struct launcher *l, uint64_t run)
{
	unsigned i;

	for (i = 0; i < l->waiting_count; i++) {
		if (l->waiting[i].message.run == run) {
			struct waiting w = take_waiting(l, i);

			close_waiting(&w);
			refuse(l, &w.message, "killed", ECANCELED);
			return;
		}
	}
	for (i = 0; i < l->slot_count; i++) {
		struct run *r = &l->slots[i].run;

		if (l->slots[i].state == SLOT_BUSY && r->id == run) {
			r->killed = true;
			run_kill(r);
			return;
		}
	}
	/* else it ended while the message was on its way */
	(void)session_kill(l, run);
}

/* false: it ends the conversation */
static bool take(struct launcher *l, const struct message *m, int fds[MESSAGE_FDS])
{
	const enum refusal why = refusal_of(l->setup, m, fds, l->last_run);

	if (why != REFUSAL_NONE)
		count_refused(l, why, m->run);
	if (why == REFUSAL_DIRECTION) {
		errno = EPROTO;
		return false;
	}
	if (m->type == MSG_RUN && m->run > l->last_run)
		l->last_run = m->run;
	/* a number that was used before: an answer would be taken for that one's */
	if (why == REFUSAL_NUMBER || why == REFUSAL_UNKNOWN)
		return true;
	if (why != REFUSAL_NONE)
		refuse(l, m, "plan", EINVAL);
	else if (l->setup->engine.on)
		return engine_take(l, m, fds);
	else if (m->type == MSG_RUN)
		on_run(l, m, fds);
	else
		on_kill(l, m->run);
	return true;
}

void launcher_on_server(void *arg, uint32_t events)
{
	struct launcher *l = arg;
	int fds[MESSAGE_FDS], r = 1, i, left;
	struct message m;

	if (events & EPOLLOUT)
		send_unsent(l);
	for (left = WAKE_MESSAGES; left > 0; left--) {
		r = message_receive_or_end(l->server_fd, &m, fds);
		if (r < 0 && errno == EPROTO)
			count_refused(l, REFUSAL_FRAME, 0);
		if (r != 1)
			break;
		if (!take(l, &m, fds)) {
			r = -1; /* with its descriptors open: closing one may wait */
			break;
		}
		for (i = 0; i < MESSAGE_FDS; i++)
			defer_close(&fds[i]);
	}
	if (r == 1 || (r < 0 && errno == EAGAIN))
		return;
	if (r < 0)
		log_error("server.lost", "error=\"%s\"", strerror(errno));
	loop_stop(l->loop); /* whatever runs dies with us */
}
