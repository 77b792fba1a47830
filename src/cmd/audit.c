/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * audit.c - is an audit file what the server wrote
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chain.h"
#include "base/defer.h"
#include "base/err.h"
#include "cmd/cmd.h"

static const char usage[] =
	"usage: sandbox-server audit verify [--head HASH] FILE...\n\n"
	"Checks that every line of an audit file is as it was written and follows the\n"
	"one before it, over several files, oldest first, and names the first that does\n"
	"not. --head: a line with this hash, as audit.head in the log has it, must be\n"
	"there.\n";

#define TORN_NAME ",\"torn\":\""

struct verify {
	const char *file;
	unsigned long number; /* of the line in its file */
	struct chain last;
	bool any;
	uint64_t first, lines;
	bool torn; /* the line before is not whole */
	struct err torn_why;
	char torn_hash[CHAIN_HEX];
	const char *head; /* NULL, or what must be there */
	bool head_seen;
};

static int follows(struct verify *v, const struct chain *c, const char *prev,
		   struct err *e)
{
	if (!v->any)
		return 0;
	if (strcmp(prev, v->last.hash) != 0)
		return err_bad(e, "it does not follow the line before: one was removed, "
				  "added or moved");
	if (c->line != v->last.line + 1)
		return err_bad(e, "it has the number %llu behind %llu",
			       (unsigned long long)c->line,
			       (unsigned long long)v->last.line);
	return 0;
}

/* a start says of the line before that it is not whole, and which it was; quotes in a
 * string have a backslash, so that a value cannot look like this */
static int explained(struct verify *v, const char *line, struct err *e)
{
	const char *note = strstr(line, TORN_NAME);

	if (!v->torn && !note)
		return 0;
	if (!v->torn)
		return err_bad(e, "it names a torn line before it, which was removed");
	if (!note ||
	    strncmp(note + strlen(TORN_NAME), v->torn_hash, CHAIN_HEX - 1) != 0) {
		v->number--;
		*e = v->torn_why;
		return -1;
	}
	v->torn = false;
	printf("%s: line %lu: is not whole: a crash cut it, which the next one says\n",
	       v->file, v->number - 1);
	return 0;
}

/* one that was cut has no end, or has that of an object in it; a second in a row is one
 * too many */
static int keep_torn(struct verify *v, const char *line, size_t len, struct err *e)
{
	if (v->torn) {
		v->number--;
		*e = v->torn_why;
		return -1;
	}
	v->torn = true;
	v->torn_why = *e;
	if (!len || line[len - 1] != '}')
		(void)err_bad(&v->torn_why, "it was changed, or is not whole");
	chain_hash(line, len, v->torn_hash);
	return 0;
}

static int verify_line(struct verify *v, char *line, size_t len, struct err *e)
{
	char prev[CHAIN_HEX];
	struct chain c;

	v->number++;
	if (len && line[len - 1] == '\n')
		line[--len] = '\0';
	if (strlen(line) != len)
		return err_bad(e, "this is no line of an audit file");
	if (chain_read(line, len, &c, prev, e) < 0)
		return keep_torn(v, line, len, e);
	if (explained(v, line, e) < 0 || follows(v, &c, prev, e) < 0)
		return -1;
	if (!v->any)
		v->first = c.line;
	v->any = true;
	v->last = c;
	v->lines++;
	v->head_seen = v->head_seen || (v->head && strcmp(v->head, c.hash) == 0);
	return 0;
}

static int verify_file(struct verify *v, const char *path, struct err *e)
{
	FILE *in = fopen(path, "re");
	auto_free char *line = NULL;
	size_t room = 0;
	ssize_t len;
	int rc = 0;

	v->file = path;
	v->number = 0;
	if (!in)
		return err_errno(e, "open");
	while (rc == 0 && (len = getline(&line, &room, in)) > 0)
		rc = verify_line(v, line, (size_t)len, e);
	if (rc == 0 && ferror(in))
		rc = err_errno(e, "read");
	fclose(in);
	if (rc == 0 && v->torn) {
		*e = v->torn_why;
		rc = -1;
	}
	return rc;
}

static int tell(const struct verify *v)
{
	if (!v->any) {
		fprintf(stderr, "sandbox-server: there is no line at all\n");
		return 1;
	}
	if (v->head && !v->head_seen) {
		fprintf(stderr,
			"sandbox-server: no line has the hash %s: lines were "
			"removed, or all were written anew\n",
			v->head);
		return 1;
	}
	printf("%llu lines, %llu to %llu, are as they were written; the last has the "
	       "hash\n%s\n",
	       (unsigned long long)v->lines, (unsigned long long)v->first,
	       (unsigned long long)v->last.line, v->last.hash);
	if (v->first != 1)
		printf("what was before line %llu is not here\n",
		       (unsigned long long)v->first);
	return 0;
}

int cmd_audit(int argc, char **argv)
{
	struct verify v = {0};
	struct err e;
	int i = 1;

	if (argc == 1 && strcmp(argv[0], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	if (argc > 2 && strcmp(argv[1], "--head") == 0) {
		v.head = argv[2];
		i = 3;
	}
	if (argc <= i || strcmp(argv[0], "verify") != 0 || argv[i][0] == '-') {
		fputs(usage, stderr);
		return 2;
	}
	for (; i < argc; i++) {
		if (verify_file(&v, argv[i], &e) == 0)
			continue;
		fprintf(stderr, "sandbox-server: %s: line %lu: %s\n", argv[i], v.number,
			e.text);
		return 1;
	}
	return tell(&v);
}
