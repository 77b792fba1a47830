/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.c - one run's life: its states, and how it ends
 */
#include "job/jobs.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/settings.h"
#include "job/audit.h"

#define GRACE_NS 100000000u /* for pipes that somebody else still holds open */

#define NETWORK_GRACE_NS 2000000000u /* and for a broker to say what there was */

#define MAY(state) (1u << (state))
static const unsigned may_follow[] = {
	[JOB_QUEUED] = MAY(JOB_STARTING) | MAY(JOB_GUARDED) | MAY(JOB_INSTALLING) |
		       MAY(JOB_DONE),
	[JOB_GUARDED] = MAY(JOB_QUEUED) | MAY(JOB_DONE),
	[JOB_INSTALLING] = MAY(JOB_QUEUED) | MAY(JOB_DONE),
	/* a deadline can pass before the program has begun */
	[JOB_STARTING] = MAY(JOB_RUNNING) | MAY(JOB_DRAINING) | MAY(JOB_DONE) |
			 MAY(JOB_INSTALLING),
	[JOB_RUNNING] = MAY(JOB_DRAINING) | MAY(JOB_DONE),
	[JOB_DRAINING] = MAY(JOB_DONE),
	[JOB_DONE] = 0,
};
static_assert(sizeof(may_follow) / sizeof(may_follow[0]) == JOB_STATES,
	      "a state lacks its row");

/* what is done in sessions takes no place of runs, and is counted apart */
static void job_count(struct job *job, enum job_state state, int n)
{
	if (job->request.session.how == SESSION_NOT)
		job->jobs->count[state] += (unsigned)n;
	else
		job->jobs->in_sessions[state] += (unsigned)n;
}

void job_move(struct job *job, enum job_state to)
{
	assert(may_follow[job->state] & MAY(to));
	job_count(job, job->state, -1);
	job_count(job, to, 1);
	job->state = to;
}

const char *trace_id(const char *traceparent, char out[TRACE_ID])
{
	out[0] = '\0';
	if (strlen(traceparent) > 35)
		snprintf(out, TRACE_ID, "%.32s", traceparent + 3);
	return out;
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
	job->who = who;
	job->live = live;
	job->request = *r;
	memset(r, 0, sizeof(*r));
	(void)trace_id(job->request.traceparent, job->trace);
	job->input_fd = job->stdin_fd = -1;
	job->egress = (struct egress_channel)EGRESS_NONE;
	job->grace = (struct loop_timer){.fn = on_grace_over, .arg = job};
	job->result.mode = job->request.mode;
	job->result.limits = job->request.limits;
	job->result.request = &job->request;
	job->result.image = j->settings->docker ? j->settings->docker_image : NULL;
	capture_init(&job->result.out, job->request.limits.output_kb);
	capture_init(&job->result.err, job->request.limits.output_kb);
	for (int i = 0; i < 2; i++)
		job->pipe[i] = (struct job_pipe){
			.job = job, .stream = (enum job_stream)i, .fd = -1};
	job->pipe[JOB_STDOUT].capture = &job->result.out;
	job->pipe[JOB_STDERR].capture = &job->result.err;
	job_count(job, JOB_QUEUED, 1);
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

	while (job && (job->state != JOB_QUEUED || job->plan.session))
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
	job_count(job, JOB_DONE, -1);
	job->jobs->nobodys -= job->installs || job->is_guard;
	imports_leave(job);
	loop_timer_stop(job->jobs->loop, &job->grace);
	streams_close(job);
	network_close(job);
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
	if (job->run && !job->is_guard) {
		job->jobs->counts.failures++;
		audit_run(job->jobs->audit, job, e);
	}
	if (job->installs)
		install_lost(job, e);
	else if (job->is_guard)
		imports_lost(job, e);
	else if (!job->forgotten)
		o->on_failed(o->arg, job->who, e);
	job_free(job);
}

void job_finish(struct job *job)
{
	streams_rest(job);
	result_complete(job);
	job_answer(job);
}

void job_answer(struct job *job)
{
	struct jobs *j = job->jobs;
	const struct result *r = &job->result;

	streams_flush(job);
	leave(job);
	counts_run(&j->counts, job);
	/* one whose imports are blocked was refused for what it is: that is told, too */
	if ((job->run || r->outcome.verdict == VERDICT_BLOCKED_IMPORT) && !job->is_guard)
		audit_run(j->audit, job, NULL);
	log_info("job.done",
		 LOG_IDS " run=%llu mode=%s verdict=%s exit_code=%d wall_ms=%llu "
			 "violations=%zu forgotten=%d",
		 JOB_IDS(job), (unsigned long long)job->run, counts_mode_name(job),
		 verdict_name(r->outcome.verdict), r->exit_code,
		 (unsigned long long)(r->outcome.wall_us / 1000), r->violation_count,
		 job->forgotten);
	if (job->installs)
		install_over(job);
	else if (job->is_guard)
		imports_over(job);
	else if (!job->forgotten)
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
	network_end(job);
	loop_timer_at(job->jobs->loop, &job->grace,
		      loop_now_ns() + (network_ended(job) ? GRACE_NS : NETWORK_GRACE_NS));
	job_settle(job);
}

void job_settle(struct job *job)
{
	if (job->state == JOB_DRAINING && streams_ended(job) && network_ended(job))
		job_finish(job);
}
