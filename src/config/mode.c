/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mode.c - the runtimes: which are served
 *
 * Runs in: the supervisor, once, at start. mode_ask.c talks to a runtime, mode_row.c
 * turns the answers into rows of struct setup.
 */
#include "config/mode.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/binds.h"
#include "config/mode_parts.h"
#include "config/settings.h"
#include "wire/setup.h"

static const char *const dash_version[] = {"--version", NULL};
static const char *const plain_version[] = {"version", NULL};

const struct mode_kind mode_kinds[] = {
	[MODE_PYTHON] = {"python", "python3", "script.py", dash_version, WAITS_STARTED,
			 runtime_ask_python},
	[MODE_GOLANG] = {"golang", "go", "script.go", plain_version, WAITS_EXEC,
			 runtime_ask_go},
	[MODE_NODE] = {"node", "node", "script.js", dash_version, WAITS_STARTED,
		       runtime_ask_node},
	[MODE_SHELL] = {"shell", "bash", "script.sh", dash_version, WAITS_EXEC,
			runtime_ask_bash},
};
static_assert(sizeof(mode_kinds) / sizeof(mode_kinds[0]) == MODE_COUNT,
	      "a mode lacks its kind");

char *runtime_find(const char *name, bool (*ok)(const char *path))
{
	const char *path = getenv("PATH");
	struct stat st;

	while (path && *path) {
		size_t len = strcspn(path, ":");
		/* an empty element means the current directory; what is run must be
		 * absolute */
		auto_free char *file = mem_printf("%.*s/%s", (int)len, path, name);

		if (path[0] == '/' && stat(file, &st) == 0 && S_ISREG(st.st_mode) &&
		    access(file, X_OK) == 0 && (!ok || ok(file)))
			return take_ptr(&file);
		path += len + (path[len] == ':');
	}
	return NULL;
}

char *program_find(const char *name)
{
	return runtime_find(name, NULL);
}

static int find_kind(const char *name)
{
	for (int i = 0; i < MODE_COUNT; i++)
		if (strcmp(mode_kinds[i].name, name) == 0)
			return i;
	return -1;
}

/* 1: runs, 0: not in PATH, -1 with errno: does not run */
static int try_runtime(enum mode_id id, struct runtime *r)
{
	memset(r, 0, sizeof(*r));
	r->id = id;
	r->found = runtime_find(mode_kinds[id].program, NULL);
	if (!r->found)
		return 0;
	if (runtime_version(r) < 0 || mode_kinds[id].ask(r) < 0)
		return -1;
	return 1;
}

bool modes_drop_directories(struct modes *m, struct setup *setup, const char *why)
{
	if (!binds_drop_packages(setup))
		return false;
	for (size_t i = 0; i < m->count; i++) {
		struct mode *mode = &m->mode[i];

		if (mode->install_row < 0 || !mode->install_directories)
			continue;
		mode->install_row = -1;
		mode->installer = NULL;
		mode->no_installer = mem_copy(why);
	}
	return true;
}

/* r's strings go to the mode */
static int serve(struct modes *m, const struct settings *s, struct runtime *r,
		 struct setup *setup, struct err *e)
{
	struct mode *mode = &m->mode[m->count];

	memset(mode, 0, sizeof(*mode));
	mode->id = r->id;
	mode->name = mode_kinds[r->id].name;
	mode_limits(s, r->id, &mode->defaults);
	if (mode->defaults.disk_mb < s->disk_mb)
		log_warn("limit.lower", "mode=%s disk_mb=%u reason=\"half of memory_mb\"",
			 mode->name, mode->defaults.disk_mb);
	/* a runtime in a directory of packages: rather no installs than no start */
	if (mode_rows(s, r, setup, mode, e) < 0 &&
	    (!modes_drop_directories(m, setup, e->text) ||
	     mode_rows(s, r, setup, mode, e) < 0))
		return -1;
	mode->runtime_version = take_ptr(&r->version);
	mode->version_number = take_ptr(&r->number);
	mode->packages = take_ptr(&r->packages);
	r->package_count = 0;
	if (!mode->packages)
		mode->packages = mem_array(1, sizeof(*mode->packages));
	m->count++;
	return 0;
}

