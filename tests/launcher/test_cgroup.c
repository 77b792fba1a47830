/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_cgroup.c - limits, counters and killing, on whichever cgroup version is here
 *
 * Each run is made as the launcher makes it: a worker joins the slot, gives up its
 * rights, and clones an init that forks the program.
 */
#include <time.h>

#include "base/sys.h"
#include "tap.h"

#include "cgroup_fixture.h"

#define MIB (1024 * 1024)

static int ready[2];

/* --- programs
 * ---------------------------------------------------------------------------- */

static void eat(size_t bytes)
{
	volatile char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; p != MAP_FAILED && i < bytes; i += 4096)
		p[i] = 1;
}

static int program_nothing(void)
{
	return 0;
}

static int program_eat_little(void)
{
	eat(8 * MIB);
	return 0;
}

static int program_eat_much(void)
{
	eat(128 * MIB);
	return 0;
}

/* children until no more are allowed; how many there were */
static int program_fork(void)
{
	pid_t child[64];
	int count = 0;

	while (count < 64 && (child[count] = fork()) > 0)
		count++;
	if (count < 64 && child[count] == 0)
		for (;;)
			pause();
	for (int i = 0; i < count; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
	return count;
}

static int program_spin(void)
{
	struct timespec t;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while (t.tv_sec == 0 && t.tv_nsec < 300000000);
	return 0;
}

static int program_tree(void)
{
	for (int i = 0; i < 20; i++)
		if (fork() == 0)
			break;
	(void)!write(ready[1], "x", 1);
	while (pause() < 0)
		;
	return 0;
}

static pid_t clone_run(void)
{
	struct clone_args args = {.exit_signal = SIGCHLD};

	if (cgroup_run_fd(&slot) >= 0) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_run_fd(&slot);
	}
	return sys_clone3(&args, sizeof(args));
}

static _Noreturn void worker(int (*program)(void))
{
	pid_t pid;

	if (cgroup_slot_join(&slot) < 0)
		_exit(201);
	if (geteuid() == 0 &&
	    (setresgid(UID, UID, UID) < 0 || setresuid(UID, UID, UID) < 0))
		_exit(202);
	pid = clone_run();
	if (pid < 0)
		_exit(203);
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			_exit(program());
		_exit(pid < 0 ? 204 : wait_for(pid));
	}
	_exit(wait_for(pid));
}

static pid_t begin(struct cgroup_limits limits, int (*program)(void))
{
	struct err e = {0};
	pid_t pid;

	if (!ready[1])
		CHECK(pipe2(ready, O_CLOEXEC) == 0);
	if (cgroup_run_begin(&slot, &limits, &e) < 0) {
		fprintf(stderr, "# %s\n", e.text);
		CHECK(!"begin");
	}
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		worker(program);
	return pid;
}

/* without a pid namespace the program may die after its init: a sandbox has one, we wait
 */
static int run(struct cgroup_limits limits, int (*program)(void))
{
	int status = wait_for(begin(limits, program));
	uint64_t deadline = cgroup_now_ns() + 5000000000u;

	while (!cgroup_empty(&slot, 0))
		CHECK(cgroup_now_ns() < deadline);
	return status;
}

static const struct cgroup_limits plenty = {.memory_bytes = 64 * MIB, .pids = 30};

TEST(a_worker_without_rights_starts_runs)
{
	claim_slot();
	for (int i = 0; i < 3; i++) {
		CHECK(run(plenty, program_nothing) == 0);
		CHECK(cgroup_empty(&slot, 0));
		CHECK(!cgroup_oom_seen(&slot));
		CHECK(cgroup_run_end(&slot) == 0);
	}
	CHECK(cgroup_slot_remove(&slot) == 0);
}

