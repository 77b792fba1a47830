/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_cgroup.c - limits, counters, killing and sweeping, on whichever cgroup version is
 * here
 *
 * Each run is made as the launcher makes it: a worker joins the slot, gives up its
 * rights, and clones an init that forks the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/sys.h"
#include "launcher/cgroup_kernel.h"
#include "tap.h"

#define UID 600007
#define MIB (1024 * 1024)

static struct cgroup_base base;
static struct cgroup_slot slot;
static char place[512], came_from[512]; /* v2: a cgroup of this test's own */
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

/* --- the launcher's side
 * ----------------------------------------------------------------- */

static void leave(void)
{
	(void)cgroup_slot_remove(&slot);
	cgroup_release(&base);
	if (place[0]) {
		(void)fs_write_at(AT_FDCWD, came_from, "0");
		(void)rmdir(place);
	}
}

/* v2: the process that runs the tests lives in our cgroup; go to one beside it, alone */
static void go_elsewhere(void)
{
	char *slash, file[600];
	struct stat st;

	cgroup_find("/proc/self", &base);
	(void)snprintf(file, sizeof(file), "%s/cgroup.type", base.dir[CGROUP_SLOT]);
	if (base.kind != CGROUP_V2 || stat(file, &st) < 0)
		return; /* not v2, or its root, where anybody may live */
	(void)snprintf(came_from, sizeof(came_from), "%.490s/cgroup.procs",
		       base.dir[CGROUP_SLOT]);
	slash = strrchr(base.dir[CGROUP_SLOT], '/');
	*slash = 0;
	(void)snprintf(place, sizeof(place), "%.480s/test.%d", base.dir[CGROUP_SLOT],
		       getpid());
	(void)snprintf(file, sizeof(file), "%s/cgroup.procs", place);
	if (mkdir(place, 0755) < 0 || fs_write_at(AT_FDCWD, file, "0") < 0)
		place[0] = 0; /* the claim will say what is wrong */
}

static void claim(void)
{
	atexit(leave);
	go_elsewhere();
	if (cgroup_claim(&base) == CGROUP_NONE)
		SKIP(base.reason);
	cgroup_sweep(&base);
}

static void claim_slot(void)
{
	struct err e = {0};

	claim();
	if (cgroup_slot_make(&base, 3, geteuid() ? geteuid() : UID, &slot, &e) < 0)
		fprintf(stderr, "# %s\n", e.text);
	CHECK(slot.kind != CGROUP_NONE);
	CHECK(pipe2(ready, O_CLOEXEC) == 0);
}

static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
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

/* --- tests
 * ------------------------------------------------------------------------------- */

TEST(a_claim_makes_directories_and_a_release_leaves_none)
{
	struct cgroup_base was;
	struct stat st;

	claim();
	was = base;
	for (int c = 0; c < CGROUP_CONTROLLERS; c++)
		CHECK(!was.dir[c][0] || stat(was.dir[c], &st) == 0);
	cgroup_release(&base);
	CHECK(base.kind == CGROUP_NONE);
	for (int c = 0; c < CGROUP_CONTROLLERS; c++)
		CHECK(!was.dir[c][0] || (stat(was.dir[c], &st) < 0 && errno == ENOENT));
	CHECK(cgroup_claim(&base) == was.kind); /* and again, from where we were */
	CHECK(strcmp(base.dir[0], was.dir[0]) == 0);
}

