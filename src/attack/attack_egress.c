/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_egress.c - rows of NW about runs that have network
 *
 * The list of these runs has one port of this host's loopback, on which nobody but the
 * side outside listens, and a name that is never asked for; both are the operator's word
 * to the broker, too. Whatever else it lets through would be the failure; and it is
 * refused before anything is resolved or sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "attack/battery.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/num.h"
#include "egress/rules.h"

#define LISTED "allowed.invalid"
#define BYTES(text) text, sizeof(text) - 1

struct bytes {
	const char *at;
	size_t len;
};

/* what the proxy answers to that; its length, or -1: it is not there */
static long ask(const char *bytes, size_t len, char *out, size_t room)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons(NETWORK_PORT),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timeval patience = {.tv_sec = 5};
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t have = 0;
	ssize_t n;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len)
		return -1;
	while (have < room - 1 && (n = recv(fd, out + have, room - 1 - have, 0)) > 0)
		have += (size_t)n;
	out[have] = '\0';
	return (long)have;
}

static void refused(struct tries *t, const char *what, const char *bytes, size_t len)
{
	char answer[2048];
	const long n = ask(bytes, len, answer, sizeof(answer));

	if (bytes[0] == 5) /* SOCKS5: greeted, then an error */
		expect(t, n >= 2 && (n < 4 || answer[3] != 0), "%s gets through", what);
	else
		expect(t,
		       n > 0 && (strncmp(answer, "HTTP/1.1 403 ", 13) == 0 ||
				 strncmp(answer, "HTTP/1.1 400 ", 13) == 0),
		       "%s gets through", what);
}

/* by CONNECT, by a whole URI and by SOCKS5 */
static void try_host(struct tries *t, const struct bytes *host, unsigned port)
{
	char text[512], what[64];
	size_t len;
	int n;

	snprintf(what, sizeof(what), "'%.40s' port %u", host->at, port);
	memcpy(text, "CONNECT ", 8);
	memcpy(text + 8, host->at, host->len);
	len = 8 + host->len;
	n = snprintf(text + len, sizeof(text) - len, ":%u HTTP/1.1\r\n\r\n", port);
	refused(t, what, text, len + (size_t)n);
	memcpy(text, "GET http://", 11);
	memcpy(text + 11, host->at, host->len);
	len = 11 + host->len;
	n = snprintf(text + len, sizeof(text) - len,
		     ":%u/ HTTP/1.1\r\nHost: " LISTED "\r\n\r\n", port);
	refused(t, what, text, len + (size_t)n);
	memcpy(text, "\5\1\0\5\1\0\3", 7);
	text[7] = (char)host->len;
	memcpy(text + 8, host->at, host->len);
	text[8 + host->len] = (char)(port >> 8);
	text[9 + host->len] = (char)port;
	refused(t, what, text, 10 + host->len);
}

static unsigned port_of(const struct tries *t)
{
	uint64_t port = 0;

	return num_range(tries_word(t, 0), 1, 65535, &port) == 0 ? (unsigned)port : 0;
}

static const struct bytes tricks[] = {
	{BYTES("8.8.8.8")},
	{BYTES("evil.invalid\0." LISTED)},
	{BYTES(LISTED "\0")},
	{BYTES(LISTED ".evil.invalid")},
	{BYTES("not" LISTED)},
	{BYTES(LISTED "@evil.invalid")},
	{BYTES("user:password@" LISTED)},
	{BYTES(LISTED "%00.evil.invalid")},
	{BYTES(LISTED "%2eevil.invalid")},
	{BYTES(LISTED "\r\nX: y")},
	{BYTES(" " LISTED)},
	{BYTES(LISTED "..")},
	{BYTES("." LISTED)},
	{BYTES("\xd0\xb0llowed.invalid")}, /* a letter of another script */
	{BYTES("xn--llowed-3nf.invalid")}, /* the same in ASCII */
	{BYTES("localhost")},
	{BYTES("127.0.0.2")},
	{BYTES("127.1")},
	{BYTES("2130706433")},
	{BYTES("0x7f000001")},
	{BYTES("0177.0.0.1")},
	{BYTES("0x7f.0.0.1")},
	{BYTES("0.0.0.0")},
	{BYTES("[::1]")},
	{BYTES("[::ffff:127.0.0.2]")},
	{BYTES("[64:ff9b::7f00:1]")},
	{BYTES("[2002:7f00:1::]")},
	{BYTES("[fe80::1%25lo]")},
	{BYTES("169.254.169.254")},
	{BYTES("[::ffff:169.254.169.254]")},
	{BYTES("10.0.0.1")},
	{BYTES("100.100.100.200")},
};

