/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_auth.c - Host, Origin, content type, token, and the ids of a request
 */
#include "http/auth.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "../tap.h"
#include "base/err.h"

static struct span span(const char *text)
{
	return (struct span){text, text ? strlen(text) : 0};
}

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage out = {0};
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&out;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		out.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		out.ss_family = AF_INET6;
	return out;
}

static int host(const char *name, const char *local, const char *list)
{
	struct sockaddr_storage at = address(local);
	struct auth_rules rules = {.hosts = list};
	struct http_head h = {.host = span(name)};
	struct err e = {0};

	if (auth_check(&rules, &h, (struct sockaddr *)&at, &e) == 0)
		return 0;
	CHECK(strcmp(e.code, "host_not_allowed") == 0);
	return err_status(&e);
}

static int origin(const char *from, const char *to, const char *site, const char *list)
{
	struct sockaddr_storage at = address("127.0.0.1");
	struct auth_rules rules = {.hosts = "*", .origins = list};
	struct http_head h = {
		.host = span(to), .origin = span(from), .sec_fetch_site = span(site)};
	struct err e = {0};

	if (auth_check(&rules, &h, (struct sockaddr *)&at, &e) == 0)
		return 0;
	CHECK(strcmp(e.code, "origin_not_allowed") == 0);
	return err_status(&e);
}

