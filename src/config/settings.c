/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings.c - file, environment and flags to struct settings
 *
 * Runs in: every subcommand, first of all. A value that does not parse and a name that
 * does not exist stop the start: never a silent default.
 */
#include "config/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/num.h"
#include "config/settings_file.h"
#include "config/settings_rows.h"

#define PREFIX "SANDBOX_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)
#define FILE_ROOM (256u << 10)

/* one value on its way in; name and shown are for messages: --port and "--port abc" */
struct given {
	const struct setting *row;
	const char *value;
	const char *name;
	const char *shown;
	enum setting_from from;
	unsigned line;
};

static void *field(struct settings *s, const struct setting *row)
{
	return (char *)s + row->offset;
}

static int set_count(struct settings *s, const struct given *g, struct err *e)
{
	const struct setting *row = g->row;
	const struct setting_choice *word = row->choices;
	uint64_t n;

	if (word && strcmp(word->name, g->value) == 0)
		n = word->value;
	else if (num_range(g->value, row->least, row->most, &n) < 0)
		return err_bad(e, "%s: must be %s%sa number from %" PRIu64 " to %" PRIu64,
			       g->shown, word ? word->name : "", word ? " or " : "",
			       row->least, row->most);
	*(uint64_t *)field(s, row) = n;
	return 0;
}

static int set_decimal(struct settings *s, const struct given *g, struct err *e)
{
	const struct setting *row = g->row;
	double n, least = (double)row->least / 1000, most = (double)row->most / 1000;

	if (num_decimal(g->value, &n) < 0 || n < least || n > most)
		return err_bad(e, "%s: must be a number from %g to %g", g->shown, least,
			       most);
	*(double *)field(s, row) = n;
	return 0;
}

static int set_text(struct settings *s, const struct given *g, struct err *e)
{
	const struct setting *row = g->row;
	char **text = field(s, row);
	const char *wrong = NULL;

	if (row->type == SETTING_TEXT && !g->value[0])
		wrong = "must not be empty";
	else if (row->ok)
		wrong = row->ok(g->value);
	if (wrong)
		return err_bad(e, "%s: %s", g->shown, wrong);
	free(*text);
	*text = g->value[0] ? mem_copy(g->value) : NULL;
	return 0;
}

static int set_choice(struct settings *s, const struct given *g, struct err *e)
{
	const struct setting_choice *c = g->row->choices;
	char list[96];
	size_t len = 0;

	for (; c->name; c++) {
		if (strcmp(c->name, g->value) == 0) {
			*(uint64_t *)field(s, g->row) = c->value;
			return 0;
		}
		if (len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
						len ? ", " : "", c->name);
	}
	return err_bad(e, "%s: must be one of %s", g->shown, list);
}

static int set(struct settings *s, const struct given *g, struct err *e)
{
	switch (g->row->type) {
	case SETTING_COUNT:
		return set_count(s, g, e);
	case SETTING_DECIMAL:
		return set_decimal(s, g, e);
	case SETTING_TEXT:
	case SETTING_LIST:
		return set_text(s, g, e);
	case SETTING_CHOICE:
		break;
	}
	return set_choice(s, g, e);
}

/* which executor; the words are those of the manual, whoever named it */
static int check_type(const struct settings *s, const struct given *g, struct err *e)
{
	if (g->row->offset != offsetof(struct settings, type) ||
	    g->row->type != SETTING_TEXT || strcmp(s->type, "local") == 0 ||
	    strcmp(s->type, "docker") == 0)
		return 0;
	return err_bad(e, "%s is not supported (supported: local, docker)", g->shown);
}

static int take(struct settings *s, const struct given *g, struct err *e)
{
	struct setting_source *from = setting_source(s, g->row);

	if (set(s, g, e) < 0 || check_type(s, g, e) < 0)
		return -1;
	free(from->text);
	*from = (struct setting_source){g->from, g->line, mem_copy(g->value)};
	return 0;
}

/* take() of a NAME=value; where: "", or "FILE:LINE: " */
static int take_pair(struct settings *s, struct given *g, const char *where,
		     const char *key, struct err *e)
{
	auto_free char *hidden = setting_hide(g->value);
	auto_free char *name = mem_printf("%s%s", where, key);
	auto_free char *shown = mem_printf("%s=%s", name, hidden);

	g->name = name;
	g->shown = shown;
	return take(s, g, e);
}

