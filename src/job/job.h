/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * job.h - a run as the server sees it: asked for, admitted, watched, answered
 *
 *	queue.c    admit now, queue, or refuse as busy
 *	job.c      one run's life: its states, and how it ends
 *	prepare.c  settings + mode + request to a plan and an input memfd
 *	client.c   the server's end of the launcher's socket
 *	streams.c  the pipes: stdin written, stdout and stderr read as they come
 *	install.c  packages, before the run that needs them
 *	imports.c  the import guard, before a run of python
 *	capture.c  what is kept of a stream: cut at the cap
 *	result.c   verdict, exit code, message, files
 *	network.c  the broker of a run that has network
 *	session_broker.c  that of a session, which outlives its runs
 *	share.c    how the server's descriptors are shared out
 *
 * A job knows who asked by a number (a connection id), never by pointer: connections die
 * first.
 */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "egress/egress.h"
#include "wire/input.h"
#include "wire/plan.h"
#include "wire/report.h"

struct loop;
struct mode;
struct modes;
struct rules;
struct settings;

struct run_file {
	char *name;
	struct buf data;
};

/* what a client asked for; strings are owned. api/request.c fills it (http the two ids),
 * request_done() ends it, also a zeroed or half-filled one */
struct run_request {
	const struct mode *mode;
	unsigned row;
	struct buf code;
	struct buf stdin_text;
	struct run_file *files;
	size_t file_count;
	char **args;           /* NULL-terminated */
	char **env;            /* "NAME=value", NULL-terminated */
	char **requirements;   /* sorted, in one form, NULL-terminated; NULL: none */
	struct limits limits;  /* clamped by api/request.c through job_limits() */
	bool ahead;            /* begin with the modules that a waiting one has */
	struct rules *network; /* what it may reach by a broker; NULL: it has none */
	bool pod;              /* but the network of the server itself */
	struct {
		enum plan_session how; /* SESSION_NOT: a run of its own */
		char *name;            /* for the log; only of one with network */
		bool image;            /* its files are not this host's */
		bool kept;             /* none, but plan.kept */
		uint8_t key[SESSION_KEY];
		char *cwd; /* NULL: /work */
		struct plan_open open;
		uint8_t other_key[SESSION_KEY];
		uint32_t count;
		bool force;
	} session;
	bool bare;         /* how it ended is not a line of its stderr */
	bool pass_through; /* live output as it comes, uncut and not kept */
	char request_id[65];
	char traceparent[64]; /* "" when there is none */
	char token[65];       /* the name of the client's; "": none was needed */
};
/* the ids in every line of the log that is about a request */
#define LOG_IDS "request=%s trace?=%s"
#define TRACE_ID 33
/* of a traceparent; "" of none */
const char *trace_id(const char *traceparent, char out[TRACE_ID]);
void request_done(struct run_request *r);

/* one stream's bytes, cut at the cap while they are read */
struct capture {
	struct buf kept;
	size_t cap_bytes;
	uint64_t seen_bytes;
	bool truncated;
};

struct skipped_file {
	char *name;
	char *reason;
};
struct produced_file {
	char *name;
	const char *bytes; /* in the mapped files memfd */
	size_t len;
};

#define RESULT_MESSAGE 576

/* complete when the observer sees it; freed afterwards */
struct result {
	const struct mode *mode;
	struct outcome outcome;
	struct limits limits; /* in force */
	/* as clients see it: -1 timeout, 128+N signal, 137 out of memory */
	int exit_code;
	char message[RESULT_MESSAGE]; /* "" when the program ended by itself */
	struct capture out;
	struct capture err; /* message already appended as its last line */
	struct produced_file *files;
	size_t file_count;
	struct skipped_file *skipped;
	size_t skipped_count;
	/* calls that were refused, in the order they were first made; outcome.violations
	 * says whether that is all, or nobody knows */
	struct violation *violations;
	size_t violation_count;
	const char *image; /* that it was run in a container of; NULL: none */
	char *blocked;     /* modules that it may not import, "os,socket"; NULL: none */
	uint32_t level;    /* enum isolation_level */
	uint32_t reach;    /* enum plan_network: what it was given */
	bool in_session;
	bool has_network;            /* a broker of its own, which counts */
	struct egress_count network; /* what it did with it */
	/* of a run that wants packages */
	uint64_t install_ms;        /* that it waited for them */
	const char *install_reason; /* why they could not be installed; else NULL */
	int install_exit;           /* the installer's exit code then; -1: it never ran */
	/* what was asked for, for stored runs: code, env and the ids; the rest is gone */
	const struct run_request *request;
};

enum job_stream { JOB_STDOUT, JOB_STDERR };

