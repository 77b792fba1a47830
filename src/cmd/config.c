/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * config.c - the settings in force, and where each comes from
 *
 * Reads what `serve` would with the same arguments, and starts nothing. Exit 0 when all
 * of it can be read.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "cmd/cmd.h"

#define SHOW_CAP (1u << 20)

static const char usage[] =
	"usage: sandbox-server config [SETTINGS] [--json]\n\n"
	"Prints every setting: its value, and whether that is the default or comes from\n"
	"a line of the file, the environment or a flag. Passwords in URLs are hidden.\n"
	"Exit 0: serve could read them; 1: it could not, with the reason.\n";

static int show(const struct settings *s, bool json, struct err *e)
{
	struct buf out;
	int rc = 0;

	buf_init(&out, SHOW_CAP);
	if (settings_show(s, json, &out) < 0 || buf_text(&out) < 0)
		rc = err_errno(e, "show the settings");
	else if (fputs(out.bytes, stdout) == EOF || fflush(stdout) == EOF)
		rc = err_errno(e, "print the settings");
	buf_done(&out);
	return rc;
}

int cmd_config(int argc, char **argv)
{
	auto_free char **rest = mem_array((size_t)argc + 1, sizeof(char *));
	struct settings s = {0};
	struct err e = {0};
	bool json = false;
	int i, used, rc, count = 0;

	for (i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0) {
			print_usage(usage);
			return 0;
		}
		if (strcmp(argv[i], "--json") == 0)
			json = true;
		else
			rest[count++] = argv[i];
	}
	used = rc = settings_load(&s, count, rest, NULL, &e);
	if (used >= 0 && used < count)
		rc = err_bad(&e, "unknown argument '%s' (try config --help)", rest[used]);
	if (rc >= 0)
		rc = show(&s, json, &e);
	if (rc < 0)
		fprintf(stderr, "sandbox-server: %s\n", e.text);
	settings_done(&s);
	return rc < 0 ? 1 : 0;
}