/* --max-concurrent or --max-concurrent=3 to SANDBOX_MAX_CONCURRENT's row */
static const struct setting *find_flag(const char *flag)
{
	char key[64] = PREFIX;
	size_t len = PREFIX_LEN;

	if (strncmp(flag, "--", 2) != 0 || !flag[2])
		return NULL;
	for (flag += 2; *flag && *flag != '='; flag++) {
		if (len == sizeof(key) ||
		    !(islower((unsigned char)*flag) || *flag == '-'))
			return NULL;
		key[len++] = *flag == '-' ? '_' : (char)toupper((unsigned char)*flag);
	}
	/* those that do not begin so have their whole name */
	return setting_find(key, len) ? setting_find(key, len)
				      : setting_find(key + PREFIX_LEN, len - PREFIX_LEN);
}

static bool ends_in(const char *text, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && strncmp(text + len - n, end, n) == 0;
}

/*
 * Kubernetes sets these for every service of a namespace, and a service may well be named
 * sandbox or sandbox-server: SANDBOX_SERVICE_HOST, SANDBOX_PORT=tcp://10.0.0.1:80, ...
 */
static bool is_of_kubernetes(const char *name, size_t len, const char *value)
{
	auto_free char *copy = mem_copy_n(name, len);
	const char *port = strstr(copy, "_PORT_");

	if (ends_in(name, len, "_SERVICE_HOST") || ends_in(name, len, "_SERVICE_PORT") ||
	    strstr(copy, "_SERVICE_PORT_"))
		return true;
	if (port && isdigit((unsigned char)port[strlen("_PORT_")]))
		return true;
	return ends_in(name, len, "_PORT") && strstr(value, "://");
}

/* the tests' own: the binary to test, and in test builds what is to go wrong */
static bool is_of_tests(const char *name, size_t len)
{
#ifdef SANDBOX_TEST_HOOKS
	if (strncmp(name, PREFIX "TEST_", PREFIX_LEN + 5) == 0)
		return true;
#endif
	return len == PREFIX_LEN + 6 && strncmp(name + PREFIX_LEN, "SERVER", 6) == 0;
}

static int take_variable(struct settings *s, const char *variable, struct err *e)
{
	size_t len = strcspn(variable, "=");
	auto_free char *name = mem_copy_n(variable, len);
	struct given g = {.from = FROM_ENVIRONMENT};

	if (variable[len] != '=')
		return 0;
	g.value = variable + len + 1;
	if (is_of_tests(name, len) || is_of_kubernetes(name, len, g.value))
		return 0;
	g.row = setting_find(name, len);
	if (!g.row)
		return strncmp(name, PREFIX, PREFIX_LEN) == 0
			       ? err_bad(e, "%s is not a setting", name)
			       : 0;
	return take_pair(s, &g, "", name, e);
}

static int take_line(void *arg, unsigned line, const char *key, const char *value,
		     struct err *e)
{
	struct settings *s = arg;
	auto_free char *where = mem_printf("%s:%u: ", s->file, line);
	struct given g = {.row = setting_find(key, strlen(key)),
			  .value = value,
			  .from = FROM_FILE,
			  .line = line};

	if (!g.row)
		return err_bad(e, "%s%s is not a setting", where, key);
	if (g.row->offset == offsetof(struct settings, config))
		return err_bad(e, "%s%s cannot name another file", where, key);
	if (setting_source(s, g.row)->from == FROM_FILE)
		return err_bad(e, "%s%s is set in line %u already", where, key,
			       setting_source(s, g.row)->line);
	return take_pair(s, &g, where, key, e);
}

/* the usual file need not be there, but one that is there counts */
static int take_file(struct settings *s, const char *path, struct err *e)
{
	auto_free char *text = mem_zero(FILE_ROOM);
	const bool usual = !path;
	ssize_t len;

	if (usual)
		path = SETTINGS_FILE;
	if (!path[0])
		return 0;
	len = fs_read_at(AT_FDCWD, path, text, FILE_ROOM);
	if (len < 0 && usual && errno == ENOENT)
		return 0;
	if (len < 0)
		return err_errno(e, "read settings from '%s'", path);
	s->file = mem_copy(path);
	return settings_file_parse(path, text, (size_t)len, take_line, s, e);
}

/* the setting's flag at argv[0]: how many words it has with its value, 0: it is none, or
 * its value is missing and *out_value NULL */
