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
#include "config/mode.h"
#include "egress/rules.h"
#include "job/counts.h"
#include "job/job.h"
#include "job/share.h"
#include "wire/files.h"

enum job_state {
	JOB_QUEUED,     /* admitted, the launcher does not know of it */
	JOB_GUARDED,    /* waits for what is found in its text */
	JOB_INSTALLING, /* waits for its packages */
	JOB_STARTING,   /* sent to the launcher */
	JOB_RUNNING,    /* the program runs */
	JOB_DRAINING,   /* the program has ended; pipes may still hold bytes */
	JOB_DONE,       /* about to be answered; no longer in the list */
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

/* a host, to an install */
enum install_refused {
	REFUSED_UNLISTED,
	REFUSED_NEAR,    /* an index's: its address */
	REFUSED_LEARNED, /* the same of one that an index named */
};

struct job {
	struct jobs *jobs;
	struct job *next;
	uint64_t run; /* its number on the wire; 0: not sent yet */
	uint64_t who;
	enum job_state state;
	bool live;
	bool paused;
	bool forgotten;   /* nobody waits for the answer any more */
	bool kill_wanted; /* MSG_KILL still has to be sent */
	bool ended;       /* killed since the server ends */
	bool cut; /* there was no room for its streams: it is killed, and failed then */
	bool have_streams;
	struct plan plan;
	int input_fd;
	int stdin_fd;
	bool stdin_watched;
	size_t stdin_at;
	struct job_pipe pipe[2]; /* by enum job_stream */
	bool installs; /* it makes a layer of packages, for whoever waits for that */
	bool hears; /* that one: its broker is asked first, and says where it listens */
	bool is_guard; /* it looks for imports, of the one it guards if that is there */
	struct job *guards, *guard; /* whom, by whom; or NULL */
	unsigned install_tries, install_rounds;
	bool learned; /* an install: a host that it may reach the next time */
	char refused_host[NAME_ROOM]; /* an install: the last that it may not; or "" */
	enum install_refused refused; /* why */
	uint64_t install_began_ns;
	struct loop_timer grace; /* after MSG_DONE: the pipes' last chance */
	struct files_reader files;
	struct egress_channel egress; /* EGRESS_NONE: it has no broker, or it is over */
	bool egress_watched;
	char secret[EGRESS_SECRET]; /* that its broker wants; "": none */
	struct run_request request;
	char trace[TRACE_ID]; /* of the request, for the log */
	char code_hash[65];   /* for audit.c; "": there is none */
	struct result result;
};
#define JOB_IDS(job) (job)->request.request_id, (job)->trace

struct jobs {
	struct loop *loop;
	const struct settings *settings;
	const struct modes *modes;
	struct share share;
	struct job_observer observer;
	struct job *first; /* in order of arrival */
	unsigned count[JOB_STATES];
	unsigned in_sessions[JOB_STATES]; /* not among those */
	struct rules
		learned[MODE_COUNT]; /* what installs may reach, with what they learned */
	unsigned nobodys; /* of those in the list: installs and guards, no requests */
	uint64_t last_run;
	bool draining;
	int launcher_fd; /* -1: lost */
	int mother_fd;   /* of brokers; -1: there is none */
	struct session_broker *session_brokers;
	bool want_write; /* the socket was full */
	bool have_report;
	bool report_fresh; /* of the present launcher */
	struct report report;
	struct loss loss;
	struct warm_state warm; /* of the present launcher */
	struct layers_state layers;
	struct job_counts counts;
	struct audit *audit; /* NULL: none */
	void (*on_report)(void *arg, const struct report *r);
	void *on_report_arg;
};

/* ---- job.c ---- */

struct job *job_new(struct jobs *j, uint64_t who, struct run_request *r, bool live);
void job_move(struct job *job, enum job_state to);
struct job *job_by_run(const struct jobs *j, uint64_t run);
struct job *job_first_queued(const struct jobs *j); /* of those that take a place */
/* ends of a job; each takes it out of the list and frees it */
void job_drop(struct job *job); /* without a word */
void job_fail(struct job *job, const struct err *e);
void job_finish(struct job *job); /* with its result */
void job_answer(struct job *job); /* with a result that is complete */
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
int queue_refuse_descriptors(struct err *e); /* 503 no_descriptors */
int queue_refuse_draining(struct err *e);    /* 503 draining */
/* 503 isolation_lost, or docker_unavailable; layer: as in struct failure */
int queue_refuse_lost(const struct jobs *j, uint32_t layer, struct err *e);

/* ---- client.c ---- */

void client_attach(struct jobs *j, int launcher_fd);
void client_detach(struct jobs *j);
/* 0: sent; 1: not now; -1 and *e: this job cannot be sent */
int client_run(struct job *job, struct err *e);
void client_kill(struct job *job);

/* ---- prepare.c ---- */

/* the plan and the sealed input; frees what is then in the memfd, the code excepted */
int prepare_job(struct job *job, struct err *e);

/* the same for an install of what `wanted` requires */
int prepare_install(struct job *install, const struct run_request *wanted, struct err *e);

/* ---- install.c ---- */

struct install_why {
	const char *reason; /* a word for programs */
	char text[512];     /* a sentence for people */
};

void install_key(const struct run_request *r, uint8_t out[LAYER_KEY]);
/* it wants packages and nothing installs any: then it is answered soon */
bool install_impossible(struct job *job);
void install_begin(struct job *job);    /* its layer is not there */
void install_over(struct job *install); /* and those that wait for it go on */
/* it can be told nothing before its broker says at which port that listens */
bool install_waits(const struct job *job);
void install_heard(struct job *install); /* now it can; may end it */
/* its broker refused this host */
void install_refused(struct job *install, const struct egress_news *n);
void install_lost(struct job *install, const struct err *e);
void install_drain(struct jobs *j, const struct err *e);
/* install_why.c */
void install_explain(const struct job *install, struct install_why *out);

/* ---- imports.c ---- */

bool imports_wanted(const struct job *job);
/* the guard that is to be run before it; NULL and *e */
struct job *imports_begin(struct job *job, struct err *e);
void imports_over(struct job *guard); /* and what it guards goes on, or is answered */
void imports_lost(struct job *guard, const struct err *e);
/* out of the list goes what is guarded, or what guards it */
void imports_leave(struct job *job);

/* ---- network.c ---- */

/* after a report: where nobody can have any, nobody forks brokers */
void network_possible(struct jobs *j);

/* before it is sent to the launcher: 0, or -1 and *e. Again is fine */
int network_open(struct job *job, struct err *e);
void network_sent(struct job *job); /* the launcher has the run's end */
void network_end(struct job *job);  /* the run is over: what is left is told at once */
bool network_ended(const struct job *job);
void network_close(struct job *job);
/* the i-th "NAME=value" that points programs to their proxy (NULL: the usual one, "":
 * none) and to certificates of this host; "" when this host lacks what it would name;
 * false: there are no more */
#define NETWORK_WORDS 16
#define NETWORK_WORD 512
bool network_word(const struct settings *s, const char *proxy, size_t i,
		  char out[NETWORK_WORD]);

/* true: it names a file of this host, which an image need not have */
bool network_word_of_host(size_t i);

/* ---- session_broker.c ---- */

/* for a job in a session that has network, whose broker is made when need be: where its
 * process 1 sends its socket. Not the caller's to close; -1 and *e */
int session_broker_fd(struct job *job, struct err *e);
/* its session's processes are gone: so is it, unless others are on their way */
void session_broker_idle(struct jobs *j, const uint8_t key[SESSION_KEY]);
void session_brokers_end(struct jobs *j); /* those of all are */
void session_brokers_free(struct jobs *j);

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
