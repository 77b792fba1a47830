/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * queue.c - admit now, queue, or refuse as busy
 *
 * Runs in: the server. At most max_concurrent runs are with the launcher; `queue` more
 * may wait for their turn, in order of arrival.
 */
#include "job/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/settings.h"
#include "job/jobs.h"

struct jobs *jobs_new(struct loop *l, const struct settings *s, const struct modes *m,
		      const struct job_observer *o, int launcher_fd)
{
	struct jobs *j = mem_zero(sizeof(*j));

	j->loop = l;
	j->settings = s;
	j->modes = m;
	j->observer = *o;
	j->launcher_fd = -1;
	if (launcher_fd >= 0)
		client_attach(j, launcher_fd);
	return j;
}

void jobs_free(struct jobs *j)
{
	if (!j)
		return;
	while (j->first)
		job_drop(j->first);
	client_detach(j);
	free(j);
}

void jobs_on_report(struct jobs *j, void (*fn)(void *arg, const struct report *r),
		    void *arg)
{
	j->on_report = fn;
	j->on_report_arg = arg;
}

unsigned jobs_running(const struct jobs *j)
{
	return j->count[JOB_STARTING] + j->count[JOB_RUNNING] + j->count[JOB_DRAINING];
}

bool jobs_idle(const struct jobs *j)
{
	return !j->first;
}

const struct report *jobs_report(const struct jobs *j)
{
	return j->have_report ? &j->report : NULL;
}

bool queue_open(const struct jobs *j)
{
	return j->launcher_fd >= 0 && j->report_fresh &&
	       j->report.level >= j->settings->min_isolation;
}

bool jobs_ready(const struct jobs *j)
{
	return queue_open(j) && !j->draining;
}

static int refuse_draining(struct err *e)
{
	return err_server(e, 503, "draining", "the server is shutting down");
}

int queue_refuse_busy(const struct jobs *j, struct err *e)
{
	return err_busy(e, "at capacity (%u/%llu concurrent executions)",
			jobs_running(j) + j->count[JOB_QUEUED] + 1,
			(unsigned long long)j->settings->max_concurrent);
}

int queue_refuse_lost(uint32_t layer, struct err *e)
{
	if (layer == 0 || layer > LAYER_COUNT)
		return err_server(e, 503, "isolation_lost",
				  "isolation is below the minimum this server was given");
	return err_server(
		e, 503, "isolation_lost",
		"the isolation layer %s is gone: nothing is run until it is back",
		report_layer_name((enum layer_id)(layer - 1)));
}

const struct warm_state *jobs_warm(const struct jobs *j)
{
	return &j->warm;
}

const struct loss *jobs_loss(const struct jobs *j)
{
	return &j->loss;
}

int jobs_may_admit(const struct jobs *j, struct err *e)
{
	uint64_t inside = jobs_running(j) + j->count[JOB_QUEUED];

	if (j->draining)
		return refuse_draining(e);
	if (j->have_report &&
	    j->report.lost) /* also while another launcher looks again */
		return queue_refuse_lost(j->report.lost, e);
	if (j->launcher_fd < 0 || !j->report_fresh)
		return err_server(e, 503, "not_ready", "the launcher is starting");
	if (!queue_open(j))
		return queue_refuse_lost(0, e);
	if (inside >= j->settings->max_concurrent + j->settings->queue)
		return queue_refuse_busy(j, e);
	return 0;
}

static bool may_start(const struct jobs *j)
{
	return queue_open(j) && !j->want_write &&
	       jobs_running(j) < j->settings->max_concurrent;
}

int jobs_submit(struct jobs *j, uint64_t who, struct run_request *r, bool live,
		struct err *e)
{
	struct job *job;

	if (jobs_may_admit(j, e) < 0) {
		request_done(r);
		return -1;
	}
	job = job_new(j, who, r, live);
	if (prepare_job(job, e) < 0 ||
	    (may_start(j) && job_first_queued(j) == job && client_run(job, e) < 0)) {
		job_drop(job);
		return -1;
	}
	return 0;
}

void queue_fail_queued(struct jobs *j, const struct err *e)
{
	struct job *job;

	while ((job = job_first_queued(j)))
		job_fail(job, e);
}

void queue_pump(struct jobs *j)
{
	struct job *job;
	struct err e;

	for (job = j->first; job; job = job->next)
		if (job->kill_wanted)
			client_kill(job);
	while (may_start(j) && (job = job_first_queued(j))) {
		int rc = client_run(job, &e);

		if (rc > 0)
			break;
		if (rc < 0)
			job_fail(job, &e);
	}
}

/* A queued one is nobody's yet; a running one stays until the launcher says it is over,
 * so that its slot counts as taken as long as it is. */
static void forget(struct job *job)
{
	switch (job->state) {
	case JOB_QUEUED:
		job_drop(job);
		break;
	case JOB_STARTING:
	case JOB_RUNNING:
		job->forgotten = true;
		streams_close(job);
		job->kill_wanted = true;
		client_kill(job);
		break;
	case JOB_DRAINING: /* perhaps in a callback about this very job: end it later */
		job->forgotten = true;
		loop_timer_at(job->jobs->loop, &job->grace, loop_now_ns());
		break;
	case JOB_DONE:
	case JOB_STATES:
		break;
	}
}

static struct job *job_by_who(const struct jobs *j, uint64_t who)
{
	struct job *job = j->first;

	while (job && (job->who != who || job->forgotten))
		job = job->next;
	return job;
}

void jobs_cancel(struct jobs *j, uint64_t who)
{
	struct job *job;

	while ((job = job_by_who(j, who)))
		forget(job);
}

void jobs_pause(struct jobs *j, uint64_t who, bool paused)
{
	struct job *job = job_by_who(j, who);

	if (!job || job->state == JOB_DRAINING)
		return;
	job->paused = paused;
	streams_watch(job);
}

void jobs_drain(struct jobs *j)
{
	struct err e;

	j->draining = true;
	(void)refuse_draining(&e);
	queue_fail_queued(j, &e);
}

void jobs_kill_all(struct jobs *j)
{
	jobs_drain(j);
	for (struct job *job = j->first; job; job = job->next) {
		if (job->state == JOB_STARTING || job->state == JOB_RUNNING) {
			job->kill_wanted = true;
			client_kill(job);
		}
	}
}
