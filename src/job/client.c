/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * client.c - the server's end of the socket: plan and descriptors out, news in
 *
 * Runs in: the server. The launcher holds the rights, so what it says is believed; it is
 * still checked for shape and for order, because a message that fits nothing shows a
 * fault that must not become a wrong answer. End of file means that it died: whatever was
 * in flight fails, and work waits for the supervisor's next one.
 */
#include "wire/message.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/log.h"
#include "config/settings.h"
#include "job/jobs.h"

#define WAKE_MESSAGES 64

/* one that waits for its turn has nothing to lose yet, and one whose outcome is known
 * does not need the launcher any more */
static struct job *first_unfinished(const struct jobs *j)
{
	struct job *job = j->first;

	while (job && (job->state == JOB_QUEUED || job->state == JOB_DRAINING))
		job = job->next;
	return job;
}

static void lose_launcher(struct jobs *j)
{
	struct job *job;
	struct err e;

	client_detach(j);
	(void)err_server(&e, 500, "launcher_lost",
			 "the launcher died while the program was in its care");
	while ((job = first_unfinished(j)))
		job_fail(job, &e);
}

static void want_write(struct jobs *j, bool wanted)
{
	if (j->want_write == wanted || j->launcher_fd < 0)
		return;
	if (loop_change(j->loop, j->launcher_fd, EPOLLIN | (wanted ? EPOLLOUT : 0u)) < 0)
		log_error("launcher.socket", "errno=%d", errno);
	j->want_write = wanted;
}

/* the peer is gone, which the loop will find too, or does not read at the moment */
static bool for_later(int error)
{
	return error == EAGAIN || error == EPIPE || error == ECONNRESET ||
	       error == ENOTCONN;
}

int client_run(struct job *job, struct err *e)
{
	struct message m = {.type = MSG_RUN, .fds = 1, .run = job->run};

	m.plan = job->plan;
	if (message_send(job->jobs->launcher_fd, &m, &job->input_fd) < 0) {
		if (!for_later(errno))
			return err_errno(e, "send a run to the launcher");
		want_write(job->jobs, errno == EAGAIN);
		return 1;
	}
	close(take_fd(&job->input_fd));
	job->result.level = job->jobs->report.level; /* what it is born with */
	job_move(job, JOB_STARTING);
	return 0;
}

void client_kill(struct job *job)
{
	struct message m = {.type = MSG_KILL, .run = job->run};

	if (job->jobs->launcher_fd < 0)
		return;
	if (message_send(job->jobs->launcher_fd, &m, NULL) == 0)
		job->kill_wanted = false;
	else if (errno == EAGAIN)
		want_write(job->jobs, true);
	else if (!for_later(errno))
		log_error("job.kill", "job=%s errno=%d", job->request.request_id, errno);
}

static void note_loss(struct jobs *j, const struct report *r)
{
	struct loss *l = &j->loss;
	const bool gone = l->began_ns && !l->ended_ns;

	if (r->lost && !gone)
		*l = (struct loss){.layer = r->lost - 1, .began_ns = loop_now_ns()};
	else if (r->lost)
		l->layer = r->lost - 1;
	if (!r->lost && gone) {
		l->ended_ns = loop_now_ns();
		log_info("isolation.back", "layer=%s gone_ms=%llu",
			 report_layer_name((enum layer_id)l->layer),
			 (unsigned long long)((l->ended_ns - l->began_ns) / 1000000));
	}
}

static void on_report(struct jobs *j, const struct report *r)
{
	struct err e;

	note_loss(j, r);
	j->report = *r;
	j->have_report = j->report_fresh = true;
	log_info("launcher.report", "isolation=%s slots=%u", report_level_name(r->level),
		 r->slots);
	if (queue_open(j))
		return;
	log_error("launcher.report", "isolation=%s minimum=%s summary=\"%s\"",
		  report_level_name(r->level),
		  report_level_name((uint32_t)j->settings->min_isolation), r->summary);
	(void)queue_refuse_lost(r->lost, &e);
	queue_fail_queued(j, &e);
}

