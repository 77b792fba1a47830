/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * clone.c - a run's process 1, and the pipes it is born with
 *
 * Runs in: a slot's worker, be it our own or an interpreter that runs are forked from.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/sys.h"
#include "launcher/worker.h"

int pipes_make(struct pipes *s)
{
	int p[3][2], i;

	for (i = 0; i < 3; i++)
		s->child[i] = s->ours[i] = -1;
	for (i = 0; i < 3; i++) {
		if (pipe2(p[i], O_CLOEXEC) < 0)
			return -1;
		s->child[i] = p[i][i == 0 ? 0 : 1];
		s->ours[i] = p[i][i == 0 ? 1 : 0];
		/* the server's end must never make it wait; the program's end is ordinary
		 */
		if (fcntl(s->ours[i], F_SETFL, O_NONBLOCK) < 0)
			return -1;
	}
	return 0;
}

void pipes_close(struct pipes *s)
{
	int i;

	for (i = 0; i < 3; i++) {
		defer_close(&s->child[i]);
		defer_close(&s->ours[i]);
	}
}

/* what a clone in the same memory takes from its stack, where it finds nothing else */
struct call {
	void *arg;
	void (*run)(void *arg);
};

/* in the new process run(arg), which never returns; both kinds of clone take what they
 * need in three words */
static pid_t call_clone(long nr, uintptr_t first, uintptr_t second, uintptr_t third)
{
#if defined(__x86_64__)
	long r = nr;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t" /* the last frame */
			 "pop %%rdi\n\t"
			 "pop %%rax\n\t"
			 "call *%%rax\n\t"
			 "ud2\n"
			 "1:"
			 : "+a"(r)
			 : "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory", "cc");
#elif defined(__aarch64__)
	register long number __asm__("x8") = nr;
	register uintptr_t r __asm__("x0") = first;
	register uintptr_t word __asm__("x1") = second;
	register uintptr_t last __asm__("x2") = third;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t" /* the last frame */
			 "ldp x0, x9, [sp], #16\n\t"
			 "blr x9\n\t"
			 "brk #0\n"
			 "1:"
			 : "+r"(r)
			 : "r"(number), "r"(word), "r"(last)
			 : "memory", "cc");
#else
#error "how does a clone begin on a stack of its own?"
#endif
	if ((long)r >= 0)
		return (pid_t)r;
	errno = -(int)r;
	return -1;
}

/*
 * CLONE_PARENT: the launcher is the parent and waits. If clone3 is refused, the same set
 * through clone(2), never a smaller one; without clone3 nothing can be born in another
 * cgroup.
 */
pid_t clone_into(unsigned long namespaces, int cgroup_fd,
		 const struct clone_within *within, int *out_pid_fd)
{
	const unsigned long flags = namespaces | CLONE_PARENT | CLONE_PIDFD |
				    (within ? CLONE_VM : 0);
	struct clone_args args = {
		.flags = flags | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)out_pid_fd,
	};
	uintptr_t top = 0;
	pid_t pid;

	if (within) {
		const struct call call = {within->arg, within->run};

		top = (uintptr_t)within->stack + within->stack_bytes - sizeof(call);
		memcpy((void *)top, &call, sizeof(call));
		args.stack = (uint64_t)(uintptr_t)within->stack;
		args.stack_size = within->stack_bytes - sizeof(call);
	}
	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = within ? call_clone(SYS_clone3, (uintptr_t)&args, sizeof(args), 0)
		     : sys_clone3(&args, sizeof(args));
	if (pid >= 0 || errno != ENOSYS || cgroup_fd >= 0)
		return pid;
	return within ? call_clone(SYS_clone, flags, top, (uintptr_t)out_pid_fd)
		      : (pid_t)syscall(SYS_clone, flags, 0, out_pid_fd, 0, 0);
}
