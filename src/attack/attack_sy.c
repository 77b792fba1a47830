/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_sy.c - the kernel's surface: every call, and other ways in
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/sys.h"
#include "config/settings.h"

#define CALLS 600
#define ALLOWED_MOST 240
static_assert(4 * POLICY_CALLS_HEX > CALLS, "the list has all that are tried");

/* younger than the headers may be */
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef SYS_process_mrelease
#define SYS_process_mrelease 448
#endif
#ifndef SYS_lsm_set_self_attr
#define SYS_lsm_set_self_attr 460
#endif

struct call {
	const char *name;
	long nr;
};

/* known to be dangerous: whoever tries is told so */
static const struct call dangerous[] = {
	{"bpf", SYS_bpf},
	{"perf_event_open", SYS_perf_event_open},
	{"userfaultfd", SYS_userfaultfd},
	{"kcmp", SYS_kcmp},
	{"fanotify_init", SYS_fanotify_init},
	{"memfd_secret", SYS_memfd_secret},
	{"keyctl", SYS_keyctl},
	{"add_key", SYS_add_key},
	{"request_key", SYS_request_key},
	{"init_module", SYS_init_module},
	{"finit_module", SYS_finit_module},
	{"delete_module", SYS_delete_module},
	{"kexec_load", SYS_kexec_load},
	{"reboot", SYS_reboot},
	{"swapon", SYS_swapon},
	{"swapoff", SYS_swapoff},
	{"quotactl", SYS_quotactl},
	{"acct", SYS_acct},
	{"syslog", SYS_syslog},
	{"settimeofday", SYS_settimeofday},
	{"clock_settime", SYS_clock_settime},
	{"sethostname", SYS_sethostname},
	{"setdomainname", SYS_setdomainname},
	{"move_pages", SYS_move_pages},
	{"sched_setscheduler", SYS_sched_setscheduler},
	{"sched_setparam", SYS_sched_setparam},
	{"sched_setattr", SYS_sched_setattr},
	{"ioprio_set", SYS_ioprio_set},
	{"kexec_file_load", SYS_kexec_file_load},
	{"vhangup", SYS_vhangup},
	{"adjtimex", SYS_adjtimex},
	{"clock_adjtime", SYS_clock_adjtime},
	{"fanotify_mark", SYS_fanotify_mark},
	{"migrate_pages", SYS_migrate_pages},
	{"mbind", SYS_mbind},
	{"lookup_dcookie", SYS_lookup_dcookie},
	{"name_to_handle_at", SYS_name_to_handle_at},
	{"process_madvise", SYS_process_madvise},
	{"quotactl_fd", SYS_quotactl_fd},
	{"process_mrelease", SYS_process_mrelease},
	{"lsm_set_self_attr", SYS_lsm_set_self_attr},
#ifdef __x86_64__
	{"modify_ldt", SYS_modify_ldt},
	{"iopl", SYS_iopl},
	{"ioperm", SYS_ioperm},
#endif
};
#define DANGEROUS (sizeof(dangerous) / sizeof(dangerous[0]))
/* ours, or the answer of a container's own filter: an errno beats a notification */
#define REFUSED "EPERM|ENOSYS"
#define NO_FAMILY "EAFNOSUPPORT|EPERM"

static long call_zero(void *nr)
{
	alarm(1); /* one that waits is one that got through */
	return syscall(*(long *)nr, 0, 0, 0, 0, 0, 0);
}

/* these end the caller, or make another one */
static bool is_an_end(long nr)
{
	static const long ends[] = {SYS_exit,         SYS_exit_group,
				    SYS_rt_sigreturn, SYS_clone,
#ifdef __x86_64__
				    SYS_fork,         SYS_vfork,
#endif
				    SYS_clone3};
	unsigned i;

	for (i = 0; i < sizeof(ends) / sizeof(ends[0]) && ends[i] != nr; i++)
		;
	return i < sizeof(ends) / sizeof(ends[0]);
}

/* the policy's own answers, and what no filter is asked about */
static bool is_answered(long nr)
{
#ifdef __x86_64__
	if (nr == 335 || nr == 336) /* uretprobe, uprobe */
		return true;
#endif
	return nr == SYS_sync || nr == SYS_syncfs || nr == SYS_splice;
}

/* by the list that came along, or never asked about */
static bool is_let(const char *calls, long nr)
{
	const char digit[2] = {calls[nr / 4]};

#ifdef __x86_64__
	if (nr == 335 || nr == 336)
		return true;
#endif
	return strtoul(digit, NULL, 16) >> nr % 4 & 1;
}

static void sy01(struct tries *t)
{
	const char *calls = tries_word(t, 0);
	unsigned through = 6; /* those that are not tried */
	struct tried r;
	long nr;

	expect(t, strlen(calls) == POLICY_CALLS_HEX, "no list of calls");
	for (nr = 0; nr <= CALLS && calls[nr / 4]; nr++) {
		if (is_an_end(nr))
			continue;
		r = tried_apart(call_zero, &nr);
		expect(t, r.signal != SIGSYS, "%ld: killed for a number", nr);
		if (r.num != ENOSYS && r.num != EPERM && !is_answered(nr))
			through++;
		expect(t, is_let(calls, nr) || r.num == ENOSYS || r.num == EPERM,
		       "%ld is not refused", nr);
	}
	expect(t, through <= ALLOWED_MOST, "%u calls get through", through);
	observe(t, "%u of %d get through, none kills", through, CALLS + 1);
}