static void on_failure(struct job *job, const struct failure *f)
{
	struct err e;

	if (f->busy)
		(void)queue_refuse_busy(job->jobs, &e);
	else if (f->lost_layer)
		(void)queue_refuse_lost(f->lost_layer, &e);
	else
		(void)err_server(&e, 500, "sandbox_setup_failed",
				 "sandbox step \"%s\" failed", f->step);
	e.num = f->num;
	job_fail(job, &e);
}

static void on_outcome(struct job *job, const struct outcome *o, int files_fd)
{
	job->result.outcome = *o;
	if (o->files == OUTCOME_FILES && files_open(&job->files, files_fd) < 0) {
		log_error("job.files", "job=%s errno=%d", job->request.request_id, errno);
		job->result.outcome.files = OUTCOME_FILES_LOST;
	}
	job_drain(job);
}

/* false: it does not fit the state of the run it is about */
static bool on_news(struct job *job, const struct message *m, int fds[MESSAGE_FDS])
{
	const struct job_observer *o = &job->jobs->observer;
	bool starting = job->state == JOB_STARTING;

	if (!starting && job->state != JOB_RUNNING)
		return false;
	switch (m->type) {
	case MSG_STREAMS:
		if (!starting || job->have_streams)
			return false;
		streams_take(job, fds);
		return true;
	case MSG_STARTED:
		if (!starting)
			return false;
		job_move(job, JOB_RUNNING);
		if (o->on_started && job->live && !job->forgotten)
			o->on_started(o->arg, job->who);
		return true;
	case MSG_VIOLATION:
		return result_add_violation(&job->result, &m->violation) == 0;
	case MSG_DONE:
		on_outcome(job, &m->outcome, fds[0]);
		return true;
	case MSG_FAILED:
		on_failure(job, &m->failure);
		return true;
	default:
		return false;
	}
}

static void on_message(struct jobs *j, const struct message *m, int fds[MESSAGE_FDS])
{
	struct report report;
	struct job *job;

	if (m->type == MSG_REPORT) {
		if (message_read_report(fds[0], &report) < 0) {
			log_error("launcher.report", "errno=%d", errno);
			return;
		}
		on_report(j, &report);
		if (j->on_report)
			j->on_report(j->on_report_arg, &j->report);
		return;
	}
	if (m->type == MSG_WARM) {
		j->warm = m->warm;
		return;
	}
	job = job_by_run(j, m->run);
	if (!job || !on_news(job, m, fds))
		log_error("launcher.message", "type=%u run=%llu known=%d", m->type,
			  (unsigned long long)m->run, job != NULL);
}

static void on_launcher(void *arg, uint32_t events)
{
	struct jobs *j = arg;
	const int launcher_fd = j->launcher_fd;
	struct message m;
	int fds[MESSAGE_FDS];
	int rc = 1;

	if (events & EPOLLOUT)
		want_write(j, false);
	/* a callback may have brought another launcher: its messages wait for its event
	 */
	for (int i = 0; i < WAKE_MESSAGES && rc == 1 && j->launcher_fd == launcher_fd;
	     i++) {
		rc = message_receive(launcher_fd, &m, fds);
		if (rc != 1)
			break;
		on_message(j, &m, fds);
		for (int k = 0; k < MESSAGE_FDS; k++)
			if (fds[k] >= 0)
				close(fds[k]);
	}
	if (rc == 0 || (rc < 0 && errno != EAGAIN)) {
		log_error("launcher.lost", "errno=%d in_flight=%u", rc < 0 ? errno : 0,
			  jobs_running(j));
		lose_launcher(j);
		return;
	}
	queue_pump(j);
}

void client_attach(struct jobs *j, int launcher_fd)
{
	if (loop_add(j->loop, launcher_fd, EPOLLIN, on_launcher, j) < 0) {
		log_error("launcher.socket", "errno=%d", errno);
		close(launcher_fd);
		return;
	}
	j->launcher_fd = launcher_fd;
}

void client_detach(struct jobs *j)
{
	if (j->launcher_fd >= 0) {
		loop_remove(j->loop, j->launcher_fd);
		close(take_fd(&j->launcher_fd));
	}
	j->want_write = false;
	j->report_fresh = false;
	j->warm = (struct warm_state){0};
}

void jobs_new_launcher(struct jobs *j, int launcher_fd)
{
	if (j->launcher_fd >= 0 || j->first)
		lose_launcher(j);
	client_attach(j, launcher_fd);
}
