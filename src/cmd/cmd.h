/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cmd.h - the subcommands, and what several of them need at their start
 *
 *	serve.c     the supervisor
 *	reload.c    what it reads again when told so
 *	server.c    the process that speaks HTTP, or MCP over standard input
 *	confine.c   takes from it what it has no use for
 *	launcher.c  what the supervisor executes as the launcher
 *	inside.c    process 1 of a run's container
 *	broker.c    the process that forks a broker for each run with network
 *	alone.c     a launcher and jobs without HTTP
 *	run.c       one program
 *	layers.c    the packages that were installed for requests
 *	prefetch.c  the same ahead
 *	token.c     a token for a client
 *	audit.c     whether an audit file is what the server wrote
 *	image.c     images that sessions start from
 *	image_add.c makes one, in a process without rights
 *	image_pull.c  gets one by skopeo, podman or docker
 *	state.c     the state directory, and what is kept there
 *	own.c       a directory there for the sessions of one process
 *	ahead.c     whether modules can be imported ahead, tried before serving
 *	selftest.c  the attacks of src/attack against this host's own sandbox
 *	config.c    the settings in force, and where each comes from
 *	ready.c     whether a server that runs takes requests
 *	check.c     which isolation layers work here
 *	policy.c    what is allowed, what is refused, by which line
 *	observe.c   what a program wanted beyond that
 *	identity.c  the host uids that the server and its runs get
 *	prepare.c   settings, modes, filters, cgroups to what a launcher starts with
 */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include <stdbool.h>
#include <sys/types.h>

#include "config/mode.h"
#include "config/settings.h"
#include "job/audit.h"
#include "launcher/launcher.h"

struct egress_world;
struct err;
struct job_observer;
struct jobs;
struct policy;
struct result;
struct setup_filter;
struct tokens;

#define POLICY_SET 3

/* own.c: what goes with this process; held while fd >= 0 */
struct own {
	int fd, all_fd;
	char name[17];
	char path[32]; /* below the state directory */
};

struct prepared {
	struct settings settings;
	struct modes modes;
	struct launcher_start *start;
	struct setup_filter *server_calls; /* policy "server"; TO_SERVE only */
	struct setup_filter *broker_calls; /* policy "broker"; NULL: none is needed */
	struct egress_world *world;        /* with it: how this host reaches others */
	int start_fd;                      /* start, sealed */
	int ledger_fd;                     /* of the launchers, launcher/ledger.h */
	int sessions_fd;        /* "session-index" there, the server's; -1: off */
	int sessions_lock_fd;   /* held as long as they are ours alone; -1: off */
	int images_fd;          /* what sessions may be made of; -1: nothing */
	char sessions_why[256]; /* when they are: why */
	bool alone;             /* sessions are this process's, and go with it: */
	struct own own;         /* they are here */
	int artifacts_fd; /* "artifacts" in the state directory, the server's; -1: off */
	struct tokens *tokens;     /* that clients need; NULL: none */
	struct audit_start *audit; /* where every run is told; NULL: nowhere */
	char state_note[256];      /* why the state directory is off; "" when it is not */
};

/* a launcher, or the brokers' mother */
struct launched {
	pid_t pid;
	int pid_fd;
	int socket_fd; /* the server's end */
};

/* a launcher of one's own, and jobs without HTTP */
struct alone {
	struct loop *loop;
	struct prepared prepared;
	struct launched launcher;
	struct launched broker;
	struct jobs *jobs;
};
#define ALONE_NONE                                           \
	{                                                    \
		.prepared = {.start_fd = -1,                 \
			     .artifacts_fd = -1,             \
			     .sessions_fd = -1,              \
			     .sessions_lock_fd = -1,         \
			     .images_fd = -1,                \
			     .own = {-1, -1, "", ""},        \
			     .ledger_fd = -1},               \
		.launcher = {.pid_fd = -1, .socket_fd = -1}, \
		.broker = {.pid_fd = -1, .socket_fd = -1},   \
	}

