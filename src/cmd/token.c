/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * token.c - make a token for a client, and the line for SANDBOX_TOKEN_FILE
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "config/tokens.h"

static const char usage[] =
	"usage: sandbox-server token new NAME [concurrency=N] [sessions=N]\n"
	"                                [rate=N/s|N/m|N/h]\n\n"
	"Prints a new token, which is told this once, and then its line for the file\n"
	"that SANDBOX_TOKEN_FILE names. SIGHUP makes a server read that file again.\n";

static int make_line(const char *token, char **words, struct buf *out, struct err *e)
{
	auto_free struct tokens *check = mem_zero(sizeof(*check));
	uint8_t hash[SHA256_BYTES];
	struct err why;

	token_hash(token, strlen(token), hash);
	buf_init(out, 4096);
	if (buf_printf(out, "%s sha256:", words[0]) < 0)
		return err_errno(e, "write the line");
	for (size_t i = 0; i < SHA256_BYTES; i++)
		if (buf_printf(out, "%02x", hash[i]) < 0)
			return err_errno(e, "write the line");
	for (char **w = words + 1; *w; w++)
		if (buf_printf(out, " %s", *w) < 0)
			return err_errno(e, "write the line");
	/* as the server will read it */
	if (strpbrk(words[0], " \t\r\n#") ||
	    tokens_parse(out->bytes, out->len, check, &why) < 0)
		return err_bad(e, "%s",
			       token_name_ok(words[0])
				       ? strchr(why.text, ':') + 2
				       : "NAME is 1 to 64 letters, digits, dots, "
					 "underscores and hyphens");
	return buf_text(out);
}

int cmd_token(int argc, char **argv)
{
	char token[TOKEN_TEXT];
	struct buf line;
	struct err e;
	int rc;

	if (argc == 1 && strcmp(argv[0], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	if (argc < 2 || strcmp(argv[0], "new") != 0) {
		fputs(usage, stderr);
		return 2;
	}
	token_make(token);
	rc = make_line(token, argv + 1, &line, &e);
	if (rc < 0) {
		fprintf(stderr, "sandbox-server: %s\n", e.text);
	} else {
		printf("%s\n%s\n", token, line.bytes);
		if (isatty(STDOUT_FILENO))
			fputs("\nThe first line is the token: it is told this once. Add "
			      "the second to the token file.\n",
			      stderr);
		if (fflush(stdout) != 0) {
			perror("sandbox-server: write the token");
			rc = -1;
		}
	}
	explicit_bzero(token, sizeof(token));
	buf_done(&line);
	return rc < 0 ? 1 : 0;
}
