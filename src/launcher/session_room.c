/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_room.c - how many sessions have processes at a time
 *
 * Runs in: the launcher. Files are on the disk, as many as there are; processes and
 * descriptors are not. So before there are too many, whoever was not used for longest and
 * has nothing running gives up its processes: the next who asks for it starts others, as
 * after a restart. Who asks while they end waits for that.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/session_parts.h"

#define SESSIONS_MOST 256
#define PLACE_FDS 40 /* of a session or a command, at most: a slot, its namespaces */
#define WORK_FDS 40  /* of all that session_work.c does at once, and for a moment */
#define PLACES_MOST (2 * SESSIONS_MOST)

struct session_late {
	struct session_late *next;
	struct waiting asked;
};

unsigned launcher_session_descriptors(unsigned places)
{
	return WORK_FDS + PLACE_FDS * places;
}

/* what is not there must not be missing in the middle of something */
static unsigned places_most(const struct launcher *l)
{
	const uint64_t others = launcher_descriptors(l->slot_count + 1) +
				launcher_session_descriptors(0);
	struct rlimit r;
	uint64_t n;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur < others)
		return 0;
	n = (r.rlim_cur - others) / PLACE_FDS;
	return n < PLACES_MOST ? (unsigned)n : PLACES_MOST;
}

void session_count_places(struct launcher *l)
{
	l->sessions.places_most = places_most(l);
	if (l->sessions.places_most < PLACES_MOST)
		log_warn("limit.lower",
			 "sessions_and_commands=%u reason=\"RLIMIT_NOFILE\"",
			 l->sessions.places_most);
}

/* owner: 0: whoever; false: nobody's is idle */
static bool yield_one(struct launcher *l, uint64_t owner)
{
	struct session *s, *oldest = NULL;

	for (s = l->sessions.first; s; s = s->next)
		if (s->state == SESSION_READY && !s->commands &&
		    (!owner || s->owner == owner) &&
		    (!oldest || s->used_ns < oldest->used_ns))
			oldest = s;
	if (!oldest)
		return false;
	log_debug("session.yields", "uid=%u", (unsigned)oldest->uid);
	oldest->yields = true;
	session_end(oldest, "session_end", ECANCELED);
	return true;
}

struct room {
	unsigned sessions, places;
};

/* what an owner has; of 0: what all have */
static struct room taken(const struct launcher *l, uint64_t owner)
{
	struct room n = {0, owner ? 0 : l->sessions.places};
	const struct session *s;
	const struct command *c;

	for (s = l->sessions.first; s; s = s->next) {
		if (owner && s->owner != owner)
			continue;
		n.sessions++;
		n.places += owner != 0;
		for (c = s->commands; owner && c; c = c->next)
			n.places++;
	}
	return n;
}

static bool is_full(const struct room *n, const struct room *most, bool another)
{
	return n->places + (another ? 2 : 1) > most->places ||
	       (another && n->sessions >= most->sessions);
}

/* early, since to make room takes its time */
static bool is_nearly_full(const struct room *n, const struct room *most)
{
	return n->sessions >= most->sessions / 4 * 3 ||
	       n->places + 2 > most->places - most->places / 4;
}

/* One owner has half of it at most, however much nobody uses: what runs in a session does
 * not end for others. */
const char *session_no_room(struct launcher *l, uint64_t owner, bool another)
{
	const struct room most = {SESSIONS_MOST, l->sessions.places_most};
	const struct room half = {most.sessions / 2, most.places / 2};
	const struct room all = taken(l, 0), own = taken(l, owner);

	if (most.places < (owner ? 4 : 2))
		return "session_never";
	if (another && !(owner && is_nearly_full(&own, &half) && yield_one(l, owner)) &&
	    is_nearly_full(&all, &most))
		(void)yield_one(l, 0); /* all are used: then it is full */
	if (owner && is_full(&own, &half, another))
		return "session_share";
	return is_full(&all, &most, another) ? "session_room" : NULL;
}

void session_late_add(struct session *s, const struct message *m, int *fds,
		      uint64_t arrived_ns)
{
	struct session_late *late = mem_zero(sizeof(*late)), **at = &s->late;
	int i;

	late->asked.message = *m;
	late->asked.arrived_ns = arrived_ns;
	for (i = 0; i < RUN_FDS; i++)
		late->asked.fds[i] = take_fd(&fds[i]);
	while (*at)
		at = &(*at)->next;
	*at = late;
}

static void late_free(struct session_late *late)
{
	int i;

	for (i = 0; i < RUN_FDS; i++)
		defer_close(&late->asked.fds[i]);
	free(late);
}

void session_late_run(struct launcher *l, struct session_late *late)
{
	struct session_late *next;

	for (; late; late = next) {
		next = late->next;
		if (l->probe || l->lost.now)
			session_tell_failed(l, late->asked.message.run, "session_end",
					    EBUSY);
		else
			session_ask(l, &late->asked.message, late->asked.fds,
				    late->asked.arrived_ns);
		late_free(late);
	}
}

void session_late_refuse(struct session *s)
{
	struct session_late *late;

	for (late = s->late; late; late = late->next)
		session_tell_failed(s->launcher, late->asked.message.run, "session_end",
				    EBUSY);
	session_late_drop(s);
}

void session_late_drop(struct session *s)
{
	struct session_late *late;

	while ((late = s->late)) {
		s->late = late->next;
		late_free(late);
	}
}

bool session_late_kill(struct session *s, uint64_t run)
{
	struct session_late **at = &s->late, *late;

	while (*at && (*at)->asked.message.run != run)
		at = &(*at)->next;
	late = *at;
	if (!late)
		return false;
	*at = late->next;
	late_free(late);
	session_tell_failed(s->launcher, run, "killed", ECANCELED);
	return true;
}
