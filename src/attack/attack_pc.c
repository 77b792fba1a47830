/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_pc.c - processes that do not want to end, and time
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "attack/battery.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/sys.h"
#include "config/settings.h"

static void ignore_everything(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t all;
	int signo;

	for (signo = 1; signo < NSIG; signo++)
		(void)sigaction(signo, &ignore, NULL); /* two cannot be */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
}

static void pc01(struct tries *t)
{
	(void)t;
	ignore_everything();
	wait_forever();
}

static void pc01_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "PC01", .limits = {.wall_ms = 400}};

	run_whole(b, &r);
	expect_deadline(b, t, &r, "it", 100);
	observe(t, "timeout, answered after %llu ms of 400",
		(unsigned long long)(r.over_ms - r.started_ms));
	run_done(&r);
}

static void pc02(struct tries *t)
{
	(void)t;
	if (fork() > 0)
		_exit(0);
	setsid();
	if (fork() > 0)
		_exit(0);
	ignore_everything();
	sys_close_range(0, ~0U, 0);
	wait_forever();
}

static void pc02_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "PC02"};
	uint64_t late;

	run_whole(b, &r);
	late = r.over_ms - r.started_ms - (r.outcome.wall_us + r.outcome.setup_us) / 1000;
	expect(t, !r.failed && r.exit_code == 0, "%s",
	       r.failed ? r.error.text : r.message);
	expect(t, late < 100 + battery_slack_ms(b), "the answer came %llu ms late",
	       (unsigned long long)late);
	observe(t, "answered %llu ms after its end", (unsigned long long)late);
	run_done(&r); /* and G3 looks for the daemon */
}

static void pc04(struct tries *t)
{
	pid_t child;
	int status = 0;

	if (strcmp(tries_word(t, 0), "group") == 0) {
		kill(-getpgrp(), SIGKILL);
		say("alive\n");
		return;
	}
	expect_call(t, "kill 1", kill(1, SIGKILL), "ok|EPERM");
	/* without a pid namespace "all" could be the host's: ask first */
	if (tries_shared(t)) {
		expect_call(t, "ask all", kill(-1, 0), "EPERM");
		if (t->wrong_count)
			return;
		expect_call(t, "kill all", kill(-1, SIGKILL), "EPERM");
		return;
	}
	child = fork();
	if (child == 0)
		wait_forever();
	expect(t, getpid() < 1000, "this is no pid namespace");
	if (t->wrong_count)
		return;
	expect_call(t, "kill all", kill(-1, SIGKILL), "ok");
	waitpid(child, &status, 0);
	expect(t, WIFSIGNALED(status), "its own child lives");
	expect(t, getppid() == 1, "process 1 is gone");
	observe(t, "process 1 lives");
}

static void pc04_outside(struct battery *b, struct tries *t)
{
	struct attack_run all = {.attack = "PC04"};
	struct attack_run group = {.attack = "PC04", .words = {"group"}};

	run_inside(b, t, &all);
	run_done(&all);
	run_whole(b, &group);
	expect(t,
	       group.outcome.verdict == VERDICT_SIGNAL &&
		       group.outcome.signal == SIGKILL && !group.said[0],
	       "its own group: %s", group.message);
	run_done(&group);
}

/* ---- PC07: waits that no signal ends ---- */

static void never_execute(void)
{
	/* the parent sleeps in the kernel until its child has executed something */
	if (syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) {
		for (;;)
			syscall(SYS_rt_sigsuspend, NULL, 0);
	}
}

