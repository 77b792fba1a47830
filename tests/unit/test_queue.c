/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_queue.c - admission, states, cancelling, a launcher that dies
 */
#include "job_fixture.h"

#include "base/fs.h"
#include "wire/files.h"

TEST(a_run_from_request_to_result)
{
	int program[3];
	char text[16] = "";
	uint64_t run;

	fixture_open();
	CHECK(fixture_submit(7, "input", false) == 0);
	run = fixture_hear(MSG_RUN);
	CHECK(jobs_running(f.jobs) == 1);
	fixture_start(run, program);
	CHECK(write(program[1], "out\n", 4) == 4 && write(program[2], "err\n", 4) == 4);
	fixture_turn();
	CHECK(read(program[0], text, sizeof(text)) == 5 && strcmp(text, "input") == 0);
	CHECK(read(program[0], text, sizeof(text)) == 0);
	fixture_close_program(program);
	fixture_end(run,
		    (struct outcome){.verdict = VERDICT_NONZERO_EXIT, .exit_code = 3});
	UNTIL(f.done == 1);
	CHECK(f.who == 7 && f.exit_code == 3 && !f.message[0]);
	CHECK(strcmp(f.out.bytes, "out\n") == 0 && strcmp(f.errors.bytes, "err\n") == 0);
	CHECK(jobs_idle(f.jobs) && f.pieces == 0 && f.started == 0);
	fixture_close();
}

TEST(verdicts_become_exit_codes_and_last_lines)
{
	static const struct {
		struct outcome o;
		int exit_code;
		const char *message, *line;
	} rows[] = {
		{{.verdict = VERDICT_OK}, 0, "", "x"},
		{{.verdict = VERDICT_TIMEOUT, .signal = 9},
		 -1,
		 "execution timed out after 30 seconds",
		 "x\nexecution timed out after 30 seconds\n"},
		{{.verdict = VERDICT_CPU_TIMEOUT, .signal = 9},
		 137,
		 "CPU limit of 30 s exceeded",
		 "x\nCPU limit of 30 s exceeded\n"},
		{{.verdict = VERDICT_OUT_OF_MEMORY, .exit_code = 1},
		 137,
		 "memory limit of 512 MB exceeded",
		 "x\nmemory limit of 512 MB exceeded\n"},
		{{.verdict = VERDICT_SIGNAL, .signal = 11},
		 139,
		 "killed by signal 11 (SIGSEGV)",
		 "x\nkilled by signal 11 (SIGSEGV)\n"},
		{{.verdict = VERDICT_SIGNAL, .signal = 40},
		 168,
		 "killed by signal 40",
		 "x\nkilled by signal 40\n"},
		{{.verdict = VERDICT_DISK_FULL, .exit_code = 2},
		 2,
		 "disk limit of 256 MB reached",
		 "x"},
	};
	int program[3];
	uint64_t run;

	fixture_open();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		CHECK(fixture_submit(i, "", false) == 0);
		run = fixture_hear(MSG_RUN);
		fixture_start(run, program);
		CHECK(write(program[2], "x", 1) == 1);
		fixture_close_program(program);
		fixture_end(run, rows[i].o);
		UNTIL(f.done == i + 1);
		CHECK(f.exit_code == rows[i].exit_code);
		CHECK(strcmp(f.message, rows[i].message) == 0);
		CHECK(strcmp(f.errors.bytes, rows[i].line) == 0);
	}
	fixture_close();
}

TEST(every_failure_of_go_run_is_1)
{
	static const int codes[][2] = {{0, 0}, {1, 1}, {2, 1}, {3, 1}};
	int program[3];
	uint64_t run;

	fixture_settings();
	f.modes.mode[0].id = MODE_GOLANG;
	fixture_open();
	for (unsigned i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		CHECK(fixture_submit(i, "", false) == 0);
		run = fixture_hear(MSG_RUN);
		fixture_start(run, program);
		fixture_close_program(program);
		fixture_end(run, (struct outcome){.verdict = i ? VERDICT_NONZERO_EXIT
							       : VERDICT_OK,
						  .exit_code = codes[i][0]});
		UNTIL(f.done == i + 1);
		CHECK(f.exit_code == codes[i][1]);
	}
	fixture_close();
}

