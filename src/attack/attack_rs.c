/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_rs.c - resources: processes, processor, output, what crashes leave
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sys.h"
#include "config/settings.h"

static void *pause_forever(void *arg)
{
	(void)arg;
	wait_forever();
}

/* ---- RS01: processes ---- */

static void rs01(struct tries *t)
{
	const char *way = tries_word(t, 0);
	pthread_t thread;
	unsigned n = 0;
	int num = 0;

	(void)t;
	if (strcmp(way, "bomb") == 0) {
		say("at it\n");
		for (;;)
			(void)fork(); /* every one of them goes on */
	}
	while (!num && n < 100000) {
		if (strcmp(way, "threads") == 0) {
			num = pthread_create(&thread, NULL, pause_forever, NULL);
		} else {
			const pid_t pid = fork();

			if (pid == 0)
				wait_forever();
			num = pid < 0 ? errno : 0;
		}
		n += !num;
	}
	say("%s %u\n", strerrorname_np(num), n);
	wait_forever();
}

static void expect_refused(struct tries *t, const struct attack_run *r, const char *way)
{
	const unsigned long n = strtoul(r->said + strcspn(r->said, " "), NULL, 10);

	expect(t, strncmp(r->said, "EAGAIN ", 7) == 0, "%s: %.20s", way, r->said);
	expect(t, n < r->in_force.pids, "%s: %lu of %u", way, n, r->in_force.pids);
	observe(t, "%s: EAGAIN after %lu", way, n);
}

/* With one uid the kernel counts all runs together, so the launcher counts each, and ends
 * the one that has too many. */
static bool ended_for_it(struct battery *b, const struct tries *t,
			 const struct attack_run *r)
{
	return tries_shared(t) && battery_one_uid(b) &&
	       strstr(r->message, "process limit of") &&
	       r->over_ms - r->started_ms < 2000;
}

/* A bomb that has several CPUs may use up its processor time before its deadline. */
static bool ended_for_its_time(const struct attack_run *r)
{
	return !r->failed && r->outcome.verdict == VERDICT_CPU_TIMEOUT &&
	       r->over_ms - r->started_ms < 2000;
}

static void rs01_outside(struct battery *b, struct tries *t)
{
	static const char *const ways[] = {"forks", "threads", "bomb"};
	unsigned i;

	for (i = 0; i < 3; i++) {
		struct attack_run r = {
			.attack = "RS01", .words = {ways[i]}, .limits = {.wall_ms = 600}};

		run_whole(b, &r);
		if (ended_for_it(b, t, &r) || (i == 2 && ended_for_its_time(&r))) {
			observe(t, "%s: ended", ways[i]);
		} else {
			/* without a pid namespace each has to be found and killed */
			expect_deadline(b, t, &r, ways[i], tries_shared(t) ? 2000 : 250);
			if (i < 2)
				expect_refused(t, &r, ways[i]);
		}
		run_done(&r);
	}
}

/* ---- RS04: processor ---- */

static void *spin(void *arg)
{
	volatile unsigned long n = 0;

	(void)arg;
	for (;;)
		n++;
	return NULL;
}

static void rs04(struct tries *t)
{
	struct rlimit cpu = {0};
	pthread_t thread;
	unsigned i;

	expect(t, getrlimit(RLIMIT_CPU, &cpu) == 0 && cpu.rlim_max != RLIM_INFINITY,
	       "no limit of processor time");
	say("%u\n", t->wrong_count);
	for (i = 0; i < 63; i++) {
		if (pthread_create(&thread, NULL, spin, NULL) != 0)
			break;
	}
	spin(NULL);
}