TEST(without_cgroups_everything_is_harmless_and_unknown)
{
	struct cgroup_usage usage;
	uint32_t events;

	CHECK(cgroup_slot_make(&base, 0, 0, &slot, NULL) == 0);
	CHECK(cgroup_slot_join(&slot) == 0 &&
	      cgroup_run_begin(&slot, &plenty, NULL) == 0);
	CHECK(cgroup_run_fd(&slot) == -1 && cgroup_oom_fd(&slot, &events) == -1);
	CHECK(!cgroup_oom_seen(&slot) && cgroup_empty(&slot, 0));
	cgroup_unthrottle(&slot);
	cgroup_kill(&slot, 0);
	CHECK(cgroup_cpu_us(&slot) == CGROUP_UNKNOWN64);
	cgroup_usage(&slot, &usage);
	CHECK(usage.memory_peak_kb == CGROUP_UNKNOWN64 && usage.memory_reason);
	CHECK(usage.pids_peak == CGROUP_UNKNOWN32 && usage.pids_reason &&
	      usage.cpu_reason);
	CHECK(cgroup_run_end(&slot) == 0 && cgroup_slot_remove(&slot) == 0);
	CHECK(cgroup_sweep(&base) == 0);
}

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

TEST(a_run_is_not_told_of_another_runs_memory)
{
	struct cgroup_limits more = {.memory_bytes = 256 * MIB, .pids = 10};
	struct cgroup_usage usage;

	claim_slot();
	CHECK(run(plenty, program_eat_much) == 128 + SIGKILL && cgroup_oom_seen(&slot));
	CHECK(cgroup_run_end(&slot) == 0);
	CHECK(run(more, program_eat_much) == 0);
	CHECK(!cgroup_oom_seen(&slot));
	cgroup_usage(&slot, &usage);
	CHECK(usage.memory_peak_kb > 100 * 1024 && usage.memory_peak_kb < 160 * 1024);
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

/* a directory beside our base in every hierarchy, with `pid` in it */
static void make_sibling(const char *owner, pid_t pid)
{
	char path[700], text[16];

	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
		if (!cgroup_first_of_mount(&base, c))
			continue;
		(void)snprintf(path, sizeof(path), "%s/../sandbox-server.%s", base.dir[c],
			       owner);
		CHECK(mkdir(path, 0755) == 0);
		(void)snprintf(path, sizeof(path), "%s/../sandbox-server.%s/cgroup.procs",
			       base.dir[c], owner);
		CHECK(pid == 0 || fs_write_at(AT_FDCWD, path, text) == 0);
	}
}

static bool sibling_there(const char *owner)
{
	char path[700];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/../sandbox-server.%s", base.dir[0], owner);
	return stat(path, &st) == 0;
}

TEST(what_dead_owners_left_is_swept_and_the_living_are_spared)
{
	char living[64], reused[64], foreign[64], path[700];
	pid_t child;

	claim_slot();
	CHECK(cgroup_owner_name(getppid(), living, sizeof(living)) == 0);
	(void)snprintf(reused, sizeof(reused), "%.8s.%d.1", living, getppid());
	(void)snprintf(foreign, sizeof(foreign), "0badb007%s", living + 8);
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		for (;;)
			pause();
	make_sibling(living, 0);
	make_sibling(reused, child);
	make_sibling(foreign, 0);
	CHECK(cgroup_sweep(&base) >= 2);
	CHECK(sibling_there(living) && !sibling_there(reused) && !sibling_there(foreign));
	CHECK(wait_for(child) == 128 + SIGKILL);
	CHECK(cgroup_run_begin(&slot, &plenty, NULL) < 0); /* slot-3 was nobody's too */
	for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
		(void)snprintf(path, sizeof(path), "%s/../sandbox-server.%s", base.dir[c],
			       living);
		(void)rmdir(path);
	}
}

TEST(others_in_our_cgroup_are_a_reason_with_a_fix)
{
	struct stat before, after;
	pid_t child;

	go_elsewhere();
	if (!place[0])
		return; /* v1, or the root of v2: anybody may live beside us there */
	atexit(leave);
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		for (;;)
			pause();
	CHECK(stat(place, &before) == 0);
	CHECK(cgroup_claim(&base) == CGROUP_NONE);
	CHECK(strstr(base.reason, "other processes") && base.fix[0]);
	CHECK(stat(place, &after) == 0 && before.st_nlink == after.st_nlink);
	kill(child, SIGKILL);
	wait_for(child);
	CHECK(cgroup_claim(&base) == CGROUP_V2);
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