TEST(above_capacity_is_busy_and_says_the_numbers)
{
	fixture_settings();
	f.settings.max_concurrent = 3;
	fixture_open();
	for (uint64_t i = 1; i <= 3; i++)
		CHECK(fixture_submit(i, "", false) == 0);
	CHECK(jobs_running(f.jobs) == 3);
	CHECK(fixture_submit(4, "", false) == -1);
	CHECK(f.err.kind == ERR_BUSY && err_status(&f.err) == 429);
	CHECK(strcmp(f.err.text, "at capacity (4/3 concurrent executions)") == 0);
	CHECK(jobs_may_admit(f.jobs, &f.err) == -1);
	fixture_close();
}

TEST(queued_ones_start_in_order_when_a_place_is_free)
{
	uint64_t run;

	fixture_settings();
	f.settings.max_concurrent = 1;
	f.settings.queue = 2;
	fixture_open();
	for (uint64_t i = 1; i <= 3; i++)
		CHECK(fixture_submit(i, "", false) == 0);
	CHECK(fixture_submit(4, "", false) == -1);
	CHECK(strcmp(f.err.text, "at capacity (4/1 concurrent executions)") == 0);
	CHECK(jobs_running(f.jobs) == 1);
	for (uint64_t i = 1; i <= 3; i++) {
		run = fixture_hear(MSG_RUN);
		CHECK(run == i && fixture_silent());
		fixture_end(run, (struct outcome){.verdict = VERDICT_OK});
		UNTIL(f.done == i);
		CHECK(f.who == i);
	}
	CHECK(jobs_idle(f.jobs));
	fixture_close();
}

TEST(a_cancelled_run_is_killed_and_holds_its_place_until_it_is_dead)
{
	int program[3];
	uint64_t run;

	fixture_settings();
	f.settings.max_concurrent = 1;
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0);
	run = fixture_hear(MSG_RUN);
	fixture_start(run, program);
	fixture_turn();
	jobs_cancel(f.jobs, 1);
	CHECK(fixture_hear(MSG_KILL) == run);
	CHECK(write(program[1], "x", 1) == -1 && errno == EPIPE);
	CHECK(jobs_running(f.jobs) == 1 && fixture_submit(2, "", false) == -1);
	fixture_end(run, (struct outcome){.verdict = VERDICT_SIGNAL, .signal = 9});
	UNTIL(jobs_idle(f.jobs));
	CHECK(f.done == 0 && f.failed == 0);
	CHECK(fixture_submit(2, "", false) == 0);
	fixture_close_program(program);
	fixture_close();
}

TEST(a_cancelled_queued_run_is_never_sent)
{
	fixture_settings();
	f.settings.max_concurrent = 1;
	f.settings.queue = 1;
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0 && fixture_submit(2, "", false) == 0);
	jobs_cancel(f.jobs, 2);
	fixture_end(fixture_hear(MSG_RUN), (struct outcome){.verdict = VERDICT_OK});
	UNTIL(f.done == 1);
	CHECK(jobs_idle(f.jobs) && fixture_silent());
	fixture_close();
}

TEST(a_job_may_be_cancelled_from_its_own_callback)
{
	int program[3];
	uint64_t run;

	fixture_open();
	f.cancel_on_output = true;
	CHECK(fixture_submit(1, "", true) == 0);
	run = fixture_hear(MSG_RUN);
	fixture_start(run, program);
	CHECK(write(program[1], "hello", 5) == 5);
	UNTIL(f.pieces == 1);
	CHECK(fixture_hear(MSG_KILL) == run);
	fixture_end(run, (struct outcome){.verdict = VERDICT_SIGNAL, .signal = 9});
	UNTIL(jobs_idle(f.jobs));
	CHECK(f.done == 0);
	/* and at the very end, when only the last line is still to be given */
	CHECK(fixture_submit(2, "", true) == 0);
	run = fixture_hear(MSG_RUN);
	fixture_end(run, (struct outcome){.verdict = VERDICT_TIMEOUT, .signal = 9});
	UNTIL(jobs_idle(f.jobs));
	CHECK(f.done == 0 && f.pieces == 2);
	fixture_close_program(program);
	fixture_close();
}

