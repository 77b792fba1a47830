/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_disk.c - how much a session may have on the disk
 *
 * Runs in: the launcher. Where the file system keeps count of what is below a directory
 * it refuses what is too much; elsewhere we look, four times a second as long as anything
 * runs, and end who writes. That is about the layer that is written to; what was frozen
 * (session_kept.c) does not change as long as anything runs, and leaves the less for it.
 * Many files are looked at by somebody else (session_looker.c), and so is everything when
 * the disk has lost so much that files without a name may be the reason.
 */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "launcher/launcher.h"
#include "launcher/quota.h"
#include "launcher/sample.h"
#include "launcher/session_parts.h"

#define MS 1000000ull
#define LOOK_MS 250
#define HERE_MOST 2048     /* entries: two milliseconds */
#define ENTRIES_PER_MB 128 /* as a run's tmpfs has */
#define ENTRIES 4096
#define SLACK_BYTES 65536 /* who has no more than this left is full */
#define SLACK_ENTRIES 64

static struct quota_use limit_of(const struct launcher *l)
{
	const struct setup *setup = l->setup;
	const uint64_t mb = setup->row[setup->session_row].ceiling.disk_mb;

	return (struct quota_use){mb << 20, mb * ENTRIES_PER_MB + ENTRIES};
}

static uint64_t less(uint64_t all, uint64_t some)
{
	return all > some ? all - some : 0;
}

/* of the layer that it writes to */
static struct quota_use most_of(const struct session *s)
{
	const struct quota_use all = limit_of(s->launcher);

	return (struct quota_use){less(all.bytes, s->kept.bytes),
				  less(all.entries, s->kept.entries)};
}

/* what nobody sees any more goes when layers are merged: so does who has much of it */
static void take_kept(struct session *s, const struct disk_use *kept)
{
	s->kept = *kept;
	s->kept_known = true;
	if (kept->bytes > limit_of(s->launcher).bytes / 2 && s->stack.depth > 2)
		session_flatten(s->launcher, s->key);
}

/* none at all would be no limit; who has nothing left can still remove something, which
 * takes a place of its own in a layer */
static int set_quota(const struct session *s, uint32_t project)
{
	struct quota_use most = most_of(s);

	if (most.bytes < SLACK_BYTES)
		most.bytes = SLACK_BYTES;
	if (most.entries < SLACK_ENTRIES)
		most.entries = SLACK_ENTRIES;
	return quota_limit(s->files_fd, project, &most);
}

uint64_t session_disk_free(const struct session *s)
{
	struct statvfs fs;

	if (fstatvfs(s->files_fd, &fs) < 0)
		return UINT64_MAX; /* then all is taken for gone, and looked at */
	return (uint64_t)fs.f_bfree * fs.f_frsize;
}

/* All that it has was seen, and is this much. Others write on that disk too: who has
 * nothing left is not to be taken for the reason of each block that goes. */
static void set_base(struct session *s, uint64_t bytes, uint64_t free_bytes)
{
	const uint64_t most = most_of(s).bytes, left = less(most, bytes);

	s->disk_free = free_bytes;
	s->disk_room = left > most / 4 ? left : most / 4;
}

/* since then everybody together has written more than it may: only then can it hide
 * anything that matters */
static bool room_is_gone(struct session *s)
{
	const uint64_t now = session_disk_free(s);

	if (now != UINT64_MAX && now > s->disk_free)
		s->disk_free = now; /* others have removed something */
	return now == UINT64_MAX || s->disk_free - now > s->disk_room;
}

/* what is counted by no bytes */
static bool is_odd(const struct session *s, const struct disk_use *use)
{
	return use->too_deep || use->entries > most_of(s).entries;
}

/* false: only somebody else can tell all of it */
static bool look(struct session *s, struct disk_use *out)
{
	sample_disk(s->files_fd, HERE_MOST, out);
	s->disk_large = out->entries > HERE_MOST;
	if (s->disk_large || out->unseen)
		return false;
	s->disk_used_bytes = out->bytes;
	s->disk_seen_odd = is_odd(s, out);
	return !room_is_gone(s);
}

bool session_disk_ask(struct session *s)
{
	return session_looker_start(s, most_of(s).entries);
}

static bool too_much(struct session *s, const struct disk_use *use)
{
	/* who came to a tree like this may remove it, as long as the disk is not lost */
	if (is_odd(s, use) && (!s->disk_odd || room_is_gone(s)))
		return true;
	/* gone, and this one hides something: what else could it be */
	return use->bytes > s->disk_bytes || (use->unseen && room_is_gone(s));
}

int session_disk_begin(struct session *s)
{
	const uint32_t project = stack_project(s->stack.layer[0]);
	struct disk_use use;

	if (session_kept(s->launcher, s->key, HERE_MOST, &use))
		take_kept(s, &use);
	else
		s->kept = use; /* so far */
	/* one that was made before the file system counted is looked at, and so is one
	 * whose limit is no longer ours to set */
	if (quota_possible(s->files_fd) && quota_marked(s->files_fd, project)) {
		if (set_quota(s, project) == 0) {
			s->project = project;
			return 0;
		}
		if (errno != EPERM && errno != EINVAL)
			return -1;
	}
	s->disk_bytes = most_of(s).bytes;
	/* somebody may have left too much; nothing runs, so nothing is without a name */
	sample_disk(s->files_fd, HERE_MOST, &use);
	s->disk_large = use.entries > HERE_MOST;
	s->disk_used_bytes = use.bytes;
	s->disk_seen_odd = is_odd(s, &use);
	set_base(s, use.bytes, session_disk_free(s));
	return 0;
}

