/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_options.c - calls that everybody needs, with arguments that nobody does
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attack/attack.h"
#include "base/sys.h"

struct option {
	const char *name;
	long nr;
};

void sy08(struct tries *t)
{
	int pair[2] = {-1, -1};
	char byte = 'x';

	expect_call(t, "socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "ok");
	expect_call(t, "ulp tls", setsockopt(pair[0], IPPROTO_TCP, TCP_ULP, "tls", 4),
		    "EPERM");
	expect_call(t, "ulp espintcp",
		    setsockopt(pair[0], IPPROTO_TCP, TCP_ULP, "espintcp", 9), "EPERM");
	expect_call(t, "send out of band", send(pair[0], &byte, 1, MSG_OOB),
		    "EOPNOTSUPP");
	expect_call(t, "receive", recv(pair[1], &byte, 1, MSG_OOB | MSG_DONTWAIT),
		    "EOPNOTSUPP");
	expect_call(t, "with bit 32",
		    syscall(SYS_sendto, pair[0], &byte, 1, 1ul << 32 | MSG_OOB, 0, 0),
		    "EOPNOTSUPP");
}

/* what some arguments make of calls that everybody needs. The filter looks before the
 * kernel does, which would say that this is no terminal, or that it works */
static void sy10_descriptors(struct tries *t)
{
	static const struct option requests[] = {{"TIOCSTI", TIOCSTI},
						 {"TIOCLINUX", TIOCLINUX},
						 {"TIOCCONS", TIOCCONS},
						 {"TIOCSETD", TIOCSETD}};
	static const struct option commands[] = {
		{"F_SETLEASE", F_SETLEASE}, {"F_NOTIFY", F_NOTIFY}, {"F_SETDELEG", 1040}};
	static const struct option options[] = {
		{"SO_ATTACH_FILTER", SO_ATTACH_FILTER},
		{"SO_ATTACH_BPF", SO_ATTACH_BPF},
		{"SO_ATTACH_REUSEPORT_CBPF", SO_ATTACH_REUSEPORT_CBPF},
		{"SO_ATTACH_REUSEPORT_EBPF", SO_ATTACH_REUSEPORT_EBPF}};
	const int fd = open("leased", O_CREAT | O_RDONLY | O_CLOEXEC, 0600);
	char text[64] = "";
	int pair[2] = {-1, -1};
	unsigned i;

	expect(t, fd >= 0, "no file");
	expect_call(t, "socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "ok");
	for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		expect_call(t, requests[i].name,
			    ioctl(fd, (unsigned long)requests[i].nr, text), "EPERM");
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		expect_call(t, commands[i].name, fcntl(fd, (int)commands[i].nr, F_RDLCK),
			    "EPERM");
	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		expect_call(t, options[i].name,
			    setsockopt(pair[0], SOL_SOCKET, (int)options[i].nr, text, 16),
			    "EPERM");
	close(fd);
	close(pair[0]);
	close(pair[1]);
}

void sy10(struct tries *t)
{
#ifdef __x86_64__
	static const struct option archs[] = {{"ARCH_SET_CPUID", 0x1012},
					      {"ARCH_MAP_VDSO_X32", 0x2001},
					      {"ARCH_MAP_VDSO_32", 0x2002},
					      {"ARCH_MAP_VDSO_64", 0x2003}};
#endif
	static const struct option options[] = {
		{"PR_SET_MM", 35},           {"PR_SET_SYSCALL_USER_DISPATCH", 59},
		{"PR_SET_TSC", 26},          {"PR_SET_SPECULATION_CTRL", 53},
		{"PR_SET_IO_FLUSHER", 57},   {"PR_SCHED_CORE", 62},
		{"PR_SET_MEMORY_MERGE", 67}, {"PR_FUTEX_HASH", 78},
	};
	unsigned i;

	expect_call(t, "READ_IMPLIES_EXEC", personality(READ_IMPLIES_EXEC),
		    "ENOSYS|EPERM");
	expect_call(t, "NO_RANDOMIZE", personality(ADDR_NO_RANDOMIZE), "ENOSYS|EPERM");
	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		expect_call(t, options[i].name,
			    prctl((int)options[i].nr, 1UL, 0UL, 0UL, 0UL), "EPERM");
	sy10_descriptors(t);
#ifdef __x86_64__
	for (i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
		expect_call(t, archs[i].name, syscall(SYS_arch_prctl, archs[i].nr, 0),
			    "EPERM");
	/* the shadow stack and its like: not ours to change, not the kernel's to know */
	expect_call(t, "arch_prctl", syscall(SYS_arch_prctl, 0x5001, 1),
		    "EINVAL|EPERM|ENOTSUP|EOPNOTSUPP");
#endif
}
