/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rules.c - which hosts, ports and addresses may be reached
 */
#include "egress/rules.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"

#define ELEMENT_MOST 300
#define SEPARATORS ", \t\n"

/* the port behind the host, if there is one; *len becomes the host's. -1: not a port */
static int split_port(const char *text, size_t *len, uint16_t *out_port)
{
	const char *colon = memrchr(text, ':', *len);
	uint64_t port;

	*out_port = 0;
	/* none, or part of an IPv6 address without brackets */
	if (!colon || (text[0] == '[' && colon[-1] != ']') ||
	    (text[0] != '[' && memchr(text, ':', (size_t)(colon - text))))
		return 0;
	if (num_range(colon + 1, 1, 65535, &port) < 0)
		return -1;
	*len = (size_t)(colon - text);
	*out_port = (uint16_t)port;
	return 0;
}

/* 10.0.0.0/8, [fd00::/8], 10.1.2.3: 1, 0: it is none, -1: it is a wrong one */
static int parse_range(const char *text, size_t len, struct rule *out)
{
	const bool brackets = len > 2 && text[0] == '[' && text[len - 1] == ']';
	const char *host = brackets ? text + 1 : text;
	size_t host_len = brackets ? len - 2 : len;
	const char *slash = memchr(host, '/', host_len);
	char bits_text[8] = "";
	uint64_t bits = 128;
	unsigned most;

	if (slash) {
		const size_t n = (size_t)(host + host_len - slash) - 1;

		if (n == 0 || n >= sizeof(bits_text))
			return -1;
		memcpy(bits_text, slash + 1, n);
		host_len = (size_t)(slash - host);
	}
	if (address_parse(host, host_len, &out->net) < 0)
		return slash || brackets ? -1 : 0;
	most = address_is_ipv4(&out->net) && !memchr(host, ':', host_len) ? 32 : 128;
	if (slash && num_range(bits_text, 0, most, &bits) < 0)
		return -1;
	if (slash && most == 32)
		bits += ADDRESS_IPV4_BITS;
	out->kind = RULE_RANGE;
	out->bits = (uint8_t)bits;
	return 1;
}

static int parse_element(const char *text, struct rule *out)
{
	size_t len = strlen(text);
	struct name name;
	int range;

	if (split_port(text, &len, &out->port) < 0)
		return -1;
	if (len == 1 && text[0] == '*') {
		out->kind = RULE_ANY;
		return 0;
	}
	range = parse_range(text, len, out);
	if (range != 0)
		return range < 0 ? -1 : 0;
	out->kind = RULE_NAME;
	if (len > 2 && text[0] == '*' && text[1] == '.') {
		out->kind = RULE_BELOW;
		text += 2;
		len -= 2;
	}
	if (name_parse(text, len, &name) < 0 || name.is_address)
		return -1;
	memcpy(out->name, name.text, sizeof(out->name));
	return 0;
}

static int add(struct rules *r, const struct rule *rule, struct err *e)
{
	if (r->count >= RULES_MAX)
		return err_bad(e, "more than %d hosts", RULES_MAX);
	r->rule[r->count++] = *rule;
	return 0;
}

int rules_add(struct rules *r, const char *text, struct err *e)
{
	struct rule rule = {0};

	if (parse_element(text, &rule) < 0)
		return err_bad(e,
			       "'%.80s' is no host: example.org, *.example.org, "
			       "example.org:8443, 192.0.2.7 or 10.0.0.0/8",
			       text);
	return add(r, &rule, e);
}

int rules_parse(struct rules *r, const char *list, struct err *e)
{
	char element[ELEMENT_MOST];
	size_t len;

	for (;; list += len) {
		list += strspn(list, SEPARATORS);
		len = strcspn(list, SEPARATORS);
		if (len == 0)
			return 0;
		if (len >= sizeof(element))
			return err_bad(e, "'%.80s...' is too long for a host", list);
		memcpy(element, list, len);
		element[len] = '\0';
		if (rules_add(r, element, e) < 0)
			return -1;
	}
}

void rules_add_any(struct rules *r)
{
	const struct rule any = {.kind = RULE_ANY};

	(void)add(r, &any, NULL); /* full: then there is less, not more */
}

int rules_add_index(struct rules *r, const char *host, unsigned port, struct err *e)
{
	struct rule rule = {.port = (uint16_t)port, .reach = REACH_PRIVATE};
	struct name name;

	if (port == 0 || port > 65535 || name_parse(host, strlen(host), &name) < 0)
		return err_bad(e, "'%.80s' is no host", host);
	rule.kind = name.is_address ? RULE_RANGE : RULE_NAME;
	if (name.is_address || strcmp(name.text, "localhost") == 0)
		rule.reach = REACH_NEAR;
	rule.bits = 128;
	if (name.is_address)
		rule.net = name.address;
	else
		memcpy(rule.name, name.text, sizeof(rule.name));
	return add(r, &rule, e);
}

int rules_add_public(struct rules *r, const char *host, unsigned port)
{
	struct rule rule = {.kind = RULE_NAME, .port = (uint16_t)port};
	struct name name;

	if ((port != 80 && port != 443) || r->count == RULES_MAX ||
	    name_parse(host, strlen(host), &name) < 0 || name.is_address)
		return -1;
	memcpy(rule.name, name.text, sizeof(rule.name));
	return add(r, &rule, NULL);
}

