/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_client.c - news of the launcher for whose descriptors there is no room
 */
#include "job_fixture.h"

#include <sys/resource.h>

#include "base/fs.h"

static struct rlimit before;

/* not one descriptor can come in */
static void take_room(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct rlimit none;

	CHECK(fd >= 0 && close(fd) == 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
	none = before;
	none.rlim_cur = (rlim_t)fd;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
}

static void give_room(void)
{
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

static void turn_without_room(void)
{
	take_room();
	for (int i = 0; i < 5; i++)
		fixture_turn();
	give_room();
}

static uint64_t begin(uint64_t who)
{
	CHECK(fixture_submit(who, "", false) == 0);
	return fixture_hear(MSG_RUN);
}

TEST(a_run_whose_streams_do_not_fit_is_ended_and_the_others_go_on)
{
	int cut[3], other[3];
	uint64_t run, next;

	fixture_open();
	next = begin(2);
	fixture_start(next, other);
	fixture_turn();
	run = begin(1);
	fixture_start(run, cut);
	turn_without_room();
	CHECK(f.failed == 0 && jobs_ready(f.jobs) && jobs_running(f.jobs) == 2);
	CHECK(fixture_hear(MSG_KILL) == run);
	/* its ends of the pipes are gone, and nobody has them */
	CHECK(write(cut[1], "x", 1) == -1 && errno == EPIPE);
	fixture_end(run, (struct outcome){.verdict = VERDICT_SIGNAL, .signal = 9});
	UNTIL(f.failed == 1);
	CHECK(f.who == 1 && f.done == 0);
	CHECK(err_status(&f.err) == 503 && !strcmp(f.err.code, "no_descriptors"));
	CHECK(write(other[1], "on", 2) == 2);
	fixture_close_program(other);
	fixture_end(next, (struct outcome){.verdict = VERDICT_OK});
	UNTIL(f.done == 1);
	CHECK(f.who == 2 && !strcmp(f.out.bytes, "on"));
	fixture_close_program(cut);
	fixture_close();
}

TEST(one_that_cannot_begin_is_told_why_and_leaves_nothing)
{
	fixture_open();
	take_room();
	CHECK(fixture_submit(1, "", false) == -1);
	give_room();
	CHECK(err_status(&f.err) == 503 && !strcmp(f.err.code, "no_descriptors"));
	CHECK(f.failed == 0 && jobs_idle(f.jobs) && fixture_silent());
	CHECK(begin(2) > 0);
	fixture_close();
}

TEST(one_that_failed_instead_says_so)
{
	struct message m = {.type = MSG_FAILED, .failure.step = "killed"};
	int cut[3];

	fixture_open();
	m.run = begin(1);
	fixture_start(m.run, cut);
	turn_without_room();
	fixture_say(&m, NULL);
	UNTIL(f.failed == 1);
	CHECK(jobs_idle(f.jobs) && jobs_ready(f.jobs));
	fixture_close_program(cut);
	fixture_close();
}

TEST(files_that_do_not_fit_cost_the_files_only)
{
	struct message m = {.type = MSG_DONE, .fds = 1};
	int fd = fs_sealed("files", "", 0);

	fixture_open();
	m.run = begin(1);
	m.outcome.files = OUTCOME_FILES;
	fixture_say(&m, &fd);
	close(fd);
	turn_without_room();
	UNTIL(f.done == 1);
	CHECK(f.exit_code == 0 && f.file_count == 0);
	CHECK(f.skipped_count == 1 && !strcmp(f.skipped_reason, "collector_failed"));
	CHECK(jobs_ready(f.jobs));
	fixture_close();
}

/* it may say that a layer is gone */
TEST(a_report_that_does_not_fit_ends_the_conversation)
{
	fixture_open();
	fixture_report(LEVEL_NONE);
	turn_without_room();
	CHECK(!jobs_ready(f.jobs));
	fixture_close();
}