enum prepare_why {
	TO_CHECK,    /* no runtime is needed */
	TO_SELFTEST, /* the same, and our own binary is a row */
	TO_RUN,
	TO_PREFETCH, /* as TO_RUN, and packages are installed */
	/*
	 * One run to find out what it needs, as `policy observe` does: as TO_RUN, and
	 * every call is reported that base does not allow, not only known dangers;
	 * refused it is all the same. on_done's result has up to VIOLATIONS_MOST of them
	 * in violations[] (nr, errno, how often, the first arguments; filter_name() has
	 * the name), unless outcome.violations is VIOLATIONS_UNKNOWN: then
	 * jobs_report()->layer[LAYER_VIOLATIONS].reason says why.
	 */
	TO_OBSERVE,
	TO_SERVE, /* makes the state directory too, and has the compile cache filled */
};

/* identity.c: settle uid_base; 0: one uid for all, which is ours and not host root's */
int identity_decide(struct settings *s, struct err *e);
/* then, which ranges of ids sessions with the user root may have, or why none */
struct setup;
void identity_root(const struct settings *s, struct setup *setup);
/*
 * identity.c: root that has one uid gets another number for it, in a user namespace made
 * for that. Before the launcher's execve: what /proc shows of a process that must not be
 * looked into belongs to uid 0 of the user namespace that it called execve in, and that
 * must be nobody's whom a run could be.
 */
int identity_leave_root(const struct settings *s);
/* state.c: fills what the launcher is told of the state directory, and where runs without
 * a mount namespace may have theirs; serving: it is made too. -1: state_format's */
char *state_path(const struct settings *s); /* NULL: there is none; uid_base is decided */
char *image_path(const struct settings *s); /* the store of images; NULL: none */
int state_find(struct prepared *p, enum prepare_why why, struct err *e);
/* state_format.c: before anything in the state directory is touched. -1 and *e: it has
 * the form of a newer server; 0 also where there is none, or NULL. stamp: one without its
 * number gets ours */
int state_format(const char *path, bool stamp, struct err *e);
/* own.c: 0 or more, or -1 with errno; done removes what is there */
int own_make(struct own *o, int state_fd);
void own_done(struct own *o);
void own_sweep(int state_fd); /* what processes left that were killed */
void state_run_dirs(struct prepared *p);
/* root that keeps too few rights to make sandboxes as it is: the launcher becomes the
 * first slot's uid for that (launcher/start.c) */
bool leaves_root(const struct setup *setup);
/* settings must be loaded. Claims cgroups: prepared_done must follow, also after a
 * failure */
int prepare(struct prepared *p, unsigned slots, enum prepare_why why, struct err *e);
void prepared_done(struct prepared *p);
/* fork and exec a launcher; its end of the socket and the start are all it is given */
int launch(const struct prepared *p, struct launched *out, struct err *e);
/* the launcher is told to go by the end of its socket; killed when it is there after
 * 10 s */
void launched_done(struct launched *l);
/* the first report; waits up to 30 s */
int launched_report(const struct launched *l, struct report *out, struct err *e);

/* broker.c: the brokers' mother, confined, if prepared has a policy for her; else
 * out->socket_fd stays -1. launched_done() ends her */
int broker_start(const struct prepared *p, struct launched *out, struct err *e);

/* alone.c: prepared is ready; starts launcher and jobs, the caller runs the loop.
 * SIGTERM, SIGINT and SIGHUP are on_signal's, called with the observer's arg. The loop
 * stops when the launcher dies with nothing in its care */
int alone_start(struct alone *a, const struct job_observer *o,
		void (*on_signal)(void *arg, int signo), struct err *e);
void alone_done(struct alone *a); /* also a half-started one */

/* ahead.c: 0: python can import what SANDBOX_PRELOAD names, and be forked from where
 * that is wanted; tried in a sandbox. What it has then is in its mode's `imported`. */
int ahead_check(struct prepared *p, struct err *e);

/* "serving is refused": the summary, the layer's reason and fix, as the operator should
 * read it */
void explain_level(const struct report *r, uint32_t min_level);

/* what the supervisor sends to the server with a descriptor: a socket, or a file */
#define CONTROL_LAUNCHER 'L'
#define CONTROL_BROKER 'E'
#define CONTROL_TOKENS 'T'
#define CONTROL_AUDIT 'A'
#define CONTROL_IMAGES 'I'

struct audit_start {
	int fd;
	struct audit_end end;
};

/* reload.c: at the start, for a server that has clients or one that has its own; -1 and
 * *e */
