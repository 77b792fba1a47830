/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * conn.h - one connection and the server around it, as src/http sees them
 *
 *	conn.c        bytes in: head, body, the next request
 *	times.c       how long each may take
 *	answer.c      bytes out: answers, refusals, what the client has not read yet
 *	unread.c      how much of that there may be
 *	stream.c      live output as events
 *	on_*.c        what requests ask for
 *	server.c      listener, mongoose inside our loop
 *
 * A connection is a struct conn for as long as its mg_connection lives. Jobs know it by
 * the number of its present request, conn.who.
 */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "http/admit.h"
#include "http/auth.h"
#include "http/chunked.h"
#include "http/stream.h"
#include "job/job.h"

struct agent_call;
struct artifacts;
struct client;
struct clients;
struct err;
struct mcp_call;
struct mg_connection;
struct mg_mgr;
struct modes;
struct route;
struct session_answer;
struct session_request;
struct sessions;
struct settings;
struct tool;

enum {
	KEPT_STOP_BYTES = 16 * 1024,   /* sent ahead while we work: then reading stops */
	KEPT_CAP_BYTES = 64 * 1024,    /* ... and then the connection ends */
	LINGER_CAP_BYTES = 1 << 20,    /* swallowed after a refusal */
	COPIED_BODY_BYTES = 16 * 1024, /* up to here one packet is worth a copy */
	SLICE_BYTES = 64 * 1024, /* handed to mongoose at a time when a client is slow */
	SMALL_BODY_BYTES = 64 *
			   1024, /* bodies up to here do not count against the budget */
	UNSENT_HIGH_BYTES = 256 * 1024, /* live output: above, the program waits ... */
	UNSENT_LOW_BYTES = 64 * 1024,   /* ... until it is below this */
	ANSWER_CAP_BYTES = 256 << 20,
	WAITING_LISTS = 64,
	LISTENERS = 2,
	DATE_ROOM = 32,
	ETAG_ROOM = 32,
	EXTRA_ROOM = 768,
};

enum conn_state {
	CONN_HEAD,   /* between requests, or a head is arriving */
	CONN_BODY,   /* admitted, the body is arriving */
	CONN_BUSY,   /* a handler or a job has it */
	CONN_STREAM, /* a job has it and events are on their way */
	CONN_WRITE,  /* the answer is complete but not all sent */
	CONN_LINGER, /* all sent and shut down; swallows until the client closes */
};

struct conn {
	struct http_server *h;
	struct mg_connection *c;
	enum conn_state state;
	uint64_t since_ns;    /* when the present phase began */
	uint64_t progress_ns; /* when bytes last moved */
	/* the request */
	struct buf head;
	size_t scanned;
	struct http_head req;      /* points into head */
	const struct route *route; /* NULL until it is known */
	char request_id[REQUEST_ID_ROOM];
	char traceparent[TRACEPARENT_ROOM], trace[TRACE_ID]; /* "": none */
	uint64_t request_ns;
	struct client *client; /* whose token it has; NULL: none is needed */
	unsigned retry_sec;    /* a refusal: when to come again; 0: soon */
	const char *allow;     /* which methods; NULL: as the route says */
	struct buf body;
	size_t body_held; /* counted in the server's body_bytes */
	struct chunked chunks;
	bool skipped_blank; /* one empty line before a request is forgiven */
	bool close_after;
	bool discard;    /* refused: what still comes is swallowed */
	bool deaf;       /* reading is stopped */
	struct buf kept; /* bytes of the requests behind this one */
	size_t swallowed;
	/* the answer */
	struct buf out;  /* head and small bodies, or events */
	struct buf tail; /* a large body, behind out */
	size_t out_sent, tail_sent;
	size_t held; /* counted in the server's unsent_bytes */
	/* the job */
	uint64_t who; /* 0: none */
	struct conn *next_waiting;
	enum stream_kind stream;
	bool paused;
	const struct tool *tool;  /* POST /tools: which; else NULL */
	struct mcp_call *call;    /* POST /mcp: a tool's run; else NULL */
	struct agent_call *agent; /* asked for as agent-sandbox does; else NULL */
};

/* an answer that is the same for everybody, made when it is first asked for */
struct constant {
	struct buf body;
	const char *type;
	char etag[ETAG_ROOM];
	char extra[EXTRA_ROOM]; /* header lines, ETag among them */
};

#define CONN_IDS(k) (k)->request_id, (k)->trace

struct http_server {
	struct loop *loop;
	const struct settings *settings;
	const struct modes *modes;
	struct jobs *jobs;
	struct artifacts *artifacts;
	struct sessions *sessions; /* NULL: not yet */
	const char *state_note;
	struct mg_mgr *mgr;
	struct listener {
		struct http_server *h;
		int fd;
	} listeners[LISTENERS];
	unsigned listener_count;
	bool shared;   /* the listening sockets are somebody else's too */
	unsigned port; /* of the first */
	struct auth_rules auth;
	struct clients *clients; /* NULL: no token is needed */
	struct job_observer observer;
	struct loop_timer tick;   /* every second while there are connections */
	struct loop_timer reopen; /* out of descriptors: when to accept again */
	uint64_t told_ns;         /* last complaint about that */
	unsigned conn_count, conn_cap;
	uint64_t body_bytes, body_budget;     /* large bodies in memory */
	uint64_t unsent_bytes, unsent_budget; /* answers in memory */
	uint64_t last_who;
	struct conn *waiting[WAITING_LISTS];
	uint64_t start_ns;
	double started_sec; /* Unix time */
	uint64_t answers[METRICS_CLASSES];
	struct tally refused;
	struct constant openapi, page;
	bool draining;
	uint64_t closed_ns; /* when the listening socket was closed; 0: it is open */
	bool dirty;         /* mongoose must look again before we wait */
};

