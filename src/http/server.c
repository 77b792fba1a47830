/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * server.c - the HTTP front: listener, mongoose inside our loop
 *
 * mongoose has an epoll set of its own; it is one descriptor of ours. Connections are
 * accepted here, not by mongoose: close-on-exec from birth, several at a time, and no
 * busy loop when descriptors run out. A timer runs only while there are connections.
 */
#include "http/server.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <mongoose.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/settings.h"
#include "http/clients.h"
#include "http/conn.h"
#include "job/share.h"

#define MS_NS UINT64_C(1000000)
enum {
	ACCEPTS_AT_ONCE = 64,
	LOOKS_AT_ONCE = 4, /* of mongoose before a wait */
	REOPEN_MS = 100,
	DRAIN_TICK_MS = 100,
	CLOSE_MS = 1500, /* a connection that says nothing is closed after 1000 */
	LEAST_BUDGET = 64 << 20,
};

static void swallow_log(char c, void *arg)
{
	(void)c;
	(void)arg;
}

static void look(void *arg)
{
	struct http_server *h = arg;

	for (int i = 0; h->dirty && i < LOOKS_AT_ONCE; i++) {
		h->dirty = false;
		mg_mgr_poll(h->mgr, 0);
	}
}

static void on_mongoose(void *arg, uint32_t events)
{
	struct http_server *h = arg;

	(void)events;
	mg_mgr_poll(h->mgr, 0);
}

/* ---- once a second ---- */

static void on_tick(void *arg)
{
	struct http_server *h = arg;
	uint64_t now = loop_now_ns();

	for (struct mg_connection *c = h->mgr->conns; c; c = c->next)
		if (!c->is_closing)
			times_check(c->fn_data, now);
	unread_shed(h);
	if (h->conn_count)
		loop_timer_at(h->loop, &h->tick,
			      now + (h->draining ? DRAIN_TICK_MS : 1000) * MS_NS);
}

/* ---- connections in ---- */

static void on_reopen(void *arg);
static void on_connection(void *arg, uint32_t events);

/* a level-triggered listener that cannot accept would spin: look away for a moment */
static void close_door(struct http_server *h)
{
	uint64_t now = loop_now_ns();

	if (now - h->told_ns > 10000 * MS_NS)
		log_warn("server.full", "reason=\"%s\" connections=%u", strerror(errno),
			 h->conn_count);
	h->told_ns = now;
	for (unsigned i = 0; i < h->listener_count; i++)
		loop_remove(h->loop, h->listeners[i].fd);
	h->reopen.fn = on_reopen;
	h->reopen.arg = h;
	loop_timer_at(h->loop, &h->reopen, now + REOPEN_MS * MS_NS);
}

int http_server_open(struct http_server *h)
{
	for (unsigned i = 0; i < h->listener_count; i++)
		if (loop_add(h->loop, h->listeners[i].fd, EPOLLIN, on_connection,
			     &h->listeners[i]) < 0)
			return -1;
	return 0;
}

static void on_reopen(void *arg)
{
	struct http_server *h = arg;

	if (http_server_open(h) < 0)
		close_door(h);
}

static void refuse_last(struct http_server *h)
{
	struct conn *k = h->mgr->conns->fn_data; /* the newest is first */
	struct err e;

	auth_request_id((struct span){0}, k->request_id);
	k->request_ns = loop_now_ns();
	err_client(&e, 503, "too_many_connections", "too many connections are open");
	answer_refusal(k, &e);
}

static void on_connection(void *arg, uint32_t events)
{
	struct listener *l = arg;
	struct http_server *h = l->h;

	(void)events;
	for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		unsigned before = h->conn_count;

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			       errno == ENOMEM))
			return close_door(h);
		if (fd < 0 && errno == EAGAIN)
			break;
		if (fd < 0)
			continue; /* it went away while it waited */
		if (h->conn_count >= h->conn_cap + SHARE_REFUSED) {
			close(fd);
			continue;
		}
		conn_open(h, fd);
		if (h->conn_count > before && h->conn_count > h->conn_cap)
			refuse_last(h);
	}
	if (h->conn_count && !h->tick.place)
		loop_timer_at(h->loop, &h->tick, loop_now_ns() + 1000 * MS_NS);
}

/* ---- life ---- */

/* fewer than were asked for, where there are not enough descriptors for all */
static unsigned connection_cap(const struct settings *s)
{
	const struct share share = share_now(s);

	if (share.connections < s->max_connections)
		log_warn("limit.lower",
			 "max_connections=%llu reason=\"RLIMIT_NOFILE is %llu\"",
			 (unsigned long long)share.connections,
			 (unsigned long long)share.limit);
	return (unsigned)share.connections;
}

static void set_budgets(struct http_server *h)
{
	uint64_t body = h->settings->max_body_mb << 20;

	h->body_budget = h->unsent_budget = 4 * body > LEAST_BUDGET ? 4 * body
								    : LEAST_BUDGET;
}

int http_server_listen(struct http_server *h, int listen_fd, struct err *e)
{
	struct listener *l = &h->listeners[h->listener_count];

	assert(h->listener_count < LISTENERS);
	*l = (struct listener){h, listen_fd};
	h->listener_count++; /* closed with the others, whatever comes */
	if (loop_add(h->loop, listen_fd, EPOLLIN, on_connection, l) < 0)
		return err_errno(e, "watch the listening socket");
	return 0;
}

