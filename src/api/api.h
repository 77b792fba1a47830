/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * api.h - the wire formats of clients; no sockets
 */
#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/job.h"

struct artifacts;
struct audit;
struct job_counts;
struct json;
struct tally;

/* POST /execute: body to request, every field checked; *e names the field. out is safe to
 * request_done() either way */
int request_parse(const char *body, size_t len, const struct settings *s,
		  const struct modes *m, struct run_request *out, struct err *e);

/* fields beside code, language and timeout that a form may have */
enum request_field {
	FIELD_LIMITS = 1 << 0,
	FIELD_STDIN = 1 << 1,
	FIELD_WORDS = 1 << 2, /* args, env */
	FIELD_FILES = 1 << 3,
	FIELD_REQUIREMENTS = 1 << 4,
	FIELD_NETWORK = 1 << 5,
};
/* what clients call the fields of a run; those that a form lacks are ignored */
struct request_form {
	const char *language;      /* its name; NULL: it is always ... */
	const char *only_language; /* ... this */
	const char *timeout;
	unsigned fields;  /* of enum request_field */
	bool plain_files; /* contents are text, not base64 */
};
extern const struct request_form request_execute, request_sandbox_run, request_python;
struct request_world {
	const struct settings *settings;
	const struct modes *modes;
	bool sessions; /* their tools are offered too */
};
/* as request_parse(), of an object that is part of something else */
int request_read(const struct json *body, const struct request_form *form,
		 const struct request_world *w, struct run_request *out, struct err *e);

/* the result object of POST /execute, one JSON object without a newline */
int reply_result(struct buf *out, const struct result *r);
/* the same without files_produced: for stored runs */
int reply_result_stored(struct buf *out, const struct result *r);
/* ,"meta":{...} of such an object */
int reply_meta(struct buf *out, const struct result *r);
/* {"error":"...","code":"..."}, name being "error" but for dialects; for ERR_OURS with
 * code "internal_error" the request's id instead of the text, which is for the log */
int reply_error(struct buf *out, const char *name, const struct err *e,
		const char *request_id);
/* {"text":"..."} for one piece of live output */
int reply_output(struct buf *out, const char *text, size_t len);
/* reply_tools.c: the object of sandbox_run, the text of run_python_code */
int reply_sandbox_run(struct buf *out, const struct result *r);
int reply_python(struct buf *out, const struct result *r);
/* reply_store.c: keeps the run, as SANDBOX_STORE_CODE says; a: NULL: nowhere */
void reply_store(struct artifacts *a, const struct settings *s, const struct result *r,
		 const char *request_id);

/* hints.c: why a call of this run was refused, or what to do instead; NULL: nothing to
 * say */
const char *violation_hint(const struct result *r, const char *name,
			   const struct violation *v);

/* --- session_path.c */
#define SESSION_PATH_MAX 4096
struct session_path {
	char text[SESSION_PATH_MAX]; /* below the session's root, no slash in front */
	size_t len;                  /* 0: the root itself */
	bool directory;              /* it was written with a slash behind it */
};
/* what a URL has encoded, once; out has room for len bytes and may be text */
int session_path_decode(const char *text, size_t len, char *out, size_t *out_len,
			struct err *e);
/* absolute, or below /work; *e: 400 bad_path, 403 blocked_path */
int session_path_resolve(const char *text, size_t len, struct session_path *out,
			 struct err *e);
/* what follows /sessions in a URL: nothing, /ID, /ID/exec or /ID/files/PATH; *e: 404, or
 * as above */
int session_url_check(const char *below, size_t len, struct err *e);

struct health {
	const struct modes *modes;
	const struct settings *settings;
	const struct report *report;       /* may be NULL */
	const struct loss *loss;           /* may be NULL */
	const struct warm_state *warm;     /* may be NULL */
	const struct layers_state *layers; /* may be NULL */
	unsigned running;
	bool draining;
	unsigned long uptime_sec;
	const char *state_note; /* NULL, or why the state directory is off */
};
int reply_health(struct buf *out, const struct health *h);

/* reply_metrics.c: the text of GET /metrics */
#define METRICS_CLASSES 6
struct metrics {
	const struct health *health;
	const struct job_counts *counts;
	const uint64_t *answers;     /* by class of status: [2] is 2xx */
	const struct tally *refused; /* codes of errors */
	unsigned queued, connections;
	size_t sessions;
	bool ready;
	double started_sec;        /* Unix time */
	const struct audit *audit; /* NULL: none */
};
int reply_metrics(struct buf *out, const struct metrics *m);
/* l: NULL, or the last loss of a layer */
int reply_isolation(struct buf *out, const struct report *r, const struct loss *l);

#endif
