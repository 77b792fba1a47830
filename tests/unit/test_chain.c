/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_chain.c - lines that are chained by hash
 */
#include "base/chain.h"

#include <stdlib.h>

#include "../tap.h"
#include "base/buf.h"
#include "base/err.h"

static struct chain chain;
static struct err e;

/* a sealed line without its newline */
static char *seal(const char *text)
{
	struct buf line;

	buf_init(&line, 4096);
	CHECK(buf_puts(&line, text) == 0 && chain_seal(&chain, &line) == 0);
	CHECK(line.bytes[line.len - 1] == '\n');
	line.bytes[line.len - 1] = '\0';
	return line.bytes;
}

static int read_line(const char *line, struct chain *out, char prev[CHAIN_HEX])
{
	return chain_read(line, strlen(line), out, prev, &e);
}

TEST(a_line_is_read_back_with_its_links)
{
	char prev[CHAIN_HEX], zeros[CHAIN_HEX] = {0};
	struct chain got = {0};
	char *one = seal("{\"a\":1"), *two;

	memset(zeros, '0', CHAIN_HEX - 1);
	CHECK(read_line(one, &got, prev) == 0 && got.line == 1);
	CHECK(strcmp(prev, zeros) == 0 && strcmp(got.hash, chain.hash) == 0);
	two = seal("{\"b\":\"x\"");
	CHECK(strncmp(two, "{\"b\":\"x\",\"line\":2,\"prev\":\"", 26) == 0);
	CHECK(read_line(two, &chain, prev) == 0 && chain.line == 2);
	CHECK(strcmp(prev, got.hash) == 0);
	free(one);
	free(two);
}

TEST(the_hash_is_that_of_what_stands_before_it)
{
	char *one = seal("{\"a\":1"), hash[CHAIN_HEX];

	chain_hash(one, (size_t)(strstr(one, ",\"hash\"") - one), hash);
	CHECK(strcmp(hash, chain.hash) == 0);
	chain_hash("abc", 3, hash);
	CHECK(strncmp(hash, "ba7816bf8f01cfea", 16) == 0);
	free(one);
}

TEST(every_changed_byte_is_found)
{
	char *line = seal("{\"verdict\":\"ok\",\"token\":\"ci\"");
	const size_t len = strlen(line);
	char prev[CHAIN_HEX] = "as before";
	struct chain got = {.line = 7};

	for (size_t i = 0; i < len; i++) {
		line[i] ^= 1;
		CHECK(read_line(line, &got, prev) == -1);
		line[i] ^= 1;
	}
	CHECK(got.line == 7 && strcmp(prev, "as before") == 0);
	for (size_t i = 0; i < len; i++)
		CHECK(chain_read(line, i, &got, prev, &e) == -1);
	CHECK(read_line(line, &got, prev) == 0);
	free(line);
}

TEST(what_is_no_line_is_said_to_be_none)
{
	static const char *const none[] = {"",   "{",     "}",
					   "{}", "hello", "{\"hash\":\"\"}"};
	char prev[CHAIN_HEX];
	struct chain got;

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		CHECK(read_line(none[i], &got, prev) == -1);
		CHECK(strcmp(e.text, "this is no line of an audit file") == 0);
	}
}

TEST(a_line_that_does_not_fit_leaves_the_chain_alone)
{
	const struct chain before = {.line = 3, .hash = "x"};
	struct chain c = before;
	struct buf line;

	buf_init(&line, 40);
	CHECK(buf_puts(&line, "{\"a\":1") == 0);
	CHECK(chain_seal(&c, &line) == -1);
	CHECK(c.line == 3 && strcmp(c.hash, "x") == 0);
	buf_done(&line);
}