struct http_server *http_server_new(struct loop *l, const struct settings *s,
				    const struct modes *m, int listen_fd, struct err *e)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct http_server *h = mem_zero(sizeof(*h));

	(void)sigaction(SIGPIPE, &ignore, NULL); /* cannot fail */
	mg_log_set(MG_LL_NONE);
	mg_log_set_fn(swallow_log, NULL); /* bytes of requests go there at any level */
	h->loop = l;
	h->settings = s;
	h->modes = m;
	h->port = http_listen_port(listen_fd);
	h->auth = (struct auth_rules){s->allowed_hosts, s->allowed_origins};
	h->conn_cap = connection_cap(s);
	h->start_ns = loop_now_ns();
	h->started_sec = (double)time(NULL);
	h->tick = (struct loop_timer){.fn = on_tick, .arg = h};
	h->mgr = mem_zero(sizeof(*h->mgr));
	set_budgets(h);
	on_execute_observe(h);
	mg_mgr_init(h->mgr);
	if (h->mgr->epoll_fd < 0 ||
	    loop_add(l, h->mgr->epoll_fd, EPOLLIN, on_mongoose, h) < 0) {
		err_errno(e, "watch connections");
		close(listen_fd);
		http_server_free(h);
		return NULL;
	}
	if (http_server_listen(h, listen_fd, e) < 0) {
		http_server_free(h);
		return NULL;
	}
	loop_before_wait(l, look, h);
	return h;
}

static void stop_listening(struct http_server *h)
{
	if (!h->listener_count)
		return;
	loop_timer_stop(h->loop, &h->reopen);
	while (h->listener_count) {
		const int fd = h->listeners[--h->listener_count].fd;

		loop_remove(h->loop, fd);
		close(fd);
	}
	h->closed_ns = loop_now_ns();
}

void http_server_share(struct http_server *h)
{
	h->shared = true;
	for (unsigned i = 0; i < h->listener_count; i++)
		loop_remove(h->loop, h->listeners[i].fd);
}

void http_server_free(struct http_server *h)
{
	if (!h)
		return;
	loop_before_wait(h->loop, NULL, NULL);
	loop_timer_stop(h->loop, &h->tick);
	stop_listening(h);
	if (h->mgr->epoll_fd >= 0)
		loop_remove(h->loop, h->mgr->epoll_fd);
	mg_mgr_free(h->mgr);
	on_web_done(h);
	free(h->mgr);
	clients_free(h->clients);
	free(h);
}

const struct job_observer *http_server_observer(struct http_server *h)
{
	return &h->observer;
}

void http_server_set_jobs(struct http_server *h, struct jobs *j)
{
	h->jobs = j;
}

void http_server_set_artifacts(struct http_server *h, struct artifacts *a,
			       const char *state_note)
{
	h->artifacts = a;
	h->state_note = state_note;
}

void http_server_set_tokens(struct http_server *h, const struct tokens *t)
{
	if (!h->clients)
		h->clients = clients_new(t);
	else
		clients_set(h->clients, t);
	log_info("tokens.loaded", "tokens=%zu", clients_count(h->clients));
}

void http_server_set_sessions(struct http_server *h, struct sessions *s)
{
	h->sessions = s;
}

unsigned http_server_port(const struct http_server *h)
{
	return h->port;
}

void http_server_drain(struct http_server *h)
{
	h->draining = true;
	if (h->shared)
		stop_listening(h);
	/* a request may be on its way on those that are kept: they have their time */
	for (struct mg_connection *c = h->mgr->conns; c; c = c->next) {
		struct conn *k = c->fn_data;

		if (k->state == CONN_HEAD && !k->head.len)
			k->since_ns = loop_now_ns();
	}
	if (h->conn_count)
		loop_timer_at(h->loop, &h->tick, loop_now_ns());
}

/* their time is over too, but they were let in: that wants an answer; true: somebody */
static bool refuse_unfinished(struct http_server *h)
{
	bool found = false;
	struct err e;

	(void)err_client(&e, 503, "draining", "the server is shutting down");
	for (struct mg_connection *c = h->mgr->conns; c; c = c->next) {
		struct conn *k = c->fn_data;

		if (k->state != CONN_BODY || c->is_closing)
			continue;
		answer_refusal(k, &e);
		found = true;
	}
	return found;
}

bool http_server_close(struct http_server *h)
{
	unsigned before;

	for (unsigned i = 0; i < h->listener_count; i++) {
		do {
			before = h->conn_count;
			on_connection(&h->listeners[i], EPOLLIN);
		} while (h->conn_count > before);
	}
	stop_listening(h);
	if (h->conn_count == 0)
		return true;
	return loop_now_ns() > h->closed_ns + CLOSE_MS * MS_NS && !refuse_unfinished(h);
}

bool http_server_idle(const struct http_server *h)
{
	for (const struct mg_connection *c = h->mgr->conns; c; c = c->next) {
		const struct conn *k = c->fn_data;

		if (k->state == CONN_BUSY || k->state == CONN_STREAM ||
		    answer_unsent(k) || k->state == CONN_LINGER)
			return false;
	}
	return true;
}