struct job_observer {
	void *arg;
	/* Live output; only for jobs started with live = true. Whole UTF-8 characters
	 * where the program writes such. All pieces together are the stream of the result
	 * that follows, its marker and last line included. */
	void (*on_output)(void *arg, uint64_t who, enum job_stream stream,
			  const char *text, size_t len);
	void (*on_done)(void *arg, uint64_t who, const struct result *r);
	/* no user code ran, or the launcher died; e->status and e->code say what to
	 * answer */
	void (*on_failed)(void *arg, uint64_t who, const struct err *e);
	/* NULL, or: the program runs, live jobs only; output may have come before */
	void (*on_started)(void *arg, uint64_t who);
};

struct jobs;

/* the brokers' mother; taken over, also when another one was there. Without her, runs
 * with network fail with 500 network_lost */
void jobs_set_broker(struct jobs *j, int mother_fd);
/* a session's: it is closed; fine where there is none */
void jobs_close_network(struct jobs *j, const uint8_t key[SESSION_KEY]);
/* false: nothing has been done yet in that session that could reach anything */
bool jobs_network(const struct jobs *j, const uint8_t key[SESSION_KEY],
		  struct egress_count *out);
/* launcher_fd is taken over. The settings, modes and loop outlive the jobs */
struct jobs *jobs_new(struct loop *l, const struct settings *s, const struct modes *m,
		      const struct job_observer *o, int launcher_fd);
void jobs_free(struct jobs *j);
/* the supervisor started another launcher; runs in flight fail with 500 launcher_lost */
void jobs_new_launcher(struct jobs *j, int launcher_fd);

/* before the body is read: 0, or ERR_BUSY "at capacity (4/3 concurrent executions)", or
 * 503 draining, isolation_lost, not_ready */
int jobs_may_admit(const struct jobs *j, struct err *e);
/* takes the request's contents over (also on failure). live: on_output is wanted. No
 * callback comes before this returns */
int jobs_submit(struct jobs *j, uint64_t who, struct run_request *r, bool live,
		struct err *e);
/* the client went away: kills the run or forgets the queued one; no callback follows */
void jobs_cancel(struct jobs *j, uint64_t who);
/* a slow reader of live output: stop or go on reading this job's pipes */
void jobs_pause(struct jobs *j, uint64_t who, bool paused);
/* limits of a request before clamping: 0 in a field means "the default" */
void job_limits(const struct settings *s, const struct mode *m,
		const struct limits *wanted, struct limits *out);

/* called with every report of a launcher, after job's own books are in order */
void jobs_on_report(struct jobs *j, void (*fn)(void *arg, const struct report *r),
		    void *arg);
unsigned jobs_running(const struct jobs *j); /* running and starting, not queued */
unsigned jobs_queued(const struct jobs *j);  /* they wait for a place or for packages */
/* since the start, see job/counts.h */
struct audit;
void jobs_set_audit(struct jobs *j, struct audit *a); /* outlives the jobs; or NULL */
const struct audit *jobs_audit(const struct jobs *j);
struct job_counts;
const struct job_counts *jobs_counts(const struct jobs *j);
/* The last time that an isolation layer was gone; began_ns 0: never so far */
struct loss {
	uint32_t layer; /* enum layer_id */
	uint64_t began_ns;
	uint64_t ended_ns; /* 0: it is gone still */
};
const struct loss *jobs_loss(const struct jobs *j);
/* sandboxes that wait, as the launcher told last */
const struct warm_state *jobs_warm(const struct jobs *j);
/* layers of packages, as the launcher told last */
const struct layers_state *jobs_layers(const struct jobs *j);
/* NULL before the launcher's first; the last one known while a launcher is replaced */
const struct report *jobs_report(const struct jobs *j);
/* a launcher and its report, isolation at or above the minimum, not draining */
bool jobs_ready(const struct jobs *j);
int jobs_may_run(const struct jobs *j, struct err *e); /* 0, or 503 and why not */
void jobs_drain(struct jobs *j); /* no new ones; queued ones fail with 503 draining */
bool jobs_idle(const struct jobs *j); /* nothing runs and nothing is queued */
void jobs_kill_all(struct jobs *j);   /* drains; running ones are killed and answered */
void jobs_fail_all(
	struct jobs *j); /* whoever waits is told 503 draining, and it is over */

const char *verdict_name(enum verdict v); /* "ok", "nonzero_exit", ... */
/* an install of this mode may reach hosts that its index names: public ones */
bool install_learns(const struct settings *s, const struct mode *m);
/* seconds for people, in `room`: 1000 is "1", 500 is "0.5" */
const char *job_seconds(uint32_t ms, char room[16]);

#endif
