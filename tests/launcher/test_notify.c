/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_notify.c - refused calls of a real program, answered and counted by the launcher's
 * code
 *
 * The program is a child of the test with the filter that reports, and nothing else of a
 * sandbox. It ends with 0 when it got what it expects.
 */
#include "launcher/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "base/err.h"
#include "base/fdpass.h"
#include "base/loop.h"
#include "base/sys.h"
#include "config/filter.h"
#include "launcher/launcher.h"
#include "tap.h"

static struct setup setup;
static struct launcher l = {.setup = &setup, .slot_count = 1};
static struct slot slot = {.launcher = &l};
static struct run *const r = &slot.run;
static int peer_fd, status = -1;
static uint64_t began_ns;

/* 0: as it is for every run; 1: all that is not allowed */
static void open_launcher(uint32_t wide)
{
	struct err e = {0};
	int pair[2];

	setup.reporting[0].wide = wide;
	CHECK(filters_compile(&setup, &e) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	l.server_fd = pair[0];
	peer_fd = pair[1];
	l.loop = loop_new();
	CHECK(l.loop && loop_add(l.loop, l.server_fd, 0, launcher_on_server, &l) == 0);
	l.abilities.notify = true;
	l.abilities.level = LEVEL_FULL;
	r->slot = &slot;
	r->id = 7;
	r->notify.fd = -1;
}

static _Noreturn void become_program(int socket_fd, int (*program)(void))
{
	struct setup_reporting *filter = &setup.reporting[REPORTING_APART];
	struct sock_fprog f = {(unsigned short)filter->notify.len, filter->notify.insns};
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(100);
	fd = sys_seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &f);
	if (fd < 0 || fdpass_send(socket_fd, "x", 1, &fd, 1) < 0 || close(fd) < 0)
		_exit(101);
	_exit(program());
}

static void on_ended(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	loop_stop(l.loop);
}

