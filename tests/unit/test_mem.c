/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_mem.c - allocations that abort rather than fail
 */
#include "base/mem.h"

#include <stdint.h>
#include <sys/resource.h>

#include "../tap.h"

static int aborts(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		fn();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status != 0;
}

static void overflow(void)
{
	mem_array(SIZE_MAX / 2 + 2, 2); /* 2, if it wrapped */
}

static void too_long(void)
{
	mem_copy_n("", SIZE_MAX);
}

TEST(memory_comes_zeroed)
{
	char *p = mem_zero(100), *a = mem_array(10, 10);

	for (int i = 0; i < 100; i++)
		CHECK(p[i] == 0 && a[i] == 0);
	free(p);
	free(a);
	free(mem_zero(0));
	free(mem_array(0, 8));
}

TEST(a_product_that_overflows_aborts)
{
	CHECK(aborts(overflow));
	CHECK(aborts(too_long));
}

TEST(copies_are_complete)
{
	char *a = mem_copy("abc"), *b = mem_copy_n("a\0bc", 3), *c = mem_copy_n(NULL, 0);
	char *d = mem_printf("%s-%d", "x", 42);

	CHECK(!strcmp(a, "abc"));
	CHECK(!memcmp(b, "a\0b", 4));
	CHECK(!*c && !strcmp(d, "x-42"));
	free(a);
	free(b);
	free(c);
	free(d);
}
