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
	c = opened(mother(), &o);
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
	c = opened(mother(), &o);
	CHECK(verdict_of(&c, "http://far.test/x", &got) == EGRESS_OK);
	CHECK(strstr(got, ">GET http://far.test/x HTTP/1.1\r\n"));
	CHECK(strstr(got, "Proxy-Authorization: Basic dTpwQA==\r\n"));
	/* what this host knows to be near stays refused */
	CHECK(verdict_of(&c, "http://localhost/", NULL) == EGRESS_BAD_ADDRESS);
	CHECK(verdict_of(&c, "http://other.test/", NULL) == EGRESS_NOT_LISTED);
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
	c = opened(mother(), &o);
	got = ask(c.port, tunnel, strlen(tunnel));
	CHECK(strstr(got, "HTTP/1.1 200 Connection established\r\n\r\n"
			  ">CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n"
			  "Proxy-Authorization: Basic dTpwQA==\r\n\r\n"));
	CHECK(!strstr(got, "secret"));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_OK);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u",
		 target_saying("403 not for you"));
	CHECK(upstream_find(url, &world, &e) == 0);
	c = opened(mother(), &o);
	got = ask(c.port, tunnel, strlen(tunnel));
	CHECK(strncmp(got, "HTTP/1.1 502 ", 13) == 0 && !strchr(got, '>'));
	CHECK(news(&c, &n) == 1 && n.verdict == EGRESS_NOT_CONNECTED);
}
