/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * queue.c - admit now, queue, or refuse as busy
 *
 * Runs in: the server. At most max_concurrent runs are with the launcher; `queue` more
 * may wait for their turn, in order of arrival.
 */
#include "job/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/settings.h"
#include "job/audit.h"
#include "job/jobs.h"

#define CLOSES 16 /* at once, beside all commands */

struct jobs *jobs_new(struct loop *l, const struct settings *s, const struct modes *m,
		      const struct job_observer *o, int launcher_fd)
{
	struct jobs *j = mem_zero(sizeof(*j));

	j->loop = l;
	j->settings = s;
	j->modes = m;
	j->share = share_now(s);
	j->observer = *o;
	j->launcher_fd = j->mother_fd = -1;
	if (launcher_fd >= 0)
		client_attach(j, launcher_fd);
	return j;
}

static void on_audit_back(void *arg)
{
	queue_pump(arg);
}

void jobs_set_audit(struct jobs *j, struct audit *a)
{
	j->audit = a;
	audit_on_back(a, on_audit_back, j);
}

static int refuse_audit(struct err *e)
{
	return err_server(
		e, 503, "audit_failed",
		"the audit file cannot be written: nothing is run until it can");
}

void jobs_free(struct jobs *j)
{
	struct err e;

	if (!j)
		return;
	audit_on_back(j->audit, NULL, NULL);
	(void)err_server(&e, 503, "server_stopped", "the server was stopped");
	while (j->first) {
		if (j->first->run && !j->first->is_guard)
			audit_run(j->audit, j->first, &e);
		job_drop(j->first);
	}
	session_brokers_free(j);
	client_detach(j);
	defer_close(&j->mother_fd);
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

unsigned jobs_queued(const struct jobs *j)
{
	return j->count[JOB_QUEUED] + j->count[JOB_GUARDED] + j->count[JOB_INSTALLING];
}

const struct audit *jobs_audit(const struct jobs *j)
{
	return j->audit;
}

const struct job_counts *jobs_counts(const struct jobs *j)
{
	return &j->counts;
}

/* of clients; installs and guards are nobody's, but take places of runs */
static unsigned inside(const struct jobs *j)
{
	return jobs_running(j) + j->count[JOB_QUEUED] + j->count[JOB_GUARDED] +
	       j->count[JOB_INSTALLING] - j->nobodys;
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
	return queue_open(j) && !j->draining && audit_open_for_runs(j->audit);
}

int queue_refuse_draining(struct err *e)
{
	return err_server(e, 503, "draining", "the server is shutting down");
}

int queue_refuse_busy(const struct jobs *j, struct err *e)
{
	return err_busy(e, "at capacity (%u/%llu concurrent executions)", inside(j) + 1,
			(unsigned long long)j->settings->max_concurrent);
}

int queue_refuse_descriptors(struct err *e)
{
	return err_server(e, 503, "no_descriptors",
			  "the server had no descriptors left for this run");
}

/* why it could not begin: one for whom the host has no descriptors now may come again */
static int not_begun(struct err *e)
{
	const int num = e->num;

	if (e->kind == ERR_OURS && (num == EMFILE || num == ENFILE)) {
		(void)queue_refuse_descriptors(e);
		e->num = num;
	}
	return -1;
}

int queue_refuse_lost(const struct jobs *j, uint32_t layer, struct err *e)
{
	if (j->settings->docker)
		return err_server(
			e, 503, "docker_unavailable",
			"Docker daemon not available. Set SANDBOX_TYPE=local or "
			"start Docker daemon");
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

const struct layers_state *jobs_layers(const struct jobs *j)
{
	return &j->layers;
}

const struct loss *jobs_loss(const struct jobs *j)
{
	return &j->loss;
}

/* whoever it is for */
static int may_run(const struct jobs *j, struct err *e)
{
	if (j->draining)
		return queue_refuse_draining(e);
	if (j->have_report &&
	    j->report.lost) /* also while another launcher looks again */
		return queue_refuse_lost(j, j->report.lost, e);
	if (j->launcher_fd < 0 || !j->report_fresh)
		return err_server(e, 503, "not_ready", "the launcher is starting");
	if (!audit_open_for_runs(j->audit))
		return refuse_audit(e);
	return queue_open(j) ? 0 : queue_refuse_lost(j, 0, e);
}

int jobs_may_run(const struct jobs *j, struct err *e)
{
	return may_run(j, e);
}

/* Commands in sessions, which have places of their own. Who closes sessions has some
 * more, since that is how places become free: each has a descriptor for a moment only. */
static int may_command(const struct jobs *j, enum plan_session how, struct err *e)
{
	const unsigned more = how == SESSION_CLOSE ? CLOSES : 0;
	unsigned n = 0;

	for (int i = 0; i < JOB_STATES; i++)
		n += j->in_sessions[i];
	if (may_run(j, e) < 0)
		return -1;
	if (n < j->share.commands + more)
		return 0;
	return err_busy(e, "at capacity (%u commands in sessions%s)", n,
			j->share.fewer_commands ? ", as RLIMIT_NOFILE allows" : "");
}

int jobs_may_admit(const struct jobs *j, struct err *e)
{
	if (may_run(j, e) < 0)
		return -1;
	if (inside(j) >= j->settings->max_concurrent + j->settings->queue)
		return queue_refuse_busy(j, e);
	return 0;
}

static bool may_start(const struct jobs *j)
{
	return queue_open(j) && !j->want_write && audit_open_for_runs(j->audit) &&
	       jobs_running(j) < j->settings->max_concurrent;
}

int jobs_submit(struct jobs *j, uint64_t who, struct run_request *r, bool live,
		struct err *e)
{
	struct job *job, *first;

	if ((r->session.how ? may_command(j, r->session.how, e) : jobs_may_admit(j, e)) <
	    0) {
		request_done(r);
		return -1;
	}
	if ((r->network && j->report.network != NETWORK_BROKER) ||
	    (r->pod && j->report.network != NETWORK_POD)) {
		request_done(r);
		return err_server(e, 501, "network_unavailable",
				  "this host can give runs no network: that needs the "
				  "isolation level namespaces");
	}
	job = job_new(j, who, r, live);
	audit_take(j->audit, job);
	if (prepare_job(job, e) < 0) {
		job_drop(job);
		return not_begun(e);
	}
	if (install_impossible(job))
		return 0;
	first = imports_wanted(job) ? imports_begin(job, e) : job;
	if (!first ||
	    ((job->plan.session ? !j->want_write
				: may_start(j) && job_first_queued(j) == first) &&
	     client_run(first, e) < 0)) {
		job_drop(job);
		return not_begun(e);
	}
	return 0;
}

void queue_fail_queued(struct jobs *j, const struct err *e)
{
	struct job *job;

	do {
		for (job = j->first; job && job->state != JOB_QUEUED; job = job->next)
			;
		if (job)
			job_fail(job, e);
	} while (job);
}

void queue_pump(struct jobs *j)
{
	struct job *job, *next;
	struct err e;

	for (job = j->first; job; job = job->next)
		if (job->kill_wanted)
			client_kill(job);
	if (!audit_open_for_runs(j->audit)) {
		(void)refuse_audit(&e);
		return queue_fail_queued(j, &e);
	}
	for (job = j->first; job && queue_open(j) && !j->want_write; job = next) {
		next = job->next;
		if (job->state == JOB_QUEUED && job->plan.session &&
		    client_run(job, &e) < 0) {
			(void)not_begun(&e);
			job_fail(job, &e);
		}
	}
	while (may_start(j) && (job = job_first_queued(j))) {
		int rc = client_run(job, &e);

		if (rc > 0)
			break;
		if (rc < 0) {
			(void)not_begun(&e);
			job_fail(job, &e);
		}
	}
}

/* A queued one is nobody's yet; a running one stays until the launcher says it is over,
 * so that its slot counts as taken as long as it is. */
static void forget(struct job *job)
{
	switch (job->state) {
	case JOB_QUEUED:
	case JOB_GUARDED:
	case JOB_INSTALLING:
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
	(void)queue_refuse_draining(&e);
	queue_fail_queued(j, &e);
	install_drain(j, &e);
}

void jobs_kill_all(struct jobs *j)
{
	jobs_drain(j);
	for (struct job *job = j->first; job; job = job->next) {
		if (job->state == JOB_STARTING || job->state == JOB_RUNNING) {
			job->ended = job->kill_wanted = true;
			client_kill(job);
		}
	}
}

void jobs_fail_all(struct jobs *j)
{
	struct err e;

	(void)queue_refuse_draining(&e);
	while (j->first)
		job_fail(j->first, &e);
}