static void sy01_outside(struct battery *b, struct tries *t)
{
	char calls[POLICY_CALLS_HEX + 1];
	struct attack_run r = {.attack = "SY01", .words = {calls}};

	policy_calls(calls);
	run_inside(b, t, &r);
	if (b->settings->policy_dir)
		expect_policies(t);
	run_done(&r);
}

#ifdef __x86_64__
static long call_compat(void *arg)
{
	long r;

	(void)arg;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory"); /* getpid */
	return r;
}

static long call_x32(void *arg)
{
	(void)arg;
	return syscall(0x40000000 + SYS_getpid);
}

static void sy02(struct tries *t)
{
	expect_tried(t, "int 0x80", tried_apart(call_compat, NULL), "SIGSYS");
	expect_tried(t, "x32", tried_apart(call_x32, NULL), "SIGSYS|ENOSYS");
}

static long call_vsyscall(void *arg)
{
	long (*seconds)(long *) = (long (*)(long *))0xffffffffff600400; /* time() */

	(void)arg;
	return seconds(NULL) > 0 ? 0 : -1;
}
#else
static void sy02(struct tries *t)
{
	skip(t, "this processor has no other way in");
}
#endif

static void sy04(struct tries *t)
{
	static const int families[] = {AF_VSOCK, AF_ALG, AF_PACKET, AF_XDP};
	char name[32];
	int family;
	unsigned i;

	/* made to see them refused, never connected; high bits are cut by the kernel,
	 * after the filter has seen them */
	for (i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		snprintf(name, sizeof(name), "family %d", families[i]);
		expect_call(t, name, socket(families[i], SOCK_RAW, 0), NO_FAMILY);
		expect_call(t, name, socket(families[i], SOCK_STREAM, 0), NO_FAMILY);
		expect_call(t, name,
			    syscall(SYS_socket, 1ul << 32 | (unsigned)families[i],
				    SOCK_STREAM, 0),
			    NO_FAMILY);
	}
	for (family = 0; family < 300; family++) {
		if (family == AF_UNIX || family == AF_NETLINK)
			continue;
		snprintf(name, sizeof(name), "family %d", family);
		expect_call(t, name, socket(family, SOCK_STREAM, 0), NO_FAMILY);
	}
	expect_call(t, "unix", socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
		    tries_shared(t) ? "EAFNOSUPPORT|EACCES|EPERM|ENOSYS" : "ok");
}

static void sy05(struct tries *t)
{
	char params[256] = "", text[8] = "";
	int fd;

	expect_call(t, "io_uring_setup", syscall(SYS_io_uring_setup, 8, params),
		    "ENOSYS");
	expect_call(t, "io_uring_enter", syscall(SYS_io_uring_enter, 0, 1, 0, 0, 0, 0),
		    "ENOSYS");
	expect_call(t, "io_uring_register", syscall(SYS_io_uring_register, 0, 0, 0, 0),
		    "ENOSYS");
	expect_call(t, "io_setup", syscall(SYS_io_setup, 1, params), "ENOSYS");
	fd = open("plain", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	expect(t, fd >= 0 && pwrite(fd, "fine", 4, 0) == 4 && pread(fd, text, 4, 0) == 4,
	       "plain reading and writing does not work");
}

static void sy06(struct tries *t)
{
	unsigned i;

	for (i = 0; i < DANGEROUS; i++) {
		long nr = dangerous[i].nr;

		expect_tried(t, dangerous[i].name, tried_apart(call_zero, &nr), REFUSED);
	}
	observe(t, "%zu calls", DANGEROUS);
}

static void sy11(struct tries *t)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} openers[] = {
		{"AF_KEY", 15, SOCK_RAW, 2},
		{"TIPC", 30, SOCK_STREAM, 0},
		{"CAN", 29, SOCK_RAW, 1},
		{"SMC", 43, SOCK_STREAM, 0},
		{"MPTCP", AF_INET, SOCK_STREAM, 262},
		{"SCTP", AF_INET, SOCK_STREAM, 132},
		{"UDP", AF_INET, SOCK_DGRAM, 0},
		{"ICMP", AF_INET, SOCK_DGRAM, 1},
		{"raw", AF_INET, SOCK_RAW, 255},
		{"RDS", 21, SOCK_SEQPACKET, 0},
		{"RXRPC", 33, SOCK_DGRAM, 0},
		{"KCM", 41, SOCK_DGRAM, 0},
	};
	char name[32];
	unsigned i;
	int p;

	for (i = 0; i < sizeof(openers) / sizeof(openers[0]); i++)
		expect_call(
			t, openers[i].name,
			socket(openers[i].family, openers[i].type, openers[i].protocol),
			"EAFNOSUPPORT");
	/* nf_tables, XFRM, and the rest of netlink; tc needs NETLINK_ROUTE and a
	 * capability. The audit log's has an error of its own in containers. */
	for (p = 1; p < 32; p++) {
		snprintf(name, sizeof(name), "netlink %d", p);
		expect_call(t, name, socket(AF_NETLINK, SOCK_RAW, p),
			    p == NETLINK_AUDIT
				    ? "EAFNOSUPPORT|EPERM|EPROTONOSUPPORT|EINVAL"
				    : "EAFNOSUPPORT|EPERM|EPROTONOSUPPORT");
	}
	expect_call(
		t, "netlink 12 with bit 32",
		syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 1ul << 32 | NETLINK_NETFILTER),
		"EAFNOSUPPORT|EPERM|EPROTONOSUPPORT");
}

