/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_upstream.c - the proxy by which this host itself reaches the world
 */
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "base/err.h"
#include "egress/broker.h"

static void forget(void)
{
	static const char *const names[] = {"http_proxy",  "HTTP_PROXY", "https_proxy",
					    "HTTPS_PROXY", "all_proxy",  "ALL_PROXY",
					    "no_proxy",    "NO_PROXY"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
}

static const struct upstream *way(const struct egress_world *w, enum proxy_kind kind,
				  const char *host)
{
	struct name n;

	CHECK(name_parse(host, strlen(host), &n) == 0);
	return upstream_for(w, kind, &n);
}

TEST(a_url_has_a_host_a_port_and_credentials)
{
	struct upstream u = {.port = 0};
	struct err e = {0};

	CHECK(upstream_parse("http://proxy.test:3128/", &u, &e) == 0);
	CHECK(strcmp(u.host, "proxy.test") == 0 && u.port == 3128 && !u.credentials[0]);
	CHECK(upstream_parse("http://a:b@[2001:db8::1]:1", &u, &e) == 0);
	CHECK(strcmp(u.host, "2001:db8::1") == 0 && strcmp(u.credentials, "YTpi") == 0);
	CHECK(upstream_parse("proxy.test", &u, &e) == 0 && u.port == 80);
}

TEST(what_is_no_proxy_is_refused_without_showing_its_password)
{
	static const char *const bad[] = {"https://u:hidden@proxy.test",
					  "socks5://u:hidden@proxy.test",
					  "http://u:hidden@",
					  "http://u:hidden@a b",
					  "http://u:hidden@a:0",
					  "http://u:hidden@a/b",
					  "http://u:hidden%4@a",
					  ""};
	struct upstream u;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = {0};

		CHECK(upstream_parse(bad[i], &u, &e) == -1 && !strstr(e.text, "hidden"));
	}
}

TEST(the_usual_variables_are_read_and_the_setting_replaces_them)
{
	struct egress_world w;
	struct err e = {0};

	forget();
	CHECK(upstream_find(NULL, &w, &e) == 0 && !way(&w, PROXY_CONNECT, "a.test"));
	setenv("HTTPS_PROXY", "http://s.test:1", 1);
	setenv("http_proxy", "http://p.test:2", 1);
	CHECK(upstream_find(NULL, &w, &e) == 0);
	CHECK(strcmp(way(&w, PROXY_CONNECT, "a.test")->host, "s.test") == 0);
	CHECK(strcmp(way(&w, PROXY_SOCKS, "a.test")->host, "s.test") == 0);
	CHECK(strcmp(way(&w, PROXY_PLAIN, "a.test")->host, "p.test") == 0);
	CHECK(upstream_find("http://x.test:3", &w, &e) == 0);
	CHECK(way(&w, PROXY_PLAIN, "a.test")->port == 3);
	CHECK(upstream_find("none", &w, &e) == 0 && !way(&w, PROXY_PLAIN, "a.test"));
	setenv("HTTPS_PROXY", "socks5://s.test:1", 1);
	CHECK(upstream_find(NULL, &w, &e) == -1 && strstr(e.text, "HTTPS_PROXY"));
}

TEST(no_proxy_names_hosts_what_is_below_and_ranges)
{
	struct egress_world w;
	struct err e = {0};

	forget();
	setenv("all_proxy", "http://p.test:2", 1);
	setenv("NO_PROXY", "corp.test, .inner.test,*.star.test,10.0.0.0/8,??,192.0.2.1",
	       1);
	CHECK(upstream_find(NULL, &w, &e) == 0);
	CHECK(!way(&w, PROXY_CONNECT, "corp.test") &&
	      !way(&w, PROXY_PLAIN, "a.corp.test"));
	CHECK(!way(&w, PROXY_CONNECT, "a.inner.test"));
	CHECK(!way(&w, PROXY_CONNECT, "a.star.test"));
	CHECK(!way(&w, PROXY_CONNECT, "10.1.2.3") &&
	      !way(&w, PROXY_CONNECT, "192.0.2.1"));
	CHECK(way(&w, PROXY_CONNECT, "notcorp.test") &&
	      way(&w, PROXY_CONNECT, "11.0.0.1"));
	setenv("NO_PROXY", "*", 1);
	CHECK(upstream_find(NULL, &w, &e) == 0 && !way(&w, PROXY_CONNECT, "a.test"));
}
