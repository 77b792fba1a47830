/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_tap.c - the test tool itself: a failure must be seen as one
 *
 * Each case runs this program again with TAP_SAMPLE set, in which the sample_* tests do
 * what their names say; without it they only pass.
 */
#define TAP_SECONDS (getenv("TAP_SAMPLE") ? 1 : 10)
#include <fcntl.h>

#include "../tap.h"

static int sampling(void)
{
	return getenv("TAP_SAMPLE") != NULL;
}

TEST(sample_false)
{
	CHECK(!sampling());
}

TEST(sample_crash)
{
	if (sampling())
		abort();
}

TEST(sample_hang)
{
	while (sampling())
		pause();
}

TEST(sample_skip)
{
	if (sampling())
		SKIP("as told");
}

TEST(sample_exit)
{
	if (sampling())
		exit(3);
}

TEST(sample_noise)
{
	if (sampling())
		printf("not ok 7 - this is not TAP\n");
}

/* run one sample; its TAP into text, its exit status back */
static int sample(const char *name, const char *must_run, char *text, size_t size)
{
	int status = -1, ends[2];
	size_t len = 0;
	ssize_t got;
	pid_t pid;

	CHECK(pipe(ends) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		setenv("TAP_SAMPLE", "1", 1);
		unsetenv("TESTS_SLOW");
		setenv("TESTS_MUST_RUN", must_run, 1);
		dup2(ends[1], 1);
		close(ends[0]);
		close(ends[1]);
		dup2(open("/dev/null", O_WRONLY), 2);
		execl("/proc/self/exe", "test_tap", name, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	while ((got = read(ends[0], text + len, size - 1 - len)) > 0)
		len += (size_t)got;
	text[len] = 0;
	close(ends[0]);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void expect(const char *name, const char *must_run, int status, const char *tap)
{
	char text[512];

	CHECK(sample(name, must_run, text, sizeof(text)) == status);
	CHECK(strcmp(text, tap) == 0);
}

TEST(a_condition_that_does_not_hold_fails)
{
	expect("sample_false", "0", 1, "not ok 1 - sample_false\n1..1\n");
}

TEST(a_crash_fails)
{
	expect("sample_crash", "0", 1, "not ok 1 - sample_crash\n1..1\n");
}

TEST(a_test_that_hangs_is_ended_and_fails)
{
	expect("sample_hang", "0", 1, "not ok 1 - sample_hang\n1..1\n");
}

TEST(leaving_early_with_a_status_fails)
{
	expect("sample_exit", "0", 1, "not ok 1 - sample_exit\n1..1\n");
}

TEST(a_skip_is_told_with_its_reason)
{
	expect("sample_skip", "0", 0, "ok 1 - sample_skip # SKIP as told\n1..1\n");
}

TEST(a_skip_fails_where_tests_must_run)
{
	expect("sample_skip", "1", 1,
	       "not ok 1 - sample_skip - must run: as told\n1..1\n");
}

TEST(what_a_test_prints_is_not_taken_for_tap)
{
	expect("sample_noise", "0", 0, "ok 1 - sample_noise\n1..1\n");
}

TEST(no_matching_test_fails)
{
	expect("sample_of_nothing", "0", 1, "1..0\n");
}
