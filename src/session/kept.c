/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kept.c - what stands for a session where there can be none
 *
 * Runs in: the server. Without namespaces each command is a run as any other, but in a
 * directory that stays as long as the launcher does and is open to no other run. There is
 * one, for what one client asks as agent-sandbox's SDK does; it is in no list, and has no
 * name by which another call could mean it.
 */
#include "session/store.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/mem.h"
#include "wire/report.h"

#define WORK "work"

bool sessions_keep(const struct sessions *s)
{
	const struct report *found = s->jobs ? jobs_report(s->jobs) : NULL;

	return found && !s->why[0] && !found->sessions && found->kept &&
	       found->level == LEVEL_LANDLOCK;
}

static struct session *make(struct sessions *s, const struct session_request *q,
			    struct err *e)
{
	const struct session_request usual = {.kept = true};
	struct session *one = mem_zero(sizeof(*one));

	snprintf(one->id, sizeof(one->id), "kept");
	snprintf(one->owner, sizeof(one->owner), "%s", q->owner ? q->owner : "");
	snprintf(one->image, sizeof(one->image), "%s", IMAGE_HOST);
	if (session_limits(s, &usual, one, e) == 0)
		return one;
	store_free(one);
	return NULL;
}

struct session *kept_find(struct sessions *s, const struct session_request *q,
			  struct err *e)
{
	if (!sessions_keep(s)) {
		if (sessions_admit(s, e) == 0)
			(void)err_client(e, 503, "not_ready", "try again");
		return NULL;
	}
	if (!s->kept)
		s->kept = make(s, q, e);
	if (s->kept && !store_owned(s->kept, q->owner)) {
		(void)err_client(e, 501, "sessions_unavailable",
				 "at this level files are kept for one token alone, and "
				 "another one has them");
		return NULL;
	}
	return s->kept;
}

int kept_path(const char *below_root, char *out, size_t room, struct err *e)
{
	const size_t len = strlen(WORK);

	if (strncmp(below_root, WORK, len) != 0 ||
	    (below_root[len] != '\0' && below_root[len] != '/'))
		return err_client(e, 400, "bad_path",
				  "at this level there are only paths below the working "
				  "directory");
	snprintf(out, room, "./%s", below_root[len] ? below_root + len + 1 : ".");
	return 0;
}
