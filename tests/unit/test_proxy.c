/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_proxy.c - HTTP, SOCKS5 and the first record of TLS, as clients of a proxy speak
 */
#include "egress/proxy.h"

#include <stdio.h>
#include <string.h>

#include "../tap.h"
#include "base/buf.h"

static int http(const char *text, struct proxy_request *out)
{
	return proxy_http(text, strlen(text), out);
}

TEST(connect_names_a_host_and_a_port)
{
	static const char text[] =
		"CONNECT Example.org:443 HTTP/1.1\r\nHost: x\r\n\r\nrest";
	struct proxy_request r;

	CHECK(http(text, &r) == (int)strlen(text) - 4);
	CHECK(r.kind == PROXY_CONNECT && r.host_ok && r.port == 443);
	CHECK(strcmp(r.host.text, "example.org") == 0 && !r.credentials[0]);
	for (size_t len = 0; len < strlen(text) - 4; len++)
		CHECK(proxy_http(text, len, &r) == PROXY_MORE);
	CHECK(http("CONNECT [2001:db8::1]:8443 HTTP/1.0\r\n\r\n", &r) > 0);
	CHECK(r.host.is_address && r.port == 8443);
}

TEST(a_host_that_is_none_is_told_apart_from_a_bad_request)
{
	static const char *const hosts[] = {"a@b:443",
					    "0x7f.1:443",
					    "::1:443",
					    "a..b:443",
					    "2130706433:80",
					    "a%00b:80",
					    "b\xc3\xbd.example:443"};
	char text[200];
	struct proxy_request r;

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		snprintf(text, sizeof(text), "CONNECT %s HTTP/1.1\r\n\r\n", hosts[i]);
		CHECK(http(text, &r) > 0 && !r.host_ok);
	}
	CHECK(proxy_http("GET http://a\0b/ HTTP/1.1\r\n\r\n", 28, &r) == PROXY_BAD);
}

TEST(what_is_not_as_it_should_be_is_refused)
{
	static const char *const bad[] = {
		"GET / HTTP/1.1\r\n\r\n",
		"CONNECT a HTTP/1.1\r\n\r\n",
		"CONNECT a: HTTP/1.1\r\n\r\n",
		"CONNECT a:0 HTTP/1.1\r\n\r\n",
		"CONNECT a:65536 HTTP/1.1\r\n\r\n",
		"CONNECT a:443\r\n\r\n",
		"CONNECT a:443 HTTP/2.0\r\n\r\n",
		"CONNECT  a:443 HTTP/1.1\r\n\r\n",
		"CONNECT a:443 b HTTP/1.1\r\n\r\n",
		"CONNECT :443 HTTP/1.1\r\n\r\n",
		"GET https://a/ HTTP/1.1\r\n\r\n",
		"GET ftp://a/ HTTP/1.1\r\n\r\n",
		"GET http:// HTTP/1.1\r\n\r\n",
		"GET http:///x HTTP/1.1\r\n\r\n",
		"G@T http://a/ HTTP/1.1\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\n folded: x\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nname : x\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nnothing\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nx: a\nHost: b\r\n\r\n",
		"GET http://a/\r HTTP/1.1\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nContent-Length: 1\r\n"
		"Content-Length: 2\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
		"content-length: 2\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nContent-Length:\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nContent-Length: 18446744073709551617\r\n\r\n",
	};
	struct proxy_request r;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (http(bad[i], &r) != PROXY_BAD)
			tap_fail(__FILE__, __LINE__, bad[i]);
}

TEST(a_head_has_an_end)
{
	static char text[PROXY_HEAD_MOST];
	struct proxy_request r;

	memset(text, 'a', sizeof(text));
	CHECK(proxy_http("", 1, &r) == PROXY_BAD);
	CHECK(proxy_http(text, sizeof(text) - 1, &r) == PROXY_MORE);
	CHECK(proxy_http(text, sizeof(text), &r) == PROXY_BAD);
}

