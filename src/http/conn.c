/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * conn.c - bytes in: head, body, the next request
 *
 * mongoose only reads and writes the sockets. Its receive buffer is emptied at every
 * read, so it never grows, is never scanned twice and never holds two requests; what an
 * HTTP message is and where it ends is decided here. Requests of one connection are
 * answered one after the other.
 */
#include "http/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <mongoose.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/settings.h"
#include "http/clients.h"
#include "http/routes.h"

enum { BIG_READ_BYTES = 256 * 1024 };

static int conn_fd(const struct conn *k)
{
	return (int)(size_t)k->c->fd;
}

static uint64_t body_cap(const struct conn *k)
{
	return k->h->settings->max_body_mb << 20;
}

void conn_close(struct conn *k)
{
	k->c->is_closing = 1;
	k->h->dirty = true;
}

/* ---- who waits for a job ---- */

void conn_wait(struct conn *k)
{
	struct conn **list;

	k->who = ++k->h->last_who;
	list = &k->h->waiting[k->who % WAITING_LISTS];
	k->next_waiting = *list;
	*list = k;
	if (k->client)
		k->client->running++;
}

void conn_unwait(struct conn *k)
{
	struct conn **at = &k->h->waiting[k->who % WAITING_LISTS];

	if (!k->who)
		return;
	while (*at != k)
		at = &(*at)->next_waiting;
	*at = k->next_waiting;
	k->who = 0;
	if (k->client)
		k->client->running--;
}

struct conn *conn_find(struct http_server *h, uint64_t who)
{
	struct conn *k = h->waiting[who % WAITING_LISTS];

	while (k && k->who != who)
		k = k->next_waiting;
	return k;
}

void conn_ids(const struct conn *k, struct run_request *r)
{
	snprintf(r->request_id, sizeof(r->request_id), "%s", k->request_id);
	snprintf(r->traceparent, sizeof(r->traceparent), "%s", k->traceparent);
	snprintf(r->token, sizeof(r->token), "%s", k->client ? k->client->name : "");
}

/* ---- from one request to the next ---- */

static void drop_body(struct conn *k)
{
	buf_done(&k->body);
	k->h->body_bytes -= k->body_held;
	k->body_held = 0;
}

static void forget_request(struct conn *k)
{
	drop_body(k);
	answer_forget(k);
	on_mcp_forget(k);
	on_agent_forget(k);
	k->tool = NULL;
	if (k->client)
		client_drop(k->h->clients, k->client);
	k->client = NULL;
	k->retry_sec = 0;
	k->allow = NULL;
	k->traceparent[0] = k->trace[0] = '\0';
	buf_done(&k->head);
	k->scanned = 0;
	k->req = (struct http_head){0};
	k->route = NULL;
	k->chunks = (struct chunked){0};
	k->skipped_blank = false;
	k->stream = STREAM_NONE;
	k->paused = false;
}

/* mongoose asks for both directions again at every write; KEPT_CAP_BYTES bounds that */
static void listen_to(struct conn *k, bool wanted)
{
	struct epoll_event ev = {.data.ptr = k->c, .events = wanted ? EPOLLIN : 0};

	if (k->c->send.len)
		ev.events |= EPOLLOUT;
	(void)epoll_ctl(k->c->mgr->epoll_fd, EPOLL_CTL_MOD, conn_fd(k), &ev);
	k->deaf = !wanted;
}

/*
 * The end of a connection is a half-close and a wait for the client's own: a close with
 * unread bytes in the socket would be a reset, which takes the answer away from the
 * client.
 */
static void linger(struct conn *k)
{
	(void)shutdown(conn_fd(k),
		       SHUT_WR); /* fails when the client is gone: read sees it */
	k->state = CONN_LINGER;
	k->since_ns = loop_now_ns();
	k->discard = true;
	k->swallowed = 0;
	buf_done(&k->kept);
}

void conn_next(struct conn *k)
{
	bool ends = k->close_after || k->h->draining;

	forget_request(k);
	if (k->c->send.size)
		mg_iobuf_free(&k->c->send); /* else it stays as large as it ever was */
	if (k->deaf)
		listen_to(k, true);
	if (ends)
		return linger(k);
	k->state = CONN_HEAD;
	k->since_ns = loop_now_ns();
	if (k->kept.len)
		k->h->dirty = true; /* fed at mongoose's next look: never inside a
				       callback of jobs */
}

/* ---- requests in ---- */

static void dispatch(struct conn *k)
{
	k->state = CONN_BUSY;
	k->since_ns = loop_now_ns();
	k->route->handle(k);
}