TEST(a_lost_launcher_fails_what_is_in_flight_and_a_new_one_serves)
{
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0 && fixture_submit(2, "", false) == 0);
	close(f.peer_fd);
	UNTIL(f.failed == 2);
	CHECK(strcmp(f.err.code, "launcher_lost") == 0 && err_status(&f.err) == 500);
	CHECK(!jobs_ready(f.jobs) && jobs_report(f.jobs));
	CHECK(fixture_submit(3, "", false) == -1 && err_status(&f.err) == 503);
	jobs_new_launcher(f.jobs, fixture_pair());
	CHECK(!jobs_ready(f.jobs));
	fixture_report(LEVEL_NAMESPACES);
	UNTIL(jobs_ready(f.jobs));
	CHECK(fixture_submit(3, "", false) == 0);
	fixture_close();
}

TEST(a_launcher_that_talks_nonsense_is_lost)
{
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0);
	CHECK(send(f.peer_fd, "hello", 5, 0) == 5);
	UNTIL(f.failed == 1);
	CHECK(strcmp(f.err.code, "launcher_lost") == 0);
	fixture_close();
}

TEST(news_that_fit_no_run_change_nothing)
{
	fixture_open();
	fixture_end(99, (struct outcome){.verdict = VERDICT_OK});
	fixture_report(LEVEL_NAMESPACES);
	UNTIL(jobs_report(f.jobs)->level == LEVEL_NAMESPACES);
	CHECK(f.done == 0 && f.failed == 0 && jobs_ready(f.jobs));
	fixture_close();
}

TEST(violations_come_before_the_end_and_only_as_many_as_a_run_can_have)
{
	struct message m = {.type = MSG_VIOLATION};
	int program[3];

	fixture_open();
	CHECK(fixture_submit(7, "", false) == 0);
	m.run = fixture_hear(MSG_RUN);
	fixture_start(m.run, program);
	fixture_close_program(program);
	for (int i = 0; i < VIOLATIONS_MOST + 5; i++) {
		m.violation = (struct violation){.nr = i, .errno_ret = 1, .count = 3};
		fixture_say(&m, NULL);
		if (i % 50 == 0)
			fixture_turn();
	}
	fixture_end(m.run, (struct outcome){.violations = VIOLATIONS_CUT});
	UNTIL(f.done == 1);
	CHECK(f.violation_count == VIOLATIONS_MOST);
	CHECK(f.violations_known == VIOLATIONS_CUT);
	CHECK(f.last_violation.nr == VIOLATIONS_MOST - 1 && f.last_violation.count == 3);
	m.run = 99; /* nobody's */
	fixture_say(&m, NULL);
	fixture_turn();
	CHECK(jobs_ready(f.jobs));
	fixture_close();
}

TEST(failures_have_the_status_of_their_kind)
{
	static const struct {
		struct failure failure;
		int status;
		const char *code, *text;
	} rows[] = {
		{{.step = "proc", .num = 1},
		 500,
		 "sandbox_setup_failed",
		 "sandbox step \"proc\" failed"},
		{{.busy = 1}, 429, "at_capacity", NULL},
		{{.lost_layer = 1}, 503, "isolation_lost", NULL},
	};

	fixture_open();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct message m = {.type = MSG_FAILED};

		CHECK(fixture_submit(i, "", false) == 0);
		m.run = fixture_hear(MSG_RUN);
		m.failure = rows[i].failure;
		fixture_say(&m, NULL);
		UNTIL(f.failed == i + 1);
		CHECK(err_status(&f.err) == rows[i].status);
		CHECK(strcmp(f.err.code, rows[i].code) == 0);
		CHECK(!rows[i].text || strcmp(f.err.text, rows[i].text) == 0);
	}
	fixture_close();
}

