/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_idmap.c - ids that are mapped, and ids that are not
 */
#include "base/idmap.h"

#include <errno.h>
#include <string.h>

#include "../tap.h"

static struct idmap m;

static const char *text_of(const char *map)
{
	static char text[64];

	CHECK(idmap_parse(&m, map) == 0);
	idmap_text(&m, text, sizeof(text));
	return text;
}

TEST(the_kernels_own_form_is_read)
{
	CHECK(idmap_parse(&m, "         0          0 4294967295\n") == 0);
	CHECK(m.count == 1 && idmap_has(&m, 0, 4294967294));
	CHECK(!idmap_has(&m, 0, 4294967295));
	CHECK(idmap_read(&m, "/proc/self/uid_map") == 0 && m.count > 0);
	CHECK(idmap_read(&m, "/proc/self/no-such-map") == -1 && errno == ENOENT);
}

TEST(a_range_may_lie_in_several_extents)
{
	CHECK(idmap_parse(&m, "1000 0 1\n0 100000 1000\n1001 101000 500\n") == 0);
	CHECK(idmap_has(&m, 0, 1500));
	CHECK(!idmap_has(&m, 0, 1501) && !idmap_has(&m, 1501, 1501));
	CHECK(idmap_has(&m, 1000, 1000));
}

TEST(an_id_is_another_one_outside)
{
	uint64_t outer = 7;

	CHECK(idmap_parse(&m, "0 1000 1\n1 100000 65536\n") == 0);
	CHECK(idmap_outer(&m, 0, &outer) && outer == 1000);
	CHECK(idmap_outer(&m, 65536, &outer) && outer == 165535);
	outer = 7;
	CHECK(!idmap_outer(&m, 65537, &outer) && outer == 7);
}

TEST(a_map_is_told_in_words)
{
	CHECK(strcmp(text_of("0 1000 1\n5 100000 65536\n"), "0, 5-65540") == 0);
	CHECK(strcmp(text_of(""), "") == 0);
}

TEST(what_is_no_map_is_refused)
{
	static const char *const wrong[] = {"0 0\n",   "0 0 1 1\n",        "a 0 1\n",
					    "0 0 0\n", "-1 0 1\n",         "0 0 1x\n",
					    "0\t0\t1", "4294967296 0 1\n", "0 0 1\nx\n"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		errno = 0;
		CHECK(idmap_parse(&m, wrong[i]) == -1 && errno == EINVAL);
	}
}
