/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_admit.c - which request heads are let in
 */
#include "http/admit.h"

#include "../tap.h"
#include "base/err.h"

enum { CAP = 10 << 20 };

/* the status a head is refused with, 0 when it is let in */
static int status_n(const char *text, size_t len, struct http_head *out)
{
	struct http_head unused;
	ssize_t n = admit_scan(text, 0, len);
	struct err e = {0};

	if (n < 0)
		return 400;
	CHECK(n == (ssize_t)len);
	return admit_head(text, len, CAP, out ? out : &unused, &e) < 0 ? err_status(&e)
								       : 0;
}

static int status(const char *text)
{
	return status_n(text, strlen(text), NULL);
}

/* a GET with these lines behind Host */
static int with(const char *lines)
{
	char text[4096];

	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", lines);
	return status(text);
}

static int post_with(const char *lines)
{
	char text[4096];

	snprintf(text, sizeof(text), "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n", lines);
	return status(text);
}

TEST(a_plain_head_is_let_in_and_taken_apart)
{
	static const char text[] = "POST /execute?x=1 HTTP/1.1\r\nHost: a:80\r\n"
				   "content-length: 12\r\nAccept:text/event-stream \r\n"
				   "Expect: 100-Continue\r\nX-Empty:\r\n\r\n";
	struct http_head h;

	CHECK(status_n(text, sizeof(text) - 1, &h) == 0);
	CHECK(h.method == METHOD_POST && !h.http10 && !h.close && !h.chunked);
	CHECK(h.path.len == 8 && memcmp(h.path.p, "/execute", 8) == 0);
	CHECK(h.body_bytes == 12 && h.expect_continue);
	CHECK(span_is(h.host, "a:80") && span_is(h.accept, "text/event-stream"));
	CHECK(!h.origin.p);
}

TEST(the_end_of_a_head_is_found_however_it_arrives)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET";
	size_t end = sizeof(text) - 4;

	for (size_t n = 0; n < end; n++)
		CHECK(admit_scan(text, 0, n) == 0);
	for (size_t n = 0; n < end; n++)
		CHECK(admit_scan(text, n, sizeof(text) - 1) == (ssize_t)end);
}

TEST(bytes_no_head_may_hold_are_found_at_once)
{
	CHECK(admit_scan("GET / HTTP/1.1\n", 0, 15) == -1);
	CHECK(admit_scan("GET / HTTP/1.1\r\nA: b\n\r\n", 0, 23) == -1);
	CHECK(admit_scan("GET /\rX", 0, 7) == -1);
	CHECK(admit_scan("GET /\0", 0, 6) == -1);
	CHECK(admit_scan("\x16\x03\x01", 0, 3) == -1);
	CHECK(admit_scan("GET / HTTP/1.1\r\nA: \x7f\r\n", 0, 22) == -1);
}

TEST(versions_other_than_1_0_and_1_1_are_refused)
{
	CHECK(status("GET / HTTP/1.0\r\n\r\n") == 0);
	CHECK(status("GET / HTTP/2.0\r\nHost: a\r\n\r\n") == 505);
	CHECK(status("GET / HTTP/1.2\r\nHost: a\r\n\r\n") == 505);
	CHECK(status("GET / HTTP/0.9\r\nHost: a\r\n\r\n") == 505);
	CHECK(status("GET / http/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET / HTTP/1.1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET / HTTP/11\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET / XTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET /\r\nHost: a\r\n\r\n") == 400);
}

