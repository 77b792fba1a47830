/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tap.h - tests as sentences, TAP as output; include it once in a test program
 *
 * It brings main(). Each TEST runs in a process and a group of its own, TAP_SECONDS at
 * most, with its stdout on stderr. An argument picks tests by a part of their names.
 */
#pragma once

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef TAP_SECONDS
#define TAP_SECONDS 10
#endif

struct tap_test {
	const char *name;
	void (*run)(void);
	struct tap_test *next;
};
static struct tap_test *tap_first, **tap_last = &tap_first;
static char *tap_skipped; /* shared with the test's process: why it did not run */

#define TEST(id)                                                    \
	static void test_##id(void);                                \
	__attribute__((constructor)) static void tap_add_##id(void) \
	{                                                           \
		static struct tap_test t = {#id, test_##id, NULL};  \
		*tap_last = &t;                                     \
		tap_last = &t.next;                                 \
	}                                                           \
	static void test_##id(void)

/* The first CHECK that does not hold ends its test; errno is shown as it was found. */
#define CHECK(cond) ((cond) ? (void)0 : tap_fail(__FILE__, __LINE__, #cond))

static inline _Noreturn void tap_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "# %s:%d: does not hold: %s (errno: %m)\n", file, line, what);
	_exit(1);
}

static inline _Noreturn void SKIP(const char *reason)
{ /* a failure where TESTS_MUST_RUN is 1 */
	snprintf(tap_skipped, 256, "%s", reason);
	_exit(0);
}

static int tap_run(const struct tap_test *t, int number)
{
	const char *must = getenv("TESTS_MUST_RUN");
	struct pollfd done = {.events = POLLIN};
	int status = 0, skip, ok;
	pid_t pid;

	tap_skipped[0] = 0;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		dup2(2, 1);
		t->run();
		exit(0); /* not _exit: a leak checker wants to look */
	}
	done.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pid < 0 || done.fd < 0)
		return printf("not ok %d - %s: %m\n", number, t->name), 1;
	poll(&done, 1, TAP_SECONDS * (getenv("TESTS_SLOW") ? 6000 : 1000));
	kill(-pid, SIGKILL); /* also what the test left behind in its group */
	waitpid(pid, &status, 0);
	close(done.fd);
	if (WIFSIGNALED(status)) /* "Killed" when its time was up */
		psignal(WTERMSIG(status), t->name);
	skip = tap_skipped[0] && status == 0;
	ok = status == 0 && !(skip && must && !strcmp(must, "1"));
	printf("%s %d - %s%s%s\n", ok ? "ok" : "not ok", number, t->name,
	       skip ? (ok ? " # SKIP " : " - must run: ") : "", tap_skipped);
	return !ok;
}

int main(int argc, char **argv)
{
	int failed = 0, number = 0;

	tap_skipped = mmap(NULL, 256, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANON, -1,
			   0);
	for (const struct tap_test *t = tap_first; t; t = t->next)
		if (argc < 2 || strstr(t->name, argv[1]))
			failed += tap_run(t, ++number);
	printf("1..%d\n", number);
	return failed || !number;
}
