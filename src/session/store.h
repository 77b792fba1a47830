/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * store.h - inside of session/: the sessions there are; for this folder only
 */
#ifndef SESSION_STORE_H
#define SESSION_STORE_H

#include "base/buf.h"
#include "base/loop.h"
#include "image/image.h"
#include "job/job.h"
#include "session/session.h"

#define SESSION_ID 192              /* workflow_ and 128 and _sandbox, or 32 */
#define SESSION_ENTRIES 1000        /* of a page of a listing */
#define STORE_MOST 1000             /* sessions, all owners' together */
#define OWN_WHO (UINT64_C(1) << 63) /* jobs that no client waits for by itself */

struct session_checkpoint {
	uint8_t key[SESSION_KEY];
	uint64_t created_sec;
};

struct session {
	struct session *next;
	char id[SESSION_ID];
	char owner[SESSION_OWNER]; /* for others it does not exist; "": nobody's */
	char scope_type[16], scope_id[129];
	uint8_t key[SESSION_KEY];
	uint64_t created_sec, used_sec; /* wall clock */
	uint32_t timeout_ms;
	uint64_t max_file_bytes, max_files;
	char **written; /* files that sandbox_fs_write made: their paths; written.c */
	size_t written_count;
	char **env; /* "NAME=value", of all its commands */
	char image[IMAGE_NAME];
	bool read_only;
	bool root;           /* its user is, and not sandbox */
	char *allow_network; /* as JSON; NULL: nothing */
	struct session_checkpoint *checkpoint;
	size_t checkpoint_count;
	uint32_t volumes;    /* only while it is made: the launcher remembers */
	unsigned busy;       /* calls that are under way */
	enum disk_kind disk; /* as its last command had it; DISK_UNKNOWN: none ran yet */
	uint64_t disk_limit_bytes, disk_used_bytes;
	bool closing;
};

struct session_call {
	struct session_call *next;
	uint64_t who, waiter; /* a close is nobody's job: who waits for its answer */
	enum session_tool tool;
	char id[SESSION_ID], owner[SESSION_OWNER];
	bool kept;  /* of sessions.kept */
	char *path; /* as the answer names it; NULL: of no file */
	bool created;
	bool raw, want_base64, from_end, uncounted;
	uint32_t closed; /* of a scope: so many before this one */
	/* of a fork, and of checkpoints */
	uint8_t other_key[SESSION_KEY];
	uint32_t count;
	bool force;
	uint64_t offset;
};

struct sessions {
	struct loop *loop;
	const struct settings *settings;
	int index_fd;
	char why[256];        /* "": there can be sessions */
	char own[SESSION_ID]; /* which a call means that names none; "": no such thing */
	struct jobs *jobs;
	struct mode *mode; /* for results: what is run in a session */
	unsigned exec_row, image_row, files_row;
	char root_why[160]; /* "": there can be sessions whose user is root */
	uint32_t volume_count;
	char volume[SETUP_VOLUMES][64];
	struct image_names images;
	char *image_text;       /* their variables, */
	const char **image_env; /* and of each where they begin */
	struct session *first;
	struct session *kept; /* not one of them; NULL: nobody asked for it yet */
	struct session_call *calls;
	uint64_t last_own;
	uint64_t idle_sec, lifetime_sec; /* 0: for ever */
	struct loop_timer sweep;
};

/* --- store.c */
void store_free(struct session *one); /* its file stays */
/* owner: NULL is "" */
struct session *store_find(const struct sessions *s, const char *owner, const char *id,
			   size_t len);
struct session *store_of(const struct sessions *s, const struct session_call *c);
/* durable when this returns 0; -1 and *e */
int store_save(const struct sessions *s, const struct session *one, struct err *e);
/* so many more can be kept, and by who asks; -1 and *e */
int store_room(const struct sessions *s, const struct session_request *q, size_t more,
	       struct err *e);
struct session *store_add(struct sessions *s, const char *owner, const char *id);
bool store_owned(const struct session *one, const char *owner);
/* and its file */
void store_remove(struct sessions *s, struct session *one);
uint64_t store_now_sec(void);

/* --- written.c: the files that count against max_files */
/* how many of them must be gone before another is made; 0: none, and then *paths stays
 * empty, else it gets those that may be, each with its NUL */
uint64_t written_need(const struct sessions *s, const struct session *one,
		      const char *path, struct buf *paths);
/* these are gone, and this one was made */
void written_change(struct session *one, const char *gone, size_t len, const char *made);
void written_copy(const struct session *from, struct session *to);
int written_describe(const struct session *one, struct buf *b);
void written_fill(struct session *one, const struct json *list);
void written_free(struct session *one);

/* --- tools.c */
/* closes it; q: who asked, and is told; NULL: nobody */
int session_close_one(struct sessions *s, struct session *one,
		      const struct session_request *q, struct err *e);