/* command_run's errno in words */
static const char *why_not(int num)
{
	switch (num) {
	case ETIMEDOUT:
		return "no answer in time";
	case ENOSPC:
		return "too long an answer";
	case EIO:
		return "it failed, or its answer makes no sense";
	default:
		return strerror(num);
	}
}

static int find_any(struct modes *m, const struct settings *s, struct setup *setup,
		    struct err *e)
{
	struct runtime r;
	int rc = 0;

	for (int id = 0; id < MODE_COUNT && m->count == 0 && rc == 0; id++) {
		int there = try_runtime((enum mode_id)id, &r);

		if (there < 0)
			log_warn("mode.skip", "mode=%s program=\"%s\" reason=\"%s\"",
				 mode_kinds[id].name, r.found, why_not(errno));
		if (there > 0)
			rc = serve(m, s, &r, setup, e);
		runtime_done(&r);
	}
	if (rc == 0 && m->count == 0)
		return err_bad(e, "no supported runtime found in PATH "
				  "(tried: python3, go, node, bash)");
	return rc;
}

static int find_named(struct modes *m, const char *name, const struct settings *s,
		      struct setup *setup, struct err *e)
{
	int id = find_kind(name), there, rc;
	struct runtime r;

	if (id < 0)
		return err_bad(e,
			       "unsupported mode \"%s\" "
			       "(supported: python, golang, node, shell)",
			       name);
	for (size_t i = 0; i < m->count; i++)
		if (m->mode[i].id == (enum mode_id)id)
			return 0;
	there = try_runtime((enum mode_id)id, &r);
	if (there > 0)
		rc = serve(m, s, &r, setup, e);
	else if (there == 0)
		rc = err_bad(e, "mode=%s but '%s' not found in PATH", name,
			     mode_kinds[id].program);
	else
		rc = err_bad(e, "mode=%s but '%s' does not run", name,
			     mode_kinds[id].program);
	runtime_done(&r);
	return rc;
}

static int find_list(struct modes *m, const char *list, const struct settings *s,
		     struct setup *setup, struct err *e)
{
	int rc = 0;

	/* all names first: a typo shall not cost the time of the runtimes before it */
	for (int pass = 0; pass < 2; pass++)
		for (const char *at = list; rc == 0; at++) {
			size_t len = strcspn(at, ",");
			auto_free char *name = mem_copy_n(at, len);

			if (pass == 1 || find_kind(name) < 0)
				rc = find_named(m, name, s, setup, e);
			at += len;
			if (!*at)
				break;
		}
	return rc;
}

/* what an image has, its own sandbox-server finds; here is only what it is called */
static int name_one(struct modes *m, const char *name, const struct settings *s,
		    struct setup *setup, struct err *e)
{
	struct setup_row *row = &setup->row[setup->rows];
	struct mode *mode = &m->mode[m->count];
	const int id = find_kind(name);
	struct runtime r = {.id = (enum mode_id)id, .exe = mem_copy("/")};
	int rc;

	if (id < 0) {
		runtime_done(&r);
		return find_named(m, name, s, setup, e); /* which says so */
	}
	for (size_t i = 0; i < m->count; i++)
		if (m->mode[i].id == r.id) {
			runtime_done(&r);
			return 0;
		}
	rc = mode_row_add(s, &r, name, mode_kinds[id].script, setup, e);
	runtime_done(&r);
	if (rc < 0)
		return -1;
	row->go_cache = 0;
	*mode = (struct mode){.id = (enum mode_id)id, .name = mode_kinds[id].name};
	mode_limits(s, mode->id, &mode->defaults);
	mode->row = setup->rows++;
	mode->typescript_row = mode->install_row = -1;
	mode->no_installer = mem_copy("with SANDBOX_TYPE=docker packages come with the "
				      "image");
	mode->runtime_version = mem_printf("of %s", s->docker_image);
	mode->version_number = mem_copy("of an image");
	mode->packages = mem_array(1, sizeof(*mode->packages));
	m->count++;
	return 0;
}

static int name_all(struct modes *m, const struct settings *s, struct setup *setup,
		    struct err *e)
{
	const char *at = s->mode ? s->mode : mode_kinds[MODE_PYTHON].name;
	int rc = 0;