static bool is_below(const char *name, const char *top)
{
	const size_t len = strlen(name), top_len = strlen(top);

	return len > top_len + 1 && name[len - top_len - 1] == '.' &&
	       strcmp(name + len - top_len, top) == 0;
}

static bool in_range(const struct rule *range, const struct address *a)
{
	return address_is_ipv4(a) == address_is_ipv4(&range->net) &&
	       address_in(a, &range->net, range->bits);
}

/* who lists 0.0.0.0/0 means the world, and not this host */
static bool is_wide(const struct rule *range)
{
	return range->bits < (address_is_ipv4(&range->net) ? ADDRESS_IPV4_BITS + 8 : 7);
}

/* to every name of its list, though it be near */
static bool opens(const struct rule *range)
{
	return range->kind == RULE_RANGE && !range->host_only && !is_wide(range);
}

static bool port_covers(unsigned ceiling, unsigned wanted)
{
	return ceiling == wanted || (ceiling == 0 && (wanted == 80 || wanted == 443));
}

static bool rule_covers(const struct rule *have, const struct rule *wanted)
{
	if (!port_covers(have->port, wanted->port) || have->resolved_only)
		return false;
	switch ((enum rule_kind)have->kind) {
	case RULE_ANY:
		/* of ranges only what is public, which a range does not say of itself */
		return wanted->kind != RULE_RANGE ||
		       (wanted->bits == 128 &&
			address_reach(&wanted->net) == REACH_PUBLIC);
	case RULE_NAME:
		return wanted->kind == RULE_NAME && strcmp(have->name, wanted->name) == 0;
	case RULE_BELOW:
		if (wanted->kind == RULE_BELOW && strcmp(have->name, wanted->name) == 0)
			return true;
		return (wanted->kind == RULE_NAME || wanted->kind == RULE_BELOW) &&
		       is_below(wanted->name, have->name);
	case RULE_RANGE:
		return wanted->kind == RULE_RANGE && wanted->bits >= have->bits &&
		       in_range(have, &wanted->net);
	case RULE_KINDS:
		break;
	}
	return false;
}

bool rules_cover(const struct rules *ceiling, const struct rule *wanted)
{
	for (uint32_t i = 0; i < ceiling->count; i++)
		if (rule_covers(&ceiling->rule[i], wanted))
			return true;
	return false;
}

int rules_add_ranges(struct rules *r, const struct rules *ceiling, struct err *e)
{
	for (uint32_t i = 0; i < r->count; i++)
		r->rule[i].host_only = 1;
	for (uint32_t i = 0; i < ceiling->count; i++) {
		struct rule range = ceiling->rule[i];

		if (range.kind != RULE_RANGE)
			continue;
		range.resolved_only = 1;
		if (add(r, &range, e) < 0)
			return -1;
	}
	return 0;
}

int rules_add_all(struct rules *r, const struct rules *others, struct err *e)
{
	for (uint32_t i = 0; i < others->count; i++)
		if (add(r, &others->rule[i], e) < 0)
			return -1;
	return 0;
}

static bool has_port(const struct rule *rule, unsigned port)
{
	return rule->port ? rule->port == port : port == 80 || port == 443;
}

static bool has_host(const struct rule *rule, const struct name *host)
{
	switch ((enum rule_kind)rule->kind) {
	case RULE_ANY:
		return true;
	case RULE_NAME:
		return !host->is_address && strcmp(host->text, rule->name) == 0;
	case RULE_BELOW:
		return !host->is_address && is_below(host->text, rule->name);
	case RULE_RANGE:
		return host->is_address && !rule->resolved_only &&
		       in_range(rule, &host->address);
	case RULE_KINDS:
		break;
	}
	return false;
}

int rules_host(const struct rules *r, const struct name *host, unsigned port)
{
	int reach = -1;

	for (uint32_t i = 0; i < r->count; i++)
		if (has_port(&r->rule[i], port) && has_host(&r->rule[i], host) &&
		    r->rule[i].reach > reach)
			reach = r->rule[i].reach;
	return reach;
}

bool rules_address(const struct rules *r, const struct address *a, unsigned port,
		   int reach)
{
	int is = (int)address_reach(a);

	for (uint32_t i = 0; i < r->count; i++)
		if (opens(&r->rule[i]) && has_port(&r->rule[i], port) &&
		    in_range(&r->rule[i], a))
			return true;
	if (is < REACH_NEAR && address_is_own(a))
		is = REACH_NEAR;
	return is <= reach;
}

bool rules_sane(const struct rules *r)
{
	if (r->count > RULES_MAX)
		return false;
	for (uint32_t i = 0; i < r->count; i++) {
		const struct rule *rule = &r->rule[i];

		if (rule->kind >= RULE_KINDS || rule->reach > REACH_NEAR ||
		    rule->bits > 128 || !memchr(rule->name, 0, sizeof(rule->name)))
			return false;
	}
	return true;
}

static bool is_within(const struct rule *wanted, const struct rules *ceiling)
{
	for (uint32_t i = 0; i < ceiling->count; i++) {
		const struct rule *have = &ceiling->rule[i];

		if (rule_covers(have, wanted) && wanted->reach <= have->reach &&
		    (!opens(wanted) || opens(have)))
			return true;
	}
	return false;
}

bool rules_within(const struct rules *r, const struct rules *ceiling)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (!is_within(&r->rule[i], ceiling))
			return false;
	return true;
}