static void begin_body(struct conn *k)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

	k->state = CONN_BODY;
	k->since_ns = k->progress_ns = loop_now_ns();
	buf_init(&k->body, body_cap(k));
	if (buf_reserve(&k->body, k->req.body_bytes) < 0) {
		struct err e;

		err_client(&e, 503, "busy", "no memory for the body");
		return answer_refusal(k, &e);
	}
	if (k->req.expect_continue) {
		buf_init(&k->out, ANSWER_CAP_BYTES);
		if (answer_add(k, go_on, sizeof(go_on) - 1) == 0)
			answer_flush(k);
	}
}

static int admit(struct conn *k, struct err *e)
{
	struct sockaddr_storage local = {0};
	socklen_t room = sizeof(local);

	if (admit_head(k->head.bytes, k->head.len, body_cap(k), &k->req, e) < 0)
		return -1;
	auth_request_id(k->req.request_id, k->request_id);
	auth_traceparent(k->req.traceparent, k->traceparent);
	(void)trace_id(k->traceparent, k->trace);
	k->close_after = k->close_after || k->req.close;
	(void)getsockname(conn_fd(k), (struct sockaddr *)&local,
			  &room); /* then none equals */
	return auth_check(&k->h->auth, &k->req, (struct sockaddr *)&local, e);
}

/* whose token is it; the way to a path that is not there is closed without one too */
static int identify(struct conn *k, struct err *e)
{
	struct clients *all = k->h->clients;
	struct span token;

	if (!all || (k->route && k->route->flags & ROUTE_FREE))
		return 0;
	token = auth_token(&k->req);
	if (!token.p)
		return err_client(e, 401, "token_required",
				  "this server wants a token: Authorization: Bearer, "
				  "X-API-Key or X-Access-Token");
	k->client = clients_find(all, token);
	if (!k->client)
		return err_client(e, 401, "token_unknown", "this token is not known");
	client_hold(k->client);
	return client_rate(k->client, k->request_ns, &k->retry_sec, e);
}

static void head_complete(struct conn *k)
{
	struct err e, denied;
	bool has_body;

	k->request_ns = loop_now_ns();
	auth_request_id((struct span){0}, k->request_id);
	if (admit(k, &e) < 0)
		return answer_refusal(k, &e);
	has_body = k->req.chunked || k->req.body_bytes > 0;
	k->route = routes_find(k->req.method, k->req.path, &e);
	if (identify(k, &denied) < 0)
		return has_body ? answer_refusal(k, &denied) : answer_error(k, &denied);
	if (!k->route || (k->route->admit && k->route->admit(k, &e) < 0))
		return has_body ? answer_refusal(k, &e) : answer_error(k, &e);
	if (has_body)
		begin_body(k);
	else
		dispatch(k);
}

static size_t feed_head(struct conn *k, const char *p, size_t n)
{
	ssize_t end;
	struct err e;

	if (k->head.len == 0) {
		buf_init(&k->head, HEAD_CAP_BYTES);
		k->since_ns = k->request_ns = loop_now_ns();
	}
	if (n > HEAD_CAP_BYTES - k->head.len)
		n = HEAD_CAP_BYTES - k->head.len;
	if (buf_add(&k->head, p, n) < 0)
		return conn_close(k), n;
	if (!k->skipped_blank && k->head.len >= 2 && !memcmp(k->head.bytes, "\r\n", 2)) {
		buf_drop(&k->head, 2);
		k->skipped_blank = true;
		k->scanned = 0;
	}
	end = admit_scan(k->head.bytes, k->scanned, k->head.len);
	if (end > 0) {
		n -= k->head.len - (size_t)end;
		k->head.len = (size_t)end;
		head_complete(k);
		return n;
	}
	k->scanned = k->head.len;
	if (end == 0 && k->head.len < HEAD_CAP_BYTES)
		return n;
	auth_request_id((struct span){0}, k->request_id);
	if (end < 0)
		err_bad(&e, "bad byte in the request head");
	else
		err_client(&e, 431, "head_too_large",
			   "the request head is larger than %d bytes", HEAD_CAP_BYTES);
	answer_refusal(k, &e);
	return n;
}

/* large bodies share a budget: a thousand of them at once are not all kept */
static int count_body(struct conn *k, struct err *e)
{
	struct http_server *h = k->h;

	if (k->body.len <= SMALL_BODY_BYTES)
		return 0;
	h->body_bytes += k->body.len - k->body_held;
	k->body_held = k->body.len;
	if (h->body_bytes <= h->body_budget)
		return 0;
	return err_client(e, 503, "busy", "too many large bodies are arriving");
}

