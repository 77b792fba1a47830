/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_broker_beyond.c - what a broker looks at inside a tunnel, and a proxy behind it
 */
#include "broker_fixture.h"

TEST(tls_names_the_host_that_was_asked_for)
{
	/* a ClientHello for a.test */
	static const char hello[] =
		"\x16\3\1\0\x3e\1\0\0\x3a\3\3rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr"
		"\0\0\2\x13\1\1"
		"\0\0\x0f\0\0\0\x0b\0\x09\0\0\6a.test";
	struct egress_channel c;
	struct egress_order o;
	struct egress_news n;
	struct err e = {0};
	char text[300];
	unsigned port;
	int len;

	leave();
	port = target();
	o = order("");
	CHECK(rules_add_index(&o.rules, "localhost", port, &e) == 0);
	ceiling.runs = o.rules;
	c = served(mother(), &o);
	len = snprintf(text, sizeof(text), "CONNECT localhost:%u HTTP/1.1\r\n\r\n", port);
	memcpy(text + len, hello, sizeof(hello) - 1);
	CHECK(!strchr(ask(c.port, text, (size_t)len + sizeof(hello) - 1), '>'));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_BAD_TLS_NAME && n.sent_bytes == 0);
	memcpy(text + len, "other", 5);
	CHECK(strstr(ask(c.port, text, (size_t)len + 5), ">other"));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_OK);
}

TEST(another_proxy_is_asked_when_this_host_needs_one)
{
	struct egress_channel c;
	struct egress_order o;
	struct err e = {0};
	char url[64], *got;
	unsigned port;

	leave();
	port = target();
	snprintf(url, sizeof(url), "http://u:p%%40@127.0.0.1:%u", port);
	unsetenv("NO_PROXY");
	unsetenv("no_proxy");
	CHECK(upstream_find(url, &world, &e) == 0);
	o = order("far.test,localhost");
	c = served(mother(), &o);
	CHECK(verdict_of(&c, "http://far.test/x", &got) == EGRESS_OK);
	CHECK(strstr(got, ">GET http://far.test/x HTTP/1.1\r\n"));
	CHECK(strstr(got, "Proxy-Authorization: Basic dTpwQA==\r\n"));
	/* what this host knows to be near stays refused */
	CHECK(verdict_of(&c, "http://localhost/", NULL) == EGRESS_BAD_ADDRESS);
	CHECK(verdict_of(&c, "http://other.test/", NULL) == EGRESS_NOT_LISTED);
}

/* a server that answers with all it was told, when that has ended */
static unsigned patient_target(void)
{
	char text[2048];
	unsigned port;
	int fd = listening(&port), client;
	size_t len;
	ssize_t n;

	if (fork() != 0) {
		close(fd);
		return port;
	}
	while ((client = accept(fd, NULL, NULL)) >= 0) {
		for (len = 0; (n = read(client, text + len, sizeof(text) - len)) > 0;)
			len += (size_t)n;
		(void)!write(client, text, len);
		close(client);
	}
	_exit(0);
}

static char *ask_and_end(unsigned port, const char *text)
{
	static char out[2048];
	size_t at = 0;
	ssize_t n;
	int fd = dial(port);

	CHECK(send(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
	CHECK(shutdown(fd, SHUT_WR) == 0);
	while (at < sizeof(out) - 1 && (n = read(fd, out + at, sizeof(out) - 1 - at)) > 0)
		at += (size_t)n;
	out[at] = '\0';
	close(fd);
	return out;
}

/* what follows it might read as another request, for whichever host */
TEST(another_proxy_hears_one_request_and_its_body_alone)
{
#define SECOND "GET http://other.test/ HTTP/1.1\r\n\r\n"
	static const char chunks[] = "POST http://far.test/ HTTP/1.1\r\n"
				     "Transfer-Encoding: chunked\r\n\r\n";
	struct egress_channel c;
	struct egress_order o;
	struct err e = {0};
	char url[64], *got;

	leave();
	unsetenv("NO_PROXY");
	unsetenv("no_proxy");
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", patient_target());
	CHECK(upstream_find(url, &world, &e) == 0);
	o = order("far.test");
	c = served(mother(), &o);
	got = ask_and_end(c.port, "GET http://far.test/ HTTP/1.1\r\n\r\n" SECOND);
	CHECK(strcmp(got, "GET http://far.test/ HTTP/1.1\r\nHost: far.test\r\n"
			  "Connection: close\r\n\r\n") == 0);
	got = ask_and_end(c.port, "POST http://far.test/ HTTP/1.1\r\n"
				  "Content-Length: 2 \r\n\r\nab" SECOND);
	CHECK(strncmp(got, "POST ", 5) == 0 && !strstr(got, "other.test"));
	CHECK(strcmp(got + strlen(got) - 6, "\r\n\r\nab") == 0);
	/* where chunks end nobody looks: the proxy makes a tunnel, reads none of it */
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", target());
	CHECK(upstream_find(url, &world, &e) == 0);
	c = served(mother(), &o);
	CHECK(strncmp(ask(c.port, chunks, strlen(chunks)),
		      ">CONNECT far.test:80 HTTP/1.1\r\n", 31) == 0);
}

TEST(another_proxy_is_asked_for_tunnels_and_may_refuse)
{
	static const char tunnel[] = "CONNECT far.test:443 HTTP/1.1\r\nX: secret\r\n\r\n";
	struct egress_channel c;
	struct egress_order o;
	struct egress_news n;
	struct err e = {0};
	char url[64], *got;

	leave();
	unsetenv("NO_PROXY");
	unsetenv("no_proxy");
	snprintf(url, sizeof(url), "http://u:p%%40@127.0.0.1:%u", target());
	CHECK(upstream_find(url, &world, &e) == 0);
	o = order("far.test");
	c = served(mother(), &o);
	got = ask(c.port, tunnel, strlen(tunnel));
	CHECK(strstr(got, "HTTP/1.1 200 Connection established\r\n\r\n"
			  ">CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n"
			  "Proxy-Authorization: Basic dTpwQA==\r\n\r\n"));
	CHECK(!strstr(got, "secret"));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_OK);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u",
		 target_saying("403 not for you"));
	CHECK(upstream_find(url, &world, &e) == 0);
	c = served(mother(), &o);
	got = ask(c.port, tunnel, strlen(tunnel));
	CHECK(strncmp(got, "HTTP/1.1 502 ", 13) == 0 && !strchr(got, '>'));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_NOT_CONNECTED);
}