TEST(memory_runs_out_at_the_limit_and_is_noticed)
{
	struct cgroup_limits small = {.memory_bytes = 32 * MIB, .pids = 10};
	struct pollfd wake = {.events = 0};
	struct cgroup_usage usage;
	uint32_t events;

	claim_slot();
	wake.fd = cgroup_oom_fd(&slot, &events);
	wake.events = (short)events;
	CHECK(wake.fd >= 0);
	CHECK(run(plenty, program_eat_little) == 0 && !cgroup_oom_seen(&slot));
	CHECK(poll(&wake, 1, 0) == 0);
	CHECK(run(small, program_eat_much) == 128 + SIGKILL);
	CHECK(poll(&wake, 1, 1000) == 1);
	CHECK(cgroup_oom_seen(&slot) && cgroup_oom_seen(&slot));
	CHECK(poll(&wake, 1, 0) == 0);
	cgroup_usage(&slot, &usage);
	CHECK(usage.memory_peak_kb > 24 * 1024 && usage.memory_peak_kb <= 32 * 1024);
}

/* v1: the kernel's own reaper gives back what an OOM took a moment after the death */
static void settle(void)
{
	uint64_t deadline = cgroup_now_ns() + 5000000000u;

	while (base.kind == CGROUP_V1 &&
	       cgroup_number(&slot, CGROUP_FILE_MEMORY_NOW, NULL) > 16 * MIB)
		CHECK(cgroup_now_ns() < deadline);
}

TEST(a_run_is_not_told_of_another_runs_memory)
{
	struct cgroup_limits more = {.memory_bytes = 256 * MIB, .pids = 10};
	struct cgroup_usage usage;

	claim_slot();
	CHECK(run(plenty, program_eat_much) == 128 + SIGKILL && cgroup_oom_seen(&slot));
	CHECK(cgroup_run_end(&slot) == 0);
	settle();
	CHECK(run(more, program_eat_much) == 0);
	CHECK(!cgroup_oom_seen(&slot));
	cgroup_usage(&slot, &usage);
	CHECK(usage.memory_peak_kb > 100 * 1024 && usage.memory_peak_kb < 160 * 1024);
	settle();
	CHECK(run(plenty, program_eat_little) == 0 && !cgroup_oom_seen(&slot));
	cgroup_usage(&slot, &usage);
	CHECK(usage.memory_peak_kb > 7 * 1024 && usage.memory_peak_kb < 40 * 1024);
}

TEST(processes_are_limited_without_counting_ours)
{
	struct cgroup_limits five = {.memory_bytes = 64 * MIB, .pids = 5};
	struct cgroup_usage usage;

	claim_slot();
	CHECK(run(five, program_nothing) == 0);
	cgroup_usage(&slot, &usage);
	CHECK(usage.pids_peak == 1 && !usage.pids_reason);
	CHECK(run(five, program_fork) == 4);
	cgroup_usage(&slot, &usage);
	CHECK(usage.pids_peak == 5);
	CHECK(run(five, program_nothing) == 0);
	cgroup_usage(&slot, &usage);
	if (base.kind == CGROUP_V1)
		CHECK(usage.pids_peak == CGROUP_UNKNOWN32 && usage.pids_reason);
	else
		CHECK(usage.pids_peak == 1);
	five.pids = 8;
	CHECK(run(five, program_fork) == 7);
	five.pids = 3;
	CHECK(run(five, program_fork) == 2);
}

TEST(cpu_time_is_the_runs_own)
{
	uint64_t us;

	claim_slot();
	CHECK(run(plenty, program_spin) == 0);
	us = cgroup_cpu_us(&slot);
	CHECK(us >= 290000 && us < 2000000);
	CHECK(cgroup_throttled(&slot) == 0);
	CHECK(run(plenty, program_nothing) == 0);
	CHECK(cgroup_cpu_us(&slot) < us);
}

TEST(a_quota_throttles_until_it_is_lifted)
{
	struct cgroup_limits tenth = {
		.memory_bytes = 64 * MIB, .pids = 30, .cpu_milli = 100};
	uint64_t start;
	pid_t pid;

	claim_slot();
	start = cgroup_now_ns();
	CHECK(run(tenth, program_spin) == 0);
	CHECK(cgroup_now_ns() - start > 1500000000u);
	CHECK(cgroup_throttled(&slot) > 5);
	pid = begin(tenth, program_spin);
	cgroup_unthrottle(&slot);
	CHECK(wait_for(pid) == 0);
	CHECK(cgroup_throttled(&slot) <= 2);
	start = cgroup_now_ns();
	CHECK(run(tenth, program_spin) == 0); /* begin has put it back */
	CHECK(cgroup_now_ns() - start > 1500000000u);
}

