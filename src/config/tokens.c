/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tokens.c - SANDBOX_TOKEN_FILE: who may use this server, and how much
 *
 * Runs in: the supervisor, which may open the file, and the server, which is given the
 * bytes. Both read them with the same eyes.
 */
#include "config/tokens.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/num.h"

#define LIMIT_MOST 1000000
#define HASH_PREFIX "sha256:"
#define LINE_BYTES 512

int token_name_ok(const char *name)
{
	static const char fit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789._-";
	const size_t len = strlen(name);

	return len >= 1 && len < TOKEN_NAME && strspn(name, fit) == len;
}

void token_hash(const char *text, size_t len, uint8_t out[SHA256_BYTES])
{
	struct sha256 h;

	sha256_begin(&h);
	sha256_add(&h, text, len);
	sha256_end(&h, out);
}

void token_make(char out[TOKEN_TEXT])
{
	unsigned char random[32];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		abort(); /* never happens once the kernel's pool is ready */
	memcpy(out, "sbx_", 4);
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(out + 4 + 2 * i, 3, "%02x", random[i]);
	explicit_bzero(random, sizeof(random));
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static int read_hash(const char *word, struct token *t, struct err *e)
{
	const size_t skip = strlen(HASH_PREFIX);

	if (!word || strncmp(word, HASH_PREFIX, skip) != 0 ||
	    strlen(word) != skip + (size_t)2 * SHA256_BYTES)
		return err_bad(e, "a name is followed by sha256: and 64 digits");
	for (size_t i = 0; i < SHA256_BYTES; i++) {
		const int high = hex_digit(word[skip + 2 * i]);
		const int low = hex_digit(word[skip + 2 * i + 1]);

		if (high < 0 || low < 0)
			return err_bad(e, "the digits of a hash are 0-9 and a-f");
		t->hash[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

/* "100/m" */
static int read_rate(char *text, struct token *t, struct err *e)
{
	static const struct {
		const char *name;
		uint32_t ms;
	} units[] = {{"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}};
	char *slash = strchr(text, '/');
	uint64_t n;

	if (slash)
		*slash = '\0';
	for (size_t i = 0; slash && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(slash + 1, units[i].name) != 0 ||
		    num_range(text, 1, LIMIT_MOST, &n) < 0)
			continue;
		t->rate = (uint32_t)n;
		t->rate_ms = units[i].ms;
		return 0;
	}
	return err_bad(e, "rate must be as in 10/s, 100/m or 1000/h");
}

static int read_limit(char *word, struct token *t, struct err *e)
{
	const struct {
		const char *name;
		uint32_t *to;
		int most;
	} numbers[] = {
		{"concurrency", &t->concurrency, LIMIT_MOST},
		{"sessions", &t->sessions, TOKEN_SESSIONS_MOST},
	};
	const size_t count = sizeof(numbers) / sizeof(numbers[0]);
	char *value = strchr(word, '=');
	size_t i = 0;
	uint64_t n;

	if (value)
		*value++ = '\0';
	if (value && strcmp(word, "rate") == 0)
		return t->rate ? err_bad(e, "rate stands there twice")
			       : read_rate(value, t, e);
	while (i < count && strcmp(word, numbers[i].name) != 0)
		i++;
	if (!value || i == count)
		return err_bad(e,
			       "'%.40s' is neither concurrency=N, sessions=N nor "
			       "rate=N/s",
			       word);
	if (*numbers[i].to)
		return err_bad(e, "%s stands there twice", word);
	if (num_range(value, 1, (uint64_t)numbers[i].most, &n) < 0)
		return err_bad(e, "%s must be a number from 1 to %d", word,
			       numbers[i].most);
	*numbers[i].to = (uint32_t)n;
	return 0;
}

/* 1: a token; 0: nothing; -1 and *e */
static int read_line(char *line, struct token *out, struct err *e)
{
	struct token t = {0};
	char *rest = NULL, *word = strtok_r(line, " \t\r", &rest);

	if (!word || word[0] == '#')
		return 0;
	if (!token_name_ok(word))
		return err_bad(e,
			       "a name has 1 to %d letters, digits, dots, "
			       "underscores and hyphens",
			       TOKEN_NAME - 1);
	memcpy(t.name, word, strlen(word));
	if (read_hash(strtok_r(NULL, " \t\r", &rest), &t, e) < 0)
		return -1;
	while ((word = strtok_r(NULL, " \t\r", &rest)))
		if (read_limit(word, &t, e) < 0)
			return -1;
	*out = t;
	return 1;
}

/* of one name there may be several, with the limits of the first */
static int add(struct tokens *all, const struct token *t, struct err *e)
{
	const struct token *first = NULL;

	for (size_t i = 0; i < all->count; i++) {
		const struct token *other = &all->one[i];

		if (memcmp(other->hash, t->hash, SHA256_BYTES) == 0)
			return err_bad(e, "this hash stands there already");
		if (!first && strcmp(other->name, t->name) == 0)
			first = other;
	}
	if (first && (t->concurrency || t->rate || t->sessions))
		return err_bad(e, "the limits of '%s' stand on its first line", t->name);
	if (all->count == TOKENS_MOST)
		return err_bad(e, "more than %d tokens", TOKENS_MOST);
	all->one[all->count] = *t;
	if (first) {
		all->one[all->count].concurrency = first->concurrency;
		all->one[all->count].rate = first->rate;
		all->one[all->count].rate_ms = first->rate_ms;
		all->one[all->count].sessions = first->sessions;
	}
	all->count++;
	return 0;
}

static int parse_line(const char *text, size_t len, struct tokens *all, struct err *e)
{
	char line[LINE_BYTES];
	struct token t;
	int rc;

	if (len >= sizeof(line) || memchr(text, 0, len))
		return err_bad(e, "this is no line of a token file");
	memcpy(line, text, len);
	line[len] = '\0';
	rc = read_line(line, &t, e);
	return rc > 0 ? add(all, &t, e) : rc;
}

int tokens_parse(const char *text, size_t len, struct tokens *out, struct err *e)
{
	struct err why;
	unsigned line = 1;

	out->count = 0;
	for (size_t at = 0; at < len; line++) {
		const char *end = memchr(text + at, '\n', len - at);
		const size_t n = end ? (size_t)(end - text) - at : len - at;

		if (parse_line(text + at, n, out, &why) < 0)
			return err_bad(e, "line %u: %s", line, why.text);
		at += n + 1;
	}
	return out->count ? 0 : err_bad(e, "it has no token");
}

int tokens_read(const char *path, struct buf *out, int *out_open, struct err *e)
{
	/* a fifo would make us wait */
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char chunk[4096];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(e, "open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_bad(e, "'%s' is not a regular file", path);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_bad(e,
			       "'%s' can be written by others than its owner: "
			       "chmod go-w",
			       path);
	buf_init(out, TOKENS_BYTES);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		if (buf_add(out, chunk, (size_t)n) < 0)
			break;
	if (n == 0 && buf_text(out) == 0) {
		*out_open = (st.st_mode & S_IROTH) != 0;
		return 0;
	}
	buf_done(out);
	return n > 0 ? err_bad(e, "'%s' is larger than %d bytes", path, TOKENS_BYTES)
		     : err_errno(e, "read '%s'", path);
}
