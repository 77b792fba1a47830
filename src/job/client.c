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
#include <string.h>
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

	while (job && (job->state == JOB_QUEUED || job->state == JOB_GUARDED ||
		       job->state == JOB_INSTALLING || job->state == JOB_DRAINING))
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
	session_brokers_end(j); /* its sessions are gone with it */
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

static bool may_install(const struct job *job)
{
	return job->plan.has_layer && !job->installs;
}

/* where the socket that its broker accepts from is sent; -1 and *e */
static int egress_fd(struct job *job, struct err *e)
{
	if (job->plan.session)
		return session_broker_fd(job, e);
	return network_open(job, e) < 0 ? -1 : job->egress.run_fd;
}

int client_run(struct job *job, struct err *e)
{
	/* numbers rise in the order of sending, of one that is sent twice too */
	struct message m = {.type = MSG_RUN, .fds = 1, .run = job->jobs->last_run + 1};
	int fds[2] = {job->input_fd, -1};

	if (install_waits(job))
		return network_open(job, e) < 0 ? -1 : 1;
	m.plan = job->plan;
	if (m.plan.network == NETWORK_BROKER) {
		fds[1] = egress_fd(job, e);
		if (fds[1] < 0)
			return -1;
		m.fds = 2;
	}
	if (message_send(job->jobs->launcher_fd, &m, fds) < 0) {
		if (!for_later(errno))
			return err_errno(e, "send a run to the launcher");
		want_write(job->jobs, errno == EAGAIN);
		return 1;
	}
	job->run = ++job->jobs->last_run;
	if (!may_install(job)) /* else it may have to be sent again */
		close(take_fd(&job->input_fd));
	network_sent(job);
	job->result.level = job->jobs->report.level; /* what it is born with */
	job->result.reach = job->plan.network;
	job->result.in_session = job->plan.session != SESSION_NOT;
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
		log_error("job.kill", LOG_IDS " errno=%d", JOB_IDS(job), errno);
}

static void note_loss(struct jobs *j, const struct report *r)
{
	struct loss *l = &j->loss;
	const bool gone = l->began_ns && !l->ended_ns;

	j->counts.losses += r->lost && !gone;
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
	network_possible(j);
	log_info("launcher.report", "isolation=%s slots=%u", report_level_name(r->level),
		 r->slots);
	if (queue_open(j))
		return;
	log_error("launcher.report", "isolation=%s minimum=%s summary=\"%s\"",
		  report_level_name(r->level),
		  report_level_name((uint32_t)j->settings->min_isolation), r->summary);
	(void)queue_refuse_lost(j, r->lost, &e);
	queue_fail_queued(j, &e);
}

#define NO_MAPPING                                                               \
	"this kernel, or the file system of the images, cannot show an image's " \
	"files as root's (idmapped mounts, with an overlay on them: Linux 5.19)"

#define NO_SHELL "the session has no shell that can be started, /bin/bash or /bin/sh"

#define TOO_LONG                                                                       \
	"the command, its args and its env, with those of its session, are more than " \
	"the kernel takes together"

#define NO_VOLUME \
	"a volume of this session is no longer one of SANDBOX_VOLUMES; its files stay"

#define UNMERGED "session_merge"

/* what a client can do something about; step NULL: any, num 0: any */
static const struct session_answer {
	const char *step;
	int num;
	enum err_kind kind;
	int status;
	const char *code;
	const char *text;
} session_answers[] = {
	{"session_unavailable", 0, ERR_OURS, 501, "sessions_unavailable",
	 "the directory of sessions cannot be used; the log of the server says why"},
	{"kept", 0, ERR_THEIRS, 501, "sessions_unavailable",
	 "this server keeps no files for that any more"},
	{"kept_disk", 0, ERR_OURS, 507, "disk_full",
	 "what was kept was far more than it may be, or too deep to be counted, and was "
	 "removed"},
	{"session_cgroup", 0, ERR_THEIRS, 400, "root_not_available",
	 "this server has no cgroup, which a session with the user root needs"},
	{"session_ranges", 0, ERR_THEIRS, 400, "root_not_available",
	 "this server has one uid for all, and a session with the user root needs a "
	 "range of them"},
	{"session_pivot", 0, ERR_THEIRS, 400, "root_not_available",
	 "this server cannot give a session a root of its own by pivot_root, which one "
	 "with the user root needs"},
	{"session_mapping", 0, ERR_THEIRS, 400, "root_not_available", NO_MAPPING},
	{"session_ids", 0, ERR_THEIRS, 400, "root_not_available", NO_MAPPING},
	{"cwd", 0, ERR_THEIRS, 400, "bad_workdir",
	 "workdir is not a directory that can be entered"},
	{"exec", ENOENT, ERR_THEIRS, 409, "no_shell", NO_SHELL},
	{"exec", EACCES, ERR_THEIRS, 409, "no_shell", NO_SHELL},
	{"exec", E2BIG, ERR_THEIRS, 400, "bad_request", TOO_LONG},
	{"session_busy", 0, ERR_THEIRS, 409, "session_busy",
	 "a command is running in the session; \"force\":true ends it"},
	{"session_restore", ENOENT, ERR_THEIRS, 404, "no_such_checkpoint",
	 "the session has no such checkpoint"},
	{"session_image", ENOENT, ERR_THEIRS, 409, "image_not_found",
	 "the image of this session is not there any more; its files stay"},
	{"session_files", ENOENT, ERR_THEIRS, 404, "not_found",
	 "this session has no files any more, since the server ended while it was being "
	 "closed; close it, or open it anew"},
	{"session_files", ENODEV, ERR_THEIRS, 409, "no_such_volume", NO_VOLUME},
	{"session_restore", ENODEV, ERR_THEIRS, 409, "no_such_volume", NO_VOLUME},
	{"session_end", 0, ERR_THEIRS, 409, "session_busy",
	 "the session was ending; try again"},
	{"session_files", EMLINK, ERR_BUSY, 429, "at_capacity",
	 "the layers of this session are being merged; try again"},
	{"session_never", 0, ERR_THEIRS, 501, "sessions_unavailable",
	 "RLIMIT_NOFILE (ulimit -n) of this server is too low for a session"},
	{"session_share", 0, ERR_BUSY, 429, "at_capacity",
	 "too many sessions or commands in them at once of this token, which may have "
	 "half of the places"},
	{"session_room", 0, ERR_BUSY, 429, "at_capacity",
	 "too many sessions or commands in them at once, as RLIMIT_NOFILE allows"},
	{NULL, EBUSY, ERR_BUSY, 429, "at_capacity",
	 "too many sessions or commands in them at once"},
	{NULL, EUSERS, ERR_BUSY, 429, "at_capacity",
	 "all uids, or ranges of them, that this server has for sessions are taken; "
	 "close some"},
	{"session_disk", 0, ERR_OURS, 507, "disk_full",
	 "this session has more on disk than it may have, and went on to grow; close it"},
	{"session_files", EFBIG, ERR_OURS, 507, "disk_full",
	 "this session has more on disk than it may have, frozen files included; remove "
	 "some first"},
	{NULL, ENOSPC, ERR_OURS, 507, "disk_full",
	 "the state directory of this server is full"},
	{NULL, EDQUOT, ERR_OURS, 507, "disk_full",
	 "the state directory of this server is full"},
	{UNMERGED, 0, ERR_THEIRS, 409, "too_many_layers",
	 "this session has as many layers as it may, and they could not be merged"},
};

