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

/* POST /execute: body to request, every field checked; *e names the field. out is safe to
 * request_done() either way */
int request_parse(const char *body, size_t len, const struct settings *s,
		  const struct modes *m, struct run_request *out, struct err *e);

/* the result object of POST /execute, one JSON object without a newline */
int reply_result(struct buf *out, const struct result *r);
/* the same without files_produced: for stored runs */
int reply_result_stored(struct buf *out, const struct result *r);
/* {"error":"...","code":"..."}; for ERR_OURS with code "internal_error" the request's id
 * instead of the text, which is for the log */
int reply_error(struct buf *out, const struct err *e, const char *request_id);
/* {"text":"..."} for one piece of live output */
int reply_output(struct buf *out, const char *text, size_t len);

/* hints.c: why a call is refused, or what to do instead; NULL: nothing to say */
const char *violation_hint(const char *name, const uint64_t args[6]);

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
	const struct report *report;   /* may be NULL */
	const struct loss *loss;       /* may be NULL */
	const struct warm_state *warm; /* may be NULL */
	unsigned running;
	bool draining;
	unsigned long uptime_sec;
	const char *state_note; /* NULL, or why the state directory is off */
};
int reply_health(struct buf *out, const struct health *h);
/* l: NULL, or the last loss of a layer */
int reply_isolation(struct buf *out, const struct report *r, const struct loss *l);

#endif