static void forwarded(const char *text, bool whole, const char *want)
{
	struct proxy_request r;
	struct buf out;
	int len = http(text, &r);

	buf_init(&out, 4096);
	CHECK(len > 0 && r.kind == PROXY_PLAIN && r.host_ok);
	CHECK(proxy_http_forward(text, (size_t)len, &r, whole, whole ? "c2VjcmV0" : NULL,
				 &out) == 0);
	CHECK(buf_text(&out) == 0);
	if (strcmp(out.bytes, want) != 0)
		tap_fail(__FILE__, __LINE__, out.bytes);
	buf_done(&out);
}

TEST(a_request_is_sent_on_for_the_host_of_its_uri_alone)
{
	forwarded("GET http://Example.org/a?b HTTP/1.1\r\nHost: evil.test\r\n"
		  "Accept: */*\r\n"
		  "Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n"
		  "Proxy-Connection: x\r\n\r\n",
		  false,
		  "GET /a?b HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n"
		  "Accept: */*\r\n\r\n");
	forwarded("POST http://a.test:8080 HTTP/1.0\r\nContent-Length: 2\r\n\r\n", false,
		  "POST / HTTP/1.0\r\nHost: a.test:8080\r\nConnection: close\r\n"
		  "Content-Length: 2\r\n\r\n");
	forwarded("GET http://a.test?q HTTP/1.1\r\n\r\n", false,
		  "GET /?q HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
	forwarded("GET http://a.test?to=http://b.test/ HTTP/1.1\r\n\r\n", false,
		  "GET /?to=http://b.test/ HTTP/1.1\r\nHost: a.test\r\n"
		  "Connection: close\r\n\r\n");
	forwarded("GET http://[2001:db8::1]:81/x HTTP/1.1\r\n\r\n", true,
		  "GET http://[2001:db8::1]:81/x HTTP/1.1\r\nHost: [2001:db8::1]:81\r\n"
		  "Connection: close\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n");
}

TEST(credentials_are_found)
{
	struct proxy_request r;

	CHECK(http("CONNECT a:1 HTTP/1.1\r\nproxy-authorization:  bAsic eDp5\r\n\r\n",
		   &r) > 0);
	CHECK(strcmp(r.credentials, "eDp5") == 0);
	CHECK(http("CONNECT a:1 HTTP/1.1\r\nProxy-Authorization: Bearer x\r\n\r\n", &r) >
	      0);
	CHECK(!r.credentials[0]);
}

TEST(another_proxys_answer_has_a_status)
{
	static const char text[] = "HTTP/1.1 407 No\r\nA: b\r\n\r\nxx";
	int status = 0;

	CHECK(proxy_http_status(text, strlen(text), &status) == (int)strlen(text) - 2);
	CHECK(status == 407);
	CHECK(proxy_http_status(text, 20, &status) == PROXY_MORE);
	CHECK(proxy_http_status("HTTP/2 200\r\n\r\n", 14, &status) == PROXY_BAD);
	CHECK(proxy_http_status("SSH-2.0-x\r\n\r\n", 13, &status) == PROXY_BAD);
}

TEST(socks_greets_and_asks)
{
	struct proxy_request r;
	unsigned methods = 0;
	char password[256];

	CHECK(proxy_socks_hello("\5\2\0\2", 4, &methods) == 4 && methods == 5);
	CHECK(proxy_socks_hello("\5\2\0", 3, &methods) == PROXY_MORE);
	CHECK(proxy_socks_hello("\4\1\0", 3, &methods) == PROXY_BAD);
	CHECK(proxy_socks_password("\1\1u\2pw", 6, password) == 6);
	CHECK(strcmp(password, "pw") == 0);
	CHECK(proxy_socks_password("\1\1u\2p", 5, password) == PROXY_MORE);
	CHECK(proxy_socks_request("\5\1\0\3\7a.exam.\1\xbb", 14, &r) == 14);
	CHECK(r.host_ok && strcmp(r.host.text, "a.exam") == 0 && r.port == 443);
	CHECK(proxy_socks_request("\5\1\0\1\x7f\0\0\1\0\x50", 10, &r) == 10);
	CHECK(r.host.is_address && strcmp(r.host.text, "127.0.0.1") == 0);
	CHECK(proxy_socks_request("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\x50", 22,
				  &r) == 22);
	CHECK(r.host.is_address && strcmp(r.host.text, "::1") == 0 && r.port == 80);
	CHECK(proxy_socks_request("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1\0\x50",
				  22, &r) == 22);
	CHECK(strcmp(r.host.text, "127.0.0.1") == 0);
}

TEST(socks_does_nothing_but_connect_to_a_clean_name)
{
	struct proxy_request r;

	CHECK(proxy_socks_request("\5\2\0\1\1\2\3\4\0\x50", 10, &r) ==
	      PROXY_BAD); /* bind */
	CHECK(proxy_socks_request("\5\3\0\1\1\2\3\4\0\x50", 10, &r) ==
	      PROXY_BAD); /* udp */
	CHECK(proxy_socks_request("\5\1\0\2\1\2\3\4\0\x50", 10, &r) == PROXY_BAD);
	CHECK(proxy_socks_request("\5\1\0\1\1\2\3\4\0\0", 10, &r) == PROXY_BAD);
	CHECK(proxy_socks_request("\5\1\0\3\11"
				  "a.b\0.c.de\0\x50",
				  16, &r) == 16);
	CHECK(!r.host_ok);
	CHECK(proxy_socks_request("\5\1\0\3\0\0\x50", 7, &r) == 7 && !r.host_ok);
}

/* a ClientHello for this host, as short as one can be; its length */
static size_t hello(const char *host, char *out)
{
	const size_t n = strlen(host), body = 2 + 32 + 7 + 2 + n + 9;
	const char head[] = {0x16, 3, 1, 0, (char)(4 + body), 1, 0, 0, (char)body, 3, 3};
	/* no session, one cipher, no compression; extensions, of which one is the name */
	const char middle[] = {0, 0, 2, 0x13, 1, 1, 0};
	const char tail[] = {0, (char)(n + 9), 0, 0, 0,      (char)(n + 5),
			     0, (char)(n + 3), 0, 0, (char)n};
	size_t len = 0;

	memcpy(out, head, sizeof(head));
	len += sizeof(head);
	memset(out + len, 'r', 32);
	len += 32;
	memcpy(out + len, middle, sizeof(middle));
	len += sizeof(middle);
	memcpy(out + len, tail, sizeof(tail));
	len += sizeof(tail);
	memcpy(out + len, host, n);
	return len + n;
}

TEST(tls_names_its_host)
{
	struct name n;
	char text[512];
	size_t len = hello("Example.org", text), i;

	CHECK(proxy_is_tls(text, len) && !proxy_is_tls("GET ", 4));
	CHECK(proxy_tls_name(text, len, &n) == (int)len);
	CHECK(strcmp(n.text, "example.org") == 0);
	for (i = 0; i < len; i++)
		CHECK(proxy_tls_name(text, i, &n) == PROXY_MORE);
	/* cut inside, the record's length told accordingly */
	for (i = 10; i < len; i++) {
		hello("Example.org", text);
		text[4] = (char)(i - 5);
		CHECK(proxy_tls_name(text, i, &n) == PROXY_BAD);
	}
	len = hello("a b", text);
	CHECK(proxy_tls_name(text, len, &n) == PROXY_BAD);
	/* a record that says nothing, before the hello */
	for (i = 0x14; i <= 0x18; i++) {
		memcpy(text, (const char[]){(char)i, 3, 3, 0, 0}, 5);
		len = 5 + hello("Example.org", text + 5);
		CHECK(proxy_is_tls(text, len));
		CHECK(proxy_tls_name(text, len, &n) == PROXY_BAD);
	}
}
