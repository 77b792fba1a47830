/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * jobs.h - inside of job/: one run and the list of them; for this folder only
 *
 * A job lives in the list from jobs_submit() until it is answered. Callbacks of the
 * observer may call back into job.h, jobs_cancel() for the same job included: a job that
 * runs is then only marked as forgotten, and goes when the launcher has told its end.
 */
#ifndef JOB_JOBS_H
#define JOB_JOBS_H

#include "base/loop.h"
#include "job/job.h"
#include "wire/files.h"

enum job_state {
	JOB_QUEUED,   /* admitted, the launcher does not know of it */
	JOB_STARTING, /* sent to the launcher */
	JOB_RUNNING,  /* the program runs */
	JOB_DRAINING, /* the program has ended; pipes may still hold bytes */
	JOB_DONE,     /* about to be answered; no longer in the list */
	JOB_STATES
};

struct job_pipe {
	struct job *job;
	struct capture *capture;
	enum job_stream stream;
	int fd;         /* -1: not there yet, or at end of file */
	bool watched;   /* by the loop */
	size_t live_at; /* bytes of the capture already given to on_output */
};

struct job {
	struct jobs *jobs;
	struct job *next;
	uint64_t run; /* its number on the wire */
	uint64_t who;
	enum job_state state;
	bool live;
	bool paused;
	bool forgotten;   /* nobody waits for the answer any more */
	bool kill_wanted; /* MSG_KILL still has to be sent */
	bool have_streams;
	struct plan plan;
	int input_fd;
	int stdin_fd;
	bool stdin_watched;
	size_t stdin_at;
	struct job_pipe pipe[2]; /* by enum job_stream */
	struct loop_timer grace; /* after MSG_DONE: the pipes' last chance */
	struct files_reader files;
	struct run_request request;
	struct result result;
};

struct jobs {
	struct loop *loop;
	const struct settings *settings;
	const struct modes *modes;
	struct job_observer observer;
	struct job *first; /* in order of arrival */
	unsigned count[JOB_STATES];
	uint64_t last_run;
	bool draining;
	int launcher_fd; /* -1: lost */
	bool want_write; /* the socket was full */
	bool have_report;
	bool report_fresh; /* of the present launcher */
	struct report report;
	struct loss loss;
	struct warm_state warm; /* of the present launcher */
	void (*on_report)(void *arg, const struct report *r);
	void *on_report_arg;
};

/* ---- job.c ---- */

struct job *job_new(struct jobs *j, uint64_t who, struct run_request *r, bool live);
void job_move(struct job *job, enum job_state to);
struct job *job_by_run(const struct jobs *j, uint64_t run);
struct job *job_first_queued(const struct jobs *j);
/* ends of a job; each takes it out of the list and frees it */
void job_drop(struct job *job); /* without a word */
void job_fail(struct job *job, const struct err *e);
void job_finish(struct job *job); /* with its result */
/* the launcher told the outcome: finish now or when the pipes are empty */
void job_drain(struct job *job);
/* a pipe ended: finish when it was the last one of a draining job */
void job_settle(struct job *job);

/* ---- queue.c ---- */

/* starts what may start, sends what the socket would not take; after any change */
void queue_pump(struct jobs *j);
/* a launcher that may be given work */
bool queue_open(const struct jobs *j);
void queue_fail_queued(struct jobs *j, const struct err *e);
int queue_refuse_busy(const struct jobs *j, struct err *e);
/* 503 isolation_lost; layer: as in struct failure */
int queue_refuse_lost(uint32_t layer, struct err *e);

/* ---- client.c ---- */

void client_attach(struct jobs *j, int launcher_fd);
void client_detach(struct jobs *j);
/* 0: sent; 1: not now; -1 and *e: this job cannot be sent */
int client_run(struct job *job, struct err *e);
void client_kill(struct job *job);

/* ---- prepare.c ---- */

/* the plan and the sealed input; frees what is then in the memfd, the code excepted */
int prepare_job(struct job *job, struct err *e);

/* ---- streams.c ---- */

void streams_take(struct job *job, int fds[3]); /* stdin, stdout, stderr; takes them */
void streams_watch(struct job *job);            /* as job->paused says */
void streams_rest(struct job *job);             /* what the pipes hold now; then closes */
/* live output up to the end of the captures, a last line included */
void streams_flush(struct job *job);
void streams_close_stdin(struct job *job);
void streams_close(struct job *job);
bool streams_ended(const struct job *job); /* both outputs */

/* ---- capture.c ---- */

void capture_init(struct capture *c, uint32_t cap_kb);
void capture_done(struct capture *c);
void capture_add(struct capture *c, const char *bytes, size_t len);
void capture_last_line(struct capture *c, const char *text);
/* how many of the kept bytes are final and end with a whole character */
size_t capture_settled(const struct capture *c);

/* ---- result.c ---- */

/* captures, outcome and files of a job to its result */
void result_complete(struct job *job);
void result_done(struct result *r);
/* -1: more than any run can have */
int result_add_violation(struct result *r, const struct violation *v);

#endif