TEST(methods_are_upper_case_words_we_know)
{
	CHECK(status("get / HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GETS / HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("PRI * HTTP/2.0\r\n\r\n") == 505);
	CHECK(status("CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n") == 0);
	CHECK(status("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
}

TEST(targets_begin_with_a_slash)
{
	CHECK(status("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET a HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET ?x HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET  / HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET /  HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET / HTTP/1.1 \r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status(" GET / HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
	CHECK(status("GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n") == 400);
}

TEST(host_is_there_exactly_once)
{
	CHECK(status("GET / HTTP/1.1\r\n\r\n") == 400);
	CHECK(with("Host: a\r\n") == 400);
	CHECK(with("hOST: b\r\n") == 400);
}

TEST(the_body_has_one_length)
{
	CHECK(post_with("Content-Length: 5\r\n") == 0);
	CHECK(post_with("Content-Length: 0\r\n") == 0);
	CHECK(post_with("Content-Length: 10485760\r\n") == 0);
	CHECK(post_with("Content-Length: 10485761\r\n") == 413);
	CHECK(post_with("Content-Length: 99999999999\r\n") == 413);
	CHECK(post_with("Content-Length: 1000000000000000000\r\n") == 413);
	CHECK(post_with("") == 411);
	CHECK(status("PUT / HTTP/1.1\r\nHost: a\r\n\r\n") == 411);
	CHECK(status("PATCH / HTTP/1.1\r\nHost: a\r\n\r\n") == 411);
	CHECK(status("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n") == 0);
	CHECK(post_with("Content-Length: +5\r\n") == 400);
	CHECK(post_with("Content-Length: -1\r\n") == 400);
	CHECK(post_with("Content-Length: 0x5\r\n") == 400);
	CHECK(post_with("Content-Length: 5 5\r\n") == 400);
	CHECK(post_with("Content-Length: 5, 5\r\n") == 400);
	CHECK(post_with("Content-Length:\r\n") == 400);
	CHECK(post_with("Content-Length: 5\r\nContent-Length: 5\r\n") == 400);
	CHECK(post_with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") == 400);
}

TEST(an_overflowing_length_is_refused)
{
	int s = post_with("Content-Length: 18446744073709551615\r\n");

	CHECK(s == 400 || s == 413);
	s = post_with("Content-Length: 18446744073709551621\r\n");
	CHECK(s == 400 || s == 413);
}

TEST(chunked_is_the_only_transfer_coding)
{
	CHECK(post_with("Transfer-Encoding: chunked\r\n") == 0);
	CHECK(post_with("Transfer-Encoding: Chunked\r\n") == 0);
	CHECK(with("Transfer-Encoding: chunked\r\n") == 0);
	CHECK(post_with("Transfer-Encoding: xchunked\r\n") == 400);
	CHECK(post_with("Transfer-Encoding: identity\r\n") == 400);
	CHECK(post_with("Transfer-Encoding: gzip, chunked\r\n") == 400);
	CHECK(post_with("Transfer-Encoding: chunked, chunked\r\n") == 400);
	CHECK(post_with("Transfer-Encoding: \"chunked\"\r\n") == 400);
	CHECK(post_with("Transfer-Encoding:\r\n") == 400);
	CHECK(post_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") ==
	      400);
	CHECK(status("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n") == 400);
}

TEST(header_lines_have_one_reading)
{
	CHECK(with("A : b\r\n") == 400);
	CHECK(with("A\t: b\r\n") == 400);
	CHECK(with("A: b\r\n c\r\n") == 400);
	CHECK(with("A: b\r\n\tc\r\n") == 400);
	CHECK(with(": b\r\n") == 400);
	CHECK(with("A\r\n") == 400);
	CHECK(with("A(b): c\r\n") == 400);
	CHECK(with("\xc3\xa4: c\r\n") == 400);
	CHECK(with("A:\tb:c \xc3\xa4\r\n") == 0);
}

TEST(what_decides_something_is_said_once)
{
	CHECK(with("Origin: http://a\r\nOrigin: http://b\r\n") == 400);
	CHECK(with("Content-Type: a/b\r\nContent-Type: a/b\r\n") == 400);
	CHECK(with("Sec-Fetch-Site: none\r\nSec-Fetch-Site: none\r\n") == 400);
	CHECK(with("Expect: 100-continue\r\nExpect: 100-continue\r\n") == 400);
	CHECK(with("Accept: a/b\r\nAccept: a/b\r\n") == 0);
}

static int with_headers(unsigned count, const char *last)
{
	char text[8192] = "POST / HTTP/1.1\r\nHost: a\r\n";
	size_t n = strlen(text);

	for (unsigned i = 0; i < count - 2; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "X-%u: y\r\n", i);
	snprintf(text + n, sizeof(text) - n, "%s\r\n\r\n", last);
	return status(text);
}

TEST(no_header_is_behind_the_parsers_last_slot)
{
	CHECK(with_headers(64, "Content-Length: 5") == 0);
	CHECK(with_headers(65, "Content-Length: 5") == 431);
	CHECK(with_headers(31, "Transfer-Encoding: x") == 400);
	CHECK(with_headers(200, "Content-Length: 5") == 431);
}

TEST(a_head_over_16_kb_is_refused)
{
	static char text[HEAD_CAP_BYTES + 64];
	struct http_head h;
	size_t n = (size_t)snprintf(text, sizeof(text),
				    "GET / HTTP/1.1\r\nHost: a\r\nX: ");

	memset(text + n, 'x', sizeof(text) - n);
	memcpy(text + HEAD_CAP_BYTES - 4, "\r\n\r\n", 4);
	CHECK(status_n(text, HEAD_CAP_BYTES, &h) == 0);
	memcpy(text + HEAD_CAP_BYTES - 4, "xxxx\r\n\r\n", 8);
	CHECK(status_n(text, HEAD_CAP_BYTES + 4, &h) == 431);
}

static bool closes(const char *version, const char *line)
{
	struct http_head h;
	char text[256];

	snprintf(text, sizeof(text), "GET / HTTP/%s\r\nHost: a\r\n%s\r\n", version, line);
	CHECK(status_n(text, strlen(text), &h) == 0);
	return h.close;
}

TEST(close_is_found_in_a_list)
{
	CHECK(!closes("1.1", ""));
	CHECK(!closes("1.1", "Connection: keep-alive\r\n"));
	CHECK(closes("1.1", "Connection: close\r\n"));
	CHECK(closes("1.1", "Connection: keep-alive, Close\r\n"));
	CHECK(closes("1.1", "Connection: close ,upgrade\r\n"));
	CHECK(!closes("1.1", "Connection: disclose\r\n"));
	CHECK(closes("1.0", ""));
	CHECK(closes("1.0", "Connection: keep-alive\r\n"));
}

TEST(only_100_continue_may_be_expected)
{
	CHECK(post_with("Content-Length: 1\r\nExpect: 200-ok\r\n") == 417);
	CHECK(post_with("Content-Length: 1\r\nExpect:\r\n") == 417);
	CHECK(status("POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: x\r\n\r\n") == 0);
}

TEST(nonsense_is_refused)
{
	CHECK(status("\r\n\r\n") == 400);
	CHECK(status("G\r\n\r\n") == 400);
	CHECK(status("HTTP/1.1 200 OK\r\n\r\n") == 400);
}

TEST(lists_are_split_at_commas)
{
	struct span list = {" a ,,b\t, c d", 12}, item;

	CHECK(span_next(&list, &item) && span_is(item, "a"));
	CHECK(span_next(&list, &item) && item.len == 0);
	CHECK(span_next(&list, &item) && span_is(item, "B"));
	CHECK(span_next(&list, &item) && span_is(item, "c d"));
	CHECK(!span_next(&list, &item));
}
