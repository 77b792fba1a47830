/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * socks.c - SOCKS5 as clients of a proxy speak it: RFC 1928, RFC 1929
 */
#include <string.h>

#include "egress/proxy.h"

enum { SOCKS_IPV4 = 1, SOCKS_NAME = 3, SOCKS_IPV6 = 4 };

static uint8_t byte(const char *bytes, size_t at)
{
	return (uint8_t)bytes[at];
}

int proxy_socks_hello(const char *bytes, size_t len, unsigned *out_methods)
{
	unsigned methods = 0;
	size_t count, i;

	if (len < 1)
		return PROXY_MORE;
	if (byte(bytes, 0) != 5)
		return PROXY_BAD;
	if (len < 2 || len < 2 + (count = byte(bytes, 1)))
		return PROXY_MORE;
	for (i = 0; i < count; i++)
		if (byte(bytes, 2 + i) < 8)
			methods |= 1u << byte(bytes, 2 + i);
	*out_methods = methods;
	return (int)(2 + count);
}

int proxy_socks_password(const char *bytes, size_t len, char out_password[256])
{
	size_t name_len, password_len;

	if (len < 1)
		return PROXY_MORE;
	if (byte(bytes, 0) != 1)
		return PROXY_BAD;
	if (len < 2)
		return PROXY_MORE;
	name_len = byte(bytes, 1);
	if (len < 3 + name_len)
		return PROXY_MORE;
	password_len = byte(bytes, 2 + name_len);
	if (len < 3 + name_len + password_len)
		return PROXY_MORE;
	memcpy(out_password, bytes + 3 + name_len, password_len);
	out_password[password_len] = '\0';
	return (int)(3 + name_len + password_len);
}

/* an address by its numbers is one name of a host */
static void take_numbers(const char *bytes, size_t len, struct proxy_request *out)
{
	struct address a = {{[10] = 0xff, [11] = 0xff}};
	char room[ADDRESS_TEXT];

	memcpy(a.bytes + sizeof(a.bytes) - len, bytes, len);
	if (address_text(&a, room))
		out->host_ok = name_parse(room, strlen(room), &out->host) == 0;
}

int proxy_socks_request(const char *bytes, size_t len, struct proxy_request *out)
{
	struct proxy_request r = {.kind = PROXY_SOCKS};
	size_t host_at = 4, host_len = 0;

	if (len < 1)
		return PROXY_MORE;
	/* version 5, CONNECT, 0 */
	if (byte(bytes, 0) != 5 || (len > 1 && byte(bytes, 1) != 1) ||
	    (len > 2 && byte(bytes, 2) != 0))
		return PROXY_BAD;
	if (len < 5)
		return PROXY_MORE;
	switch (byte(bytes, 3)) {
	case SOCKS_IPV4:
		host_len = 4;
		break;
	case SOCKS_IPV6:
		host_len = 16;
		break;
	case SOCKS_NAME:
		host_at = 5;
		host_len = byte(bytes, 4);
		break;
	default:
		return PROXY_BAD;
	}
	if (len < host_at + host_len + 2)
		return PROXY_MORE;
	if (byte(bytes, 3) == SOCKS_NAME)
		r.host_ok = name_parse(bytes + host_at, host_len, &r.host) == 0;
	else
		take_numbers(bytes + host_at, host_len, &r);
	r.port = (uint16_t)(byte(bytes, host_at + host_len) << 8 |
			    byte(bytes, host_at + host_len + 1));
	if (r.port == 0)
		return PROXY_BAD;
	*out = r;
	return (int)(host_at + host_len + 2);
}