/* runs it to its end, while the loop turns */
static void run_program(int (*program)(void))
{
	int pair[2], fds[FDPASS_MAX], pid_fd;
	size_t count;
	pid_t pid;
	char x;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	pid = fork();
	if (pid == 0)
		become_program(pair[1], program);
	close(pair[1]);
	CHECK(fdpass_receive(pair[0], &x, 1, fds, &count, true) == 1 && count == 1);
	CHECK(notify_take(r, &fds[0]) == 0 && fds[0] == -1);
	pid_fd = sys_pidfd_open(pid, 0);
	CHECK(loop_add(l.loop, pid_fd, EPOLLIN, on_ended, NULL) == 0);
	began_ns = loop_now_ns();
	CHECK(loop_run(l.loop) == 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	close(pair[0]);
}

/* how many records the server is told of; *last is the last one */
static unsigned told(struct violation *last)
{
	int fds[MESSAGE_FDS];
	struct message m;
	unsigned n = 0;

	notify_tell(r);
	while (message_receive(peer_fd, &m, fds) == 1) {
		CHECK(m.type == MSG_VIOLATION && m.run == 7);
		*last = m.violation;
		n++;
		launcher_on_server(&l, EPOLLOUT); /* what did not fit before */
	}
	CHECK(errno == EAGAIN);
	return n;
}

static int refused(long nr, long arg, int num)
{
	errno = 0;
	return syscall(nr, arg, 5, 6, 0, 0, 0) == -1 && errno == num;
}

/* every comparison that a policy can have, below, at and above its value */
TEST(the_first_rule_that_fits_gives_the_errno)
{
	static const struct {
		enum denial_op op;
		const char *fits; /* of 9, 10, 11 */
	} rows[] = {{DENIAL_NE, "101"}, {DENIAL_LT, "100"}, {DENIAL_LE, "110"},
		    {DENIAL_EQ, "010"}, {DENIAL_GE, "011"}, {DENIAL_GT, "001"}};
	struct setup_reporting *s = &setup.reporting[0];
	uint32_t rule;

	for (unsigned i = 0; i < 3 * sizeof(rows) / sizeof(*rows); i++) {
		const struct seccomp_data call = {.nr = 3, .args[1] = 9 + i % 3};
		const bool fits = rows[i / 3].fits[i % 3] == '1';

		s->else_errno = ENOSYS;
		s->denials = 2;
		s->denial[0] = (struct setup_denial){
			.nr = 3, .errno_ret = EACCES, .args = 1};
		s->denial[0].arg[0].index = 1;
		s->denial[0].arg[0].op = rows[i / 3].op;
		s->denial[0].arg[0].value = 10;
		s->denial[1] = (struct setup_denial){.nr = 4, .errno_ret = EPERM};
		CHECK(notify_errno(s, &call, &rule) == (fits ? EACCES : ENOSYS));
		CHECK(rule == (fits ? 0 : 2));
	}
	s->denial[0].arg[0].op = DENIAL_MASKED_EQ;
	s->denial[0].arg[0].value = 0xf0;
	s->denial[0].arg[0].value_two = 0x20;
	CHECK(notify_errno(s, &(struct seccomp_data){.nr = 3, .args[1] = 0x12f}, &rule) ==
	      EACCES);
	CHECK(notify_errno(s, &(struct seccomp_data){.nr = 3, .args[1] = 0x130}, &rule) ==
	      ENOSYS);
	CHECK(notify_errno(s, &(struct seccomp_data){.nr = 4}, &rule) == EPERM &&
	      rule == 1);
}

static int calls_ptrace_twice(void)
{
	return refused(SYS_ptrace, 3, EPERM) && refused(SYS_ptrace, 4, EPERM) ? 0 : 1;
}

TEST(a_call_is_answered_with_its_errno_and_counted)
{
	struct violation v;

	open_launcher(0);
	run_program(calls_ptrace_twice);
	CHECK(status == 0);
	CHECK(told(&v) == 1 && v.nr == SYS_ptrace && v.count == 2);
	CHECK(v.errno_ret == EPERM && v.args[0] == 3 && v.args[1] == 5);
	CHECK(notify_known(r) == VIOLATIONS_ALL && notify_count(r, SYS_ptrace) == 2);
	notify_clear(r);
	CHECK(r->notify.fd == -1 && !r->notify.record &&
	      notify_count(r, SYS_ptrace) == 0);
}

static int calls_2500_times(void)
{
	const int last = setup.reporting[0].wide ? EPERM : ENOSYS;

	for (int i = 0; i < 2500; i++)
		if (!refused(SYS_ptrace, i, i < 1000 ? EPERM : last))
			return 1;
	return 0;
}

TEST(after_1000_calls_the_kernel_refuses_alone)
{
	struct violation v;

	open_launcher(0);
	run_program(calls_2500_times);
	CHECK(status == 0 && r->notify.fd == -1);
	CHECK(told(&v) == 1 && v.count == 1000 && notify_known(r) == VIOLATIONS_CUT);
	notify_clear(r);
}

/* 10000 a second: 2500 calls are through in the third tenth */
TEST(where_all_is_reported_there_is_no_end_but_a_pace)
{
	struct violation v;

	open_launcher(1);
	run_program(calls_2500_times);
	CHECK(status == 0);
	CHECK(loop_now_ns() - began_ns >= 190000000);
	CHECK(told(&v) == 1 && v.count == 2500 && notify_known(r) == VIOLATIONS_ALL);
	notify_clear(r);
}

static int calls_many_kinds(void)
{
	for (int i = 1; i <= 300; i++)
		if (!refused(SYS_prlimit64, i, EPERM))
			return 1;
	return refused(SYS_unshare, 0, EPERM) ? 0 : 1;
}

TEST(as_many_kinds_are_kept_as_a_run_can_have)
{
	struct violation v;

	open_launcher(0);
	run_program(calls_many_kinds);
	CHECK(status == 0 && told(&v) == VIOLATIONS_USUAL);
	CHECK(v.nr == SYS_prlimit64 && v.args[0] == VIOLATIONS_USUAL);
	CHECK(notify_known(r) == VIOLATIONS_CUT);
	notify_clear(r);
}

TEST(where_all_is_reported_more_kinds_are_kept_and_no_message_is_lost)
{
	struct violation v;

	open_launcher(1);
	run_program(calls_many_kinds);
	CHECK(status == 0 && told(&v) == 301 && v.nr == SYS_unshare);
	CHECK(notify_known(r) == VIOLATIONS_ALL);
	notify_clear(r);
}

static int calls_the_unknown(void)
{
	return refused(1000, 1, ENOSYS) && refused(SYS_clone3, 0, ENOSYS) &&
			       refused(SYS_splice, -1, EINVAL) &&
			       refused(SYS_personality, 1, ENOSYS) &&
			       refused(1000, 2, ENOSYS)
		       ? 0
		       : 1;
}

TEST(where_all_is_reported_what_has_a_fallback_is_too_with_its_errno)
{
	struct violation v;

	if (syscall(SYS_personality, 1) < 0)
		SKIP("a filter around this one answers first");
	CHECK(syscall(SYS_personality, 0) == 1);
	open_launcher(1);
	run_program(calls_the_unknown);
	CHECK(status == 0 && told(&v) == 4 && v.nr == SYS_personality);
	CHECK(v.errno_ret == ENOSYS && notify_count(r, 1000) == 2);
	notify_clear(r);
}

TEST(otherwise_what_has_a_fallback_is_nobodys_business)
{
	struct violation v;

	open_launcher(0);
	run_program(calls_the_unknown);
	CHECK(status == 0 && told(&v) == 0 && notify_known(r) == VIOLATIONS_ALL);
	notify_clear(r);
}

static void ignore(int signo)
{
	(void)signo;
}

static atomic_bool nobody_asked;

/* until the kernel refuses by itself: the listener is closed */
static void *call_on_and_on(void *arg)
{
	while (syscall(SYS_ptrace, arg, 0, 0, 0) == 0 || errno != ENOSYS)
		;
	nobody_asked = true;
	return NULL;
}

/* calls that are made, and taken back by a signal before anybody looked */
static int calls_and_takes_back(void)
{
	const struct sigaction act = {.sa_handler = ignore};
	const struct timespec pause = {0, 20000};
	uint64_t end = loop_now_ns() + 8000000000; /* on a busy machine */
	pthread_t t;

	sigaction(SIGUSR1, &act, NULL);
	if (pthread_create(&t, NULL, call_on_and_on, NULL) != 0)
		return 1;
	while (!nobody_asked && loop_now_ns() < end) {
		pthread_kill(t, SIGUSR1);
		nanosleep(&pause, NULL); /* with one CPU nobody else would get on */
	}
	return nobody_asked ? 0 : 1;
}

TEST(calls_that_are_taken_back_count_for_the_end_too)
{
	open_launcher(0);
	run_program(calls_and_takes_back);
	CHECK(status == 0 && r->notify.fd == -1 && r->notify.calls == 1000);
	CHECK(notify_count(r, SYS_ptrace) <= 1000 && notify_known(r) == VIOLATIONS_CUT);
	notify_clear(r);
}

static int is_killed_in_a_call(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, call_on_and_on, NULL) != 0)
		return 1;
	for (int i = 0; i < 5; i++)
		syscall(SYS_ptrace, 0, 0, 0, 0);
	kill(getpid(), SIGKILL);
	return 1;
}

TEST(whoever_is_killed_while_a_call_waits_is_gone_at_once)
{
	open_launcher(0);
	run_program(is_killed_in_a_call);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(notify_count(r, SYS_ptrace) >= 5);
	notify_clear(r);
}

TEST(without_the_ability_nothing_is_known)
{
	open_launcher(0);
	l.abilities.notify = false;
	CHECK(notify_known(r) == VIOLATIONS_UNKNOWN);
	l.abilities.notify = true;
	r->started = true; /* but nobody handed a listener over */
	CHECK(notify_known(r) == VIOLATIONS_UNKNOWN);
}

TEST(this_kernel_is_one_we_know)
{
	CHECK(notify_usable() == 0);
}
