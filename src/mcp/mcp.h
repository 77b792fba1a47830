/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mcp.h - the Model Context Protocol: one JSON-RPC message in, what to do with it out
 *
 *	receive.c   what came: JSON-RPC, the protocol's version, the method
 *	put.c    what goes back
 *
 * No sockets and no state: HTTP and standard input carry the same messages, keep a call
 * while its run takes, and ask here for what to send. Two kinds of clients are served at
 * once. Those of 2026-07-28 ("modern") say their version with every request; those of
 * 2025-11-25 and before begin with `initialize`.
 */
#ifndef MCP_MCP_H
#define MCP_MCP_H

#include "api/api.h"

struct json;
struct tool;

#define MCP_ID_ROOM 512 /* an id or a token, as JSON */
#define MCP_MODERN "2026-07-28"

/* what HTTP says beside the body, which modern requests repeat there; NULL: not there */
struct mcp_headers {
	const char *version, *method, *name;
};

/* one call of a tool, from MCP_RUN until it is answered */
struct mcp_call {
	char id[MCP_ID_ROOM];    /* as JSON; "": it cannot be read */
	char token[MCP_ID_ROOM]; /* the same, for progress; "": none is wanted */
	bool modern;
	const struct tool *tool;
	uint32_t wall_ms;       /* what the program has; 0: a session's tool */
	struct run_request run; /* to be submitted */
	/* of a session's tool: an object or NULL, which is doc's */
	const struct json *arguments;
	struct json *doc;
};
void mcp_call_done(struct mcp_call *c);

enum mcp_what {
	MCP_ANSWER,   /* answer is it */
	MCP_ACCEPTED, /* nothing to say, HTTP's 202 */
	MCP_CANCEL,   /* call->id is of a request that its client gave up */
	MCP_RUN,      /* submit call->run; mcp_done() or mcp_failed() has the answer */
	MCP_SESSION,  /* call->tool is one of sessions; mcp_told() or mcp_failed() */
};
struct mcp_answer {
	struct buf json;
	int status;  /* of HTTP */
	bool begins; /* it answers `initialize` */
};

/*
 * h: NULL where there are no headers. call and answer need no preparation; the caller
 * ends call with mcp_call_done() and answer->json with buf_done(), whatever comes.
 */
enum mcp_what mcp_receive(const struct request_world *w, const struct mcp_headers *h,
			  const char *text, size_t len, struct mcp_call *call,
			  struct mcp_answer *answer);

/* each: one message without a newline; -1: no memory */
int mcp_done(struct buf *out, const struct mcp_call *c, const struct result *r);
/* json: an object, as the tool's schema says */
int mcp_told(struct buf *out, const struct mcp_call *c, const struct buf *json);
/* the call failed before there was a result: a result too, that a model can act on */
int mcp_failed(struct buf *out, const struct mcp_call *c, const struct err *e,
	       const char *request_id);
int mcp_progress(struct buf *out, const struct mcp_call *c, uint64_t elapsed_ms);

#endif