void nw08(struct tries *t)
{
	const unsigned port = port_of(t);
	char text[256], answer[512];
	size_t i;

	snprintf(text, sizeof(text), "CONNECT 127.0.0.1:%u HTTP/1.1\r\n\r\n", port);
	/* what is listed is let through, or the rest would say nothing */
	expect(t,
	       ask(text, strlen(text), answer, sizeof(answer)) > 0 &&
		       strncmp(answer, "HTTP/1.1 200 ", 13) == 0,
	       "what is listed is refused");
	for (i = 0; i < sizeof(tricks) / sizeof(tricks[0]); i++)
		try_host(t, &tricks[i], port);
	for (i = 0; i < sizeof(tricks) / sizeof(tricks[0]); i++)
		try_host(t, &tricks[i], 80);
	/* the host, and another port */
	try_host(t, &(struct bytes){BYTES("127.0.0.1")}, 22);
	try_host(t, &(struct bytes){BYTES("127.0.0.1")}, port ^ 1);
	try_host(t, &(struct bytes){BYTES(LISTED)}, 22);
	refused(t, "no port", BYTES("CONNECT " LISTED " HTTP/1.1\r\n\r\n"));
	refused(t, "no proxy's request", BYTES("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
	refused(t, "another scheme", BYTES("GET ftp://" LISTED "/ HTTP/1.1\r\n\r\n"));
	refused(t, "SOCKS: bind", BYTES("\5\1\0\5\2\0\1\x7f\0\0\1\0\x50"));
	refused(t, "SOCKS: UDP", BYTES("\5\1\0\5\3\0\1\x7f\0\0\1\0\x50"));
	observe(t, "%zu spellings refused", sizeof(tricks) / sizeof(tricks[0]));
}

void nw09(struct tries *t)
{
	const unsigned port = port_of(t);
	const struct bytes hosts[] = {{BYTES("127.0.0.1")}, {BYTES("8.8.8.8")},
				      {BYTES("localhost")}, {BYTES("*")},
				      {BYTES("")},          {BYTES(LISTED)}};

	/* the run whose list is missing, and not only empty */
	if (strcmp(tries_word(t, 1), "none") == 0) {
		expect_call(t, "TCP", socket(AF_INET, SOCK_STREAM, 0), "EAFNOSUPPORT");
		expect_call(t, "TCP 6", socket(AF_INET6, SOCK_STREAM, 0), "EAFNOSUPPORT");
		return;
	}
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		try_host(t, &hosts[i], port);
		try_host(t, &hosts[i], 443);
	}
}

static char listed[64]; /* "": no port can be listened on */
static char listed_port[8];
static int listed_fd = -1;

static int listen_here(char out_port[8])
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	auto_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(at);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    listen(fd, 64) < 0 || getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return -1;
	snprintf(out_port, 8, "%u", ntohs(at.sin_port));
	return take_fd(&fd);
}

int egress_cases_begin(struct rules *allowed, struct err *e)
{
	listed_fd = listen_here(listed_port);
	if (listed_fd < 0)
		return 0;
	snprintf(listed, sizeof(listed), LISTED ",127.0.0.1:%s", listed_port);
	return rules_parse(allowed, listed, e);
}

static unsigned count_clients(int fd)
{
	unsigned n = 0;
	int client;

	while ((client = accept(fd, NULL, NULL)) >= 0) {
		close(client);
		n++;
	}
	return n;
}

/* a run with a list of one name and one port here, or an empty one: as many connections
 * come here as that allows */
static void run_listed(struct battery *b, struct tries *t, struct attack_run *r,
		       bool empty)
{
	static struct rules rules; /* as long as the run may be looked at */
	struct err e = {0};

	memset(&rules, 0, sizeof(rules));
	if (!listed[0] || rules_parse(&rules, empty ? " , " : listed, &e) < 0) {
		skip(t, "no port of the loopback can be listened on");
		return;
	}
	r->words[0] = listed_port;
	r->network = &rules;
	run_inside(b, t, r);
	expect(t, count_clients(listed_fd) == (empty ? 0 : 1), "somebody connected");
}

/* where a run that asks for network can have none, it is not run without */
static bool possible(struct battery *b, struct tries *t, const char *attack)
{
	const struct rules rules = {0};
	struct attack_run r = {.attack = attack, .network = &rules};

	if (b->report->network == NETWORK_BROKER)
		return true;
	run_whole(b, &r);
	expect(t, r.failed && strcmp(r.error.code, "network_unavailable") == 0,
	       "it runs without what it asked for");
	observe(t, "runs can have no network here");
	run_done(&r);
	return false;
}

void nw08_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "NW08"};

	if (!possible(b, t, r.attack))
		return;
	run_listed(b, t, &r, false);
	run_done(&r);
}

void nw09_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "NW09"};

	if (possible(b, t, r.attack)) {
		run_listed(b, t, &r, true);
		run_done(&r);
	}
	r = (struct attack_run){.attack = "NW09", .words = {"1", "none"}};
	run_inside(b, t, &r);
	run_done(&r);
}