static void pc07(struct tries *t)
{
	const char *way = tries_word(t, 0);
	int fd;

	if (strcmp(way, "vfork") == 0)
		never_execute();
	if (strcmp(way, "fifo") == 0) {
		expect_call(t, "mkfifo", mkfifo("fifo", 0600), "ok");
		(void)!open("fifo", O_RDONLY | O_CLOEXEC);
	}
	fd = open("lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	flock(fd, LOCK_EX);
	if (fork() == 0)
		wait_forever();
	fd = open("lock", O_RDWR | O_CLOEXEC);
	flock(fd, LOCK_EX);
	wait_forever();
}

static void pc07_outside(struct battery *b, struct tries *t)
{
	static const char *const ways[] = {"vfork", "fifo", "flock"};
	unsigned i;

	for (i = 0; i < 3; i++) {
		struct attack_run r = {
			.attack = "PC07", .words = {ways[i]}, .limits = {.wall_ms = 300}};

		run_whole(b, &r);
		expect_deadline(b, t, &r, ways[i], 250);
		run_done(&r);
	}
	observe(t, "killed at the deadline");
}

/* ---- PC08: zombies ---- */

#define ZOMBIES 10000

static void pc08(struct tries *t)
{
	unsigned n, refused = 0;
	pid_t pid;

	/* orphans: process 1 has to reap each, or there would be no room for the next */
	for (n = 0; n < ZOMBIES; n++) {
		pid = fork();
		if (pid == 0) {
			if (fork() == 0)
				_exit(0);
			_exit(0);
		}
		if (pid < 0) {
			refused++;
			sched_yield();
		} else {
			waitpid(pid, NULL, 0);
		}
	}
	pid = fork();
	if (pid == 0)
		_exit(0);
	expect(t, pid > 0 && waitpid(pid, NULL, 0) == pid, "no process can be made");
	expect(t, refused < ZOMBIES / 10, "%u could not be made", refused);
	observe(t, "%d reaped, %u refused on the way", ZOMBIES, refused);
}

static void pc08_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "PC08", .limits = {.wall_ms = 60000}};

	run_inside(b, t, &r);
	run_done(&r);
}

/* ---- PC10: nobody waits for the answer ---- */

static void pc10(struct tries *t)
{
	unsigned i;

	(void)t;
	for (i = 0; i < 5; i++) {
		if (fork() == 0)
			break;
	}
	ignore_everything();
	if (i == 5)
		say("here\n");
	wait_forever();
}

static void pc10_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "PC10"};
	uint64_t begin, took;

	run_start(b, &r);
	expect(t, run_said(b, &r, "here"), "it did not start");
	expect(t, count_descendants() >= (unsigned)b->before.count[HOLD_PROCESSES] + 5,
	       "it is not there");
	begin = now_ms();
	run_cancel(b, &r);
	do {
		battery_pause(b, 2);
		took = now_ms() - begin;
	} while (count_descendants() > (unsigned)b->before.count[HOLD_PROCESSES] &&
		 took < 5000);
	expect(t, took < 200 + battery_slack_ms(b), "it took %llu ms to die",
	       (unsigned long long)took);
	observe(t, "dead after %llu ms", (unsigned long long)took);
}

/* ---- PC11: deadlines ---- */

static void pc11(struct tries *t)
{
	(void)t;
	wait_forever();
}

/* what a client may ask for; NULL: it is refused with 400 */
static void ask_for(struct battery *b, struct tries *t, const char *timeout, bool refused)
{
	const uint64_t most_ms = b->settings->max_timeout_sec * 1000;
	struct run_request q = {0};
	struct err e = {0};
	char text[128];
	int r;

	snprintf(text, sizeof(text), "{\"code\":\"x\",\"timeout_seconds\":%s}", timeout);
	r = request_parse(text, strlen(text), b->settings, b->modes, &q, &e);
	if (refused)
		expect(t, r < 0 && err_status(&e) == 400, "%s is not refused", timeout);
	else
		expect(t, r == 0 && q.limits.wall_ms > 0 && q.limits.wall_ms <= most_ms,
		       "%s becomes %u ms", timeout, q.limits.wall_ms);
	request_done(&q);
}

static void pc11_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "PC11", .limits = {.wall_ms = 1}};

	run_whole(b, &r);
	expect_deadline(b, t, &r, "1 ms", 250);
	run_done(&r);
	if (!b->modes->count) {
		untested(t, "what requests may ask for: no runtime is served");
		return;
	}
	ask_for(b, t, "-1", true);
	ask_for(b, t, "NaN", true);
	ask_for(b, t, "Infinity", true);
	ask_for(b, t, "1e400", true);
	ask_for(b, t, "\"30\"", true);
	ask_for(b, t, "0.001", false);
	ask_for(b, t, "0", false);
	ask_for(b, t, "null", false);
	ask_for(b, t, "1e18", false);
	ask_for(b, t, "1e-9", false);
	observe(t, "refused, or at most %llu s",
		(unsigned long long)b->settings->max_timeout_sec);
}

/* ---- PC12, PC13, PC14: what fails before there is a program ---- */

