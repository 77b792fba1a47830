/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_tries.c - what becomes of a case
 */
#include <string.h>

#include "../tap.h"
#include "attack/attack.h"

TEST(a_case_that_tried_nothing_shows_nothing)
{
	struct tries t = {0};

	CHECK(tries_status(&t) == ATTACK_FAILED);
	invariant(&t, true, "the launcher died");
	CHECK(tries_status(&t) == ATTACK_FAILED);
	expect(&t, true, "it got out");
	CHECK(tries_status(&t) == ATTACK_OK);
}

TEST(an_invariant_that_does_not_hold_fails_the_case)
{
	struct tries t = {0};

	expect(&t, true, "it got out");
	invariant(&t, false, "%d processes", 3);
	CHECK(tries_status(&t) == ATTACK_FAILED);
	CHECK(strcmp(t.wrong, "3 processes") == 0);
}

TEST(what_is_wrong_is_not_hidden_by_a_skip)
{
	struct tries t = {0};

	skip(&t, "no such device");
	CHECK(tries_status(&t) == ATTACK_SKIPPED);
	expect_call(&t, "mount", 0, "EPERM|ENOSYS");
	CHECK(tries_status(&t) == ATTACK_FAILED);
	CHECK(strstr(t.wrong, "mount: ok, not EPERM|ENOSYS"));
}
