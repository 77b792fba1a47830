/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * request_network.c - `network` of a request: what the operator allows, or less of it
 */
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "base/defer.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/settings.h"
#include "egress/rules.h"

static int not_allowed(struct err *e)
{
	return err_client(e, 403, "network_not_allowed",
			  "this server allows runs no network");
}

static int add_host(const struct settings *s, const char *name, const struct json *list,
		    size_t i, struct rules *out, struct err *e)
{
	struct err why = {0};
	size_t len;
	const char *text = json_text(json_item(list, i), &len);

	if (!text)
		return err_bad(e, "%s must be an array of strings", name);
	if (memchr(text, 0, len))
		return err_bad(e, "%s must not contain NUL", name);
	if (!s->network_rules)
		return not_allowed(e);
	if (rules_add(out, text, &why) < 0)
		return err_bad(e, "%s[%zu]: %s", name, i, why.text);
	if (!rules_cover(s->network_rules, &out->rule[out->count - 1]))
		return err_client(e, 403, "network_not_allowed",
				  "%s[%zu]: '%.80s' is more than this server "
				  "allows; a request can only narrow it",
				  name, i, text);
	return 0;
}

/* nothing is what no network gives too: then *out stays NULL */
static int take_hosts(const struct settings *s, const char *name, const struct json *list,
		      struct rules **out, struct err *e)
{
	auto_free struct rules *r = NULL;

	if (json_count(list) == 0)
		return 0;
	r = mem_zero(sizeof(*r));
	for (size_t i = 0; i < json_count(list); i++)
		if (add_host(s, name, list, i, r, e) < 0)
			return -1;
	if (rules_add_ranges(r, s->network_rules, e) < 0)
		return -1;
	*out = take_ptr(&r);
	return 0;
}

int request_hosts(const struct json *v, const char *name, const struct settings *s,
		  struct rules **out, struct err *e)
{
	if (json_is_array(v))
		return take_hosts(s, name, v, out, e);
	if (!json_is_bool(v))
		return err_bad(e, "%s must be false, true or an array of strings", name);
	if (!json_bool(v))
		return 0;
	if (!s->network_rules)
		return not_allowed(e);
	*out = mem_zero(sizeof(**out));
	**out = *s->network_rules;
	return 0;
}

/* nobody of ours stands between such a run and others: a list would be a promise */
static int take_pod(const struct json *v, const struct settings *s,
		    struct run_request *out, struct err *e)
{
	const bool said = v && !json_is_null(v);

	if (said && json_is_array(v) && json_count(v))
		return err_bad(e, "network must be false or true: this server lets its "
				  "own network decide (SANDBOX_NETWORK=pod), and keeps "
				  "no list");
	if (said && !json_is_bool(v) && !json_is_array(v))
		return err_bad(e, "network must be false or true");
	out->pod = said ? json_is_bool(v) && json_bool(v) : s->network_default;
	return 0;
}

int request_network(const struct json *body, const struct settings *s,
		    struct run_request *out, struct err *e)
{
	const struct json *v = json_member(body, "network");
	const bool said = v && !json_is_null(v);

	if (s->network_pod)
		return take_pod(v, s, out, e);
	if (said)
		return request_hosts(v, "network", s, &out->network, e);
	if (!s->network_rules || !s->network_default)
		return 0;
	out->network = mem_zero(sizeof(*out->network));
	*out->network = *s->network_rules;
	return 0;
}