static size_t feed_body(struct conn *k, const char *p, size_t n)
{
	uint64_t left = k->req.body_bytes - k->body.len;
	bool complete;
	struct err e;

	if (k->req.chunked) {
		ssize_t used = chunked_feed(&k->chunks, p, n, &k->body, &e);

		if (used < 0 && err_status(&e) == 413)
			(void)admit_too_large(&k->req, body_cap(k), &e);
		if (used < 0)
			return answer_refusal(k, &e), 0;
		n = (size_t)used;
		complete = chunked_done(&k->chunks);
	} else {
		if (n > left)
			n = (size_t)left;
		if (buf_add(&k->body, p, n) < 0)
			return conn_close(k), n;
		complete = n == left;
	}
	if (count_body(k, &e) < 0) {
		drop_body(k);
		answer_refusal(k, &e);
	} else if (complete) {
		dispatch(k);
	}
	return n;
}

/* bytes taken; the rest belongs to requests behind the one being answered */
static size_t feed(struct conn *k, const char *p, size_t n)
{
	size_t used = 0;

	while (used < n && !k->c->is_closing) {
		if (k->discard) {
			k->swallowed += n - used;
			if (k->swallowed > LINGER_CAP_BYTES)
				conn_close(k);
			return n;
		}
		if (k->state == CONN_HEAD)
			used += feed_head(k, p + used, n - used);
		else if (k->state == CONN_BODY)
			used += feed_body(k, p + used, n - used);
		else
			break;
	}
	return used;
}

static void keep(struct conn *k, const char *p, size_t n)
{
	if (!k->kept.cap_bytes)
		buf_init(&k->kept, KEPT_CAP_BYTES);
	if (buf_add(&k->kept, p, n) < 0)
		return conn_close(k);
	if (k->kept.len >= KEPT_STOP_BYTES)
		listen_to(k, false);
}

static void feed_kept(struct conn *k)
{
	struct buf kept = k->kept;
	size_t used;

	buf_init(&k->kept, KEPT_CAP_BYTES);
	used = feed(k, kept.bytes, kept.len);
	if (used < kept.len && !k->c->is_closing && !k->discard)
		keep(k, kept.bytes + used, kept.len - used);
	buf_done(&kept);
}

/* a large body is read in large pieces; an idle connection keeps no buffer at all */
static void fit_receive_buffer(struct conn *k)
{
	struct mg_iobuf *io = &k->c->recv;
	bool big = k->state == CONN_BODY &&
		   (k->req.chunked ? k->body.len : k->req.body_bytes - k->body.len) >
			   BIG_READ_BYTES / 2;

	io->len = 0;
	if (big && io->size < BIG_READ_BYTES)
		(void)mg_iobuf_resize(io, BIG_READ_BYTES); /* else smaller reads do */
	else if (!big && (io->size > MG_IO_SIZE || k->state != CONN_BODY))
		mg_iobuf_free(io);
}

static void on_read(struct conn *k)
{
	const char *p = (const char *)k->c->recv.buf;
	size_t n = k->c->recv.len, used = 0;

	if (k->state == CONN_BODY)
		k->progress_ns = loop_now_ns();
	if (k->kept.len == 0 || k->discard)
		used = feed(k, p, n);
	if (used < n && !k->c->is_closing && !k->discard)
		keep(k, p + used, n - used);
	fit_receive_buffer(k);
}

/* ---- life ---- */

static void on_close(struct conn *k)
{
	struct http_server *h = k->h;

	if (k->who)
		on_execute_gone(k);
	forget_request(k);
	buf_done(&k->kept);
	k->c->fn_data = NULL;
	h->conn_count--;
	free(k);
}

static void on_event(struct mg_connection *c, int ev, void *data)
{
	struct conn *k = c->fn_data;

	(void)data;
	if (!k)
		return;
	if (ev == MG_EV_READ && !c->is_closing) {
		on_read(k);
	} else if (ev == MG_EV_WRITE) {
		k->progress_ns = loop_now_ns();
		answer_flush(k);
		if (k->state == CONN_STREAM)
			stream_balance(k);
	} else if (ev == MG_EV_POLL) {
		if (k->state == CONN_HEAD && k->kept.len && !c->is_closing)
			feed_kept(k);
	} else if (ev == MG_EV_CLOSE) {
		on_close(k);
	}
}

void conn_open(struct http_server *h, int fd)
{
	struct conn *k = mem_zero(sizeof(*k));
	int on = 1;

	k->h = h;
	k->state = CONN_HEAD;
	k->since_ns = loop_now_ns();
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* slower only */
	k->c = mg_wrapfd(h->mgr, fd, on_event, k);
	if (!k->c) {
		close(fd);
		free(k);
		return;
	}
	k->c->is_accepted = 1;
	h->conn_count++;
}