/* conn.c */
void conn_open(struct http_server *h, int fd); /* takes fd over */
void conn_next(struct conn *k);  /* the answer is out: next request, or the end */
void conn_close(struct conn *k); /* at the next look of mongoose */
void conn_wait(struct conn *k);  /* gives it a number that jobs may know */
void conn_unwait(struct conn *k);
void conn_ids(const struct conn *k, struct run_request *r);  /* whose run it is */
struct conn *conn_find(struct http_server *h, uint64_t who); /* NULL: gone */

/* times.c */
void times_check(struct conn *k, uint64_t now_ns);

/* answer.c; each ends the request. extra: NULL or whole header lines */
void answer_json(struct conn *k, int status, const char *extra, struct buf *body);
void answer_plain(struct conn *k, struct buf *text); /* 200, not JSON but UTF-8 */
void answer_bytes(struct conn *k, int status, const char *extra, struct buf *body);
void answer_text(struct conn *k, int status, const char *json);
void answer_metrics(struct conn *k, struct buf *text);
/* 304 for a client that has it already */
void answer_constant(struct conn *k, const struct constant *c);
void answer_error(struct conn *k, const struct err *e);
/* the same before or while the body comes: answer, swallow the rest, close */
void answer_refusal(struct conn *k, const struct err *e);
size_t answer_unsent(const struct conn *k);
void answer_flush(struct conn *k);
void answer_forget(struct conn *k); /* drops what is unsent */
/* bytes of a stream; -1: no memory, and the connection ends */
int answer_add(struct conn *k, const void *bytes, size_t len);
const char *answer_date(char out[DATE_ROOM]);      /* returns out */
void answer_log(const struct conn *k, int status); /* and counts it */

/* unread.c: answers in memory; each 0, or -1 and 503 */
int unread_admit(const struct conn *k, struct err *e); /* before a run */
/* for an answer of so many bytes that its client can ask for again */
int unread_room(const struct conn *k, size_t bytes, struct err *e);
void unread_hold(struct conn *k, size_t bytes);
void unread_drop(struct conn *k);
void unread_shed(struct http_server *h); /* about once a second */

/* on_mcp.c: the last five are of a connection with a call */
int on_mcp_admit(struct conn *k, struct err *e);
void on_mcp(struct conn *k);
void on_mcp_done(struct conn *k, const struct result *r);
void on_mcp_told(struct conn *k, struct buf *told); /* takes it */
void on_mcp_failed(struct conn *k, const struct err *e);
void on_mcp_tick(struct conn *k, uint64_t now_ns); /* about once a second */
void on_mcp_forget(struct conn *k);                /* also without a call */

/* on_execute.c, on_tools.c, on_health.c */
int on_tools_admit(struct conn *k, struct err *e);
void on_tools(struct conn *k);
/* r: taken over, also on failure; tool: NULL for POST /execute */
int on_execute_submit(struct conn *k, struct run_request *r, const struct tool *tool,
		      struct err *e);
int on_execute_admit(struct conn *k, struct err *e);
void on_execute(struct conn *k);
void on_execute_gone(struct conn *k); /* the client went away while a job ran */
void on_execute_observe(struct http_server *h);
/* on_sessions.c */
bool on_sessions_offered(const struct http_server *h); /* can there be any */
int on_sessions_admit(struct conn *k, struct err *e);
/* the same; *kept: there are none, and session_request.kept is to be said */
int on_kept_admit(struct conn *k, bool *kept, struct err *e);
void on_sessions(struct conn *k);
void on_scopes(struct conn *k);
bool on_session_names(const struct conn *k); /* /tools/NAME: a tool of sessions */
void on_session_tool(struct conn *k);
/* as session_begin(); 1: on_session_over() has the end of it */
int on_session_begin(struct conn *k, struct session_request *q, struct buf *out,
		     struct err *e);
/* true: the job was a session's, and whoever waits for it has been answered */
bool on_session_over(struct http_server *h, uint64_t who, const struct result *r,
		     const struct err *failed);
void on_health(struct conn *k);
void on_healthz(struct conn *k);
void on_readyz(struct conn *k);
void on_isolation(struct conn *k);
void on_metrics(struct conn *k);
/* on_agent.c */
int on_agent_admit(struct conn *k, struct err *e);
void on_upload(struct conn *k);
void on_download(struct conn *k);
void on_list(struct conn *k);
void on_exists(struct conn *k);
bool on_agent_execute(struct conn *k); /* false: the body is not of that kind */
/* out: taken; failed: NULL or why there is none */
void on_agent_over(struct conn *k, const struct session_answer *a, struct buf *out,
		   const struct err *failed);
void on_agent_forget(struct conn *k); /* also where there is none */
/* on_web.c */
void on_root(struct conn *k);
void on_openapi(struct conn *k);
void on_web_done(struct http_server *h);
#ifdef SANDBOX_TEST_HOOKS
void on_test_call(struct conn *k);
#endif

#endif
