/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_capture.c - the cap to the byte, characters, live output, slow readers
 */
#include "job_fixture.h"

#include "job/jobs.h"

#define MARKER "\n... (output truncated)"
#define EURO "\xe2\x82\xac"

static struct capture c;

static void fill(char byte, size_t len)
{
	char chunk[1000];

	memset(chunk, byte, sizeof(chunk));
	for (; len > sizeof(chunk); len -= sizeof(chunk))
		capture_add(&c, chunk, sizeof(chunk));
	capture_add(&c, chunk, len);
}

static bool ends_with(const struct buf *b, const char *tail)
{
	size_t n = strlen(tail);

	return b->len >= n && memcmp(b->bytes + b->len - n, tail, n) == 0;
}

TEST(exactly_the_cap_is_untouched)
{
	capture_init(&c, 10);
	fill('x', 10240);
	CHECK(!c.truncated && c.kept.len == 10240 && c.kept.bytes[10239] == 'x');
	capture_done(&c);
}

TEST(one_byte_more_is_cut_with_the_marker)
{
	capture_init(&c, 10);
	fill('x', 10241);
	CHECK(c.truncated && c.seen_bytes == 10241);
	CHECK(c.kept.len == 10240 - 32 + strlen(MARKER));
	CHECK(ends_with(&c.kept, "x" MARKER));
	fill('y', 1000000);
	CHECK(c.kept.len == 10240 - 32 + strlen(MARKER) && c.seen_bytes == 1010241);
	capture_done(&c);
}

TEST(no_character_is_split)
{
	for (size_t shift = 0; shift < 4; shift++) {
		capture_init(&c, 1);
		fill('x', shift);
		for (int i = 0; i < 400; i++)
			capture_add(&c, EURO, 3);
		CHECK(c.truncated && ends_with(&c.kept, EURO MARKER));
		CHECK(c.kept.len - strlen(MARKER) <= 1024 - 32);
		CHECK(c.kept.len - strlen(MARKER) > 1024 - 32 - 3);
		capture_done(&c);
	}
}

TEST(memory_stays_at_the_cap)
{
	capture_init(&c, 10);
	fill('x', 100 << 20);
	CHECK(c.kept.room <= 10240 + 512);
	capture_done(&c);
}

TEST(the_last_line_stands_alone_and_survives_the_cut)
{
	capture_init(&c, 1);
	fill('x', 5000);
	capture_last_line(&c, "killed");
	CHECK(ends_with(&c.kept, MARKER "\nkilled\n"));
	capture_done(&c);
	capture_init(&c, 1);
	capture_last_line(&c, "killed");
	CHECK(c.kept.len == 7);
	capture_done(&c);
	capture_init(&c, 1);
	capture_add(&c, "a\n", 2);
	capture_last_line(&c, "killed");
	CHECK(ends_with(&c.kept, "a\nkilled\n") && c.kept.len == 9);
	capture_done(&c);
}

TEST(half_a_character_is_not_settled)
{
	capture_init(&c, 1);
	CHECK(capture_settled(&c) == 0);
	capture_add(&c, "ab\xe2\x82", 4);
	CHECK(capture_settled(&c) == 2);
	capture_add(&c, "\xac", 1);
	CHECK(capture_settled(&c) == 5);
	capture_add(&c, "\xf0\x9f\x98", 3);
	CHECK(capture_settled(&c) == 5);
	capture_add(&c, "\xff", 1); /* it was none */
	CHECK(capture_settled(&c) == 9);
	capture_add(&c, "\x80\x80\x80\x80", 4);
	CHECK(capture_settled(&c) == 13);
	capture_done(&c);
}

/* one live run that writes `text` n times and ends; the joined pieces are the result */
static void live_run(const char *text, unsigned n, struct outcome o)
{
	int program[3];
	uint64_t run;

	fixture_open();
	CHECK(fixture_submit(1, "", true) == 0);
	run = fixture_hear(MSG_RUN);
	fixture_start(run, program);
	for (unsigned i = 0; i < n; i++) {
		CHECK(write(program[1], text, strlen(text)) == (ssize_t)strlen(text));
		CHECK(write(program[2], text, strlen(text)) == (ssize_t)strlen(text));
		if (i % 64 == 0)
			fixture_turn();
	}
	fixture_close_program(program);
	fixture_end(run, o);
	UNTIL(f.done == 1);
	CHECK(f.started == 1);
	CHECK(f.out.len == f.live[0].len && f.errors.len == f.live[1].len);
	CHECK(memcmp(f.out.bytes, f.live[0].bytes, f.out.len) == 0);
	CHECK(memcmp(f.errors.bytes, f.live[1].bytes, f.errors.len) == 0);
}

