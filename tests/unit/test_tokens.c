/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_tokens.c - lines of a token file, and files that are none
 */
#include "config/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"
#include "base/buf.h"
#include "base/err.h"

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct tokens tokens;
static struct err e;

static int parse(const char *text)
{
	return tokens_parse(text, strlen(text), &tokens, &e);
}

static void refuses(const char *text, const char *why)
{
	CHECK(parse(text) == -1);
	if (!strstr(e.text, why))
		fprintf(stderr, "# '%s' does not have '%s'\n", e.text, why);
	CHECK(strstr(e.text, why) != NULL);
}

TEST(names_hashes_and_limits_are_read)
{
	CHECK(parse("# clients\n\n ci\t" A " concurrency=2 rate=100/m\r\nme " B) == 0);
	CHECK(tokens.count == 2);
	CHECK(strcmp(tokens.one[0].name, "ci") == 0 && tokens.one[0].hash[31] == 0xaa);
	CHECK(tokens.one[0].concurrency == 2 && tokens.one[0].rate == 100);
	CHECK(tokens.one[0].rate_ms == 60000);
	CHECK(strcmp(tokens.one[1].name, "me") == 0 && tokens.one[1].hash[0] == 0xbb);
	CHECK(tokens.one[1].concurrency == 0 && tokens.one[1].rate == 0);
	CHECK(tokens.one[0].sessions == 0);
	CHECK(parse("ci " A " sessions=1000\n") == 0 && tokens.one[0].sessions == 1000);
}

TEST(a_name_on_two_lines_has_the_limits_of_the_first)
{
	CHECK(parse("ci " A " rate=5/s sessions=7\nci " B "\n") == 0);
	CHECK(tokens.count == 2 && tokens.one[1].rate == 5);
	CHECK(tokens.one[1].sessions == 7);
	CHECK(tokens.one[1].rate_ms == 1000);
	refuses("ci " A "\nci " B " rate=5/s\n",
		"line 2: the limits of 'ci' stand on its first line");
}

TEST(what_is_wrong_is_named_with_its_line)
{
	refuses("", "it has no token");
	refuses("# nobody\n\n", "it has no token");
	refuses("ci\n", "line 1: a name is followed by sha256: and 64 digits");
	refuses("\nci plain-token\n", "line 2: a name is followed by sha256:");
	refuses("ci sha256:aa\n", "line 1: a name is followed by");
	refuses("ci " A "aa\n", "line 1: a name is followed by");
	refuses("ci sha256:A"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
		"line 1: the digits of a hash are 0-9 and a-f");
	refuses("c/i " A "\n", "line 1: a name has 1 to 64 letters");
	refuses("a " A "\nb " A "\n", "line 2: this hash stands there already");
	refuses("ci " A " speed=3\n",
		"'speed' is neither concurrency=N, sessions=N nor rate=N/s");
	refuses("ci " A " rate\n", "'rate' is neither");
	refuses("ci " A " concurrency=0\n", "concurrency must be a number from 1");
	refuses("ci " A " concurrency=1 concurrency=2\n", "stands there twice");
	refuses("ci " A "\nci " B " sessions=5\n",
		"line 2: the limits of 'ci' stand on its first line");
	refuses("ci " A " sessions=0\n", "sessions must be a number from 1 to 1000");
	refuses("ci " A " sessions=1001\n", "sessions must be a number from 1 to 1000");
	refuses("ci " A " sessions=1 sessions=1\n", "sessions stands there twice");
	refuses("ci " A " rate=5\n", "rate must be as in 10/s, 100/m or 1000/h");
	refuses("ci " A " rate=5/d\n", "rate must be as in");
	refuses("ci " A " rate=0/s\n", "rate must be as in");
	refuses("ci " A " rate=-1/s\n", "rate must be as in");
	refuses("ci " A " rate=1/s rate=1/s\n", "rate stands there twice");
}

TEST(a_nul_and_a_long_line_are_no_line)
{
	static const char nul[] = "ci " A "\0\n";
	char text[1024];

	CHECK(tokens_parse(nul, sizeof(nul) - 1, &tokens, &e) == -1);
	memset(text, '#', sizeof(text));
	CHECK(tokens_parse(text, sizeof(text), &tokens, &e) == -1);
	CHECK(strcmp(e.text, "line 1: this is no line of a token file") == 0);
}

TEST(a_hash_is_that_of_sha256sum)
{
	uint8_t hash[SHA256_BYTES];

	token_hash("abc", 3, hash);
	CHECK(hash[0] == 0xba && hash[1] == 0x78 && hash[31] == 0xad);
}

TEST(two_new_tokens_differ_and_have_256_bits)
{
	char one[TOKEN_TEXT], other[TOKEN_TEXT];

	token_make(one);
	token_make(other);
	CHECK(strlen(one) == 4 + 64 && strncmp(one, "sbx_", 4) == 0);
	CHECK(strspn(one + 4, "0123456789abcdef") == 64);
	CHECK(strcmp(one, other) != 0);
}

TEST(a_file_that_others_may_write_is_refused)
{
	char path[] = "/tmp/test-tokens.XXXXXX";
	int fd = mkstemp(path), is_open = -1;
	struct buf b;

	CHECK(fd >= 0 && write(fd, "x\n", 2) == 2);
	CHECK(fchmod(fd, 0600) == 0);
	CHECK(tokens_read(path, &b, &is_open, &e) == 0);
	CHECK(b.len == 2 && strcmp(b.bytes, "x\n") == 0 && is_open == 0);
	buf_done(&b);
	CHECK(fchmod(fd, 0644) == 0);
	CHECK(tokens_read(path, &b, &is_open, &e) == 0 && is_open == 1);
	buf_done(&b);
	CHECK(fchmod(fd, 0620) == 0);
	CHECK(tokens_read(path, &b, &is_open, &e) == -1);
	CHECK(strstr(e.text, "can be written by others than its owner: chmod go-w"));
	CHECK(fchmod(fd, 0600) == 0 && ftruncate(fd, TOKENS_BYTES + 1) == 0);
	CHECK(tokens_read(path, &b, &is_open, &e) == -1);
	CHECK(strstr(e.text, "is larger than"));
	CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
	CHECK(tokens_read(path, &b, &is_open, &e) == -1);
	CHECK(strstr(e.text, "is not a regular file"));
	CHECK(unlink(path) == 0);
	CHECK(tokens_read(path, &b, &is_open, &e) == -1 && e.num == ENOENT);
	close(fd);
}