	for (size_t len; rc == 0 && *at; at += len + (at[len] == ',')) {
		auto_free char *name = NULL;

		len = strcspn(at, ",");
		name = mem_copy_n(at, len);
		rc = name_one(m, name, s, setup, e);
	}
	return rc;
}

int modes_find(struct modes *m, const struct settings *s, struct setup *setup,
	       struct err *e)
{
	int rc;

	memset(m, 0, sizeof(*m));
	setup->rows = 0;
	setup->binds = 0;
	rc = binds_system(setup, e);
	if (rc == 0 && s->docker)
		rc = name_all(m, s, setup, e);
	else if (rc == 0 && s->mode && strcmp(s->mode, "auto") != 0)
		rc = find_list(m, s->mode, s, setup, e);
	else if (rc == 0)
		rc = find_any(m, s, setup, e);
	if (rc < 0)
		modes_done(m);
	return rc;
}

void modes_done(struct modes *m)
{
	for (size_t i = 0; i < m->count; i++) {
		struct mode *mode = &m->mode[i];

		for (size_t j = 0; mode->packages && mode->packages[j]; j++)
			free(mode->packages[j]);
		free(mode->packages);
		for (size_t j = 0; mode->imported && mode->imported[j]; j++)
			free(mode->imported[j]);
		free(mode->imported);
		free(mode->runtime_version);
		free(mode->version_number);
		free(mode->no_installer);
		free(mode->install_hosts);
		for (size_t j = 0; mode->install_env && mode->install_env[j]; j++)
			free(mode->install_env[j]);
		free(mode->install_env);
		free(mode->npmrc);
	}
	memset(m, 0, sizeof(*m));
}

static const struct {
	const char *name;
	enum mode_id id;
	bool typescript;
} languages[] = {
	{"python", MODE_PYTHON, false}, {"py", MODE_PYTHON, false},
	{"golang", MODE_GOLANG, false}, {"go", MODE_GOLANG, false},
	{"node", MODE_NODE, false},     {"javascript", MODE_NODE, false},
	{"js", MODE_NODE, false},       {"typescript", MODE_NODE, true},
	{"ts", MODE_NODE, true},        {"shell", MODE_SHELL, false},
	{"bash", MODE_SHELL, false},    {"sh", MODE_SHELL, false},
};

static void refuse(const struct modes *m, const char *language, struct err *e)
{
	struct buf served;

	buf_init(&served, 256);
	for (size_t i = 0; i < m->count; i++) {
		(void)buf_printf(&served, "%s%s", i ? ", " : "", m->mode[i].name);
		if (m->mode[i].typescript_row >= 0)
			(void)buf_puts(&served, ", typescript"); /* four words fit */
	}
	(void)buf_text(&served);
	err_client(e, 400, "unsupported_language",
		   "unsupported language \"%.40s\" (supported: %s)", language,
		   served.bytes);
	buf_done(&served);
}

static const struct mode *find_served(const struct modes *m, enum mode_id id)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->mode[i].id == id)
			return &m->mode[i];
	return NULL;
}

const struct mode *modes_for_language(const struct modes *m, const char *language,
				      unsigned *out_row, struct err *e)
{
	const struct mode *mode = NULL;
	bool typescript = false;

	if (!language) {
		*out_row = m->mode[0].row;
		return &m->mode[0];
	}
	for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++)
		if (strcmp(languages[i].name, language) == 0) {
			mode = find_served(m, languages[i].id);
			typescript = languages[i].typescript;
		}
	if (!mode) {
		refuse(m, language, e);
		return NULL;
	}
	if (typescript && mode->typescript_row < 0) {
		err_client(e, 400, "unsupported_language",
			   "typescript needs node 22.6 or later, this is node %s",
			   mode->version_number);
		return NULL;
	}
	*out_row = typescript ? (unsigned)mode->typescript_row : mode->row;
	return mode;
}

const char *modes_language(const struct modes *m, size_t *at)
{
	while (*at < sizeof(languages) / sizeof(languages[0])) {
		const struct mode *mode = find_served(m, languages[*at].id);
		const bool typescript = languages[*at].typescript;
		const char *name = languages[(*at)++].name;

		if (mode && !(typescript && mode->typescript_row < 0))
			return name;
	}
	return NULL;
}
