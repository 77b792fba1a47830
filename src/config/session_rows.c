/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_rows.c - what is run in sessions
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/mode.h"
#include "config/mode_parts.h"
#include "config/settings.h"
#include "wire/setup.h"

#define SESSION_DISK_MB 1024
#define IMAGE_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

void modes_session_limits(const struct settings *s, struct limits *out)
{
	mode_limits(s, MODE_GOLANG, out); /* people compile there, too */
	out->disk_mb = s->disk_mb ? (uint32_t)s->disk_mb : SESSION_DISK_MB;
}

/* the places of all runtimes that are served, then the usual ones */
static void add_path(const struct setup *setup, struct setup_row *row)
{
	char text[SETUP_WORDS / 2] = "PATH=";
	size_t len = strlen(text);

	for (unsigned i = 0; i < setup->rows; i++) {
		const char *exe = setup->row[i].argv.text, *slash = strrchr(exe, '/');
		const int n = slash ? (int)(slash - exe) : 0;

		if (n && len + (size_t)n + 64 < sizeof(text))
			len += (size_t)snprintf(text + len, sizeof(text) - len,
						"%.*s:", n, exe);
	}
	snprintf(text + len, sizeof(text) - len, "/usr/local/bin:/usr/bin:/bin");
	row_env_word(row, text);
}

/* has_host: with the runtimes of the host, else with those of an image */
static int add_row(const struct settings *s, const char *name, const char *exe,
		   bool has_host, struct setup *setup, struct err *e)
{
	const struct runtime r = {.id = MODE_SHELL, .exe = (char *)(uintptr_t)exe};
	struct setup_row *row = &setup->row[setup->rows];

	if (mode_row_add(s, &r, name, "", setup, e) < 0)
		return -1;
	modes_session_limits(s, &row->ceiling);
	row->ceiling.wall_ms = (uint32_t)(s->max_timeout_sec * 1000);
	row->ceiling.cpu_ms = (uint32_t)((s->cpu_sec ? s->cpu_sec : s->max_timeout_sec) *
					 1000);
	memset(&row->env, 0, sizeof(row->env));
	if (has_host)
		add_path(setup, row);
	else
		row_env_word(row, IMAGE_PATH);
	row_env_word(row, "HOME=/tmp");
	row_env_word(row, "LANG=C.UTF-8");
	row_env_word(row, "TMPDIR=/tmp");
	row->session = 1;
	return 0;
}

int modes_session_rows(const struct settings *s, const char *self, struct setup *setup,
		       struct err *e)
{
	static const char *const bashes[] = {"/bin/bash", "/usr/bin/bash"};
	size_t i = 0;

	while (i < 1 && access(bashes[i], X_OK) < 0)
		i++; /* where there is neither, commands have sh */
	if (add_row(s, "session", bashes[i], true, setup, e) < 0)
		return -1;
	row_arg(&setup->row[setup->rows], "-c");
	setup->session_row = setup->rows++;
	if (add_row(s, "session-image", "/bin/bash", false, setup, e) < 0)
		return -1;
	row_arg(&setup->row[setup->rows++], "-c");
	if (add_row(s, "session-files", self, false, setup, e) < 0)
		return -1;
	setup->row[setup->rows++].self = SELF_INSIDE;
	return 0;
}
