/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * help.c - COMMAND --help: its own text, then every setting
 */
#include <stdio.h>

#include "base/buf.h"
#include "cmd/cmd.h"

#define HELP_CAP (64u << 10)

void print_usage(const char *text)
{
	struct buf settings;

	buf_init(&settings, HELP_CAP);
	settings_help(&settings);
	printf("%s\nsettings, each also an environment variable and a line of "
	       "%s:\n--max-body-mb is SANDBOX_MAX_BODY_MB\n%s",
	       text, SETTINGS_FILE, buf_text(&settings) == 0 ? settings.bytes : "");
	buf_done(&settings);
}
