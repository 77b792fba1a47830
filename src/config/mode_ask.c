/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mode_ask.c - a runtime's version, place and packages, as it tells them itself
 *
 * What PATH names may be a link, a shim script or a virtual environment; only the runtime
 * knows where it really lives.
 */
#include "config/mode_parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/mem.h"
#include "config/command.h"

#define VERSION_MS 5000
#define ANSWER_MS \
	20000 /* python lists its packages: many small files, perhaps on a cold disk */
#define VERSION_BYTES (64 << 10)
#define ANSWER_BYTES (1 << 20)
#define VERSION_ARGS 4

/* a toolchain that a go.mod around us names would be another than the one that runs */
static const char *const extra_env[] = {"GOTOOLCHAIN=local", NULL};

void runtime_done(struct runtime *r)
{
	free(r->found);
	free(r->version);
	free(r->number);
	free(r->exe);
	free(r->modules);
	for (size_t i = 0; i < r->prefix_count; i++)
		free(r->prefixes[i]);
	for (size_t i = 0; i < r->lib_count; i++)
		free(r->libs[i]);
	for (size_t i = 0; i < r->package_count; i++)
		free(r->packages[i]);
	free(r->packages);
	memset(r, 0, sizeof(*r));
}

/* "Python 3.12.1", "go version go1.26.8 linux/amd64", "GNU bash,
 * version 5.2.15(1)-release" */
static char *number_in(const char *version)
{
	const char *from = version + strcspn(version, "0123456789");
	size_t len = strspn(from, "0123456789.");

	while (len > 0 && from[len - 1] == '.')
		len--;
	return mem_copy_n(from, len);
}

int runtime_version(struct runtime *r)
{
	const char *argv[VERSION_ARGS] = {r->found};
	struct buf out;
	size_t len;
	int rc;

	for (size_t i = 0; mode_kinds[r->id].version[i]; i++)
		argv[i + 1] = mode_kinds[r->id].version[i];
	buf_init(&out, VERSION_BYTES);
	rc = command_run(argv, extra_env, VERSION_MS, &out);
	if (rc == 0 && (buf_text(&out) < 0 || out.len == 0)) {
		errno = EIO;
		rc = -1;
	}
	if (rc == 0) {
		len = strcspn(out.bytes, "\r\n");
		r->version = mem_copy_n(out.bytes, len);
		r->number = number_in(r->version);
	}
	buf_done(&out);
	return rc;
}

char *runtime_say(const char *const *argv)
{
	char *said = runtime_say_all(argv);

	if (said)
		said[strcspn(said, "\r\n")] = '\0';
	return said;
}

