/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * on_web.c - what is the same for everybody: GET / and GET /openapi.json
 *
 * Made when it is first asked for, and kept: settings and modes never change. The page is
 * one file with its style and its script inside, which the policy names by their hashes:
 * nothing else is ever run or loaded there, whatever a program printed.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/tools.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/sha256.h"
#include "config/embedded.h"
#include "http/accept.h"
#include "http/conn.h"

enum { WEB_CAP_BYTES = 1 << 20, HASH_ROOM = 64 };

static void hash_of(const char *bytes, size_t len, uint8_t out[SHA256_BYTES])
{
	struct sha256 s;

	sha256_begin(&s);
	sha256_add(&s, bytes, len);
	sha256_end(&s, out);
}

static void name_it(struct constant *c)
{
	uint8_t hash[SHA256_BYTES];
	size_t at = 0;

	hash_of(c->body.bytes, c->body.len, hash);
	c->etag[at++] = '"';
	for (size_t i = 0; i < 8; i++, at += 2)
		snprintf(c->etag + at, sizeof(c->etag) - at, "%02x", hash[i]);
	snprintf(c->etag + at, sizeof(c->etag) - at, "\"");
}

static int make_openapi(const struct http_server *h, struct constant *c)
{
	/* sessions are described whether or not they are on: 501 is part of that */
	const struct request_world w = {h->settings, h->modes, true};

	if (openapi_write(&c->body, &w) < 0)
		return -1;
	name_it(c);
	c->type = "application/json";
	snprintf(c->extra, sizeof(c->extra), "ETag: %s\r\n", c->etag);
	return 0;
}

static const struct embedded_file *web_file(const char *name)
{
	for (size_t i = 0; i < embedded_web_count; i++)
		if (strcmp(embedded_web[i].name, name) == 0)
			return &embedded_web[i];
	abort(); /* the build puts them there */
}

/* page.html up to the end of this tag, then the file that belongs in there */
static int put_inside(struct buf *out, const char **html, const char *tag,
		      const struct embedded_file *f, char hash[HASH_ROOM])
{
	const char *at = strstr(*html, tag);
	uint8_t digest[SHA256_BYTES];

	assert(at);
	at += strlen(tag);
	hash_of(f->text, f->len, digest);
	base64_encode(digest, sizeof(digest), hash);
	hash[base64_room(sizeof(digest))] = 0;
	if (buf_add(out, *html, (size_t)(at - *html)) < 0 ||
	    buf_add(out, f->text, f->len) < 0)
		return -1;
	*html = at;
	return 0;
}

static int make_page(const struct http_server *h, struct constant *c)
{
	const char *html = web_file("page.html")->text;
	char style[HASH_ROOM], script[HASH_ROOM];

	(void)h;
	if (put_inside(&c->body, &html, "<style>", web_file("page.css"), style) < 0 ||
	    put_inside(&c->body, &html, "<script>", web_file("page.js"), script) < 0 ||
	    buf_puts(&c->body, html) < 0)
		return -1;
	name_it(c);
	c->type = "text/html; charset=utf-8";
	snprintf(c->extra, sizeof(c->extra),
		 "ETag: %s\r\n"
		 "Vary: Accept\r\n"
		 "Content-Security-Policy: default-src 'none'; style-src 'sha256-%s'; "
		 "script-src 'sha256-%s'; img-src blob: data:; connect-src 'self'; "
		 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
		 "X-Frame-Options: DENY\r\n"
		 "Referrer-Policy: no-referrer\r\n"
		 "Cross-Origin-Opener-Policy: same-origin\r\n"
		 "Cross-Origin-Resource-Policy: same-origin\r\n",
		 c->etag, style, script);
	return 0;
}

static void serve(struct conn *k, struct constant *c,
		  int (*make)(const struct http_server *, struct constant *))
{
	struct err e;

	if (!c->type)
		buf_init(&c->body, WEB_CAP_BYTES);
	if (c->type || make(k->h, c) == 0)
		return answer_constant(k, c);
	err_errno(&e, "make the answer");
	buf_done(&c->body);
	answer_error(k, &e);
}

void on_openapi(struct conn *k)
{
	serve(k, &k->h->openapi, make_openapi);
}

/* as browsers say; curl, SDKs and probes of agent-sandbox do not */
static bool wants_page(struct span accept)
{
	static const char *const types[] = {"application/json", "text/html", NULL};

	return accept_names(accept, types[1]) && accept_best(accept, types) == 1;
}

void on_root(struct conn *k)
{
	struct buf body;

	if (wants_page(k->req.accept))
		return serve(k, &k->h->page, make_page);
	buf_init(&body, 256);
	(void)buf_puts(&body, "{\"status\":\"ok\","
			      "\"message\":\"Sandbox Runtime is active.\"}");
	answer_json(k, 200, "Vary: Accept\r\n", &body);
}

void on_web_done(struct http_server *h)
{
	buf_done(&h->openapi.body);
	buf_done(&h->page.body);
}
