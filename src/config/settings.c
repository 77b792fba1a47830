/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * settings.c - environment and flags to struct settings
 *
 * Runs in: every subcommand, first of all. A value that does not parse, a name that does
 * not exist and a feature that is not there yet stop the start: never a silent default.
 */
#include "config/settings.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "config/settings_rows.h"

#define PREFIX "SANDBOX_"
#define PREFIX_LEN (sizeof(PREFIX) - 1)

/* one value on its way in; name and shown are for messages: --port and "--port abc" */
struct given {
	const struct setting *row;
	const char *value;
	const char *name;
	const char *shown;
};

static void *field(struct settings *s, const struct setting *row)
{
	return (char *)s + row->offset;
}

static int set_count(struct settings *s, const struct given *g, struct err *e)
{
	const struct setting *row = g->row;
	uint64_t n;

	if (num_range(g->value, row->least, row->most, &n) < 0)
		return err_bad(e, "%s: must be a number from %" PRIu64 " to %" PRIu64,
			       g->shown, row->least, row->most);
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
		if (strcmp(c->name, g->value) == 0 && c->later)
			return err_bad(e, "%s is not available yet", g->shown);
		if (strcmp(c->name, g->value) == 0) {
			*(uint64_t *)field(s, g->row) = c->value;
			return 0;
		}
		if (!c->later && len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
						len ? ", " : "", c->name);
	}
	return err_bad(e, "%s: must be one of %s", g->shown, list);
}

static int check_later(const struct given *g, struct err *e)
{
	const char *off = g->row->initial;
	bool off_flag, flag;

	if (!g->value[0] || (off && strcmp(off, g->value) == 0))
		return 0;
	if (off && num_bool(off, &off_flag) == 0 && num_bool(g->value, &flag) == 0 &&
	    flag == off_flag)
		return 0;
	return err_bad(e, "%s is not available yet", off ? g->shown : g->name);
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
		return set_choice(s, g, e);
	case SETTING_LATER:
		break;
	}
	return check_later(g, e);
}

/* which executor; the words are those of the manual, whoever named it */
static int check_type(const struct settings *s, const struct given *g, struct err *e)
{
	if (g->row->offset != offsetof(struct settings, type) ||
	    g->row->type != SETTING_TEXT || strcmp(s->type, "local") == 0)
		return 0;
	if (strcmp(s->type, "docker") == 0)
		return err_bad(e, "%s is not available yet", g->shown);
	return err_bad(e, "%s is not supported (supported: local, docker)", g->shown);
}

static int take(struct settings *s, const struct given *g, struct err *e)
{
	return set(s, g, e) < 0 || check_type(s, g, e) < 0 ? -1 : 0;
}

static const struct setting *find_key(const char *key, size_t len)
{
	for (size_t i = 0; i < setting_count; i++)
		if (strncmp(setting_rows[i].key, key, len) == 0 &&
		    !setting_rows[i].key[len])
			return &setting_rows[i];
	return NULL;
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
	return find_key(key, len);
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
	struct given g = {.name = name, .shown = variable};

	if (variable[len] != '=' || strncmp(name, PREFIX, PREFIX_LEN) != 0)
		return 0;
	g.value = variable + len + 1;
	if (is_of_tests(name, len) || is_of_kubernetes(name, len, g.value))
		return 0;
	g.row = find_key(name, len);
	if (!g.row)
		return err_bad(e, "%s is not a setting", name);
	return take(s, &g, e);
}

int settings_flag(struct settings *s, int argc, char **argv, struct err *e)
{
	const char *equals = argc > 0 ? strchr(argv[0], '=') : NULL;
	struct given g = {.row = argc > 0 ? find_flag(argv[0]) : NULL};
	auto_free char *name = NULL;
	auto_free char *shown = NULL;

	if (!g.row)
		return 0;
	name = mem_copy_n(argv[0], equals ? (size_t)(equals - argv[0]) : strlen(argv[0]));
	if (!equals && argc < 2)
		return err_bad(e, "%s needs a value", name);
	g.value = equals ? equals + 1 : argv[1];
	shown = mem_printf("%s %s", name, g.value);
	g.name = name;
	g.shown = shown;
	if (take(s, &g, e) < 0)
		return -1;
	return equals ? 1 : 2;
}

static bool is_own(const char *arg, const char *const *own)
{
	size_t len = strcspn(arg, "=");

	for (; own && *own; own++)
		if (strncmp(*own, arg, len) == 0 && !(*own)[len])
			return true;
	return false;
}

static int take_flags(struct settings *s, int argc, char **argv, const char *const *own,
		      struct err *e)
{
	int used = 0, rc;

	while (used < argc && argv[used][0] == '-' && argv[used][1]) {
		if (is_own(argv[used], own))
			return used;
		if (strcmp(argv[used], "--") == 0)
			return used + 1;
		rc = settings_flag(s, argc - used, argv + used, e);
		if (rc < 0)
			return -1;
		if (rc == 0)
			return err_bad(e, "unknown flag '%.*s'",
				       (int)strcspn(argv[used], "="), argv[used]);
		used += rc;
	}
	return used;
}

/* SANDBOX_MODE names the default, SANDBOX_SUPPORTED_LANGUAGES what is served besides */
static void settle_mode(struct settings *s)
{
	char *all;

	if (s->mode && strcmp(s->mode, "auto") == 0) {
		free(s->mode);
		s->mode = NULL;
	}
	if (s->languages) {
		all = s->mode ? mem_printf("%s,%s", s->mode, s->languages)
			      : mem_copy(s->languages);
		free(s->mode);
		s->mode = all;
		free(s->languages);
		s->languages = NULL;
	}
	s->mode_named = s->mode != NULL;
}

int settings_check(struct settings *s, struct err *e)
{
	settle_mode(s);
	if (s->max_timeout_sec < s->timeout_sec)
		return err_bad(e,
			       "SANDBOX_MAX_TIMEOUT_SEC=%" PRIu64
			       " is below SANDBOX_TIMEOUT_SEC=%" PRIu64,
			       s->max_timeout_sec, s->timeout_sec);
	if (s->output_ceiling_kb < s->max_output_kb)
		return err_bad(e,
			       "SANDBOX_OUTPUT_CEILING_KB=%" PRIu64
			       " is below SANDBOX_MAX_OUTPUT_KB=%" PRIu64,
			       s->output_ceiling_kb, s->max_output_kb);
	return 0;
}

static int take_all(struct settings *s, int argc, char **argv, const char *const *own,
		    struct err *e)
{
	int used;

	for (size_t i = 0; i < setting_count; i++) {
		const struct setting *row = &setting_rows[i];
		struct given g = {row, row->initial, row->key, row->key};

		if (row->initial && row->type != SETTING_LATER && take(s, &g, e) < 0)
			return -1;
	}
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
	memset(s, 0, sizeof(*s));
}

void settings_help(struct buf *out)
{
	char flag[64];

	for (size_t i = 0; i < setting_count; i++) {
		const struct setting *row = &setting_rows[i];
		size_t len = 0;

		if (row->type == SETTING_LATER)
			continue;
		for (const char *p = row->key + PREFIX_LEN; *p; p++)
			flag[len++] = *p == '_' ? '-' : (char)tolower((unsigned char)*p);
		flag[len] = 0;
		/* the cap is the caller's: a help text cut short is no failure */
		(void)buf_printf(out, "  --%-20s %s", flag, row->help);
		if (row->initial)
			(void)buf_printf(out, " (%s)", row->initial);
		(void)buf_puts(out, "\n");
	}
}
