/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * look.c - limits that nothing else enforces, by looking
 *
 * Runs in: the launcher, while a run goes on: CPU seconds always, and where there is no
 * cgroup or no tmpfs of the run's own what it uses of memory, processes and disk. Where a
 * run has a pid namespace but no /proc, its processes are in ours all the same.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/loop.h"
#include "launcher/launcher.h"
#include "launcher/sample.h"
#include "launcher/sockets.h"

#define MS 1000000ull
#define CPU_SLACK_US \
	100000 /* one period of the CPU quota: a timeout is not a CPU limit */
#define CPU_LOOK_US 10000
#define SHARE 10 /* of our time at most one in so many goes into a look that takes long */
#define SAMPLE_LEAST_MS 5 /* a fast program gets as much between two looks */
#define SAMPLE_MOST_MS 20

/* over the CPU limit; else until when it cannot be, on every CPU it was given */
static bool cpu_spent(struct run *r, uint64_t cpu_us, uint64_t now, uint64_t *next)
{
	const uint64_t most_us = r->plan.limits.cpu_ms * 1000ull + CPU_SLACK_US;
	uint64_t left_us;

	if (cpu_us == CGROUP_UNKNOWN64)
		return false;
	if (cpu_us > most_us)
		return true;
	left_us = (most_us - cpu_us) * 1000 /
		  (r->slot->launcher->setup->cpu_milli + 1000);
	if (left_us < CPU_LOOK_US)
		left_us = CPU_LOOK_US;
	if (now + left_us * 1000 < *next)
		*next = now + left_us * 1000;
	return false;
}

/* What we used of the CPU: who is kept off it by the run looks no later for that. */
static uint64_t used_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Every socket is looked at, and a run can have many: at most a tenth of our time. A
 * failure leaves what was seen last, and the slot is made anew. */
static uint64_t look_sockets(struct run *r, uint64_t now)
{
	struct slot *s = r->slot;
	const uid_t uid = launcher_shares(s->launcher) ? s->uid : SOCKETS_OF_ALL;
	const uint64_t began = used_ns();

	if ((s->sockets_fd < 0 && r->sockets_fd < 0) || now < r->sockets_look_ns)
		return r->sockets_kb;
	if ((r->sockets_fd >= 0 ? sockets_tcp_kb(r->sockets_fd, &r->sockets_kb)
				: sockets_kb(s->sockets_fd, uid, &r->sockets_kb)) < 0 &&
	    !s->condemned) {
		log_error("look.sockets", "slot=%u error=\"%s\"", s->n, strerror(errno));
		s->condemned = true;
	}
	r->sockets_look_ns = now + SHARE * (used_ns() - began);
	return r->sockets_kb;
}

static void take_sample(struct run *r, enum sample_how how, struct sample *out)
{
	/* without a mount namespace its directory is on a disk */
	const int tmpfs_fd = launcher_shares(r->slot->launcher) ? -1 : r->work_fd;

	if (r->slot->session)
		session_sample(r, how, out);
	else if (r->proc_fd >= 0)
		sample_take(r->proc_fd, r->work_fd, how, out);
	else
		sample_tree(r->slot->launcher->proc_fd, r->pid, tmpfs_fd, how, out);
}

/* What shared mappings are together is found out when it could be too much; it takes
 * long, so at most a tenth of our time. */
static void look_shared(struct run *r, uint64_t most_kb, struct sample *s)
{
	const uint64_t now = loop_now_ns(), began = used_ns();
	struct sample pages;

	if (s->memory_kb > most_kb || s->most_kb <= most_kb)
		return;
	if (now < r->shared_look_ns)
		return;
	take_sample(r,
		    r->slot->launcher->abilities.one_uid ? SAMPLE_PAGES
							 : SAMPLE_PAGES_SEEN,
		    &pages);
	if (pages.memory_kb > s->memory_kb)
		s->memory_kb = pages.memory_kb;
	r->shared_look_ns = now + SHARE * (used_ns() - began);
}

void run_measure(struct run *r, struct sample *out)
{
	const uint64_t began = used_ns();

	take_sample(r, SAMPLE_SIZES, out);
	r->sample_pause_ns = SHARE * (used_ns() - began);
	look_shared(r, (uint64_t)r->plan.limits.memory_mb << 10, out);
	out->memory_kb += look_sockets(r, loop_now_ns());
	if (out->cpu_us > r->peak.cpu_us)
		r->peak.cpu_us = out->cpu_us;
	if (out->memory_kb > r->peak.memory_kb)
		r->peak.memory_kb = out->memory_kb;
}

uint64_t run_look(struct run *r, uint64_t now)
{
	const struct limits *l = &r->plan.limits;
	uint64_t next = r->started_ns + l->wall_ms * MS;
	struct sample s;

	if (r->place_fd >= 0 && run_disk_look(r, now, &next))
		return now;
	if (r->slot->cgroup.kind != CGROUP_NONE) {
		r->cpu_out = cpu_spent(r, cgroup_cpu_us(&r->slot->cgroup), now, &next);
		return r->cpu_out ? now : next;
	}
	run_measure(r, &s);
	r->pids_out = (launcher_counts_pids(r->slot->launcher) ||
		       session_by_tree(r->slot)) &&
		      s.pids > l->pids;
	/* or all of a session were too much already, and it is on its way */
	r->memory_out = r->memory_out || s.memory_kb > (uint64_t)l->memory_mb << 10;
	r->cpu_out = cpu_spent(r, s.cpu_us, now, &next);
	if (r->memory_out || r->cpu_out || r->pids_out)
		return now;
	if (r->sample_pause_ns < SAMPLE_LEAST_MS * MS)
		r->sample_pause_ns = SAMPLE_LEAST_MS * MS;
	if (r->sample_pause_ns > SAMPLE_MOST_MS * MS)
		r->sample_pause_ns = SAMPLE_MOST_MS * MS;
	return now + r->sample_pause_ns < next ? now + r->sample_pause_ns : next;
}

/* seen to work now, or what the run does with its network would not be counted */
void run_take_sockets(struct run *r, int *fd)
{
	r->sockets_fd = take_fd(fd);
	if (sockets_tcp_kb(r->sockets_fd, &r->sockets_kb) == 0)
		return;
	r->failed = (struct child_news){.step = child_step_find("network"), .num = errno};
	run_kill(r);
}
