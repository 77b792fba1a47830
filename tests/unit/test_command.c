/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_command.c - asking a program something
 */
#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include "base/buf.h"
#include "config/command.h"
#include "tap.h"

static struct buf out;

static int run(const char *script, const char *const *extra, unsigned deadline_ms)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	int rc, saved;

	buf_init(&out, 1 << 16);
	rc = command_run(argv, extra, deadline_ms, &out);
	saved = errno;
	CHECK(buf_text(&out) == 0);
	errno = saved;
	return rc;
}

static bool said(const char *text)
{
	bool same = strcmp(out.bytes, text) == 0;

	buf_done(&out);
	return same;
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* gone, or dead and not yet reaped by whoever is init here */
static bool is_dead(pid_t pid)
{
	char path[64], state[512] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return true;
	if (!fgets(state, sizeof(state), f))
		state[0] = 0;
	fclose(f);
	return !state[0] || strstr(state, ") Z ") || strstr(state, ") X ");
}

TEST(what_it_prints_is_read)
{
	CHECK(run("echo one; echo two", NULL, 5000) == 0);
	CHECK(said("one\ntwo\n"));
}

TEST(it_has_no_input_and_its_complaints_go_nowhere)
{
	CHECK(run("cat; echo complaint >&2; echo end", NULL, 5000) == 0);
	CHECK(said("end\n"));
}

TEST(extra_variables_come_before_ours)
{
	static const char *const extra[] = {"FIRST=extra", NULL};

	setenv("FIRST", "ours", 1);
	setenv("SECOND", "ours", 1);
	CHECK(run("echo $FIRST $SECOND; env | grep -c ^FIRST=", extra, 5000) == 0);
	CHECK(said("extra ours\n1\n"));
}

TEST(a_bad_end_is_an_error)
{
	CHECK(run("echo x; exit 3", NULL, 5000) == -1 && errno == EIO);
	CHECK(said("x\n"));
	CHECK(run("kill -9 $$", NULL, 5000) == -1 && errno == EIO);
	CHECK(said(""));
}

TEST(what_cannot_be_run_is_an_error)
{
	const char *const argv[] = {"/nowhere/program", NULL};

	buf_init(&out, 100);
	CHECK(command_run(argv, NULL, 5000, &out) == -1);
	buf_done(&out);
}

TEST(it_is_not_waited_for_beyond_its_time_and_no_child_lives_on)
{
	long began = now_ms();
	pid_t child;

	CHECK(run("sleep 1000 & echo $!; trap '' TERM; wait", NULL, 500) == -1);
	CHECK(errno == ETIMEDOUT);
	CHECK(now_ms() - began >= 500 && now_ms() - began < 3000);
	child = (pid_t)strtol(out.bytes, NULL, 10);
	CHECK(child > 1);
	while (!is_dead(child))
		usleep(1000); /* the test's own deadline ends this */
	buf_done(&out);
}

TEST(a_grandchild_that_keeps_the_pipe_open_is_not_waited_for)
{
	long began = now_ms();
	pid_t child;

	CHECK(run("sleep 1000 & echo $!", NULL, 8000) == 0);
	CHECK(now_ms() - began < 5000);
	child = (pid_t)strtol(out.bytes, NULL, 10);
	while (!is_dead(child))
		usleep(1000);
	buf_done(&out);
}

TEST(too_much_output_is_an_error)
{
	CHECK(run("while :; do echo 0123456789012345678901234567890; done", NULL, 8000) ==
	      -1);
	CHECK(errno == ENOSPC);
	CHECK(out.len <= 1 << 16);
	buf_done(&out);
}