int reload_first(struct prepared *p, bool clients, struct err *e);
/* SIGHUP: what is good goes to the server, what is not to the log */
void reload_again(const struct prepared *p, int control_fd);
void reload_done(struct prepared *p);
/* images of sessions come and go: the server is told which there are; -1 and *e */
int reload_watch(const struct prepared *p, struct loop *l, int *control_fd,
		 struct err *e);
/* the server: what came with CONTROL_TOKENS */
int reload_tokens(int fd, struct tokens *out, struct err *e);

/* where clients come from: a listening socket, or one that started us and speaks MCP */
struct front {
	int listen_fd;     /* -1: the others are it */
	int agent_fd;      /* -1, or a second one: SANDBOX_AGENT_PORT */
	int in_fd, out_fd; /* standard input and output */
	int ready_fd;      /* -1, or an eventfd to be told of them: they are served */
	bool shared; /* listening sockets are those of who started us, and of the next */
};
#define FRONT_NONE                                                          \
	{                                                                   \
		.listen_fd = -1, .agent_fd = -1, .in_fd = -1, .out_fd = -1, \
		.ready_fd = -1                                              \
	}
/* cmd/server.c: does not return before the end; the exit status */
int server_main(struct prepared *p, const struct front *front, int control_fd,
		int launcher_fd);

/* confine.c: whose uid is how much below uid_base */
enum confine_who { RIGHTS_SERVER = 1, RIGHTS_LAYERS = 2, RIGHTS_BROKER = 3 };
/* not root, no capability, no environment, closed to others; dies with its parent */
int confine_rights(const struct settings *s, enum confine_who who);
/* the same, but for the right to read every file, where it has that */
int confine_reader(const struct settings *s, enum confine_who who);
/* no file but below made_fd, which may be changed, and read_fd; -1: none. calls: of
 * POLICY_IMAGE */
int confine_image(int made_fd, int read_fd, const struct setup_filter *calls);
/* connections, and no file but what a resolver reads; calls: of POLICY_BROKER */
int confine_broker(const struct setup_filter *calls);
/*
 * confine.c: no file but below stored_fd (-1: none at all), no connections of its own, no
 * call but those of the filter. For good; 0, or -1 with errno
 */
int confine_server(int stored_fd, int index_fd, const struct setup_filter *calls);

/* observe.c: the calls that were refused, as a policy that allows them */
int observe_print(const struct result *result, struct err *e);
/* policy.c: a program's policies; of two errors the last one's counts */
int policy_set_load(struct policy *set[POLICY_SET], struct err *e);
void policy_set_free(struct policy *set[POLICY_SET]);

/* help.c: a command's own text, then the settings */
void print_usage(const char *text);

int cmd_serve(int argc, char **argv);
int cmd_mcp(int argc, char **argv); /* serve.c */
int cmd_run(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_ready(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_observe(int argc, char **argv); /* run.c */
int cmd_layers(int argc, char **argv);
int cmd_token(int argc, char **argv);
int cmd_audit(int argc, char **argv);
/* prefetch.c: layers for the lists of a file; the exit status, or -1 */
int layers_prefetch(const char *path, int argc, char **argv, struct err *e);
int cmd_image(int argc, char **argv);

/* image_add.c: what is wanted; image_pull.c fills it too */
struct image_wish {
	const struct settings *settings;
	int store_fd;
	const char *name; /* of the image */
	const char *path; /* "-": standard input */
	uint64_t max_mb;
	bool quiet; /* no progress, also on a terminal */
};
/* the exit status (128 and a signal's number), or -1 and *e */
int image_add(const struct image_wish *wish, struct err *e);
/* path is what to pull, in the words of the tool that does it */
int image_pull(struct image_wish *wish, struct err *e);
/* image_pull.c: the name of what is pulled: without containers-storage: and the like */
const char *image_pull_name(const char *reference);
/* image_add.c: from here on a signal that ends us ends children first */
void image_signals(void);
int image_signal(void); /* the number of one that came; 0: none */
/* which: 0 or 1; -1 also when such a signal came. A child has the usual signals */
pid_t image_fork(unsigned which);
void image_reap(unsigned which, int *out_status);

int cmd_inside(int argc, char **argv); /* in the container of a run */
int cmd_launcher(int argc, char **argv);

#endif