static void rs04_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "RS04", .limits = {.wall_ms = 1500, .pids = 64}};
	const uint64_t quota_milli = (uint64_t)(b->settings->cpus * 1000);
	uint64_t most_us;

	run_whole(b, &r);
	/* one CPU for as long as the limit says: whichever of the two comes first */
	expect(t,
	       !r.failed && (r.outcome.verdict == VERDICT_TIMEOUT ||
			     r.outcome.verdict == VERDICT_CPU_TIMEOUT),
	       "not ended at its deadline");
	expect(t, strcmp(r.said, "0\n") == 0, "no limit of processor time");
	/* 5 % and one period of the quota */
	most_us = r.outcome.wall_us * quota_milli / 1000 * 105 / 100 + 100000;
	if (tries_layer(t, LAYER_CPU_LIMIT))
		expect(t, r.outcome.cpu_us <= most_us, "%llu us of %llu",
		       (unsigned long long)r.outcome.cpu_us, (unsigned long long)most_us);
	else
		untested(t, "the quota: there is none without a cgroup");
	observe(t, "%llu ms of processor in %llu ms",
		(unsigned long long)r.outcome.cpu_us / 1000,
		(unsigned long long)r.outcome.wall_us / 1000);
	run_done(&r);
}

/* ---- RS06, RS09: output ---- */

static void rs06(struct tries *t)
{
	static char block[65536];
	const char *way = tries_word(t, 0);
	unsigned i;

	memset(block, 'y', sizeof(block));
	for (i = 0;; i++) {
		const bool to_err = strcmp(way, "stderr") == 0 ||
				    (strcmp(way, "both") == 0 && i % 2);

		if (write(to_err ? STDERR_FILENO : STDOUT_FILENO, block, sizeof(block)) <
		    0)
			wait_forever();
	}
}

static void rs06_outside(struct battery *b, struct tries *t)
{
	static const char *const ways[] = {"stdout", "stderr", "both"};
	unsigned i;

	for (i = 0; i < 3; i++) {
		struct attack_run r = {.attack = "RS06",
				       .words = {ways[i]},
				       .limits = {.wall_ms = 500, .output_kb = 64}};
		const uint64_t before = resident_kb(getpid());
		uint64_t after;

		run_whole(b, &r);
		after = resident_kb(getpid());
		expect_deadline(b, t, &r, ways[i], 250);
		expect(t, r.truncated, "%s was not cut", ways[i]);
		expect(t, r.out_len <= (64 << 10) + 256 && r.err_len <= (64 << 10) + 256,
		       "%s: %zu and %zu bytes were kept", ways[i], r.out_len, r.err_len);
		expect(t, after < before + (16u << 10), "%s: we grew by %llu kB", ways[i],
		       (unsigned long long)(after - before));
		run_done(&r);
	}
	observe(t, "cut at 64 KiB");
}

static void rs09(struct tries *t)
{
	static char line[10 << 20];
	static const char odd[] =
		"no newline \xff\xfe\xc0\x80\xed\xa0\x80 \0 \33[2J\33]0;x\7 "
		"\xf4\x90\x80\x80 \xe2\x82";

	(void)t;
	if (strcmp(tries_word(t, 0), "line") == 0) {
		memset(line, 'x', sizeof(line));
		(void)!write(STDOUT_FILENO, line, sizeof(line));
	} else {
		(void)!write(STDOUT_FILENO, odd, sizeof(odd) - 1);
	}
	_exit(0); /* and not a word more */
}

static void rs09_outside(struct battery *b, struct tries *t)
{
	static const struct json_limits limits = {32, 10000, 100000};
	static const char *const ways[] = {"bytes", "line"};
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct attack_run r = {.attack = "RS09", .words = {ways[i]}};
		struct json *doc = NULL;
		struct err e = {0};

		run_whole(b, &r);
		if (r.json)
			doc = json_parse(r.json, r.json_len, &limits, &e);
		expect(t, doc != NULL, "%s: the answer is no JSON: %s", ways[i], e.text);
		expect(t, r.exit_code == 0, "%s: %s", ways[i], r.message);
		expect(t, (i == 1) == r.truncated, "%s: cut or not", ways[i]);
		json_free(doc);
		run_done(&r);
	}
	observe(t, "valid JSON");
}

/* ---- RS10: what crashes leave ---- */

/* a stack that ends only where there is none left */
static __attribute__((noinline)) int deeper(volatile int *n)
{
	volatile int here[1024];

	here[0] = *n + 1;
	if (here[0] < 0)
		return 0;
	return deeper(&here[0]) + here[0];
}

static void crash(const char *way)
{
	volatile int n = 0;

	if (strcmp(way, "abort") == 0)
		abort();
	if (strcmp(way, "stack") == 0)
		(void)deeper(&n);
	raise(SIGSEGV);
}

