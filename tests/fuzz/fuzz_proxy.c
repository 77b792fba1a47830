/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_proxy.c - what a program says to the broker: nothing is read beyond its end, and a
 * host that comes out has one spelling, is read the same again, and is sent on as itself
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "egress/proxy.h"
#include "egress/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const struct name *n)
{
	struct name again;

	assert(memchr(n->text, 0, sizeof(n->text)));
	assert(name_parse(n->text, strlen(n->text), &again) == 0);
	assert(strcmp(n->text, again.text) == 0 && n->is_address == again.is_address);
	for (const char *c = n->text; *c; c++)
		assert((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') ||
		       strchr("-_.:", *c));
}

static void check_rules(const struct proxy_request *r)
{
	struct rules rules = {0};
	struct err e = {0};

	assert(rules_host(&rules, &r->host, r->port) == -1);
	assert(rules_add(&rules, "*.allowed.test", &e) == 0);
	if (rules_host(&rules, &r->host, r->port) >= 0) {
		const size_t len = strlen(r->host.text);

		assert(len > 13 && !r->host.is_address);
		assert(strcmp(r->host.text + len - 13, ".allowed.test") == 0);
	}
}

static void forward(const char *bytes, size_t len, const struct proxy_request *r)
{
	struct proxy_request again;
	struct buf out;

	buf_init(&out, 2 * PROXY_HEAD_MOST);
	assert(proxy_http_forward(bytes, len, r, true, NULL, &out) == 0);
	/* one request, for the same place */
	assert(proxy_http(out.bytes, out.len, &again) == (int)out.len);
	assert(again.kind == PROXY_PLAIN && again.host_ok && again.port == r->port);
	assert(strcmp(again.host.text, r->host.text) == 0);
	buf_done(&out);
}

static void read_list(const char *bytes, size_t size)
{
	char *text = malloc(size + 1);
	struct rules rules = {0};
	struct err e = {0};

	assert(text);
	memcpy(text, bytes, size);
	text[size] = '\0';
	if (rules_parse(&rules, text, &e) == 0)
		for (uint32_t i = 0; i < rules.count; i++)
			assert(rules.rule[i].kind == RULE_ANY ||
			       rules_cover(&rules, &rules.rule[i]));
	assert(rules_sane(&rules));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = malloc(size ? size : 1), password[256];
	struct proxy_request r;
	unsigned methods;
	struct name n;
	int len, status;

	assert(bytes);
	memcpy(bytes, data, size);
	len = proxy_http(bytes, size, &r);
	assert(len >= -1 && len <= (int)size);
	if (len > 0 && r.host_ok) {
		check_name(&r.host);
		check_rules(&r);
		if (r.kind == PROXY_PLAIN)
			forward(bytes, (size_t)len, &r);
	}
	len = proxy_socks_request(bytes, size, &r);
	assert(len >= -1 && len <= (int)size);
	if (len > 0 && r.host_ok) {
		check_name(&r.host);
		check_rules(&r);
	}
	assert(proxy_socks_hello(bytes, size, &methods) <= (int)size);
	assert(proxy_socks_password(bytes, size, password) <= (int)size);
	assert(proxy_http_status(bytes, size, &status) <= (int)size);
	len = proxy_tls_name(bytes, size, &n);
	assert(len <= (int)size);
	if (len > 0 && n.text[0])
		check_name(&n);
	if (name_parse(bytes, size, &n) == 0)
		check_name(&n);
	read_list(bytes, size);
	free(bytes);
	return 0;
}
