/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * judge.c - how a run ended, and what it used
 *
 * Runs in: the launcher, when nothing of the run is alive. The verdict comes from
 * evidence: counters as differences, the wait status, which timer fired.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "launcher/launcher.h"

static bool disk_is_full(const struct run *r)
{
	struct statfs fs;

	if (r->place_fd >= 0)
		return run_disk_is_full(r);
	return r->work_fd >= 0 && fstatfs(r->work_fd, &fs) == 0 &&
	       (fs.f_bfree == 0 || fs.f_ffree == 0);
}

static uint64_t rusage_cpu_us(const struct rusage *u)
{
	return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000u +
	       (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* the cgroup's count; without one what was reaped, since who was killed is in nobody's
 * rusage, or what was seen on the way */
static uint64_t cpu_us_used(const struct run *r)
{
	const uint64_t counted = cgroup_cpu_us(&r->slot->cgroup);

	return counted != CGROUP_UNKNOWN64
		       ? counted
		       : larger(rusage_cpu_us(&r->rusage), r->peak.cpu_us);
}

static enum verdict judge(struct run *r)
{
	if (cgroup_oom_seen(&r->slot->cgroup) || r->memory_out)
		return VERDICT_OUT_OF_MEMORY;
	if (r->timed_out)
		return VERDICT_TIMEOUT;
	if (r->cpu_out)
		return VERDICT_CPU_TIMEOUT;
	if (r->disk_out)
		return VERDICT_DISK_FULL;
	if (r->pids_out)
		return VERDICT_SIGNAL;
	if (!r->exited) /* killed, and nothing above says why: the client left */
		return VERDICT_SIGNAL;
	/* a file as large as all may be together, which a tmpfs would have refused */
	if ((r->place_fd >= 0 || session_entered(r->slot)) &&
	    WIFSIGNALED(r->wait_status) && WTERMSIG(r->wait_status) == SIGXFSZ)
		return VERDICT_DISK_FULL;
	/* anybody can send SIGXCPU, so the time itself must have been used too */
	if (WIFSIGNALED(r->wait_status))
		return WTERMSIG(r->wait_status) == SIGXCPU &&
				       cpu_us_used(r) >= r->plan.limits.cpu_ms * 1000ull
			       ? VERDICT_CPU_TIMEOUT
			       : VERDICT_SIGNAL;
	if (WEXITSTATUS(r->wait_status) == 0)
		return VERDICT_OK;
	return disk_is_full(r) ? VERDICT_DISK_FULL : VERDICT_NONZERO_EXIT;
}

static void fill_usage(const struct run *r, struct outcome *o)
{
	struct cgroup_usage u;

	cgroup_usage(&r->slot->cgroup, &u);
	o->cpu_us = cpu_us_used(r);
	o->memory_peak_kb = u.memory_peak_kb != CGROUP_UNKNOWN64 ? u.memory_peak_kb
								 : USAGE_UNKNOWN;
	o->pids_peak = u.pids_peak != CGROUP_UNKNOWN32 ? u.pids_peak : USAGE_UNKNOWN;
	if (o->memory_peak_kb ==
	    USAGE_UNKNOWN) /* the largest process, or all when we looked */
		o->memory_peak_kb = larger((uint64_t)r->rusage.ru_maxrss,
					   r->peak.memory_kb);
	else if (u.memory_reason)
		snprintf(o->memory_reason, sizeof(o->memory_reason), "%s",
			 u.memory_reason);
	if (u.pids_reason)
		snprintf(o->pids_reason, sizeof(o->pids_reason), "%s", u.pids_reason);
}

void run_judge(struct run *r, struct outcome *o)
{
	uint64_t end_ns = r->exited ? r->exited_ns : loop_now_ns();

	o->verdict = judge(r);
	o->pids_out = r->pids_out;
	o->warm = r->warm;
	if (r->disk_out || r->pids_out)
		o->signal = SIGKILL;
	else if (r->exited && WIFEXITED(r->wait_status))
		o->exit_code = WEXITSTATUS(r->wait_status);
	else
		o->signal = r->exited ? WTERMSIG(r->wait_status) : SIGKILL;
	o->setup_us = (r->started_ns - r->arrived_ns) / 1000;
	o->wall_us = end_ns > r->started_ns ? (end_ns - r->started_ns) / 1000 : 0;
	if (o->verdict == VERDICT_TIMEOUT &&
	    o->wall_us < r->plan.limits.wall_ms * 1000ull)
		o->wall_us = r->plan.limits.wall_ms * 1000ull;
	fill_usage(r, o);
}
