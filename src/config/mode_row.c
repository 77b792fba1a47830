/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mode_row.c - what a run of a mode is: its command, environment, limits and binds
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "config/binds.h"
#include "config/mode_parts.h"
#include "config/settings.h"
#include "wire/setup.h"

struct words {
	struct setup_words *to;
	size_t len;
	bool full;
};

static void words_begin(struct words *w, struct setup_words *to)
{
	memset(to, 0, sizeof(*to));
	*w = (struct words){to, 0, false};
}

__attribute__((format(printf, 2, 3))) static void word(struct words *w, const char *fmt,
						       ...)
{
	size_t room = sizeof(w->to->text) - 1 - w->len; /* the empty word at the end */
	va_list ap;
	int len;

	if (w->full)
		return;
	va_start(ap, fmt);
	len = vsnprintf(w->to->text + w->len, room, fmt, ap);
	va_end(ap);
	if (len <= 0 || (size_t)len >= room) {
		w->full = true;
		return;
	}
	w->len += (size_t)len + 1;
}

void mode_limits(const struct settings *s, enum mode_id id, struct limits *out)
{
	static const struct {
		uint32_t memory_mb, pids, disk_mb;
	} usual = {512, 64, 256}, compiling = {2048, 256, 1024};
	uint32_t memory = id == MODE_GOLANG ? compiling.memory_mb : usual.memory_mb;
	uint32_t pids = id == MODE_GOLANG ? compiling.pids : usual.pids;
	uint32_t disk = id == MODE_GOLANG ? compiling.disk_mb : usual.disk_mb;

	*out = (struct limits){
		.wall_ms = (uint32_t)(s->timeout_sec * 1000),
		.cpu_ms = (uint32_t)((s->cpu_sec ? s->cpu_sec : s->timeout_sec) * 1000),
		.memory_mb = s->memory_mb ? (uint32_t)s->memory_mb : memory,
		.pids = s->pids ? (uint32_t)s->pids : pids,
		.disk_mb = s->disk_mb ? (uint32_t)s->disk_mb : disk,
		.output_kb = (uint32_t)s->max_output_kb,
	};
	/* it is memory: above this a full disk would end a run as out of memory */
	if (out->disk_mb > out->memory_mb / 2)
		out->disk_mb = out->memory_mb / 2;
}

static void row_env(const struct settings *s, const struct runtime *r, struct words *w)
{
	int dir = (int)(strrchr(r->exe, '/') - r->exe);

	word(w, "PATH=%.*s:/usr/local/bin:/usr/bin:/bin", dir, r->exe);
	word(w, "HOME=/tmp");
	word(w, "LANG=C.UTF-8");
	word(w, "TMPDIR=/tmp");
	word(w, "OUTPUT_DIR=/work/%s", s->output_dir);
	switch (r->id) {
	case MODE_PYTHON:
		word(w, "PYTHONDONTWRITEBYTECODE=1");
		/* What was printed must be there when the time is up; costs 2 us a line.
		 */
		word(w, "PYTHONUNBUFFERED=1");
		break;
	case MODE_GOLANG:
		word(w, "GOCACHE=/go-cache");
		word(w, "GOPATH=/tmp/go");
		word(w, "GOTOOLCHAIN=local");
		if (!s->network_rules && !s->network_pod)
			word(w, "GOPROXY=off");
		break;
	case MODE_NODE:
		if (r->modules)
			word(w, "NODE_PATH=%s", r->modules);
		break;
	default:
		break;
	}
}

int mode_row_add(const struct settings *s, const struct runtime *r, const char *name,
		 const char *script, struct setup *setup, struct err *e)
{
	struct setup_row *row = &setup->row[setup->rows];
	struct words w;

	if (setup->rows == SETUP_ROWS)
		return err_ours(e, "more than %u rows", SETUP_ROWS);
	memset(row, 0, sizeof(*row));
	snprintf(row->name, sizeof(row->name), "%s", name);
	snprintf(row->script, sizeof(row->script), "%s", script);
	mode_limits(s, r->id, &row->ceiling);
	row->ceiling.wall_ms = (uint32_t)(s->max_timeout_sec * 1000);
	row->ceiling.cpu_ms = (uint32_t)((s->cpu_sec ? s->cpu_sec : s->max_timeout_sec) *
					 1000);
	row->ceiling.output_kb = (uint32_t)s->output_ceiling_kb;
	row->go_cache = r->id == MODE_GOLANG;
	words_begin(&w, &row->env);
	row_env(s, r, &w);
	if (w.full)
		return err_ours(e, "the environment of %s is too long", name);
	words_begin(&w, &row->argv);
	word(&w, "%s", r->exe);
	if (w.full)
		return err_ours(e, "the path of %s is too long", name);
	return 0;
}

/* -1: there is no room for it */
static int append(struct setup_words *to, const char *text)
{
	struct words w = {to, 0, false};

	while (w.to->text[w.len])
		w.len += strlen(w.to->text + w.len) + 1;
	word(&w, "%s", text);
	return w.full ? -1 : 0;
}

