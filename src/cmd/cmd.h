/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cmd.h - the subcommands, and what several of them need at their start
 *
 *	serve.c     the supervisor
 *	server.c    the process that speaks HTTP
 *	confine.c   takes from it what it has no use for
 *	launcher.c  what the supervisor executes as the launcher
 *	alone.c     a launcher and jobs without HTTP
 *	run.c       one program
 *	selftest.c  the attacks of src/attack against this host's own sandbox
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
#include "launcher/launcher.h"

struct err;
struct job_observer;
struct jobs;
struct policy;
struct result;
struct setup_filter;

#define POLICY_SET 3

struct prepared {
	struct settings settings;
	struct modes modes;
	struct launcher_start *start;
	struct setup_filter *server_calls; /* policy "server"; TO_SERVE only */
	int start_fd;                      /* start, sealed */
	int ledger_fd;                     /* of the launchers, launcher/ledger.h */
	int artifacts_fd; /* "artifacts" in the state directory, the server's; -1: off */
	char state_note[256]; /* why the state directory is off; "" when it is not */
};

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
	struct jobs *jobs;
};
#define ALONE_NONE                                                                 \
	{                                                                          \
		.prepared = {.start_fd = -1, .artifacts_fd = -1, .ledger_fd = -1}, \
		.launcher = {.pid_fd = -1, .socket_fd = -1},                       \
	}

enum prepare_why {
	TO_CHECK,    /* no runtime is needed */
	TO_SELFTEST, /* the same, and our own binary is a row */
	TO_RUN,
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
/*
 * identity.c: root that has one uid gets another number for it, in a user namespace made
 * for that. Before the launcher's execve: what /proc shows of a process that must not be
 * looked into belongs to uid 0 of the user namespace that it called execve in, and that
 * must be nobody's whom a run could be.
 */
int identity_leave_root(const struct settings *s);
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

/* alone.c: prepared is ready; starts launcher and jobs, the caller runs the loop.
 * SIGTERM, SIGINT and SIGHUP are on_signal's, called with the observer's arg. The loop
 * stops when the launcher dies with nothing in its care */
int alone_start(struct alone *a, const struct job_observer *o,
		void (*on_signal)(void *arg, int signo), struct err *e);
void alone_done(struct alone *a); /* also a half-started one */

/* "serving is refused": the summary, the layer's reason and fix, as the operator should
 * read it */
void explain_level(const struct report *r, uint32_t min_level);

/* cmd/server.c: does not return before the end; the exit status */
int server_main(struct prepared *p, int listen_fd, int control_fd, int launcher_fd);

/*
 * confine.c: no file but below stored_fd (-1: none at all), no connections of its own, no
 * call but those of the filter. For good; 0, or -1 with errno
 */
int confine_server(int stored_fd, const struct setup_filter *calls);

/* observe.c: the calls that were refused, as a policy that allows them */
int observe_print(const struct result *result, struct err *e);
/* policy.c: a program's policies; of two errors the last one's counts */
int policy_set_load(struct policy *set[POLICY_SET], struct err *e);
void policy_set_free(struct policy *set[POLICY_SET]);

/* help.c: a command's own text, then the settings */
void print_usage(const char *text);

int cmd_serve(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_observe(int argc, char **argv); /* run.c */
int cmd_launcher(int argc, char **argv);

#endif