static int read_flag(int argc, char **argv, const struct setting **out_row,
		     const char **out_value)
{
	const char *equals = argc > 0 ? strchr(argv[0], '=') : NULL;

	*out_row = argc > 0 ? find_flag(argv[0]) : NULL;
	*out_value = NULL;
	if (!*out_row || (!equals && argc < 2))
		return 0;
	*out_value = equals ? equals + 1 : argv[1];
	return equals ? 1 : 2;
}

static int take_flag(struct settings *s, int argc, char **argv, struct err *e)
{
	const int len = (int)strcspn(argv[0], "=");
	struct given g = {.from = FROM_FLAG};
	auto_free char *name = mem_copy_n(argv[0], (size_t)len);
	auto_free char *hidden = NULL;
	auto_free char *shown = NULL;
	int used = read_flag(argc, argv, &g.row, &g.value);

	if (!g.row)
		return err_bad(e, "unknown flag '%s'", name);
	if (used == 0)
		return err_bad(e, "%s needs a value", name);
	hidden = setting_hide(g.value);
	shown = mem_printf("%s %s", name, hidden);
	g.name = name;
	g.shown = shown;
	return take(s, &g, e) < 0 ? -1 : used;
}

static bool is_own(const char *arg, const char *const *own)
{
	size_t len = strcspn(arg, "=");

	for (; own && *own; own++)
		if (strncmp(*own, arg, len) == 0 && !(*own)[len])
			return true;
	return false;
}

/* are there flags of ours at argv[0]? "--" ends them */
static bool is_flag(int argc, char **argv, const char *const *own)
{
	return argc > 0 && argv[0][0] == '-' && argv[0][1] && !is_own(argv[0], own) &&
	       strcmp(argv[0], "--") != 0;
}

static int take_flags(struct settings *s, int argc, char **argv, const char *const *own,
		      struct err *e)
{
	int used = 0, rc;

	for (; is_flag(argc - used, argv + used, own); used += rc) {
		rc = take_flag(s, argc - used, argv + used, e);
		if (rc < 0)
			return -1;
	}
	return used + (used < argc && strcmp(argv[used], "--") == 0);
}

/* which file is wanted, known before all else; NULL: nobody says */
static const char *wanted_file(int argc, char **argv, const char *const *own)
{
	const char *path = getenv(PREFIX "CONFIG"), *value;
	const struct setting *row;
	int used = 0, n = 1;

	for (; n > 0 && is_flag(argc - used, argv + used, own); used += n) {
		n = read_flag(argc - used, argv + used, &row, &value);
		if (n > 0 && strcmp(row->key, PREFIX "CONFIG") == 0)
			path = value;
	}
	return path;
}

static int take_all(struct settings *s, int argc, char **argv, const char *const *own,
		    struct err *e)
{
	int used;

	s->sources = mem_array(setting_count, sizeof(*s->sources));
	for (size_t i = 0; i < setting_count; i++) {
		const struct setting *row = &setting_rows[i];
		struct given g = {row, row->initial, row->key, row->key, FROM_DEFAULT, 0};

		if (row->initial && take(s, &g, e) < 0)
			return -1;
	}
	if (take_file(s, wanted_file(argc, argv, own), e) < 0)
		return -1;
	for (char **variable = environ; variable && *variable; variable++)
		if (take_variable(s, *variable, e) < 0)
			return -1;
	used = take_flags(s, argc, argv, own, e);
	if (used < 0 || settings_check(s, e) < 0)
		return -1;
	return used;
}

int settings_load(struct settings *s, int argc, char **argv, const char *const *own,
		  struct err *e)
{
	int used;

	memset(s, 0, sizeof(*s));
	used = take_all(s, argc, argv, own, e);
	if (used < 0)
		settings_done(s);
	return used;
}

void settings_done(struct settings *s)
{
	for (size_t i = 0; i < setting_count; i++) {
		const struct setting *row = &setting_rows[i];

		if (row->type == SETTING_TEXT || row->type == SETTING_LIST)
			free(*(char **)field(s, row));
	}
	for (size_t i = 0; s->sources && i < setting_count; i++)
		free(s->sources[i].text);
	free(s->sources);
	free(s->file);
	free(s->network_rules);
	free(s->ca_bundle);
	memset(s, 0, sizeof(*s));
}