static void rs10(struct tries *t)
{
	const char *way = tries_word(t, 0), *dir = getenv("OUTPUT_DIR");
	int status = 0;
	pid_t pid;

	/* what a crash left here would be part of the answer */
	expect(t, dir && chdir(dir) == 0, "no output directory");
	pid = fork();
	if (pid == 0)
		crash(way);
	waitpid(pid, &status, 0);
	say("%s\n", t->wrong_count         ? "no directory"
		    : !WIFSIGNALED(status) ? "no signal"
		    : WCOREDUMP(status)    ? "core"
					   : "fine");
	crash(way);
}

static void rs10_outside(struct battery *b, struct tries *t)
{
	static const struct {
		const char *way;
		int signal;
	} rows[] = {{"abort", SIGABRT}, {"segv", SIGSEGV}, {"stack", SIGSEGV}};
	unsigned i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct attack_run r = {.attack = "RS10", .words = {rows[i].way}};

		run_whole(b, &r);
		expect(t, strcmp(r.said, "fine\n") == 0, "%s: %.20s", rows[i].way,
		       r.said);
		expect(t,
		       r.outcome.verdict == VERDICT_SIGNAL &&
			       r.outcome.signal == rows[i].signal,
		       "%s: %s", rows[i].way, r.message);
		expect(t, r.json && !strstr(r.json, "files_produced"), "%s left a file",
		       rows[i].way);
		run_done(&r);
	}
	observe(t, "the signal is reported, no file");
}

/* ---- RS11, RS12: bombs that unfold ---- */

struct bomb {
	enum mode_id mode;
	const char *what, *code;
};

static const struct bomb bombs[] = {
	{MODE_PYTHON, "python imports",
	 "import sys\nsys.path.insert(0,'.')\nsys.setrecursionlimit(10**6)\n"
	 "for i in range(3000): open(f'm{i}.py','w').write(f'import m{i+1}')\n"
	 "import m0\n"},
	{MODE_PYTHON, "python regex", "import re\nre.match('(a+)+$', 'a'*64+'b')\n"},
	{MODE_NODE, "node regex", "/^(a+)+$/.test('a'.repeat(64)+'b')\n"},
	{MODE_GOLANG, "go constants",
	 "package main\nconst a=\"0123456789abcdef\"\nconst b=a+a+a+a+a+a+a+a\n"
	 "const c=b+b+b+b+b+b+b+b\nconst d=c+c+c+c+c+c+c+c\nconst e=d+d+d+d+d+d+d+d\n"
	 "const f=e+e+e+e+e+e+e+e\nconst g=f+f+f+f+f+f+f+f\nconst h=g+g+g+g+g+g+g+g\n"
	 "const i=h+h+h+h+h+h+h+h\nconst j=i+i+i+i+i+i+i+i\n"
	 "func main(){ println(len(j)) }\n"},
	{MODE_SHELL, "shell words",
	 "eval \"$(printf 'x=%s;' {1..2000000})\"; "
	 "a=({1..9999999})\n"},
};

static void rs11_outside(struct battery *b, struct tries *t)
{
	unsigned i, tried_here = 0;

	for (i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++) {
		const struct mode *m = battery_mode(b, bombs[i].mode);
		struct attack_run r = {
			.code = bombs[i].code, .mode = m, .limits = {.wall_ms = 1200}};
		uint64_t took;

		if (!m)
			continue;
		tried_here++;
		r.row = m->row;
		run_whole(b, &r);
		took = r.over_ms - r.started_ms - r.outcome.setup_us / 1000;
		expect(t, !r.failed && r.outcome.verdict != VERDICT_OK, "%s: %s",
		       bombs[i].what, r.failed ? r.error.text : "it worked");
		expect(t, took < r.in_force.wall_ms + 500 + battery_slack_ms(b),
		       "%s: the answer came after %llu ms", bombs[i].what,
		       (unsigned long long)took);
		observe(t, "%s: %s", bombs[i].what,
			r.failed ? "failed" : verdict_name(r.outcome.verdict));
		run_done(&r);
	}
	if (!tried_here)
		skip(t, "no runtime is served here");
}

