/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * network.c - what a session may reach
 *
 * Runs in: the server. What was asked for is kept as it was said, and held against what
 * the operator allows each time: after a restart that may be less.
 */
#include "session/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/settings.h"

#define NAME "allow_network"
#define TEXT_BYTES (64u << 10) /* of as many hosts as there may be */

char *session_network_text(const struct json *v)
{
	struct buf b;
	char *text = NULL;
	int rc = 0;

	if (!v || (json_is_bool(v) && !json_bool(v)) ||
	    (!json_is_array(v) && !json_is_bool(v)))
		return NULL;
	if (json_is_bool(v))
		return mem_copy("true");
	buf_init(&b, TEXT_BYTES);
	for (size_t i = 0; rc == 0 && i < json_count(v); i++) {
		size_t len = 0;
		const char *host = json_text(json_item(v, i), &len);

		rc = buf_puts(&b, i ? "," : "[");
		if (rc == 0)
			rc = buf_json_string(&b, host ? host : "", len);
	}
	if (rc == 0 && b.len && buf_puts(&b, "]") == 0)
		text = mem_copy_n(b.bytes, b.len);
	buf_done(&b);
	return text;
}

int session_network_take(const struct sessions *s, const struct json *v,
			 struct session *one, struct err *e)
{
	auto_free struct rules *rules = NULL;

	if (!v || json_is_null(v))
		return 0;
	if (s->settings->network_pod &&
	    (json_count(v) || (json_is_bool(v) && json_bool(v))))
		return err_client(
			e, 501, "network_unavailable",
			"sessions have a loopback of their own and nothing else "
			"where SANDBOX_NETWORK is pod");
	if (request_hosts(v, NAME, s->settings, &rules, e) < 0)
		return -1;
	if (!rules)
		return 0;
	one->allow_network = session_network_text(v);
	return one->allow_network ? 0 : err_bad(e, NAME " is too long");
}

/* NULL: nothing */
static struct rules *rules_of(const struct sessions *s, const struct session *one)
{
	auto_free char *text = mem_printf("{\"" NAME "\":%s}", one->allow_network);
	struct json *doc = json_parse(text, strlen(text), &json_request_limits, NULL);
	const struct json *v = doc ? json_member(doc, NAME) : NULL;
	struct rules *rules = NULL;
	struct err e = {0};

	if (!v || s->settings->network_pod ||
	    request_hosts(v, NAME, s->settings, &rules, &e) < 0)
		log_warn("session.network", "session=%s error=\"%s\"", one->id,
			 e.text[0] ? e.text : "it cannot be had any more");
	json_free(doc);
	return rules;
}

void session_network_add(const struct sessions *s, const struct session *one,
			 struct run_request *r)
{
	if (!one->allow_network)
		return;
	r->network = rules_of(s, one);
	if (r->network)
		r->session.name = mem_copy(one->id);
}

int session_network_describe(const struct sessions *s, const struct session *one,
			     struct buf *out)
{
	struct egress_count n = {0};

	if (buf_printf(out, ",\"" NAME "\":%s,\"network\":",
		       one->allow_network ? one->allow_network : "false") < 0)
		return -1;
	if (!one->allow_network)
		return buf_puts(out, "null");
	if (s->jobs)
		(void)jobs_network(s->jobs, one->key, &n);
	return buf_printf(out,
			  "{\"connections\":%" PRIu64 ",\"refused\":%" PRIu64
			  ",\"sent_bytes\":%" PRIu64 ",\"received_bytes\":%" PRIu64 "}",
			  n.connections, n.refused, n.sent_bytes, n.received_bytes);
}