TEST(isolation_below_the_minimum_admits_nothing)
{
	fixture_settings();
	f.settings.max_concurrent = 1;
	f.settings.queue = 1;
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0 && fixture_submit(2, "", false) == 0);
	fixture_report(LEVEL_LANDLOCK);
	UNTIL(f.failed == 1); /* the queued one */
	CHECK(f.who == 2 && strcmp(f.err.code, "isolation_lost") == 0);
	CHECK(!jobs_ready(f.jobs) && fixture_submit(3, "", false) == -1);
	CHECK(err_status(&f.err) == 503 && strcmp(f.err.code, "isolation_lost") == 0);
	fixture_close();
}

TEST(draining_lets_running_ones_end_and_refuses_the_rest)
{
	fixture_settings();
	f.settings.max_concurrent = 1;
	f.settings.queue = 1;
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0 && fixture_submit(2, "", false) == 0);
	jobs_drain(f.jobs);
	CHECK(f.failed == 1 && f.who == 2 && strcmp(f.err.code, "draining") == 0);
	CHECK(!jobs_ready(f.jobs) && !jobs_idle(f.jobs));
	CHECK(fixture_submit(3, "", false) == -1 && err_status(&f.err) == 503);
	fixture_end(fixture_hear(MSG_RUN), (struct outcome){.verdict = VERDICT_OK});
	UNTIL(f.done == 1 && jobs_idle(f.jobs));
	fixture_close();
}

TEST(kill_all_kills_what_runs)
{
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0 && fixture_submit(2, "", false) == 0);
	CHECK(fixture_hear(MSG_RUN) == 1 && fixture_hear(MSG_RUN) == 2);
	jobs_kill_all(f.jobs);
	CHECK(fixture_hear(MSG_KILL) == 1 && fixture_hear(MSG_KILL) == 2);
	fixture_close();
}

TEST(what_the_end_has_killed_is_answered_as_far_as_it_came)
{
	struct message failed = {.type = MSG_FAILED, .run = 2};
	int program[3];

	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0 && fixture_submit(2, "", false) == 0);
	fixture_start(fixture_hear(MSG_RUN), program);
	CHECK(fixture_hear(MSG_RUN) == 2);
	CHECK(write(program[1], "begun", 5) == 5);
	jobs_kill_all(f.jobs);
	fixture_close_program(program);
	fixture_end(fixture_hear(MSG_KILL),
		    (struct outcome){.verdict = VERDICT_SIGNAL, .signal = SIGKILL});
	UNTIL(f.done == 1);
	CHECK(f.who == 1 && f.exit_code == 137 && strcmp(f.out.bytes, "begun") == 0);
	CHECK(strcmp(f.message, "killed by signal 9 (SIGKILL): "
				"the server is shutting down") == 0);
	/* it had not begun */
	CHECK(fixture_hear(MSG_KILL) == 2);
	snprintf(failed.failure.step, sizeof(failed.failure.step), "killed");
	failed.failure.num = ECANCELED;
	fixture_say(&failed, NULL);
	UNTIL(f.failed == 1);
	CHECK(f.who == 2 && err_status(&f.err) == 503);
	CHECK(strcmp(f.err.code, "draining") == 0 && jobs_idle(f.jobs));
	fixture_close();
}

TEST(what_ends_by_another_signal_meanwhile_is_told_as_it_was)
{
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0 && fixture_hear(MSG_RUN) == 1);
	jobs_kill_all(f.jobs);
	fixture_end(fixture_hear(MSG_KILL),
		    (struct outcome){.verdict = VERDICT_SIGNAL, .signal = SIGSEGV});
	UNTIL(f.done == 1);
	CHECK(strcmp(f.message, "killed by signal 11 (SIGSEGV)") == 0);
	fixture_close();
}