TEST(limits_can_change_while_a_sandbox_waits)
{
	struct cgroup_limits other = {
		.memory_bytes = 32 * MIB, .pids = 7, .cpu_milli = 500};
	struct err e = {0};

	claim_slot();
	CHECK(cgroup_run_begin(&slot, &plenty, &e) == 0);
	CHECK(cgroup_run_limit(&slot, &other, &e) == 0);
	other.memory_bytes = 512 * (uint64_t)MIB;
	CHECK(cgroup_run_limit(&slot, &other, &e) == 0);
	other = (struct cgroup_limits){0};
	CHECK(cgroup_run_limit(&slot, &other, &e) == 0);
	CHECK(cgroup_run_limit(&slot, &plenty, &e) == 0);
	CHECK(cgroup_run_end(&slot) == 0);
	CHECK(run(plenty, program_eat_much) == 128 + SIGKILL);
}

TEST(killing_takes_the_run_and_leaves_the_worker)
{
	uint64_t deadline;
	char byte;
	pid_t pid;

	claim_slot();
	pid = begin(plenty, program_tree);
	for (int i = 0; i < 21; i++)
		CHECK(read(ready[0], &byte, 1) == 1);
	CHECK(!cgroup_empty(&slot, pid));
	deadline = cgroup_now_ns() + 5000000000u;
	while (!cgroup_empty(&slot, pid) && cgroup_now_ns() < deadline)
		cgroup_kill(&slot, pid);
	CHECK(cgroup_empty(&slot, pid));
	CHECK(wait_for(pid) == 128 + SIGKILL); /* what the worker says of its child */
	CHECK(cgroup_run_end(&slot) == 0);
}

TEST(a_run_that_lives_keeps_its_place_from_being_renewed)
{
	char byte;
	pid_t pid;

	claim_slot();
	if (base.kind != CGROUP_V2)
		return; /* v1 renews nothing */
	pid = begin(plenty, program_tree);
	for (int i = 0; i < 21; i++)
		CHECK(read(ready[0], &byte, 1) == 1);
	while (cgroup_run_end(&slot) < 0) /* kills, and says so while it is not over */
		CHECK(errno == EBUSY);
	CHECK(wait_for(pid) == 128 + SIGKILL);
	CHECK(run(plenty, program_nothing) == 0);
}

TEST(removing_a_slot_kills_what_is_in_it)
{
	uint64_t deadline = cgroup_now_ns() + 5000000000u;
	char byte;
	pid_t pid;

	claim_slot();
	pid = begin(plenty, program_tree);
	CHECK(read(ready[0], &byte, 1) == 1);
	while (cgroup_slot_remove(&slot) < 0) {
		CHECK(errno == EBUSY && cgroup_now_ns() < deadline);
		waitpid(pid, NULL, WNOHANG);
	}
	CHECK(cgroup_slot_remove(&slot) == 0);
	CHECK(cgroup_slot_make(&base, 3, geteuid(), &slot, NULL) == 0);
}

TEST(beginning_a_run_costs_next_to_nothing)
{
	uint64_t start, spent;

	claim_slot();
	CHECK(cgroup_run_begin(&slot, &plenty, NULL) == 0);
	slot.used = false; /* nothing ran: no renewal in between */
	start = cgroup_now_ns();
	for (int i = 0; i < 100; i++) {
		CHECK(cgroup_run_begin(&slot, &plenty, NULL) == 0);
		slot.used = false;
	}
	spent = cgroup_now_ns() - start;
	fprintf(stderr, "# begin: %llu us\n", (unsigned long long)(spent / 100000));
	start = cgroup_now_ns();
	for (int i = 0; i < 20; i++) {
		slot.used = true;
		CHECK(cgroup_run_end(&slot) == 0);
	}
	fprintf(stderr, "# end: %llu us\n",
		(unsigned long long)((cgroup_now_ns() - start) / 20000));
	CHECK(spent / 100 < 2000000);
}