/* who has too much may have removed some since, and who has many files may have left any
 * number: he waits until that is known */
bool session_disk_wait(struct session *s, uint64_t since_ns)
{
	const uint64_t most = most_of(s).bytes;
	const bool unknown = !s->kept_known ||
			     (s->disk_large && (!s->disk_seen_ns || s->disk_seen_odd));
	struct disk_use use;

	if (s->project && !s->kept_known)
		(void)session_disk_ask(s); /* its limit is lower then */
	if (s->project || s->disk_seen_ns >= since_ns)
		return false;
	if (!unknown && (s->disk_used_bytes <= most ||
			 (!s->disk_large && look(s, &use)) || s->disk_used_bytes <= most))
		return false;
	return session_disk_ask(s); /* else it is as it was seen last */
}

/* Else each of them could write a little more until somebody looks again. Who removes
 * some is not to be ended for the rest; but what he had is not his to reach again. */
bool session_disk_over(struct session *s)
{
	const uint64_t most = most_of(s).bytes, used = s->disk_used_bytes;

	s->disk_odd = s->disk_seen_odd;
	if (s->project || (most && used <= most)) {
		s->disk_bytes = most;
		return !s->project && s->disk_odd;
	}
	if (s->disk_bytes <= most || used < s->disk_bytes)
		s->disk_bytes = used;
	return true;
}

/* there are ways to write that no limit of a file's size bars */
bool session_disk_never(const struct session *s)
{
	const uint64_t most = most_of(s).bytes;

	return !s->project && s->disk_bytes > most &&
	       s->disk_used_bytes > s->disk_bytes + most / 4;
}

/* true: more than it may have; looking costs, so it takes at most a twentieth of our
 * time */
bool session_disk_out(struct session *s, uint64_t now)
{
	struct disk_use use = {0};
	uint64_t took;

	if (s->project || now < s->disk_look_ns)
		return false;
	s->disk_look_ns = now + LOOK_MS * MS;
	if (s->disk_large || !look(s, &use)) {
		(void)session_disk_ask(s); /* or the next time */
		if (s->disk_large || use.unseen)
			return false;
	}
	took = loop_now_ns() - now;
	if (took * 20 > LOOK_MS * MS)
		s->disk_look_ns = now + took * 20;
	return too_much(s, &use);
}

/* it took its time, and none of ours; NULL: it came to nothing */
void session_disk_looked(struct session *s, const struct disk_seen *seen,
			 const struct looker *by)
{
	const struct disk_use *use = s->project || !seen ? NULL : &seen->use;
	bool over;

	if (seen && !s->kept_known) {
		take_kept(s, &seen->kept);
		if (s->project && set_quota(s, s->project) < 0)
			log_warn("session.disk", "error=\"%s\"", strerror(errno));
	}
	over = use && too_much(s, use);
	s->disk_seen_ns = by->began_ns;
	if (use) {
		s->disk_used_bytes = use->bytes;
		s->disk_seen_odd = is_odd(s, use);
		s->disk_large = use->entries > HERE_MOST;
		if (!use->unseen || over)
			set_base(s, use->bytes, by->free_bytes);
	}
	if (over)
		session_end_writers(s, by->began_ns);
}

/* one that has not begun yet has written nothing */
void session_end_writers(struct session *s, uint64_t before_ns)
{
	struct command *c;

	for (c = s->commands; c; c = c->next) {
		if (c->lingers)
			session_command_end_left(c);
		else if (c->started && c->slot.run.started && c->wants_ns < before_ns) {
			c->slot.run.disk_out = true;
			run_kill(&c->slot.run);
		}
	}
	log_info("session.disk", "uid=%u", (unsigned)s->uid);
}

void session_outcome(const struct slot *slot, struct outcome *out)
{
	if (session_entered(slot))
		session_disk_tell(slot->session, out);
}

void session_disk_tell(struct session *s, struct outcome *out)
{
	struct quota_use use;
	struct disk_use seen;

	if (s->project && quota_used(s->files_fd, s->project, &use) == 0)
		s->disk_used_bytes = use.bytes;
	else if (!s->project && !look(s, &seen))
		(void)session_disk_ask(s); /* this is as it was seen last */
	out->disk = s->project ? DISK_PROJECT_QUOTA : DISK_MEASURED;
	out->disk_limit_bytes = limit_of(s->launcher).bytes;
	out->disk_used_bytes = s->disk_used_bytes + s->kept.bytes;
	/* refused by the kernel, of which nobody else tells */
	if (out->verdict == VERDICT_NONZERO_EXIT &&
	    out->disk_used_bytes + SLACK_BYTES >= out->disk_limit_bytes)
		out->verdict = VERDICT_DISK_FULL;
}

/* Else each layer that is frozen would be a new beginning. Who adds nothing, since it has
 * only removed files, may be: that is how it comes to have less. */
bool session_disk_full(const struct launcher *l, const uint8_t key[SESSION_KEY],
		       int files_fd)
{
	struct disk_use use = {0}, kept;

	sample_disk_whole(files_fd, HERE_MOST, NULL, &use); /* nobody writes to it */
	(void)session_kept(l, key, HERE_MOST, &kept);       /* what is known of it */
	return use.bytes && use.bytes + kept.bytes > limit_of(l).bytes;
}
