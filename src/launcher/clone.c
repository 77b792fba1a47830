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

/*
 * A clone in the same memory finds nothing of its caller on its stack, so it calls
 * run(arg) from here. Both kinds of call take what they need in three words.
 */
static pid_t call_clone(long nr, const uintptr_t word[3], const struct clone_within *in)
{
#if defined(__x86_64__)
	register void (*run)(void *) __asm__("r8") = in->run;
	register void *arg __asm__("r9") = in->arg;
	long r = nr;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t" /* the last frame */
			 "mov %[arg], %%rdi\n\t"
			 "call *%[run]\n\t"
			 "ud2\n"
			 "1:"
			 : "+a"(r)
			 : "D"(word[0]), "S"(word[1]),
			   "d"(word[2]), [run] "r"(run), [arg] "r"(arg)
			 : "rcx", "r11", "memory", "cc");
#elif defined(__aarch64__)
	register long number __asm__("x8") = nr;
	register uintptr_t r __asm__("x0") = word[0];
	register uintptr_t second __asm__("x1") = word[1];
	register uintptr_t third __asm__("x2") = word[2];
	register void (*run)(void *) __asm__("x9") = in->run;
	register void *arg __asm__("x10") = in->arg;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t" /* the last frame */
			 "mov x0, %[arg]\n\t"
			 "blr %[run]\n\t"
			 "brk #0\n"
			 "1:"
			 : "+r"(r)
			 : "r"(number), "r"(second),
			   "r"(third), [run] "r"(run), [arg] "r"(arg)
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
	const uintptr_t top = within ? (uintptr_t)within->stack + within->stack_bytes : 0;
	struct clone_args args = {
		.flags = flags | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)out_pid_fd,
	};
	const uintptr_t new_words[] = {(uintptr_t)&args, sizeof(args), 0};
	const uintptr_t old_words[] = {flags, top, (uintptr_t)out_pid_fd};
	pid_t pid;

	if (within) {
		args.stack = (uint64_t)(uintptr_t)within->stack;
		args.stack_size = within->stack_bytes;
	}
	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	pid = within ? call_clone(SYS_clone3, new_words, within)
		     : sys_clone3(&args, sizeof(args));
	if (pid >= 0 || errno != ENOSYS || cgroup_fd >= 0)
		return pid;
	return within ? call_clone(SYS_clone, old_words, within)
		      : (pid_t)syscall(SYS_clone, flags, 0, out_pid_fd, 0, 0);
}
