/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_share.c - no two holders are promised the same descriptor
 */
#include "job/share.h"

#include <sys/resource.h>

#include "config/settings.h"
#include "egress/rules.h"
#include "tap.h"

static struct rules rules;
static struct settings usual = {.max_concurrent = 3,
				.max_connections = 4096,
				.egress_connections = 64,
				.sessions = 1,
				.network_rules = &rules};

/* what all together may hold, counted here anew */
static uint64_t held(const struct settings *s, const struct share *share)
{
	const uint64_t runs = s->max_concurrent, all = runs + s->queue;

	return 32 + 5 * runs + 2 * all + SHARE_REFUSED + share->connections +
	       3ull * share->commands + 2ull * share->brokers;
}

TEST(all_holders_together_fit_in_every_limit)
{
	struct settings s = usual;

	for (s.max_concurrent = 1; s.max_concurrent <= 256; s.max_concurrent *= 4) {
		for (s.queue = 0; s.queue <= 1000; s.queue += 500) {
			const uint64_t least = share_least(&s);

			for (uint64_t n = least; n < least + 8000; n += 7) {
				const struct share share = share_of(&s, n);

				CHECK(held(&s, &share) <= n);
				CHECK(share.connections >= s.max_concurrent + s.queue);
			}
		}
	}
}

TEST(a_high_limit_gives_each_all_it_wants)
{
	const struct share share = share_of(&usual, 6000);

	CHECK(share.connections == 4096 && share.commands == 128 && share.brokers == 256);
	CHECK(!share.fewer_commands && !share.fewer_brokers);
	CHECK(share.through_broker == 64);
}

TEST(a_low_limit_leaves_each_something)
{
	static const uint64_t limits[] = {256, 400, 700, 1500};

	for (unsigned i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		const struct share share = share_of(&usual, limits[i]);

		CHECK(share.limit == limits[i]);
		CHECK(share.connections >= 19 && share.commands > 0 && share.brokers > 0);
		CHECK(share.fewer_commands && share.fewer_brokers);
		CHECK(16 + 6 * share.through_broker <= limits[i]);
	}
}

TEST(what_nobody_can_ask_for_takes_nothing)
{
	struct settings s = usual;
	struct share share;

	s.network_rules = NULL;
	share = share_of(&s, 700);
	CHECK(share.brokers == 0 && !share.fewer_brokers && share.commands > 0);
	s.sessions = 0;
	share = share_of(&s, 700);
	CHECK(share.commands == 0 && !share.fewer_commands);
	CHECK(held(&s, &share) == 700);
}

TEST(below_the_least_it_is_as_with_the_least)
{
	const struct share share = share_of(&usual, 0);

	CHECK(share.connections == 19 && share.commands == 0 && share.brokers == 0);
	CHECK(share.through_broker == 1);
}

TEST(the_limit_is_that_of_this_process)
{
	const struct rlimit few = {300, 300};

	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	CHECK(share_now(&usual).limit == 300);
}