int row_arg(struct setup_row *row, const char *arg)
{
	return append(&row->argv, arg);
}

int row_env_word(struct setup_row *row, const char *text)
{
	return append(&row->env, text);
}

/* 1: runs .ts as it is, 0: with a flag, -1: not at all */
static int strips_types(const char *number)
{
	uint64_t major = 0, minor = 0;
	const char *dot = strchr(number, '.');
	auto_free char *first = mem_copy_n(number, strcspn(number, "."));
	auto_free char *second = dot ? mem_copy_n(dot + 1, strcspn(dot + 1, ".")) : NULL;

	if (num_u64(first, &major) < 0 || !second || num_u64(second, &minor) < 0)
		return -1;
	if (major > 23 || (major == 23 && minor >= 6) || (major == 22 && minor >= 18))
		return 1;
	return major == 23 || (major == 22 && minor >= 6) ? 0 : -1;
}

static int typescript_row(const struct settings *s, const struct runtime *r,
			  struct setup *setup, struct mode *m, struct err *e)
{
	int strips = strips_types(r->number);
	struct setup_row *row = &setup->row[setup->rows];

	if (strips < 0)
		return 0;
	if (mode_row_add(s, r, "typescript", "script.ts", setup, e) < 0)
		return -1;
	/* it says so on stderr for every run; the switch for one kind alone came
	 * with 21.3 */
	if ((strips == 0 && row_arg(row, "--experimental-strip-types") < 0) ||
	    row_arg(row, "--disable-warning=ExperimentalWarning") < 0 ||
	    row_arg(row, row->script) < 0)
		return err_ours(e, "the path of %s is too long", row->name);
	m->typescript_row = (int)setup->rows++;
	return 0;
}

static int bind_trees(const struct runtime *r, struct setup *setup, struct err *e)
{
	const char *name = mode_kinds[r->id].name;
	bool whole = true;

	for (size_t i = 0; i < r->prefix_count; i++) {
		int rc = binds_tree(setup, r->prefixes[i], e);

		if (rc < 0)
			return -1;
		if (rc > 0)
			continue;
		whole = false;
		if (r->id == MODE_GOLANG)
			return err_bad(
				e,
				"mode=%s: '%s' is not a directory of its own: move "
				"the runtime into one",
				name, r->prefixes[i]);
	}
	for (size_t i = 0; !whole && i < r->lib_count; i++) {
		int rc = binds_tree(setup, r->libs[i], e);

		if (rc < 0)
			return -1;
		if (rc == 0)
			return err_bad(
				e,
				"mode=%s: '%s' is not a directory of its own: move "
				"the runtime into one",
				name, r->libs[i]);
	}
	return binds_program(setup, r->exe, e);
}

static void row_layer(const struct runtime *r, struct setup_row *row)
{
	row->layer_path = r->id == MODE_PYTHON;
	snprintf(row->layer, sizeof(row->layer), "%s",
		 row->layer_path ? "packages" : "node_modules");
}

int mode_rows(const struct settings *s, const struct runtime *r, struct setup *setup,
	      struct mode *m, struct err *e)
{
	const struct mode_kind *kind = &mode_kinds[r->id];
	struct setup_row *row = &setup->row[setup->rows];

	if (bind_trees(r, setup, e) < 0)
		return -1;
	if (mode_row_add(s, r, kind->name, kind->script, setup, e) < 0)
		return -1;
	if ((r->id == MODE_GOLANG && row_arg(row, "run") < 0) ||
	    row_arg(row, row->script) < 0)
		return err_ours(e, "the path of %s is too long", row->name);
	row->waits = kind->waits;
	if (kind->waits == WAITS_STARTED)
		row->ahead = AHEAD_WORDS;
	if (r->id == MODE_PYTHON && s->preload) {
		row->ahead = AHEAD_IMPORTS;
		snprintf(setup->preload, sizeof(setup->preload), "%s", s->preload);
	}
	m->row = setup->rows++;
	m->typescript_row = -1;
	m->install_row = -1;
	if (r->id == MODE_NODE && typescript_row(s, r, setup, m, e) < 0)
		return -1;
	if (r->id != MODE_PYTHON && r->id != MODE_NODE)
		return 0;
	for (unsigned i = m->row; i < setup->rows; i++)
		row_layer(r, &setup->row[i]);
	return installer_row(s, r, setup, m, e);
}

int modes_self_rows(const struct settings *s, struct setup *setup, struct err *e)
{
	char self[] = MODE_SELF, missing[] = "/usr/bin/there/is/no/interpreter";
	const struct runtime ours = {.id = MODE_SHELL, .exe = self};
	const struct runtime none = {.id = MODE_SHELL, .exe = missing};

	if (mode_row_add(s, &ours, "selftest", "script", setup, e) < 0)
		return -1;
	setup->row[setup->rows].waits = mode_kinds[MODE_SHELL].waits;
	setup->row[setup->rows++].self = SELF_BINARY;
	if (mode_row_add(s, &none, "missing", "script", setup, e) < 0)
		return -1;
	setup->row[setup->rows++].self = SELF_MISSING;
	return 0;
}
