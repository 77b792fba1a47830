/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * proxy.h - what clients of a proxy say, read from a buffer
 *
 * Pure functions over hostile bytes. Each returns PROXY_MORE when the bytes so far are a
 * beginning, PROXY_BAD when no more bytes would help, else how many bytes were used.
 */
#ifndef EGRESS_PROXY_H
#define EGRESS_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/name.h"

struct buf;

#define PROXY_MORE 0
#define PROXY_BAD (-1)
#define PROXY_HEAD_MOST 16384

enum proxy_kind {
	PROXY_CONNECT, /* a tunnel, by HTTP */
	PROXY_PLAIN,   /* one request with a whole URI */
	PROXY_SOCKS,
};

struct proxy_request {
	enum proxy_kind kind;
	bool host_ok; /* false: it is none that name.h takes; the rest is still right */
	struct name host;
	uint16_t port;
	/* PROXY_PLAIN, in the buffer: what is sent on instead of the URI, "" for "/" */
	size_t method_len;
	bool old; /* HTTP/1.0: its client may not know an answer in chunks */
	size_t path_at, path_len;
	uint64_t body_len; /* what follows the head, unless it is in chunks */
	bool chunked;
	/* what stands behind "Basic ", or "" */
	char credentials[256];
};

/* a head of HTTP up to its empty line */
int proxy_http(const char *bytes, size_t len, struct proxy_request *out);
/* that head as an origin server wants it: path, Host of the URI, one request only;
 * nothing that is for us. whole: for another proxy, with its credentials or NULL */
int proxy_http_forward(const char *bytes, size_t len, const struct proxy_request *r,
		       bool whole, const char *credentials, struct buf *out);
/* "HTTP/1.1 200 ..." from another proxy: its status */
int proxy_http_status(const char *bytes, size_t len, int *out_status);

/* version and methods; *out_methods: bit 0: without, bit 2: with name and password */
int proxy_socks_hello(const char *bytes, size_t len, unsigned *out_methods);
/* RFC 1929; of at most 255 bytes */
int proxy_socks_password(const char *bytes, size_t len, char out_password[256]);
int proxy_socks_request(const char *bytes, size_t len, struct proxy_request *out);

/* the host name of a ClientHello, in the first record of TLS; "": it names none.
 * PROXY_BAD: it begins as TLS and with no hello, is not whole in one record, or not well
 * formed */
int proxy_tls_name(const char *bytes, size_t len, struct name *out);
bool proxy_is_tls(const char *bytes, size_t len);

#endif