TEST(live_pieces_joined_are_the_result)
{
	live_run(EURO "ab", 300, (struct outcome){.verdict = VERDICT_OK});
	CHECK(!f.truncated && f.out.len == 1500 && f.pieces > 2);
	fixture_close();
}

TEST(live_pieces_stop_at_the_cap_with_marker_and_last_line)
{
	live_run(EURO "a", 5000,
		 (struct outcome){.verdict = VERDICT_TIMEOUT, .signal = 9});
	CHECK(f.truncated && ends_with(&f.out, MARKER));
	CHECK(ends_with(&f.errors, MARKER "\nexecution timed out after 30 seconds\n"));
	fixture_close();
}

TEST(live_output_at_exactly_the_cap_is_whole)
{
	live_run("0123456789abcdef", 640, (struct outcome){.verdict = VERDICT_OK});
	CHECK(!f.truncated && f.out.len == 10240);
	fixture_close();
}

TEST(a_flood_does_not_hold_the_loop)
{
	static char block[65536];
	int program[3];
	uint64_t run, start;

	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0);
	run = fixture_hear(MSG_RUN);
	fixture_start(run, program);
	start = loop_now_ns();
	if (fork() == 0) {
		while (write(program[1], block, sizeof(block)) > 0)
			;
		_exit(0);
	}
	/* the turn's own timer is served although the pipe is never empty */
	for (int i = 0; i < 50; i++)
		fixture_turn();
	CHECK(loop_now_ns() - start < 3000000000u);
	jobs_cancel(f.jobs, 1);
	fixture_close_program(program);
	fixture_close();
}

TEST(a_paused_job_is_not_read_until_it_goes_on_or_ends)
{
	int program[3];
	uint64_t run;

	fixture_open();
	CHECK(fixture_submit(1, "", true) == 0);
	run = fixture_hear(MSG_RUN);
	fixture_start(run, program);
	UNTIL(fcntl(program[1], F_GETFD) >= 0 && jobs_running(f.jobs) == 1);
	fixture_turn();
	jobs_pause(f.jobs, 1, true);
	CHECK(write(program[1], "hello", 5) == 5);
	for (int i = 0; i < 5; i++)
		fixture_turn();
	CHECK(f.pieces == 0);
	jobs_pause(f.jobs, 1, false);
	UNTIL(f.pieces == 1);
	jobs_pause(f.jobs, 1, true);
	CHECK(write(program[1], "again", 5) == 5);
	fixture_close_program(program);
	fixture_end(run, (struct outcome){.verdict = VERDICT_OK});
	UNTIL(f.done == 1);
	CHECK(strcmp(f.out.bytes, "helloagain") == 0);
	fixture_close();
}

TEST(a_pipe_that_stays_open_delays_the_answer_by_the_grace_only)
{
	int program[3];
	uint64_t run, start;

	fixture_open();
	CHECK(fixture_submit(1, "", false) == 0);
	run = fixture_hear(MSG_RUN);
	fixture_start(run, program);
	CHECK(write(program[1], "x", 1) == 1);
	fixture_end(run, (struct outcome){.verdict = VERDICT_OK});
	start = loop_now_ns();
	UNTIL(f.done == 1);
	CHECK(loop_now_ns() - start < 1000000000u && strcmp(f.out.bytes, "x") == 0);
	fixture_close_program(program);
	fixture_close();
}

TEST(a_large_stdin_is_fed_as_it_is_read)
{
	size_t len = 1000000, got = 0;
	char *text = mem_zero(len + 1), chunk[4096];
	int program[3];
	uint64_t run;
	ssize_t n;

	memset(text, 'i', len);
	fixture_open();
	CHECK(fixture_submit(1, text, false) == 0);
	run = fixture_hear(MSG_RUN);
	fixture_start(run, program);
	CHECK(fcntl(program[0], F_SETFL, O_NONBLOCK) == 0);
	fixture_turn(); /* the streams arrive */
	while ((n = read(program[0], chunk, sizeof(chunk))) != 0) {
		if (n > 0)
			got += (size_t)n;
		else
			fixture_turn();
	}
	CHECK(got == len);
	fixture_close_program(program);
	fixture_close();
	free(text);
}

TEST(a_program_that_does_not_read_stdin_is_no_error)
{
	char *text = mem_zero(500001);
	int program[3];
	uint64_t run;

	memset(text, 'i', 500000);
	fixture_open();
	CHECK(fixture_submit(1, text, false) == 0);
	run = fixture_hear(MSG_RUN);
	fixture_start(run, program);
	fixture_turn();
	fixture_close_program(program);
	fixture_turn();
	fixture_end(run, (struct outcome){.verdict = VERDICT_OK});
	UNTIL(f.done == 1);
	fixture_close();
	free(text);
}
