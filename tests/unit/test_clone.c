/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_clone.c - a process that has our memory, and a stack of its own
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/worker.h"
#include "tap.h"

static _Alignas(16) char stack[64 << 10];
static struct {
	volatile int written, pid;
	volatile uintptr_t at;
} shared;

__attribute__((no_sanitize("address"), no_stack_protector)) static void inside(void *arg)
{
	int here;

	shared.written = *(int *)arg;
	shared.pid = (int)syscall(SYS_getpid);
	shared.at = (uintptr_t)&here;
	syscall(SYS_exit_group, 7);
}

static bool is_on_stack(void)
{
	return shared.at - (uintptr_t)stack < sizeof(stack);
}

static void check_within(void)
{
	int word = 42, pid_fd = -1;
	const struct clone_within within = {inside, &word, stack, sizeof(stack)};
	pid_t pid = clone_into(CLONE_NEWUSER | CLONE_NEWPID, -1, &within, &pid_fd);
	struct pollfd p = {.fd = pid_fd, .events = POLLIN};

	CHECK(pid > 0 && pid_fd >= 0);
	CHECK(poll(&p, 1, 10000) == 1);
	CHECK(shared.written == 42 && shared.pid == 1 && is_on_stack());
}

TEST(it_has_our_memory_its_own_stack_and_its_own_namespaces)
{
	check_within();
}

TEST(so_it_has_where_clone3_is_refused)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

	CHECK(ctx && seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SYS_clone3, 0) == 0 &&
	      seccomp_load(ctx) == 0);
	seccomp_release(ctx);
	check_within();
}

TEST(what_the_kernel_refuses_is_said)
{
	int word = 0, pid_fd = -1;
	const struct clone_within within = {inside, &word, stack, sizeof(stack)};

	CHECK(clone_into(CLONE_NEWUSER | CLONE_FS, -1, &within, &pid_fd) == -1);
	CHECK(errno == EINVAL && pid_fd == -1);
	CHECK(clone_into(CLONE_NEWUSER, 0, &within, &pid_fd) == -1 && errno != ENOSYS);
}