static void rs12(struct tries *t)
{
	static const char *const argv[] = {
		"/bin/sh", "-c",
		"head -c 10737418240 /dev/zero | gzip -1 | gunzip >\"$OUTPUT_DIR/bomb\"; "
		"echo \"status $?\"; wc -c <\"$OUTPUT_DIR/bomb\"",
		NULL};
	static const char *const have[] = {"/bin/sh", "-c",
					   "command -v gzip && command -v head", NULL};
	char out[256];
	const char *at;

	if (run_program(have, out, sizeof(out)) != 0) {
		skip(t, "there is no gzip here");
		return;
	}
	expect(t, run_program(argv, out, sizeof(out)) >= 0, "no shell");
	at = strchr(out, '\n');
	expect(t, strncmp(out, "status 0", 8) != 0, "all of it was unpacked");
	expect(t, at && strtoull(at + 1, NULL, 10) <= (uint64_t)t->limits.disk_mb << 20,
	       "more than the limit was unpacked: %.20s", at ? at + 1 : "");
	observe(t, "stopped at %llu MB", at ? strtoull(at + 1, NULL, 10) >> 20 : 0ull);
}

/* ---- RS14: others' disks ---- */

static void rs14(struct tries *t)
{
	const uint64_t begin = now_ms();
	unsigned i;
	int fd;

	for (i = 0; i < 1000; i++)
		sync();
	expect(t, now_ms() - begin < 1000, "1000 times sync took %llu ms",
	       (unsigned long long)(now_ms() - begin));
	fd = open("storm", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	for (i = 0; i < 1000 && fd >= 0; i++)
		expect(t, pwrite(fd, "x", 1, i) == 1 && fsync(fd) == 0, "fsync fails");
	expect_call(t, "syncfs", syncfs(fd), "ok");
	expect_tried(t, "drop_caches", try_open("/proc/sys/vm/drop_caches", O_WRONLY),
		     "EROFS|EACCES|ENOENT");
	observe(t, "1000 times sync in %llu ms", (unsigned long long)(now_ms() - begin));
}

const struct attack attacks_rs[] = {
	{"RS01", "forks, threads, a fork bomb",
	 "EAGAIN at the limit, or ended for it; on time", LEVEL_PROCESS, rs01,
	 rs01_outside, NULL, NULL},
	{"RS02", "allocate until death; MAP_POPULATE; mlock",
	 "out_of_memory, nobody else dies; ENOMEM", LEVEL_PROCESS, rs02, rs02_outside,
	 NULL, NULL},
	{"RS03", "memory by tmpfs, memfd, pipes, sockets, names, page tables, stacks",
	 "bounded by the limit and 32 MiB", LEVEL_LANDLOCK, rs03, rs03_outside, NULL,
	 NULL},
	{"RS04", "64 threads that spin", "no more processor than the quota",
	 LEVEL_PROCESS, rs04, rs04_outside, NULL, NULL},
	{"RS06", "endless output on stdout, stderr, both",
	 "cut at the cap; we do not grow", LEVEL_PROCESS, rs06, rs06_outside, NULL, NULL},
	{"RS09", "output without newline, invalid UTF-8, NUL, escapes, a line of 10 MiB",
	 "valid JSON", LEVEL_PROCESS, rs09, rs09_outside, NULL, NULL},
	{"RS10", "abort, SIGSEGV, stack overflow", "the signal is reported, no core file",
	 LEVEL_PROCESS, rs10, rs10_outside, NULL, NULL},
	{"RS11", "programs that blow up when they are compiled or matched",
	 "limits hold there too", LEVEL_PROCESS, NULL, rs11_outside, NULL, NULL},
	{"RS12", "10 GiB unpacked from gzip", "stopped at the disk limit", LEVEL_LANDLOCK,
	 rs12, NULL, NULL, NULL},
	{"RS14", "storms of sync and fsync; drop_caches", "sync does nothing; EROFS",
	 LEVEL_PROCESS, rs14, NULL, NULL, NULL},
	{"RS15", "a million names that are not there",
	 "the kernel's memory grows by less than 64 MiB", LEVEL_LANDLOCK, rs15,
	 rs15_outside, NULL, NULL},
	{.id = NULL},
};