char *runtime_say_all(const char *const *argv)
{
	char *said = NULL;
	struct buf out;

	buf_init(&out, VERSION_BYTES);
	if (command_run(argv, NULL, VERSION_MS, &out) == 0 && buf_text(&out) == 0 &&
	    out.len > 0)
		said = mem_copy_n(out.bytes, out.len);
	buf_done(&out);
	return said;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_package(struct runtime *r, char *taken)
{
	char **grown = mem_array(r->package_count + 2, sizeof(*grown));

	if (r->package_count)
		memcpy(grown, r->packages, r->package_count * sizeof(*grown));
	free(r->packages);
	r->packages = grown;
	r->packages[r->package_count++] = taken;
}

static void sort_packages(struct runtime *r)
{
	size_t kept = 0;

	if (r->package_count == 0)
		return;
	qsort(r->packages, r->package_count, sizeof(*r->packages), by_name);
	for (size_t i = 1; i < r->package_count; i++) {
		if (strcmp(r->packages[kept], r->packages[i]) == 0)
			free(r->packages[i]);
		else
			r->packages[++kept] = r->packages[i];
	}
	r->package_count = kept + 1;
	r->packages[r->package_count] = NULL;
}

static void add_tree(char **trees, size_t *count, const char *path)
{
	if (path[0] != '/' || *count == RUNTIME_TREES)
		return;
	for (size_t i = 0; i < *count; i++)
		if (strcmp(trees[i], path) == 0)
			return;
	trees[(*count)++] = mem_copy(path);
}

/* one line of the answer: a word, a tab, a value; other lines are somebody's chatter */
static void take_line(struct runtime *r, char *line)
{
	char *value = strchr(line, '\t');

	if (!value || !value[1])
		return;
	*value++ = 0;
	if (strcmp(line, "exe") == 0 && value[0] == '/' && !r->exe)
		r->exe = mem_copy(value);
	else if (strcmp(line, "prefix") == 0)
		add_tree(r->prefixes, &r->prefix_count, value);
	else if (strcmp(line, "lib") == 0)
		add_tree(r->libs, &r->lib_count, value);
	else if (strcmp(line, "package") == 0)
		add_package(r, mem_copy(value));
}

/* run it and take its lines; -1 with errno, EIO when it does not say where it is */
static int ask(struct runtime *r, const char *const *argv)
{
	struct buf out;
	char *line, *save;
	int rc;

	buf_init(&out, ANSWER_BYTES);
	rc = command_run(argv, extra_env, ANSWER_MS, &out);
	if (rc == 0)
		rc = buf_text(&out);
	if (rc == 0)
		for (line = strtok_r(out.bytes, "\r\n", &save); line;
		     line = strtok_r(NULL, "\r\n", &save))
			take_line(r, line);
	buf_done(&out);
	if (rc == 0 && (!r->exe || access(r->exe, X_OK) < 0)) {
		errno = EIO;
		rc = -1;
	}
	return rc;
}

int runtime_ask_python(struct runtime *r)
{
	static const char program[] =
		"import sys, sysconfig\n"
		"def say(what, value):\n"
		"    value = str(value or '')\n"
		"    if value and value.isprintable(): print(what, value, sep='\\t')\n"
		"say('exe', sys.executable)\n"
		"for p in ('prefix', 'base_prefix', 'exec_prefix', 'base_exec_prefix'):\n"
		"    say('prefix', getattr(sys, p, None))\n"
		"for p in ('stdlib', 'platstdlib', 'purelib', 'platlib'):\n"
		"    say('lib', sysconfig.get_path(p))\n"
		"try:\n"
		"    from importlib import metadata\n"
		"    for d in metadata.distributions():\n"
		"        say('package', d.metadata['Name'])\n"
		"except Exception: pass\n";
	const char *const argv[] = {r->found, "-I", "-c", program, NULL};

	if (ask(r, argv) < 0)
		return -1;
	sort_packages(r);
	return 0;
}

int runtime_ask_go(struct runtime *r)
{
	const char *const argv[] = {r->found, "env", "GOROOT", NULL};
	struct buf out;
	int rc;

	buf_init(&out, VERSION_BYTES);
	rc = command_run(argv, extra_env, VERSION_MS, &out);
	if (rc == 0)
		rc = buf_text(&out);
	if (rc == 0 && out.len > 1 && out.bytes[0] == '/') {
		out.bytes[strcspn(out.bytes, "\r\n")] = 0;
		r->exe = mem_printf("%s/bin/go", out.bytes);
		add_tree(r->prefixes, &r->prefix_count, out.bytes);
	}
	buf_done(&out);
	if (rc == 0 && (!r->exe || access(r->exe, X_OK) < 0)) {
		errno = EIO;
		rc = -1;
	}
	return rc;
}

/* DIR/bin/NAME lives in DIR; NULL for any other layout */
static char *prefix_of(const char *exe)
{
	const char *name = strrchr(exe, '/');
	size_t len = name ? (size_t)(name - exe) : 0;

	if (len < 5 || strncmp(exe + len - 4, "/bin", 4) != 0)
		return NULL;
	return mem_copy_n(exe, len - 4);
}

static void list_modules(struct runtime *r, const char *path, const char *scope)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		auto_free char *below = mem_printf("%s/%s", path, entry->d_name);

		if (entry->d_name[0] == '.')
			continue;
		if (entry->d_name[0] == '@' && !scope)
			list_modules(r, below, entry->d_name);
		else if (scope)
			add_package(r, mem_printf("%s/%s", scope, entry->d_name));
		else
			add_package(r, mem_copy(entry->d_name));
	}
	if (dir)
		closedir(dir);
}

int runtime_ask_node(struct runtime *r)
{
	static const char program[] = "console.log('exe\\t' + process.execPath)";
	const char *const argv[] = {r->found, "-e", program, NULL};
	auto_free char *prefix = NULL;

	if (ask(r, argv) < 0)
		return -1;
	prefix = prefix_of(r->exe);
	if (!prefix)
		return 0;
	add_tree(r->prefixes, &r->prefix_count, prefix);
	r->modules = mem_printf("%s/lib/node_modules", prefix);
	add_tree(r->libs, &r->lib_count, r->modules);
	list_modules(r, r->modules, NULL);
	sort_packages(r);
	return 0;
}

int runtime_ask_bash(struct runtime *r)
{
	auto_free char *prefix = prefix_of(r->found);

	r->exe = mem_copy(r->found);
	if (prefix)
		add_tree(r->prefixes, &r->prefix_count, prefix);
	return 0;
}
