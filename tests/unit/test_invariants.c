/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_invariants.c - what must hold after every case can be seen not to
 *
 * This process stands for the launcher too.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "attack/battery.h"
#include "base/loop.h"
#include "base/sys.h"
#include "tap.h"

#define GROWTH_BYTES (24u << 20)

static struct battery b;
static struct report report = {.level = LEVEL_FULL};
static char run_dirs[SETUP_RUN_DIRS][SETUP_PATH];
static const struct attack some = {.id = "XX01"};
static struct tries tries;

static void start(void)
{
	b = (struct battery){.loop = loop_new(),
			     .report = &report,
			     .launcher = getpid(),
			     .launcher_fd = sys_pidfd_open(getpid(), 0),
			     .run_dirs = run_dirs};
	CHECK(b.loop && b.launcher_fd >= 0);
	tries = (struct tries){0};
	expect(&tries, true, "it got out");
	holdings_look(&b, &b.before);
}

/* after a case that held */
static bool holds(void)
{
	invariants_after(&b, &some, &tries);
	return tries_status(&tries) == ATTACK_OK;
}

TEST(when_nothing_changed_everything_holds)
{
	start();
	CHECK(holds() && !b.died_in);
}

TEST(g1_a_launcher_that_died_is_named_with_the_case)
{
	pid_t pid;

	start();
	pid = fork();
	if (pid == 0)
		_exit(0);
	b.launcher = pid;
	b.launcher_fd = sys_pidfd_open(pid, 0);
	CHECK(poll(&(struct pollfd){.fd = b.launcher_fd, .events = POLLIN}, 1, 5000) ==
	      1);
	CHECK(!holds() && strstr(tries.wrong, "G1: the launcher died"));
	CHECK(strcmp(b.died_in, "XX01") == 0);
}

TEST(g2_the_slower_ones_of_many_count)
{
	static uint64_t ms[100];
	uint64_t p95, most;

	b = (struct battery){.control_ms = ms, .controls = 100, .baseline_ms = 100};
	for (unsigned i = 0; i < 100; i++)
		ms[i] = i < 5 ? 9000 : 350; /* in no order */
	CHECK(invariants_on_time(&b, &p95, &most) && p95 == 350 && most == 350);
	ms[50] = ms[51] = 351;
	CHECK(!invariants_on_time(&b, &p95, &most) && p95 == 351);
	b.controls = 1;
	CHECK(!invariants_on_time(&b, &p95, &most) && p95 == 9000);
	b.controls = 0;
	CHECK(invariants_on_time(&b, &p95, &most));
}

/* in one case: slots have three seconds to be built again */
TEST(g3_what_is_left_is_counted)
{
	char top[] = "/tmp/test-invariants-XXXXXX", left[64];

	CHECK(mkdtemp(top));
	start();
	b.cgroups[0] = top;
	holdings_look(&b, &b.before);
	CHECK(b.before.count[HOLD_CGROUPS] == 0);
	snprintf(left, sizeof(left), "%s/left", top);
	CHECK(mkdir(left, 0700) == 0);
	CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
	if (fork() == 0)
		for (;;)
			pause();
	CHECK(!holds());
	CHECK(rmdir(left) == 0 && rmdir(top) == 0);
	CHECK(strstr(tries.wrong, "G3: 1 processes, not 0"));
	CHECK(strstr(tries.wrong, "G3: 1 cgroups, not 0"));
	CHECK(strstr(tries.wrong, " descriptors, not "));
	CHECK(strstr(tries.wrong, " descriptors of the launcher, not "));
}

TEST(g4_memory_that_is_kept_is_noticed)
{
	start();
	CHECK(mmap(NULL, GROWTH_BYTES, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) != MAP_FAILED);
	CHECK(!holds() && strstr(tries.wrong, "G4: we grew by "));
	CHECK(strstr(tries.wrong, "G4: the launcher grew by "));
}

TEST(g5_a_secret_that_came_back_is_told)
{
	start();
	CHECK(holds());
	b.leaked = true;
	CHECK(!holds() && strstr(tries.wrong, "G5: "));
}