static void pc12(struct tries *t)
{
	int fd = open("garbage", O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	const char *const argv[] = {"./garbage", NULL};
	char out[16];

	(void)!write(fd, "\1\2\3\4 no program", 15);
	close(fd);
	expect_call(t, "garbage", run_program(argv, out, sizeof(out)), "ENOEXEC");
}

static void pc12_outside(struct battery *b, struct tries *t)
{
	struct attack_run inside = {.attack = "PC12"};
	struct attack_run missing = {.mode = &b->self, .row = b->missing_row};
	struct attack_run big = {.attack = "PC12", .mode = &b->self, .row = b->self_row};
	char *word = mem_zero((256u << 10) + 1);

	run_inside(b, t, &inside);
	run_done(&inside);
	run_whole(b, &missing);
	expect(t,
	       missing.failed && missing.error.num == ENOENT &&
		       strcmp(missing.error.code, "sandbox_setup_failed") == 0 &&
		       strstr(missing.error.text, "\"exec\""),
	       "no interpreter: %s", missing.failed ? missing.error.text : "it ran");
	run_done(&missing);
	memset(word, 'x', 256u << 10);
	big.words[0] = word;
	run_whole(b, &big);
	expect(t, big.failed && big.error.num == E2BIG, "a word of 256 KiB: %s",
	       big.failed ? big.error.text : "it ran");
	observe(t, "step \"exec\": ENOENT, E2BIG");
	run_done(&big);
	free(word);
}

static void pc13_outside(struct battery *b, struct tries *t)
{
	(void)b;
	skip(t, "the clock of a host is not ours to set: tests/vm sets its own");
}

#ifdef SANDBOX_TEST_HOOKS
static void pc14_outside(struct battery *b, struct tries *t)
{
	static const char *const words[] = {"selftest", "--mode", "shell", "--warm-fork",
					    "off",      "--case", "NS02",  NULL};
	const char *const *step;
	char variable[64], wanted[80];
	struct binary_said said;
	unsigned n = 0;

	for (step = b->steps; step && *step; step++) {
		const char *const env[] = {variable, NULL};

		snprintf(variable, sizeof(variable), "SANDBOX_TEST_FAULT=%s", *step);
		snprintf(wanted, sizeof(wanted), "sandbox step \"%s\" failed", *step);
		binary_run(REFUSE_NOTHING, words, env, &said);
		expect(t, said.status == 1 && strstr(said.text, wanted),
		       "%s: status %d: %.100s", *step, said.status, said.text);
		n++;
	}
	expect(t, n > 0, "no step is known");
	observe(t, "%u steps, each named, no program ran", n);
}
#else
static void pc14_outside(struct battery *b, struct tries *t)
{
	(void)b;
	skip(t, "steps fail on demand only in a build with test hooks");
}
#endif

const struct attack attacks_pc[] = {
	{"PC01", "ignore every signal and sleep", "timeout, within 100 ms", LEVEL_PROCESS,
	 pc01, pc01_outside, NULL, NULL},
	{"PC02", "a daemon: forked twice, without descriptors",
	 "answered within 100 ms; the daemon is dead", LEVEL_PROCESS, pc02, pc02_outside,
	 NULL, NULL},
	{"PC04", "kill -9 of all, of process 1, of its own group",
	 "process 1 lives, nobody else is hit", LEVEL_LANDLOCK, pc04, pc04_outside, NULL,
	 "EPERM for all; nobody else is hit"},
	{"PC07", "a vfork that never executes; a FIFO; a lock of its own",
	 "killed at the deadline", LEVEL_PROCESS, pc07, pc07_outside, NULL, NULL},
	{"PC08", "10^4 zombies", "reaped", LEVEL_PROCESS, pc08, pc08_outside, NULL, NULL},
	{"PC10", "the client goes away", "everything is dead within 200 ms",
	 LEVEL_PROCESS, pc10, pc10_outside, NULL, NULL},
	{"PC11", "deadlines of 1 ms, 0, -1, 1e18, NaN",
	 "400, or a deadline: never unlimited", LEVEL_PROCESS, pc11, pc11_outside, NULL,
	 NULL},
	{"PC12", "no interpreter, no program, too many bytes of arguments",
	 "the step that failed, and its errno", LEVEL_PROCESS, pc12, pc12_outside, NULL,
	 NULL},
	{"PC13", "step the host's clock", "deadlines do not care", LEVEL_PROCESS, NULL,
	 pc13_outside, NULL, NULL},
	{"PC14", "every step of the set-up fails once", "its name, and no program ran",
	 LEVEL_PROCESS, NULL, pc14_outside, NULL, NULL},
	{.id = NULL},
};
