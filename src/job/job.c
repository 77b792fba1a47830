/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.c - one run's life: its states, and how it ends
 */
#include "job/jobs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"

#define GRACE_NS 100000000u /* for pipes that somebody else still holds open */

#define MAY(state) (1u << (state))
static const unsigned may_follow[] = {
	[JOB_QUEUED] = MAY(JOB_STARTING) | MAY(JOB_DONE),
	/* a deadline can pass before the program has begun */
	[JOB_STARTING] = MAY(JOB_RUNNING) | MAY(JOB_DRAINING) | MAY(JOB_DONE),
	[JOB_RUNNING] = MAY(JOB_DRAINING) | MAY(JOB_DONE),
	[JOB_DRAINING] = MAY(JOB_DONE),
	[JOB_DONE] = 0,
};
static_assert(sizeof(may_follow) / sizeof(may_follow[0]) == JOB_STATES,
	      "a state lacks its row");

void job_move(struct job *job, enum job_state to)
{
	assert(may_follow[job->state] & MAY(to));
	job->jobs->count[job->state]--;
	job->jobs->count[to]++;
	job->state = to;
}

static void on_grace_over(void *arg)
{
	job_finish(arg);
}

struct job *job_new(struct jobs *j, uint64_t who, struct run_request *r, bool live)
{
	struct job *job = mem_zero(sizeof(*job));
	struct job **end = &j->first;

	job->jobs = j;
	job->run = ++j->last_run;
	job->who = who;
	job->live = live;
	job->request = *r;
	memset(r, 0, sizeof(*r));
	job->input_fd = job->stdin_fd = -1;
	job->grace = (struct loop_timer){.fn = on_grace_over, .arg = job};
	job->result.mode = job->request.mode;
	job->result.limits = job->request.limits;
	job->result.request = &job->request;
	capture_init(&job->result.out, job->request.limits.output_kb);
	capture_init(&job->result.err, job->request.limits.output_kb);
	for (int i = 0; i < 2; i++)
		job->pipe[i] = (struct job_pipe){
			.job = job, .stream = (enum job_stream)i, .fd = -1};
	job->pipe[JOB_STDOUT].capture = &job->result.out;
	job->pipe[JOB_STDERR].capture = &job->result.err;
	j->count[JOB_QUEUED]++;
	while (*end)
		end = &(*end)->next;
	*end = job;
	return job;
}

struct job *job_by_run(const struct jobs *j, uint64_t run)
{
	struct job *job = j->first;

	while (job && job->run != run)
		job = job->next;
	return job;
}

struct job *job_first_queued(const struct jobs *j)
{
	struct job *job = j->first;

	while (job && job->state != JOB_QUEUED)
		job = job->next;
	return job;
}

/* out of the list: from here on nothing that a callback does can reach it */
static void leave(struct job *job)
{
	struct job **at = &job->jobs->first;

	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	job_move(job, JOB_DONE);
	job->jobs->count[JOB_DONE]--;
	loop_timer_stop(job->jobs->loop, &job->grace);
	streams_close(job);
}

static void job_free(struct job *job)
{
	auto_fd int input_fd = job->input_fd;

	(void)input_fd;
	result_done(&job->result);
	files_close(&job->files);
	request_done(&job->request);
	free(job);
}

void job_drop(struct job *job)
{
	leave(job);
	job_free(job);
}

void job_fail(struct job *job, const struct err *e)
{
	const struct job_observer *o = &job->jobs->observer;

	leave(job);
	if (!job->forgotten)
		o->on_failed(o->arg, job->who, e);
	job_free(job);
}

void job_finish(struct job *job)
{
	struct jobs *j = job->jobs;
	const struct result *r = &job->result;

	streams_rest(job);
	result_complete(job);
	streams_flush(job);
	leave(job);
	log_info(
		"job.done",
		"job=%s verdict=%s exit_code=%d wall_ms=%llu violations=%zu forgotten=%d",
		job->request.request_id, verdict_name(r->outcome.verdict), r->exit_code,
		(unsigned long long)(r->outcome.wall_us / 1000), r->violation_count,
		job->forgotten);
	if (!job->forgotten)
		j->observer.on_done(j->observer.arg, job->who, r);
	job_free(job);
	queue_pump(j);
}

void job_drain(struct job *job)
{
	job_move(job, JOB_DRAINING);
	streams_close_stdin(job);
	job->paused = false; /* what is left is bounded, and its sender is gone */
	streams_watch(job);
	loop_timer_at(job->jobs->loop, &job->grace, loop_now_ns() + GRACE_NS);
	job_settle(job);
}

void job_settle(struct job *job)
{
	if (job->state == JOB_DRAINING && streams_ended(job))
		job_finish(job);
}