TEST(loopback_names_are_ours)
{
	static const char *const names[] = {
		"localhost",         "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:1",
		"127.255.1.2:65535", "[::1]",          "[::1]:8080"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK(host(names[i], "10.0.0.1", NULL) == 0);
}

TEST(other_names_are_not)
{
	static const char *const names[] = {
		"evil.com",
		"localhost.evil.com",
		"evil.com:127.0.0.1",
		"localhost.",
		"127.0.0.1.",
		"127.1",
		"2130706433",
		"0x7f.0.0.1",
		"1.2.3.4",
		"[::2]",
		"[::1",
		"::1",
		"[::1]x",
		"localhost:",
		"localhost:80a",
		"localhost:123456",
		"a@localhost",
		"localhost@evil.com",
		"",
		":80",
		"[]",
		"0.0.0.0",
		"localhost,evil.com",
		"localhost evil.com",
		"127.0.0.1 ",
		"localhost/",
		"[::ffff:127.0.0.1]",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK(host(names[i], "10.0.0.1", NULL) == 421);
}

TEST(the_address_a_client_reached_us_at_is_ours)
{
	CHECK(host("10.0.0.1:8080", "10.0.0.1", NULL) == 0);
	CHECK(host("10.0.0.1", "::ffff:10.0.0.1", NULL) == 0);
	CHECK(host("[::ffff:10.0.0.1]", "::ffff:10.0.0.1", NULL) == 0);
	CHECK(host("[fd00::1]:80", "fd00:0::1", NULL) == 0);
	CHECK(host("10.0.0.2", "10.0.0.1", NULL) == 421);
	CHECK(host("[fd00::2]", "fd00::1", NULL) == 421);
}

TEST(listed_names_are_ours)
{
	static const char list[] = "sandbox.svc, other:8080";

	CHECK(host("Sandbox.SVC", "10.0.0.1", list) == 0);
	CHECK(host("sandbox.svc:99", "10.0.0.1", list) == 0);
	CHECK(host("other:8080", "10.0.0.1", list) == 0);
	CHECK(host("other:8081", "10.0.0.1", list) == 421);
	CHECK(host("x.sandbox.svc", "10.0.0.1", list) == 421);
	CHECK(host("anything", "10.0.0.1", "*") == 0);
	CHECK(host("anything", "10.0.0.1", "") == 421);
	CHECK(host("anything", "10.0.0.1", ",") == 421);
}

TEST(http_1_0_without_host_is_no_browser)
{
	CHECK(host(NULL, "127.0.0.1", NULL) == 0);
	CHECK(origin("http://a", NULL, NULL, NULL) == 403);
}

TEST(only_the_same_origin_may_ask)
{
	CHECK(origin(NULL, "a:80", NULL, NULL) == 0);
	CHECK(origin("http://a:8080", "a:8080", NULL, NULL) == 0);
	CHECK(origin("https://A", "a", NULL, NULL) == 0);
	CHECK(origin("http://a:8081", "a:8080", NULL, NULL) == 403);
	CHECK(origin("https://evil.com", "a", NULL, NULL) == 403);
	CHECK(origin("ftp://a", "a", NULL, NULL) == 403);
	CHECK(origin("a", "a", NULL, NULL) == 403);
	CHECK(origin("null", "a", NULL, NULL) == 403);
	CHECK(origin("", "a", NULL, NULL) == 403);
	CHECK(origin("http://", "a", NULL, NULL) == 403);
}

TEST(listed_origins_may_ask)
{
	static const char list[] = "https://ui.example, null";

	CHECK(origin("https://ui.example", "a", "cross-site", list) == 0);
	CHECK(origin("null", "a", NULL, list) == 0);
	CHECK(origin("http://ui.example", "a", NULL, list) == 403);
	CHECK(origin("https://ui.example.evil", "a", NULL, list) == 403);
	CHECK(origin("https://any", "a", NULL, "*") == 0);
}

TEST(a_cross_site_request_without_origin_is_refused)
{
	CHECK(origin(NULL, "a", "cross-site", NULL) == 403);
	CHECK(origin(NULL, "a", "cross-site", "https://ui.example") == 403);
	CHECK(origin(NULL, "a", "same-origin", NULL) == 0);
	CHECK(origin(NULL, "a", "none", NULL) == 0);
}

static int type(const char *text)
{
	struct http_head h = {.content_type = span(text)};
	struct err e = {0};

	return auth_json_body(&h, &e) == 0 ? 0 : err_status(&e);
}

TEST(bodies_are_json)
{
	CHECK(type(NULL) == 0);
	CHECK(type("application/json") == 0);
	CHECK(type("Application/JSON ; charset=utf-8") == 0);
	CHECK(type("text/plain") == 415);
	CHECK(type("") == 415);
	CHECK(type("application/jsonx") == 415);
	CHECK(type("application/x-www-form-urlencoded") == 415);
	CHECK(type("multipart/form-data; boundary=application/json") == 415);
	CHECK(type("text/plain; application/json") == 415);
}

static const char *id_for(const char *given)
{
	static char out[REQUEST_ID_ROOM];

	auth_request_id(span(given), out);
	return out;
}

TEST(a_sane_request_id_is_kept)
{
	char longest[66];

	CHECK(strcmp(id_for("a.B-9_"), "a.B-9_") == 0);
	memset(longest, 'x', sizeof(longest));
	longest[64] = 0;
	CHECK(strcmp(id_for(longest), longest) == 0);
}

TEST(any_other_is_replaced_by_a_new_one)
{
	static const char *const bad[] = {NULL, "", "a b", "a\"b", "\xc3\xa4", "a/b"};
	char before[REQUEST_ID_ROOM] = "", too_long[66];

	memset(too_long, 'x', 65);
	too_long[65] = 0;
	for (size_t i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
		const char *id = id_for(i < sizeof(bad) / sizeof(bad[0]) ? bad[i]
									 : too_long);

		CHECK(strlen(id) == 32 && strspn(id, "0123456789abcdef") == 32);
		CHECK(strcmp(id, before) != 0);
		memcpy(before, id, 33);
	}
}

TEST(traceparent_is_w3c_or_nothing)
{
	static const char good[] =
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	static const char *const bad[] = {
		"",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	};
	char out[TRACEPARENT_ROOM];

	auth_traceparent(span(good), out);
	CHECK(strcmp(out, good) == 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		auth_traceparent(span(bad[i]), out);
		CHECK(out[0] == 0);
	}
	auth_traceparent((struct span){0}, out);
	CHECK(out[0] == 0);
}

static const char *token_of(const char *authorization, const char *key,
			    const char *access)
{
	const struct http_head h = {.authorization = span(authorization),
				    .api_key = span(key),
				    .access_token = span(access)};
	const struct span got = auth_token(&h);
	static char text[64];

	if (!got.p)
		return "-";
	memcpy(text, got.p, got.len);
	text[got.len] = 0;
	return text;
}

TEST(a_token_comes_in_one_of_three_headers)
{
	CHECK(strcmp(token_of(NULL, NULL, NULL), "-") == 0);
	CHECK(strcmp(token_of("Bearer abc", "k", "a"), "abc") == 0);
	CHECK(strcmp(token_of("bearer  abc", NULL, NULL), "abc") == 0);
	CHECK(strcmp(token_of("Basic abc", NULL, NULL), "-") == 0);
	CHECK(strcmp(token_of("Basic abc", "k", "a"), "k") == 0);
	CHECK(strcmp(token_of("Bearer", NULL, "a"), "a") == 0);
	CHECK(strcmp(token_of("Bearer ", NULL, NULL), "-") == 0);
	CHECK(strcmp(token_of("Bearerabc", NULL, NULL), "-") == 0);
}