static void on_sigsys(int signo)
{
	(void)signo;
}

static long call_handled(void *nr)
{
	const struct sigaction action = {.sa_handler = on_sigsys};

	sigaction(SIGSYS, &action, NULL);
	return call_zero(nr);
}

static long call_grandchild(void *nr)
{
	struct tried r = tried_apart(call_handled, nr);

	errno = r.num;
	return r.num ? -1 : 0;
}

static void sy13(struct tries *t)
{
	long nr = SYS_bpf;

	expect_tried(t, "with a handler", tried_apart(call_handled, &nr), "EPERM");
	expect_tried(t, "in a grandchild", tried_apart(call_grandchild, &nr), "EPERM");
#ifdef __x86_64__
	/* emulated by the kernel, which asks the filter too; time() is harmless */
	expect_tried(t, "vsyscall", tried_apart(call_vsyscall, NULL),
		     "ok|SIGSEGV|SIGSYS|EPERM");
	expect_tried(t, "int 0x80 with a handler", tried_apart(call_compat, NULL),
		     "SIGSYS");
#endif
}

#define THREADS 4

struct in_thread {
	pthread_barrier_t *gate;
	struct tried seen[DANGEROUS];
};

static void *all_at_once(void *arg)
{
	struct in_thread *mine = arg;
	unsigned i;

	pthread_barrier_wait(mine->gate);
	for (i = 0; i < DANGEROUS; i++)
		mine->seen[i] = tried(syscall(dangerous[i].nr, 0, 0, 0, 0, 0, 0));
	return NULL;
}

static void sy14(struct tries *t)
{
	static struct in_thread each[THREADS];
	pthread_t thread[THREADS];
	pthread_barrier_t gate;
	unsigned i, k;

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2) {
		expect(t, false,
		       "there is no filter"); /* and then none of this is safe */
		return;
	}
	pthread_barrier_init(&gate, NULL, THREADS);
	for (i = 0; i < THREADS; i++) {
		each[i].gate = &gate;
		if (pthread_create(&thread[i], NULL, all_at_once, &each[i]) != 0) {
			expect(t, false, "thread %u could not be made", i);
			return;
		}
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		for (k = 0; k < DANGEROUS; k++)
			expect_tried(t, dangerous[k].name, each[i].seen[k], REFUSED);
	}
	observe(t, "in %d threads", THREADS);
}

const struct attack attacks_sy[] = {
	{"SY01", "every call from 0 to 600, each in a process of its own",
	 "ENOSYS or EPERM but for 240 known ones, no kill", LEVEL_PROCESS, sy01,
	 sy01_outside, NULL, NULL},
	{"SY02", "int 0x80 and the x32 interface", "killed by SIGSYS", LEVEL_PROCESS,
	 sy02, NULL, NULL, NULL},
	{"SY04", "sockets of VSOCK, ALG, PACKET, XDP and all other families",
	 "EAFNOSUPPORT", LEVEL_PROCESS, sy04, NULL, NULL, NULL},
	{"SY05", "io_uring and aio", "ENOSYS; plain files work", LEVEL_PROCESS, sy05,
	 NULL, NULL, NULL},
	{"SY06", "bpf, perf, userfaultfd, kcmp, keys, modules, clocks and their like",
	 "EPERM, or a container's ENOSYS", LEVEL_PROCESS, sy06, NULL, NULL, NULL},
	{"SY08", "TCP_ULP; MSG_OOB on a socketpair", "EPERM; EOPNOTSUPP", LEVEL_PROCESS,
	 sy08, NULL, NULL, NULL},
	{"SY10", "personality, prctl, arch_prctl; ioctl, fcntl and options that harm",
	 "refused", LEVEL_PROCESS, sy10, NULL, NULL, NULL},
	{"SY11", "what known exploits open: netlink, KEY, TIPC, CAN, SMC, MPTCP, SCTP",
	 "refused by socket()", LEVEL_PROCESS, sy11, NULL, NULL, NULL},
	{"SY13", "a handler for SIGSYS, children, the vsyscall page", "no way around",
	 LEVEL_PROCESS, sy13, NULL, NULL, NULL},
	{"SY14", "the calls of SY06 from four threads at once", "the same in each",
	 LEVEL_PROCESS, sy14, NULL, NULL, NULL},
	{.id = NULL},
};