TEST(fail_all_leaves_nobody_waiting)
{
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0 && fixture_submit(2, "", false) == 0);
	CHECK(fixture_hear(MSG_RUN) == 1 && fixture_hear(MSG_RUN) == 2);
	jobs_kill_all(f.jobs);
	CHECK(f.failed == 0);
	jobs_fail_all(f.jobs);
	CHECK(f.failed == 2 && err_status(&f.err) == 503);
	CHECK(strcmp(f.err.code, "draining") == 0 && jobs_idle(f.jobs));
	fixture_close();
}

TEST(a_full_socket_delays_and_loses_nothing)
{
	unsigned heard = 0;
	struct message m;
	int fds[MESSAGE_FDS];

	fixture_settings();
	f.settings.max_concurrent = 200;
	fixture_open();
	for (uint64_t i = 1; i <= 200; i++)
		CHECK(fixture_submit(i, "", false) == 0);
	CHECK(jobs_running(f.jobs) < 200); /* a socket takes about twenty messages */
	while (heard < 200) {
		fixture_turn();
		while (message_receive(f.peer_fd, &m, fds) == 1) {
			CHECK(m.type == MSG_RUN && m.run == ++heard);
			close(fds[0]);
		}
	}
	CHECK(jobs_running(f.jobs) == 200);
	fixture_close();
}

static int files_memfd(void)
{
	char bytes[256] = {0};
	size_t at = 0;
	static const struct {
		enum files_kind kind;
		const char *name, *data;
	} rows[] = {{FILES_FILE, "r.csv", "a,b\n"}, {FILES_SKIPPED, "fifo", "symlink"}};

	for (int i = 0; i < 2; i++) {
		struct files_head head = {.kind = rows[i].kind,
					  .name_len = (uint32_t)strlen(rows[i].name),
					  .data_len = strlen(rows[i].data)};

		memcpy(bytes + at, &head, sizeof(head));
		at += sizeof(head);
		memcpy(bytes + at, rows[i].name, head.name_len);
		at += head.name_len;
		memcpy(bytes + at, rows[i].data, head.data_len);
		at = (at + head.data_len + FILES_ALIGN - 1) / FILES_ALIGN * FILES_ALIGN;
	}
	return fs_sealed("files", bytes, at);
}

TEST(collected_files_reach_the_result)
{
	struct message m = {.type = MSG_DONE, .fds = 1};
	int fd = files_memfd();

	CHECK(fd >= 0);
	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0);
	m.run = fixture_hear(MSG_RUN);
	m.outcome.files = 1;
	fixture_say(&m, &fd);
	close(fd);
	UNTIL(f.done == 1);
	CHECK(f.file_count == 1 && f.skipped_count == 1);
	CHECK(strcmp(f.file_name, "r.csv") == 0 && strcmp(f.file_bytes, "a,b\n") == 0);
	fixture_close();
}

TEST(files_that_make_no_sense_cost_the_files_only)
{
	struct message m = {.type = MSG_DONE, .fds = 1};
	int fd = fs_sealed("files", "nonsense nonsense nonsense nonsense", 35);

	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0);
	m.run = fixture_hear(MSG_RUN);
	m.outcome.files = 1;
	fixture_say(&m, &fd);
	close(fd);
	UNTIL(f.done == 1);
	CHECK(f.file_count == 0 && f.exit_code == 0);
	CHECK(f.skipped_count == 1 && !strcmp(f.skipped_reason, "collector_failed"));
	fixture_close();
}

TEST(files_that_could_not_be_collected_are_missed_aloud)
{
	struct message m = {.type = MSG_DONE, .outcome.files = OUTCOME_FILES_LOST};

	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0);
	m.run = fixture_hear(MSG_RUN);
	fixture_say(&m, NULL);
	UNTIL(f.done == 1);
	CHECK(f.file_count == 0 && f.skipped_count == 1);
	CHECK(!strcmp(f.skipped_reason, "collector_failed"));
	fixture_close();
}
