/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * server.h - the HTTP front: connections in, jobs out, answers back
 *
 * Start: http_listen(), http_server_new(), jobs_new() with http_server_observer(), then
 * http_server_set_jobs(). Until it has jobs the server answers 503. End:
 * http_server_drain() and jobs_drain(); when both are idle http_server_free() first,
 * jobs_free() afterwards.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct artifacts;
struct err;
struct http_server;
struct job_observer;
struct jobs;
struct loop;
struct modes;
struct sessions;
struct settings;
struct tokens;

/*
 * A bound, listening socket: non-blocking, close-on-exec. The address is an IPv4 or IPv6
 * literal, with or without brackets; port 0 is any free one. Returns the fd.
 */
int http_listen(const char *address, unsigned port, struct err *e);
/*
 * Sockets that whoever started us listens on already, as systemd hands them over
 * (LISTEN_PID, LISTEN_FDS): how many, 0 when there are none; -1 and *e when they are of
 * another kind, or more than there is room for.
 */
int http_inherit(int *out_fds, size_t room, struct err *e);
/* the port a listening socket is bound to; 0 when there is none */
unsigned http_listen_port(int listen_fd);

/*
 * listen_fd: bound and listening, taken over, also on failure. Loop, settings and modes
 * outlive the server. Takes fewer connections where RLIMIT_NOFILE is low, and ignores
 * SIGPIPE. One server a process: mongoose's log has one sink.
 */
struct http_server *http_server_new(struct loop *l, const struct settings *s,
				    const struct modes *m, int listen_fd, struct err *e);
/* another one, of the same kind; taken over, also on failure */
int http_server_listen(struct http_server *h, int listen_fd, struct err *e);
/*
 * The sockets are somebody else's too, who gives them to the next server: who connects
 * before http_server_open() or after http_server_drain() is not refused, but left to wait
 * for whoever serves next.
 */
void http_server_share(struct http_server *h);
int http_server_open(struct http_server *h); /* 0, or -1 with errno */
void http_server_free(struct http_server *h);

/* what jobs_new() wants; lives as long as the server */
const struct job_observer *http_server_observer(struct http_server *h);
void http_server_set_jobs(struct http_server *h, struct jobs *j);
/* a: NULL when runs are not stored; state_note: NULL, or why the state directory is off
 */
void http_server_set_artifacts(struct http_server *h, struct artifacts *a,
			       const char *state_note);
/* outlives the server; NULL: there are none yet */
void http_server_set_sessions(struct http_server *h, struct sessions *s);
/* from now on these are wanted; again: instead of the ones before */
void http_server_set_tokens(struct http_server *h, const struct tokens *t);
unsigned http_server_port(const struct http_server *h);

/*
 * After SIGTERM: probes are still answered (503 draining), POST /execute is refused with
 * 503 `draining`, every answer ends its connection, idle connections are closed. Nobody
 * new is let in where the sockets are shared.
 */
void http_server_drain(struct http_server *h);
/* nobody waits for an answer and nothing is unsent */
bool http_server_idle(const struct http_server *h);
/* The end of it, when it is idle: whoever has connected is let in, nobody after that;
 * what they ask for within a second is answered, and who is still sending a body is told
 * 503 `draining` then. true: they are gone, or had their time
 */
bool http_server_close(struct http_server *h);

#endif