/* false: it is as with every run */
static bool session_failure(const struct failure *f, struct err *e)
{
	const int num = f->busy ? EBUSY : f->num;
	const struct session_answer *a = session_answers,
				    *end = a + sizeof(session_answers) /
						       sizeof(session_answers[0]);

	while (a < end &&
	       ((a->step && strcmp(a->step, f->step) != 0) || (a->num && a->num != num)))
		a++;
	if (f->lost_layer || a == end)
		return false;
	if (a->step && strcmp(a->step, UNMERGED) == 0)
		(void)err_client(e, a->status, a->code, "%s: %s", a->text, strerror(num));
	else if (a->kind == ERR_BUSY)
		(void)err_busy(e, "%s", a->text);
	else if (a->kind == ERR_THEIRS)
		(void)err_client(e, a->status, a->code, "%s", a->text);
	else
		(void)err_server(e, a->status, a->code, "%s", a->text);
	return true;
}

/* of any run, where the stack that the host allows is small */
static bool is_too_long(const struct failure *f)
{
	return f->num == E2BIG && strcmp(f->step, "exec") == 0;
}

static void on_failure(struct job *job, const struct failure *f)
{
	struct err e;

	if (f->no_layer && may_install(job) && job->state == JOB_STARTING &&
	    !job->ended) {
		install_begin(job);
		return;
	}
	if (job->ended)
		(void)queue_refuse_draining(&e);
	else if ((job->plan.session || job->plan.kept || is_too_long(f)) &&
		 session_failure(f, &e))
		;
	else if (f->busy)
		(void)queue_refuse_busy(job->jobs, &e);
	else if (f->lost_layer)
		(void)queue_refuse_lost(job->jobs, f->lost_layer, &e);
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
		log_error("job.files", LOG_IDS " errno=%d", JOB_IDS(job), errno);
		job->result.outcome.files = OUTCOME_FILES_LOST;
	}
	job_drain(job);
}

static void fail_cut(struct job *job)
{
	struct err e;

	(void)queue_refuse_descriptors(&e);
	job_fail(job, &e);
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
		if (!starting || job->have_streams || job->cut)
			return false;
		if (fds[0] < 0) { /* nobody hears it: answered when it has ended */
			job->cut = job->kill_wanted = true;
			client_kill(job);
			return true;
		}
		streams_take(job, fds);
		return true;
	case MSG_STARTED:
		if (!starting)
			return false;
		job_move(job, JOB_RUNNING);
		if (job->input_fd >= 0)
			close(take_fd(&job->input_fd));
		if (o->on_started && job->live && !job->forgotten)
			o->on_started(o->arg, job->who);
		return true;
	case MSG_VIOLATION:
		return result_add_violation(&job->result, &m->violation) == 0;
	case MSG_DONE:
		if (job->cut)
			fail_cut(job);
		else
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
	if (m->type == MSG_LAYERS) {
		j->layers = m->layers;
		return;
	}
	if (m->type == MSG_WARM) {
		j->warm = m->warm;
		return;
	}
	if (m->type == MSG_SESSION) {
		session_broker_idle(j, m->session_key);
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
		/* whose descriptors are gone concerns one run; but who does not know what
		 * a report says does not go on */
		if (rc < 0 && errno == EMFILE && m.type != MSG_REPORT) {
			log_error("launcher.cut", "type=%u run=%llu", m.type,
				  (unsigned long long)m.run);
			rc = 1;
		}
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
	j->counts.launchers++;
	if (j->launcher_fd >= 0 || j->first)
		lose_launcher(j);
	client_attach(j, launcher_fd);
}
