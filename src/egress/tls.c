/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tls.c - the host name of a ClientHello: RFC 8446 section 4.1.2, RFC 6066 section 3
 *
 * Who asks for one host and then speaks TLS to another one that the same machine serves
 * has gone around the list. Nothing here decrypts: a hidden name stays hidden.
 */
#include <string.h>

#include "egress/proxy.h"

enum {
	RECORD_HEAD = 5,
	RECORD_FIRST = 0x14, /* types of records: from change_cipher_spec */
	RECORD_HANDSHAKE = 0x16,
	RECORD_LAST = 0x18, /* to heartbeat */
	RECORD_MOST = 16384,
	HANDSHAKE_HEAD = 4,
	CLIENT_HELLO = 1,
	EXTENSION_NAME = 0,
	NAME_HOST = 0,
};

struct reader {
	const uint8_t *at;
	size_t left;
};

/* the next n bytes, or none */
static const uint8_t *take(struct reader *r, size_t n)
{
	const uint8_t *at = r->at;

	if (n > r->left)
		return NULL;
	r->at += n;
	r->left -= n;
	return at;
}

/* bytes that stand behind their length, of `width` bytes */
static bool take_vector(struct reader *r, unsigned width, struct reader *out)
{
	const uint8_t *size = take(r, width);
	size_t n = 0;

	if (!size)
		return false;
	for (unsigned i = 0; i < width; i++)
		n = n << 8 | size[i];
	out->at = take(r, n);
	out->left = n;
	return out->at;
}

/* Any record: some servers pass over one that says nothing, and read the hello behind */
bool proxy_is_tls(const char *bytes, size_t len)
{
	return len > 0 && bytes[0] >= RECORD_FIRST && bytes[0] <= RECORD_LAST;
}

static int take_name(struct reader *extension, struct name *out)
{
	struct reader list, name;
	const uint8_t *type;

	if (!take_vector(extension, 2, &list) || !(type = take(&list, 1)) ||
	    *type != NAME_HOST || !take_vector(&list, 2, &name) || list.left)
		return -1;
	return name_parse((const char *)name.at, name.left, out);
}

static int find_name(struct reader *extensions, struct name *out)
{
	struct reader extension;
	const uint8_t *type;
	bool found = false;

	while (extensions->left) {
		type = take(extensions, 2);
		if (!type || !take_vector(extensions, 2, &extension))
			return -1;
		if (type[0] != 0 || type[1] != EXTENSION_NAME)
			continue;
		if (found || take_name(&extension, out) < 0)
			return -1;
		found = true;
	}
	return 0;
}

static int read_hello(struct reader *r, struct name *out)
{
	struct reader hello, skipped, extensions;
	const uint8_t *type = take(r, 1);

	if (!type || *type != CLIENT_HELLO || !take_vector(r, 3, &hello))
		return -1;
	/* version and random, session, ciphers, compression */
	if (!take(&hello, 2 + 32) || !take_vector(&hello, 1, &skipped) ||
	    !take_vector(&hello, 2, &skipped) || !take_vector(&hello, 1, &skipped))
		return -1;
	if (!hello.left)
		return 0;
	return take_vector(&hello, 2, &extensions) ? find_name(&extensions, out) : -1;
}

int proxy_tls_name(const char *bytes, size_t len, struct name *out)
{
	struct reader r = {(const uint8_t *)bytes, len}, record;
	struct name name = {.is_address = false};
	const uint8_t *head;
	size_t size;

	if (len < RECORD_HEAD)
		return PROXY_MORE;
	head = take(&r, 3);
	if (head[0] != RECORD_HANDSHAKE || head[1] != 3)
		return PROXY_BAD;
	size = (size_t)r.at[0] << 8 | r.at[1];
	if (size < HANDSHAKE_HEAD || size > RECORD_MOST)
		return PROXY_BAD;
	if (len < RECORD_HEAD + size)
		return PROXY_MORE;
	if (!take_vector(&r, 2, &record) || read_hello(&record, &name) < 0)
		return PROXY_BAD;
	*out = name;
	return (int)(RECORD_HEAD + size);
}
