/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session.h - sessions as clients know them: names, limits, tools
 *
 *	store.c   which sessions there are, kept in files that survive everything
 *	tools.c   a tool's arguments to a job, or to an answer at once
 *	answer.c  a job's result to the tool's answer
 *	images.c  what they can be made of
 *	network.c what they may reach
 *	sweep.c   the end of those that nobody uses
 *	written.c which files the tools made
 *	kept.c    what stands for one of them where there can be none
 *	inside.c  our own binary inside a session: reads, writes, lists, removes files
 *
 * One implementation for REST, /tools and MCP: session_begin() takes a tool and a parsed
 * object, and either answers, or starts a job, whose end is given to session_over().
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SESSION_OWNER 65           /* a token's name, with its NUL */
#define SESSION_PARTIAL ".partial" /* ends the names of files that are being written */

struct buf;
struct err;
struct jobs;
struct json;
struct loop;
struct mode;
struct result;
struct sessions;
struct settings;
struct setup;

enum session_tool {
	TOOL_OPEN,
	TOOL_EXEC,
	TOOL_WRITE,
	TOOL_READ,
	TOOL_LIST,
	TOOL_DELETE,
	TOOL_CLOSE,
	TOOL_COUNT,
	/* what REST has beside the tools */
	TOOL_ALL = TOOL_COUNT, /* GET /sessions */
	TOOL_GET,              /* GET /sessions/{id} */
	TOOL_SCOPE,            /* DELETE /scopes/{type}/{id} */
	TOOL_FORK,             /* POST /sessions/{id}/fork */
	TOOL_CHECKPOINT,       /* POST .../checkpoints */
	TOOL_RESTORE,          /* POST .../restore */
	TOOL_DIFF,             /* GET .../diff */
	TOOL_END
};
/* "sandbox_open", ...; TOOL_COUNT: none of that name */
enum session_tool session_tool_find(const char *name, size_t len);
const char *session_tool_name(enum session_tool tool);

/* text that need not end in a NUL; p NULL: not given */
struct session_text {
	const char *p;
	size_t len;
};

/* a call, as long as session_begin() has it. What a URL or a header says comes first,
 * then the arguments */
struct session_request {
	enum session_tool tool;
	const struct json *args; /* an object, or NULL */
	struct session_text id;
	struct session_text path;  /* of a file; decoded */
	struct session_text bytes; /* what is written, as it is */
	struct session_text scope_type, scope_id;
	struct session_text workflow_run,
		agent_run;     /* X-Workflow-Run-Id, X-Agent-Run-Id */
	bool raw;              /* the bytes of a file, not JSON */
	uint64_t offset, most; /* of a raw one; 0: all there is */
	bool from_end;         /* the last ones: so many as offset says */
	bool kept;             /* not in a session, but as kept.c says */
	bool uncounted;        /* what it writes is none of max_files */
	uint64_t who;          /* the job's number */
	bool live;             /* exec: output as it comes */
	const char *request_id, *traceparent;
	const char *owner;   /* the name of its token; NULL: there are none */
	uint32_t owner_most; /* sessions that it may keep; 0: any number */
};

/* how a job ended: with a result, or without one */
struct session_end {
	const struct result *r;
	const struct err *failed;
};

/* and what its client is told */
struct session_answer {
	uint64_t who;  /* whose it is; 0: nobody's */
	bool raw;      /* the bytes of a file, else JSON */
	bool again;    /* nothing was changed: it may be asked for again */
	uint64_t size; /* of that file, and where the bytes begin */
	uint64_t offset;
};

/* index_fd: where the sessions are kept; taken over. why: NULL, or why there can be none:
 * then every call is answered with 501 and that */
struct sessions *sessions_new(struct loop *l, const struct settings *s, int index_fd,
			      const char *why);
/* once, before the server gives up reading: what was there before */
int sessions_load(struct sessions *s, struct err *e);
void sessions_free(struct sessions *s);
void sessions_set_jobs(struct sessions *s, struct jobs *j, const struct setup *setup);
/* for a server with one client: a call that names no session means one that is there as
 * long as we are, once sandbox_open has opened it */
void sessions_have_own(struct sessions *s);
#define SESSION_IMAGES_BYTES (1u << 20)
/* images.c: for the server what is in the store of images; -1 with errno */
int session_images_pack(int dir_fd, struct buf *out);
void sessions_set_images(struct sessions *s, const char *bytes, size_t len);
size_t sessions_count(const struct sessions *s);

/* before a body is read: 0, or -1 and *e */
int sessions_admit(const struct sessions *s, struct err *e);
/* true: there are none here, but calls with .kept can be answered */
bool sessions_keep(const struct sessions *s);
/* 0: answered, *out is JSON; 1: a job of q->who has begun; -1 and *e */
int session_begin(struct sessions *s, const struct session_request *q, struct buf *out,
		  struct err *e);
/* true: q means the one that a client has of its own, and nobody has opened it yet */
bool session_own_wanted(const struct sessions *s, const struct session_request *q);
/* true: a job of this number is a session's */
bool session_owns(const struct sessions *s, uint64_t who);
/* its job is over. 0 and *out, or -1 and *e; *a says whose */
int session_over(struct sessions *s, uint64_t who, const struct session_end *end,
		 struct session_answer *a, struct buf *out, struct err *e);
void session_forget(struct sessions *s, uint64_t who); /* the client went away */

/* --- inside.c: argv[0] is SESSION_SELF; the exit status */
#define SESSION_SELF "/usr/bin/sandbox-files"
int session_inside_main(int argc, char **argv);

#endif