/* c closed one of a scope: closes the next; 1, 0: there is none, or -1 and *e */
int session_close_next(struct sessions *s, const struct session_call *c, struct err *e);
/* an argument, where the URL says nothing; p NULL: neither does */
int session_arg(const struct session_request *q, const char *name,
		const struct session_text *given, struct session_text *out,
		struct err *e);
bool session_text_is(struct session_text t, const char *word);
/* 1: a scope; 0: none is named; -1 and *e */
int session_scope(const struct session_request *q, struct session_text *type,
		  struct session_text *id, struct err *e);
/* the id of a scope's session; of none: a new one */
void session_name(struct session_text type, struct session_text scope, char *out);
void session_job(const struct sessions *s, const struct session *one,
		 enum plan_session how, const struct limits *wanted,
		 struct run_request *r);
void session_ids(const struct session_request *q, struct run_request *r);
/* 1, or -1 and *e: then the call is gone; takes the request over */
int session_submit(struct sessions *s, struct session_call *c, struct run_request *r,
		   bool live, struct err *e);
struct session_call *session_call_find(const struct sessions *s, uint64_t who);
struct session_call *session_call_new(struct sessions *s, enum session_tool tool,
				      struct session *one, uint64_t who);
/* of what is done and kept in mind whether or not somebody still waits for the answer */
struct session_call *session_call_own(struct sessions *s, enum session_tool tool,
				      struct session *one,
				      const struct session_request *q);
void session_call_free(struct sessions *s, struct session_call *c);
/* {"session_id":...}: as sandbox_open answers, and as GET /sessions does */
int session_describe(const struct sessions *s, const struct session *one,
		     struct buf *out);

const char *session_user(const struct session *one);
/* as sandbox_open answers */
int session_opened(const struct session *one, bool created, struct buf *out);

/* --- kept.c */
/* the one that is kept, for who asks; NULL and *e */
struct session *kept_find(struct sessions *s, const struct session_request *q,
			  struct err *e);
/* from "work/a.txt" to "./a.txt": where it is then; 0, or -1 and *e */
int kept_path(const char *below_root, char *out, size_t room, struct err *e);

/* --- tool_open.c: what a session may have that asks for nothing */
int session_limits(const struct sessions *s, const struct session_request *q,
		   struct session *one, struct err *e);

/* --- tool_*.c: 1: a job has begun; -1 and *e */
int tool_open(struct sessions *s, const struct session_request *q, struct err *e);
int tool_exec(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e);
int tool_write(struct sessions *s, const struct session_request *q, struct session *one,
	       struct err *e);
int tool_read(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e);
int tool_list(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e);
int tool_delete(struct sessions *s, const struct session_request *q, struct session *one,
		struct err *e);

/* --- tool_versions.c */
int tool_fork(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e);
int tool_checkpoint(struct sessions *s, const struct session_request *q,
		    struct session *one, struct err *e);
int tool_restore(struct sessions *s, const struct session_request *q, struct session *one,
		 struct err *e);
int tool_diff(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e);
int answer_fork(struct sessions *s, const struct session_call *c, struct buf *b,
		struct err *e);
int answer_checkpoint(struct sessions *s, const struct session_call *c, struct buf *b,
		      struct err *e);
int answer_restore(const struct session_call *c, struct buf *b);
int answer_diff(const struct result *r, struct buf *b);

/* --- network.c */
/* as it is kept; NULL: of nothing that may be reached */
char *session_network_text(const struct json *v);
/* what sandbox_open was told, or NULL; 0, or -1 and *e */
int session_network_take(const struct sessions *s, const struct json *v,
			 struct session *one, struct err *e);
/* to a job that may start the session's processes */
void session_network_add(const struct sessions *s, const struct session *one,
			 struct run_request *r);
/* two members of an object, with a comma before each */
int session_network_describe(const struct sessions *s, const struct session *one,
			     struct buf *out);

/* --- images.c: "NAME=value", each with its NUL, an empty one ends */
const char *session_image_env(const struct sessions *s, const char *name);

/* --- sweep.c */
void sweep_start(struct sessions *s);

/* --- inside.c: its exit statuses, and what a client is told */
struct inside_failure {
	int exit_code;
	int status;
	const char *code, *text;
};
enum {
	INSIDE_NOT_FOUND = 64,
	INSIDE_BLOCKED,
	INSIDE_NOT_A_FILE,
	INSIDE_NOT_A_DIRECTORY,
	INSIDE_IS_A_DIRECTORY,
	INSIDE_EXISTS,
	INSIDE_NOT_EMPTY,
	INSIDE_TOO_MANY,
	INSIDE_NO_SPACE,
	INSIDE_BAD,
	INSIDE_FAULT,
	INSIDE_END
};

#endif
