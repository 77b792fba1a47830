/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_kernel_log.c - which lines of the kernel's log are new, and tell of a fault
 */
#include <string.h>

#include "../tap.h"
#include "attack/battery.h"

#define OLD "<6>[    1.000000] a line\n<4>[    2.000000] WARNING: CPU: 0 at x.c:1\n"
#define MARK "WARNING: CPU: 0 at x.c:1\n"

static int scan(const char *text, const char *mark, char out[64])
{
	out[0] = '\0';
	return kernel_log_scan(text, mark, out, 64);
}

TEST(what_was_there_before_is_nobodys_fault)
{
	char line[64];

	CHECK(scan(OLD, MARK, line) == 0);
	CHECK(scan(OLD "<6>[    3.000000] more\n", MARK, line) == 0);
}

TEST(a_new_fault_is_found_and_told)
{
	static const char *const faults[] = {
		"BUG: kernel NULL pointer dereference",
		"WARNING: CPU: 1 PID: 2 at y.c:3",
		"general protection fault, probably for non-canonical address",
		"BUG: KASAN: use-after-free",
		"watchdog: BUG: soft lockup",
		"INFO: task x:1 blocked for more than 120 seconds"};
	char text[512], line[64];

	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		snprintf(text, sizeof(text), OLD "<1>[    3.000000] %s\n<6>[ 4] end\n",
			 faults[i]);
		CHECK(scan(text, MARK, line) == 1);
		CHECK(strstr(line, "3.000000") != NULL);
	}
}

TEST(a_fault_of_a_program_is_not_the_kernels)
{
	char line[64];

	CHECK(scan(OLD
		   "<6>[    3.000000] traps: a.out[7] general protection fault ip:1\n",
		   MARK, line) == 0);
	CHECK(scan(OLD "<6>[    3.000000] a.out[7]: segfault at 0 ip 1 sp 2 error 4\n",
		   MARK, line) == 0);
	CHECK(scan(OLD
		   "<4>[    3.000000] Memory cgroup out of memory: Killed process 9\n",
		   MARK, line) == 0);
}

TEST(a_log_that_forgot_where_we_were_says_nothing)
{
	char line[64];

	CHECK(scan("<6>[    9.000000] WARNING: CPU: 0\n", MARK, line) == -1);
	CHECK(scan("<6>[    9.000000] WARNING: CPU: 0\n", "", line) == 1);
}
