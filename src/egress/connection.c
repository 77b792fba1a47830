/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * connection.c - a client's words, the decision, the answer
 *
 * Runs in: a thread of a run's broker.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/defer.h"
#include "egress/broker.h"

#define HEAD_MS 10000
#define ANSWER_MS 5000
#define LINGER_MS 1000

/* what the client has said and nobody has used yet */
struct words {
	char bytes[PROXY_HEAD_MOST];
	size_t len;
	uint64_t until_ns;
};

static int hear(const struct connection *c, struct words *w)
{
	ssize_t n;

	if (w->len == sizeof(w->bytes) ||
	    reach_wait(c->client_fd, POLLIN, w->until_ns) < 0)
		return -1;
	n = recv(c->client_fd, w->bytes + w->len, sizeof(w->bytes) - w->len, 0);
	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
	w->len += (size_t)n;
	return 0;
}

static void used(struct words *w, int n)
{
	w->len -= (size_t)n;
	memmove(w->bytes, w->bytes + n, w->len);
}

static int say(const struct connection *c, const void *bytes, size_t len)
{
	return reach_send(c->client_fd, bytes, len,
			  broker_now_ns() + ANSWER_MS * 1000000ull);
}

/* in a time that does not tell how much of it is right */
static bool same(const char *a, const char *b)
{
	const size_t len = strlen(b);
	int differs = 0;

	for (size_t i = 0; strlen(a) == len && i < len; i++)
		differs |= a[i] ^ b[i];
	return strlen(a) == len && !differs;
}

/* any user, and the broker's secret */
static bool knows(const struct broker *b, const char *credentials)
{
	char plain[sizeof(((struct proxy_request *)NULL)->credentials) + 1];
	ssize_t n = base64_decode(credentials, strlen(credentials), plain);
	char *colon;

	if (n < 0)
		return false;
	plain[n] = '\0';
	colon = strchr(plain, ':');
	return colon && same(colon + 1, b->order.secret);
}

/* the request under the lock: who ends the broker tells of it */
static void note(struct connection *c, const struct proxy_request *r)
{
	pthread_mutex_lock(&c->broker->lock);
	c->request = *r;
	pthread_mutex_unlock(&c->broker->lock);
}

static enum egress_verdict bad_words(const struct words *w)
{
	return broker_now_ns() >= w->until_ns ? EGRESS_TOO_SLOW : EGRESS_BAD_REQUEST;
}

static enum egress_verdict decide(struct connection *c, const struct upstream **out_via)
{
	if (!c->request.host_ok)
		return EGRESS_BAD_NAME;
	return reach_host(c->broker, &c->request, &c->server_fd, out_via);
}

/* ---- HTTP */

/* also the reason of the status: of a refused tunnel most clients show only that */
static const struct {
	int status;
	const char *sentence;
} answers[EGRESS_VERDICTS] = {
	[EGRESS_OK] = {200, "Connection established"},
	[EGRESS_BAD_REQUEST] = {400, "this is no request to a proxy"},
	[EGRESS_BAD_NAME] = {403, "this is no name of a host"},
	[EGRESS_NOT_LISTED] = {403, "this host and port are not on the list of this run"},
	[EGRESS_BAD_ADDRESS] = {403, "this host's address may not be reached"},
	[EGRESS_BAD_TLS_NAME] = {403, "TLS names another host"},
	[EGRESS_NO_SECRET] = {407, "credentials are needed"},
	[EGRESS_NOT_RESOLVED] = {502, "this host is not known"},
	[EGRESS_NOT_CONNECTED] = {502, "this host could not be reached"},
	[EGRESS_TOO_MANY] = {503, "too many connections"},
	[EGRESS_TOO_MUCH] = {503, "too many bytes"},
	[EGRESS_TOO_SLOW] = {408, "too slow"},
};

static void refuse_http(const struct connection *c, enum egress_verdict v)
{
	char body[NAME_ROOM + 128], text[NAME_ROOM + 512];
	int len;

	len = snprintf(body, sizeof(body), "sandbox network: %s%s%s (%s)\n",
		       c->request.host_ok ? c->request.host.text : "",
		       c->request.host_ok ? ": " : "", answers[v].sentence,
		       egress_verdict_name(v));
	len = snprintf(
		text, sizeof(text),
		"HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\n"
		"Content-Length: %d\r\nX-Sandbox-Network: %s\r\n%s"
		"Connection: close\r\n\r\n%s",
		answers[v].status, answers[v].sentence, len, egress_verdict_name(v),
		v == EGRESS_NO_SECRET ? "Proxy-Authenticate: Basic realm=\"sandbox\"\r\n"
				      : "",
		body);
	(void)say(c, text, (size_t)len); /* it is refused, heard or not */
}

static enum egress_verdict send_on(struct connection *c, const struct words *w, int head,
				   const struct upstream *via)
{
	enum egress_verdict v = EGRESS_NOT_CONNECTED;
	struct buf out;

	if (c->request.chunked)
		via = NULL; /* it has made a tunnel */
	if (via)
		c->may_send = c->request.body_len;
	buf_init(&out, 2 * PROXY_HEAD_MOST);
	if (proxy_http_forward(w->bytes, (size_t)head, &c->request, via,
			       via && via->credentials[0] ? via->credentials : NULL,
			       &out) == 0) {
		v = relay_charge(c->broker, out.len) ? EGRESS_OK : EGRESS_TOO_MUCH;
		if (v == EGRESS_OK &&
		    reach_send(c->server_fd, out.bytes, out.len,
			       broker_now_ns() + ANSWER_MS * 1000000ull) < 0)
			v = EGRESS_NOT_CONNECTED;
		if (v == EGRESS_OK)
			c->sent_bytes += out.len;
	}
	buf_done(&out);
	return v;
}

