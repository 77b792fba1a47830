/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_disk.c - what the worker says of a run's files, and when nobody waits for it
 */
#include <fcntl.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "launcher/worker.h"
#include "tap.h"

/* its end is no full disk's, so nobody looks again; the worker has not answered yet */
TEST(an_answer_that_comes_when_a_run_is_over_changes_nothing)
{
	struct launcher l = {.loop = NULL}; /* which it would begin again */
	struct slot s = {.launcher = &l, .worker_fd = -1};
	struct run r = {.slot = &s,
			.place_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			.disk_asked = true,
			.dead = true,
			.exited = true};
	const struct worker_answer a = {.counted = 1, .use = {.entries = 1}};

	CHECK(r.place_fd >= 0);
	CHECK(!run_disk_last(&r));
	run_disk_counted(&r, &a);
	CHECK(!r.disk_known && !r.disk_out);
	close(r.place_fd);
}

/* what it left is being killed: that has the timer, and its end comes after that */
TEST(an_answer_does_not_come_before_the_end_of_orphans)
{
	struct launcher l = {.loop = NULL};
	struct slot s = {.launcher = &l, .worker_fd = -1};
	struct run r = {.slot = &s, .disk_asked = true, .dead = true};
	const struct worker_answer a = {.counted = 1, .use = {.entries = 1}};

	run_disk_counted(&r, &a);
	CHECK(!r.disk_asked && !r.disk_known);
}

/* it was told to end, and has its time for that */
TEST(an_answer_does_not_hasten_an_end)
{
	struct launcher l = {.loop = NULL};
	struct slot s = {.launcher = &l, .worker_fd = -1};
	struct run r = {.slot = &s, .place_fd = -1, .disk_asked = true, .ending = true};
	const struct worker_answer a = {.counted = 1, .use = {.entries = 3000}};

	run_disk_counted(&r, &a);
	CHECK(!r.disk_asked && r.disk_large);
}
