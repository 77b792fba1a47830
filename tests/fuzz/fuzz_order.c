/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_order.c - what a server that is not ours any longer could tell a broker
 *
 * The first byte of an input chooses what the operator said, the second what the order
 * starts from, the others come in threes: where a byte of it is changed, and to what.
 * Whatever is followed then leads nowhere, in a sample of hosts, addresses and ports,
 * where the operator's own rules would not, of runs or of installs.
 */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/err.h"
#include "egress/broker.h"

#define RULES_PATCHED 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const lists[] = {
	"",          "a.test,*.b.test:22",           "*", "*,10.0.0.0/8,127.0.0.1:22",
	"0.0.0.0/0", "8.8.8.8,a.test,[fd00::/8]:22",
};
static const char *const hosts[] = {"a.test",    "x.b.test", "b.test",
				    "localhost", "8.8.8.8",  "127.0.0.1",
				    "10.1.2.3",  "fd00::1",  "index.corp"};
static const char *const addresses[] = {"8.8.8.8",         "127.0.0.1", "10.1.2.3",
					"169.254.169.254", "fd00::1",   "::1"};
static const unsigned ports[] = {80, 443, 22, 8443};

#define COUNT(of) (sizeof(of) / sizeof((of)[0]))

static bool leads(const struct rules *r, const char *host, const char *to, unsigned port)
{
	struct address a;
	struct name n;
	int reach;

	assert(name_parse(host, strlen(host), &n) == 0);
	assert(address_parse(to, strlen(to), &a) == 0);
	if (n.is_address && memcmp(&n.address, &a, sizeof(a)) != 0)
		return false;
	reach = rules_host(r, &n, port);
	return reach >= 0 && rules_address(r, &a, port, reach);
}

static bool is_less(const struct rules *r, const struct rules *most)
{
	for (size_t h = 0; h < COUNT(hosts); h++)
		for (size_t a = 0; a < COUNT(addresses); a++)
			for (size_t p = 0; p < COUNT(ports); p++)
				if (leads(r, hosts[h], addresses[a], ports[p]) &&
				    !leads(most, hosts[h], addresses[a], ports[p]))
					return false;
	return true;
}

static void say(struct egress_ceiling *most, uint8_t byte)
{
	struct err e = {0};

	most->listens = byte & 1;
	assert(rules_parse(&most->runs, lists[byte / 2 % COUNT(lists)], &e) == 0);
	assert(rules_add_index(&most->installs, "index.corp", 8443, &e) == 0);
	assert(rules_add_index(&most->installs, "127.0.0.1", 22, &e) == 0);
	if (byte & 0x80)
		rules_add_any(&most->installs);
}

static void begin(struct egress_order *o, const struct egress_ceiling *most, uint8_t byte)
{
	struct err e = {0};

	o->connections = 1;
	if (byte % 4 == 1)
		o->rules = most->runs;
	else if (byte % 4 == 2)
		o->rules = most->installs;
	else if (byte % 4 == 3)
		assert(rules_parse(&o->rules, lists[byte / 4 % COUNT(lists)], &e) == 0 &&
		       rules_add_ranges(&o->rules, &most->runs, &e) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct egress_ceiling most;
	static struct egress_order o;
	const size_t room = offsetof(struct egress_order, rules.rule) +
			    RULES_PATCHED * sizeof(struct rule);

	if (size < 2)
		return 0;
	memset(&most, 0, sizeof(most));
	memset(&o, 0, sizeof(o));
	say(&most, data[0]);
	begin(&o, &most, data[1]);
	for (size_t i = 2; i + 3 <= size; i += 3)
		((uint8_t *)&o)[(data[i] * 256u + data[i + 1]) % room] = data[i + 2];
	if (order_judge(&o, &most) != ORDER_FINE)
		return 0;
	assert(o.connections > 0 && o.connections <= BROKER_CONNECTIONS);
	assert(memchr(o.secret, 0, sizeof(o.secret)));
	assert(is_less(&o.rules, &most.installs) || is_less(&o.rules, &most.runs));
	if (o.listens)
		assert(most.listens && o.secret[0] && !o.stays &&
		       is_less(&o.rules, &most.installs));
	if (o.stays)
		assert(is_less(&o.rules, &most.runs));
	return 0;
}
