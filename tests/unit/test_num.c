/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_num.c - all of the text or nothing
 */
#include "base/num.h"

#include <errno.h>

#include "../tap.h"

TEST(u64_takes_every_value)
{
	uint64_t n = 7;

	CHECK(num_u64("0", &n) == 0 && n == 0);
	CHECK(num_u64("42", &n) == 0 && n == 42);
	CHECK(num_u64("18446744073709551615", &n) == 0 && n == UINT64_MAX);
}

TEST(u64_leaves_out_untouched_on_failure)
{
	static const char *const bad[] = {"",    "-1",  "+1",  " 1",  "1 ",  "1x", "x",
					  "0x1", "1.0", "1e3", "\n1", "1\n", "-"};
	uint64_t n = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK(num_u64(bad[i], &n) == -1 && errno == EINVAL && n == 7);
	}
	CHECK(num_u64("18446744073709551616", &n) == -1 && errno == ERANGE && n == 7);
	CHECK(num_u64("99999999999999999999999", &n) == -1 && errno == ERANGE && n == 7);
	CHECK(num_u64("99999999999999999999999x", &n) == -1 && errno == EINVAL && n == 7);
}

TEST(ranges_include_their_ends)
{
	uint64_t n = 99;

	CHECK(num_range("4", 5, 10, &n) == -1 && errno == ERANGE && n == 99);
	CHECK(num_range("11", 5, 10, &n) == -1 && errno == ERANGE && n == 99);
	CHECK(num_range("x", 5, 10, &n) == -1 && errno == EINVAL && n == 99);
	CHECK(num_range("5", 5, 10, &n) == 0 && n == 5);
	CHECK(num_range("10", 5, 10, &n) == 0 && n == 10);
}

TEST(decimals_need_digits_on_both_sides)
{
	static const char *const bad[] = {"",    ".",    "1.",  ".5",   "-1",
					  "+1",  "1e3",  "1,5", "inf",  "nan",
					  "0x1", "1.5 ", " 1",  "1.2.3"};
	char huge[401];
	double n = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK(num_decimal(bad[i], &n) == -1 && errno == EINVAL && n == 7);
	}
	memset(huge, '9', 400);
	huge[400] = 0;
	CHECK(num_decimal(huge, &n) == -1 && errno == ERANGE && n == 7);
	CHECK(num_decimal("12", &n) == 0 && n == 12);
	CHECK(num_decimal("0.5", &n) == 0 && n == 0.5);
	CHECK(num_decimal("00.25", &n) == 0 && n == 0.25);
}

TEST(durations_know_their_units)
{
	static const char *const bad[] = {"",    "s",    "ms",  "1d",   "1 s", "1S",
					  "-1s", "1.5s", "1sm", "1mss", "0x1s"};
	uint64_t ms = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK(num_duration_ms(bad[i], &ms) == -1 && errno == EINVAL && ms == 7);
	}
	CHECK(num_duration_ms("18446744073709551615", &ms) == -1 && errno == ERANGE);
	CHECK(num_duration_ms("18446744073709551616ms", &ms) == -1 && errno == ERANGE);
	CHECK(num_duration_ms("5124095576031h", &ms) == -1 && errno == ERANGE && ms == 7);
	CHECK(num_duration_ms("30", &ms) == 0 && ms == 30000);
	CHECK(num_duration_ms("500ms", &ms) == 0 && ms == 500);
	CHECK(num_duration_ms("30s", &ms) == 0 && ms == 30000);
	CHECK(num_duration_ms("5m", &ms) == 0 && ms == 300000);
	CHECK(num_duration_ms("4h", &ms) == 0 && ms == 14400000);
	CHECK(num_duration_ms("0", &ms) == 0 && ms == 0);
}

TEST(flags_have_four_names_each)
{
	static const char *const yes[] = {"true", "on", "1", "yes", "TRUE"};
	static const char *const no[] = {"false", "off", "0", "no", "False"};
	static const char *const bad[] = {"",    "2",     "y",     "n",
					  "tru", "truee", " true", "01"};
	bool flag;

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		flag = false;
		CHECK(num_bool(yes[i], &flag) == 0 && flag);
		CHECK(num_bool(no[i], &flag) == 0 && !flag);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		flag = true;
		CHECK(num_bool(bad[i], &flag) == -1 && errno == EINVAL && flag);
	}
}
