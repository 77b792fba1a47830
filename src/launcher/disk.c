/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * disk.c - what a run without a tmpfs of its own has written, as far as it has a name
 *
 * Runs in: the launcher. Few files are looked at here; many by the run's worker, which
 * has nothing else to do meanwhile, so that nobody waits for that but the run itself.
 */
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/fdpass.h"
#include "launcher/kept.h"
#include "launcher/launcher.h"
#include "launcher/worker.h"

#define MS 1000000ull
#define HERE_MOST 2048 /* entries: a few milliseconds */
#define LOOK_MS 100
#define LOOK_SHARE 20           /* looking takes one part in so many of our time, */
#define WORKER_SHARE 5          /* and of the worker's */
#define SILENT_MS 1000          /* that it may take while the run goes on, */
#define ANSWER_MS 10000         /* and when that is over */
#define OVER_SLACK (-(1 << 20)) /* directories take room too */
#define FULL_SLACK (256 << 10)  /* less than this left is full */
#define NAMELESS_MOST 32768     /* descriptors and mappings: tens of milliseconds, */
#define NAMELESS_MS 500         /* for which others wait */

uint64_t run_disk_free(const struct run *r)
{
	struct statvfs fs;

	if (r->place_fd < 0 || fstatvfs(r->place_fd, &fs) < 0)
		return 0;
	return (uint64_t)fs.f_bfree * fs.f_frsize;
}

static uint64_t limit_mb(const struct run *r)
{
	return r->disk_was_full ? 0 : r->plan.limits.disk_mb;
}

/* since the run began everybody together has written more than it may: only then can it
 * hide anything that matters */
static bool room_is_gone(const struct run *r)
{
	const uint64_t now = run_disk_free(r), most = limit_mb(r) << 20;

	return r->disk_free > now && r->disk_free - now > most;
}

static uint64_t most_entries(const struct run *r)
{
	return disk_entries(limit_mb(r)) + r->disk_base.entries;
}

/* it has written more than its limit, less `slack` */
static bool too_much(const struct run *r, const struct disk_use *seen, int64_t slack)
{
	const int64_t most_bytes = (int64_t)(r->disk_base.bytes + (limit_mb(r) << 20)) -
				   slack;
	const struct launcher *l = r->slot->launcher;
	const struct sample_run who = {.tops = &r->pid,
				       .top_count = 1,
				       .uid = r->slot->uid,
				       .uids = 1,
				       .owner = r->slot->uid,
				       .gid = r->slot->gid,
				       .place = l->place,
				       .most = NAMELESS_MOST,
				       .ms = NAMELESS_MS};
	struct disk_use use = *seen;

	if (use.too_deep || use.entries > most_entries(r) ||
	    (int64_t)use.bytes > most_bytes)
		return true;
	if (!room_is_gone(r))
		return false;
	if (!r->dead && !use.unseen)
		sample_nameless(l->proc_fd, &who, &use);
	/* gone, and this one hides something: what else could it be */
	return use.unseen || (int64_t)use.bytes > most_bytes;
}

static void look(const struct run *r, uint64_t most, struct disk_use *out)
{
	sample_disk(r->place_fd, most, out);
	if (r->plan.kept)
		sample_disk_more(r->slot->launcher->kept_fd, most, NULL, out);
}

/* false: there is more than was looked at */
static bool look_here(const struct run *r, struct disk_use *out)
{
	if (!r->disk_large)
		look(r, HERE_MOST, out);
	return !r->disk_large && out->entries <= HERE_MOST;
}

static bool ask(struct run *r)
{
	struct worker_order order = {.plan = r->plan, .most = most_entries(r)};
	const struct slot *s = r->slot;

	order.plan.errand = ERRAND_COUNT;
	order.last = r->dead;
	r->disk_asked = s->worker_fd >= 0 && !s->forks &&
			fdpass_send(s->worker_fd, &order, sizeof(order), NULL, 0) == 0;
	r->disk_asked_ns = loop_now_ns();
	return r->disk_asked;
}

static void look_later(struct run *r, uint64_t since_ns, unsigned share)
{
	const uint64_t now = loop_now_ns(), pause = (now - since_ns) * share;

	r->disk_look_ns = now + (pause > LOOK_MS * MS ? pause : LOOK_MS * MS);
}

void run_disk_begin(struct run *r, const struct disk_use *kept)
{
	r->disk_large = kept->entries > HERE_MOST;
	r->disk_was_full = r->plan.kept && kept_is_full(&r->plan.limits, kept);
	if (r->disk_was_full)
		r->disk_base = *kept;
}

bool run_disk_look(struct run *r, uint64_t now, uint64_t *next)
{
	struct disk_use use;

	const uint64_t silent_ns = r->disk_asked_ns + SILENT_MS * MS;

	if (r->disk_asked && now < silent_ns) { /* until it answers */
		if (silent_ns < *next)
			*next = silent_ns;
		return false;
	}
	if (r->disk_asked || now >= r->disk_look_ns) {
		if (r->disk_asked || !look_here(r, &use)) {
			if (!r->disk_asked && ask(r))
				return false;
			r->disk_asked = false;
			look(r, most_entries(r), &use); /* without a worker */
		}
		r->disk_out = too_much(r, &use, OVER_SLACK);
		look_later(r, now, LOOK_SHARE);
	}
	if (r->disk_look_ns < *next)
		*next = r->disk_look_ns;
	return r->disk_out;
}

/* only such an end can be a full disk's; but nothing stays that fills it for others */
static bool end_matters(const struct run *r)
{
	if (r->plan.kept && (r->disk_out || room_is_gone(r)))
		return true;
	return r->exited && WIFEXITED(r->wait_status) && WEXITSTATUS(r->wait_status);
}

bool run_disk_last(struct run *r)
{
	if (r->place_fd < 0 || r->disk_known || !end_matters(r)) {
		r->disk_asked = false; /* an answer that comes now is of no use */
		return false;
	}
	if (!r->disk_asked) {
		r->disk_known = look_here(r, &r->disk_use) &&
				!(r->plan.kept &&
				  kept_is_far(&r->plan.limits, &r->disk_use));
		if (r->disk_known || !ask(r))
			return false;
	}
	r->disk_awaited = true;
	loop_timer_at(r->slot->launcher->loop, &r->timer, loop_now_ns() + ANSWER_MS * MS);
	return true;
}

void run_disk_counted(struct run *r, const struct worker_answer *a)
{
	struct loop *l = r->slot->launcher->loop;

	if (!r->disk_asked) /* of one that is over */
		return;
	r->disk_asked = false;
	if (!r->dead) {
		r->disk_large = a->use.entries > HERE_MOST;
		r->disk_out = too_much(r, &a->use, OVER_SLACK);
		look_later(r, r->disk_asked_ns, WORKER_SHARE);
		if (!r->ending && !r->exited) /* else it waits for another end */
			loop_timer_at(l, &r->timer, 0);
		return;
	}
	if (!r->disk_awaited) /* its orphans come first; then it is asked again */
		return;
	r->disk_awaited = false;
	if (a->last) {
		r->disk_known = true;
		r->disk_use = a->use;
		r->disk_out = r->disk_out || a->removed; /* whatever its end was */
	}
	loop_timer_stop(l, &r->timer);
	run_over(r);
}

void run_disk_silent(struct run *r)
{
	const struct worker_answer none = {.last = 1};

	run_disk_counted(r, &none);
}

bool run_disk_is_full(const struct run *r)
{
	return r->disk_known && too_much(r, &r->disk_use, FULL_SLACK);
}
