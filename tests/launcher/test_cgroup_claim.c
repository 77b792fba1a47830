/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_cgroup_claim.c - a directory of our own, its end, and what others left behind
 */
#include "tap.h"

#include <sys/file.h>

#include "base/defer.h"
#include "cgroup_fixture.h"

static const struct cgroup_limits plenty = {.memory_bytes = 64 << 20, .pids = 30};

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

/* whoever owns them may live in a pid namespace that we cannot see */
TEST(what_somebody_holds_is_not_swept)
{
	char dead[64], path[700];
	int fd;

	claim_slot();
	CHECK(cgroup_owner_name(getppid(), dead, sizeof(dead)) == 0);
	memcpy(dead, "0badb007", 8);
	make_sibling(dead, 0);
	(void)snprintf(path, sizeof(path), "%s/../sandbox-server.%s", base.dir[0], dead);
	fd = open(path, O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0 && flock(fd, LOCK_SH) == 0);
	(void)cgroup_sweep(&base);
	CHECK(sibling_there(dead));
	close(fd);
	(void)cgroup_sweep(&base);
	CHECK(!sibling_there(dead));
}

TEST(our_own_are_held_until_they_are_released)
{
	auto_fd int fd = -1;

	claim_slot();
	fd = open(base.dir[0], O_RDONLY | O_DIRECTORY);
	CHECK(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK);
	cgroup_unlock();
	CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0);
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
