/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cmd.h - the subcommands, and what several of them need at their start
 *
 *	serve.c     the supervisor
 *	server.c    the process that speaks HTTP
 *	confine.c   takes from it what it has no use for
 *	launcher.c  what the supervisor executes as the launcher
 *	run.c       one program without HTTP
 *	check.c     which isolation layers work here
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

struct prepared {
	struct settings settings;
	struct modes modes;
	struct launcher_start *start;
	int start_fd;     /* start, sealed */
	int artifacts_fd; /* "artifacts" in the state directory, the server's; -1: off */
	char state_note[256]; /* why the state directory is off; "" when it is not */
};

struct launched {
	pid_t pid;
	int pid_fd;
	int socket_fd; /* the server's end */
};

enum prepare_why {
	TO_CHECK, /* no runtime is needed */
	TO_RUN,
	TO_SERVE, /* makes the state directory too, and has the compile cache filled */
};

/* settings must be loaded. Claims cgroups: prepared_done must follow, also after a
 * failure */
int prepare(struct prepared *p, unsigned slots, enum prepare_why why, struct err *e);
void prepared_done(struct prepared *p);
/* fork and exec a launcher; its end of the socket and the start are all it is given */
int launch(const struct prepared *p, struct launched *out, struct err *e);
/* the launcher is told to go by the end of its socket; killed when it does not within 2 s
 */
void launched_done(struct launched *l);
/* the first report; waits up to 30 s */
int launched_report(const struct launched *l, struct report *out, struct err *e);

/* "serving is refused": the summary, the layer's reason and fix, as the operator should
 * read it */
void explain_level(const struct report *r, uint32_t min_level);

/* cmd/server.c: does not return before the end; the exit status */
int server_main(struct prepared *p, int listen_fd, int control_fd, int launcher_fd);

/*
 * confine.c: no file but below stored_fd (-1: none at all), no connections of its own, no
 * execve. For good; 0, or -1 with errno
 */
int confine_server(int stored_fd);

/* help.c: a command's own text, then the settings */
void print_usage(const char *text);

int cmd_serve(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_launcher(int argc, char **argv);

#endif