/* the host is asked for by name, so TLS has to name it too; NULL: nothing to compare */
static const struct name *tls_of(const struct proxy_request *r)
{
	return r->kind == PROXY_PLAIN || r->host.is_address ? NULL : &r->host;
}

static enum egress_verdict open_http(struct connection *c, struct words *w)
{
	static const char done[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	const struct upstream *via = NULL;
	struct proxy_request r;
	enum egress_verdict v;
	int head;

	while ((head = proxy_http(w->bytes, w->len, &r)) == PROXY_MORE)
		if (hear(c, w) < 0)
			return bad_words(w);
	if (head < 0)
		return EGRESS_BAD_REQUEST;
	note(c, &r);
	if (c->broker->order.secret[0] && !knows(c->broker, r.credentials))
		return EGRESS_NO_SECRET;
	v = decide(c, &via);
	if (v != EGRESS_OK)
		return v;
	if (r.kind == PROXY_PLAIN)
		v = send_on(c, w, head, via);
	else if (say(c, done, strlen(done)) < 0)
		v = EGRESS_NOT_CONNECTED;
	used(w, head);
	return v;
}

/* ---- SOCKS5 */

static const uint8_t socks_codes[EGRESS_VERDICTS] = {
	[EGRESS_OK] = 0,         [EGRESS_BAD_REQUEST] = 7,  [EGRESS_BAD_NAME] = 2,
	[EGRESS_NOT_LISTED] = 2, [EGRESS_BAD_ADDRESS] = 2,  [EGRESS_BAD_TLS_NAME] = 2,
	[EGRESS_NO_SECRET] = 2,  [EGRESS_NOT_RESOLVED] = 4, [EGRESS_NOT_CONNECTED] = 5,
	[EGRESS_TOO_MANY] = 1,   [EGRESS_TOO_MUCH] = 1,     [EGRESS_TOO_SLOW] = 1,
};

static enum egress_verdict greet_socks(struct connection *c, struct words *w)
{
	const bool secret = c->broker->order.secret[0];
	char password[256] = "", answer[2] = {5, secret ? 2 : 0};
	unsigned methods = 0;
	int n;

	while ((n = proxy_socks_hello(w->bytes, w->len, &methods)) == PROXY_MORE)
		if (hear(c, w) < 0)
			return bad_words(w);
	if (n < 0)
		return EGRESS_BAD_REQUEST;
	used(w, n);
	if (!(methods & (secret ? 4u : 1u))) {
		c->refused = EGRESS_NO_SECRET;
		answer[1] = (char)0xff;
	}
	if (say(c, answer, 2) < 0 || answer[1] == (char)0xff)
		return EGRESS_NO_SECRET;
	if (!secret)
		return EGRESS_OK;
	while ((n = proxy_socks_password(w->bytes, w->len, password)) == PROXY_MORE)
		if (hear(c, w) < 0)
			return bad_words(w);
	if (n < 0)
		return EGRESS_BAD_REQUEST;
	used(w, n);
	answer[0] = 1;
	answer[1] = same(password, c->broker->order.secret) ? 0 : 1;
	if (answer[1])
		c->refused = EGRESS_NO_SECRET;
	return say(c, answer, 2) < 0 || answer[1] ? EGRESS_NO_SECRET : EGRESS_OK;
}

static void answer_socks(struct connection *c, enum egress_verdict v)
{
	const uint8_t text[10] = {5, socks_codes[v], 0, 1};

	c->refused = v;
	(void)say(c, text, sizeof(text)); /* unheard: then the relay ends at once */
}

static enum egress_verdict open_socks(struct connection *c, struct words *w)
{
	enum egress_verdict v = greet_socks(c, w);
	const struct upstream *via = NULL;
	struct proxy_request r;
	int n;

	if (v != EGRESS_OK)
		return v;
	while ((n = proxy_socks_request(w->bytes, w->len, &r)) == PROXY_MORE)
		if (hear(c, w) < 0)
			return bad_words(w);
	if (n < 0) {
		answer_socks(c, EGRESS_BAD_REQUEST);
		return EGRESS_BAD_REQUEST;
	}
	used(w, n);
	note(c, &r);
	v = decide(c, &via);
	answer_socks(c, v);
	return v;
}

/* ---- both */

/* closed with bytes unread, a connection is reset, and the answer may go with it */
static void linger(const struct connection *c)
{
	const uint64_t until_ns = broker_now_ns() + LINGER_MS * 1000000ull;
	char bytes[4096];

	shutdown(c->client_fd, SHUT_WR);
	while (reach_wait(c->client_fd, POLLIN, until_ns) == 0 &&
	       recv(c->client_fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

enum egress_verdict connection_serve(struct connection *c)
{
	struct words w = {.until_ns = broker_now_ns() + HEAD_MS * 1000000ull};
	enum egress_verdict v = EGRESS_OK;
	bool socks;

	c->may_send = UINT64_MAX;
	while (w.len == 0)
		if (hear(c, &w) < 0)
			return bad_words(&w);
	socks = w.bytes[0] == 5;
	v = socks ? open_socks(c, &w) : open_http(c, &w);
	if (v == EGRESS_OK)
		return relay(c, tls_of(&c->request), w.bytes, w.len);
	c->refused = v;
	if (!socks)
		refuse_http(c, v);
	linger(c);
	return v;
}
