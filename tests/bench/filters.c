/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * filters.c - what the filters of a program cost: to load, and for each call
 *
 * Beside them libseccomp's, one a policy, and no filter. All take turns in processes of
 * their own, so that whatever else the machine does hits each of them. FILTER_ROUNDS is
 * how often.
 */
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../policy/bpf.h"
#include "../policy/reference.h"
#include "base/err.h"
#include "config/filter.h"
#include "wire/setup.h"

#define CALLS 20000
#define ROUNDS_MOST 2000
#define KERNEL_CALLS 470

/* one that is always allowed, which the kernel remembers, and some with conditions */
static const struct {
	const char *name;
	long nr, arg0, arg1;
} calls[] = {
	{"getppid", SYS_getppid, 0, 0},
	{"fcntl", SYS_fcntl, -1, 1},
	{"ioctl", SYS_ioctl, -1, 1},
};
enum { KINDS = sizeof(calls) / sizeof(calls[0]), VALUES = KINDS + 1 };

struct contender {
	const char *name;
	const struct setup_filter *filter[3]; /* in the order of loading */
	size_t filters;
	unsigned flags;
	uint64_t ns[VALUES][ROUNDS_MOST]; /* loading, then the calls */
};

static struct setup setup;
static struct setup_filter theirs[3];
static struct contender all[] = {
	{.name = "none"},
	{.name = "libseccomp",
	 .filter = {&theirs[0], &theirs[1], &theirs[2]},
	 .filters = 3},
	{.name = "quiet", .filter = {&setup.reporting[0].plain}, .filters = 1},
	{.name = "reporting",
	 .filter = {&setup.reporting[0].notify},
	 .filters = 1,
	 .flags = SECCOMP_FILTER_FLAG_NEW_LISTENER},
};
enum { CONTENDERS = sizeof(all) / sizeof(all[0]) };

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "filters: %s\n", what);
	exit(1);
}

static void compile_all(void)
{
	static const char *const names[] = {"network-none", "arguments", "base"};
	struct err e = {0};

	if (filters_compile(&setup, &e) < 0)
		fail(e.text);
	for (int i = 0; i < 3; i++) {
		struct policy *p = policy_load(names[i], &e);

		if (!p)
			fail(e.text);
		reference_compile(p, &theirs[i]);
		policy_free(p);
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* in a process of its own, which cannot get rid of its filters */
static void measure(const struct contender *c, volatile uint64_t *out)
{
	uint64_t start;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(1);
	start = now_ns();
	for (size_t i = 0; i < c->filters; i++) {
		const struct sock_fprog program = {
			.len = (unsigned short)c->filter[i]->len,
			.filter = (struct sock_filter *)c->filter[i]->insns,
		};

		if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, c->flags, &program) < 0)
			_exit(1);
	}
	out[0] = now_ns() - start;
	for (int k = 0; k < KINDS; k++) {
		start = now_ns();
		for (int i = 0; i < CALLS; i++)
			syscall(calls[k].nr, calls[k].arg0, calls[k].arg1, 0);
		out[1 + k] = (now_ns() - start) / CALLS;
	}
	_exit(0);
}

static int ascending(const void *one, const void *other)
{
	const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

static void print(struct contender *c, int rounds)
{
	struct seccomp_data d = {.arch = FILTER_ARCH == POLICY_X86_64
						 ? AUDIT_ARCH_X86_64
						 : AUDIT_ARCH_AARCH64};
	unsigned length = 0, steps = 0;

	for (size_t i = 0; i < c->filters; i++) {
		length += c->filter[i]->len;
		for (d.nr = 0; d.nr < KERNEL_CALLS; d.nr++) {
			bpf_run(c->filter[i], &d);
			steps += bpf_steps;
		}
	}
	for (int v = 0; v < VALUES; v++)
		qsort(c->ns[v], (size_t)rounds, sizeof(c->ns[v][0]), ascending);
	printf("%-10s %12u %6.1f %8.1f %8.1f", c->name, length,
	       (double)steps / KERNEL_CALLS, (double)c->ns[0][rounds / 10] / 1000,
	       (double)c->ns[0][rounds / 2] / 1000);
	for (int k = 0; k < KINDS; k++)
		printf(" %8llu", (unsigned long long)c->ns[1 + k][rounds / 2]);
	printf("\n");
}

int main(void)
{
	const char *asked = getenv("FILTER_ROUNDS");
	const int rounds = asked ? (int)strtol(asked, NULL, 10) : 200;
	uint64_t *shared = mmap(NULL, sizeof(uint64_t[VALUES]), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (rounds < 1 || rounds > ROUNDS_MOST || shared == MAP_FAILED)
		fail("no such rounds");
	compile_all();
	for (int n = 0; n < rounds * CONTENDERS; n++) {
		struct contender *c = &all[n % CONTENDERS];
		pid_t pid = fork();
		int status;

		if (pid == 0)
			measure(c, shared);
		if (waitpid(pid, &status, 0) != pid || status != 0)
			fail(c->name);
		for (int v = 0; v < VALUES; v++)
			c->ns[v][n / CONTENDERS] = shared[v];
	}
	printf("%-10s %12s %6s %8s %8s %26s\n", "", "", "steps", "load us", "", "ns");
	printf("%-10s %12s %6s %8s %8s", "filters", "instructions", "a call", "p10",
	       "p50");
	for (int k = 0; k < KINDS; k++)
		printf(" %8s", calls[k].name);
	printf("\n");
	for (int i = 0; i < CONTENDERS; i++)
		print(&all[i], rounds);
	return 0;
}
