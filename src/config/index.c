/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index.c - where packages come from
 *
 * Runs in: the supervisor, once, at start, with the environment and home of whoever
 * started it. The installer itself reads none of this: it runs in a sandbox, and is told
 * by its arguments.
 */
#include "config/index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "config/settings.h"
#include "egress/rules.h"

#define LINE_MOST 4096
#define BLANK " \t\r\n"

bool index_is_url(const char *text)
{
	return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* one word after the other, at blanks and, as pip's variables have it, commas */
static char *next_word(char **at)
{
	char *word = *at + strspn(*at, BLANK ",");

	if (!*word)
		return NULL;
	*at = word + strcspn(word, BLANK ",");
	if (**at)
		*(*at)++ = '\0';
	return word;
}

static bool has_host(const char *url)
{
	auto_free struct rules *scratch = mem_zero(sizeof(*scratch));
	struct err e = {0};

	return index_host(url, scratch, &e) == 0;
}

const char *index_ok(const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *at = copy, *word;
	size_t count = 0;

	if (strcmp(text, INDEX_HOST) == 0 || strcmp(text, INDEX_NONE) == 0)
		return NULL;
	while ((word = next_word(&at))) {
		if (!index_is_url(word) && (word[0] != '/' || !is_directory(word)))
			return "must be http(s) URLs, absolute paths of directories, "
			       "host or none";
		if (index_is_url(word) && !has_host(word))
			return "has a URL without a host, or with a port that is none";
		if (++count > INDEX_MOST)
			return "has too many of them";
	}
	return count ? NULL : "must name an index";
}

static void add(char **list, size_t *count, const char *word)
{
	if (*count < INDEX_MOST)
		list[(*count)++] = mem_copy(word);
}

/* file:///dir and /dir are directories here; a list of links on a web page is none */
static void add_links(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *at = copy, *word;

	while ((word = next_word(&at))) {
		if (strncmp(word, "file://", 7) == 0)
			word += 7;
		if (word[0] == '/' && is_directory(word))
			add(x->links, &x->link_count, word);
	}
}

static void add_urls(char **list, size_t *count, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *at = copy, *word;

	while ((word = next_word(&at))) {
		char *named = strchr(word, '='); /* name=https://..., as uv has it */

		if (!index_is_url(word) && named)
			word = named + 1;
		if (index_is_url(word))
			add(list, count, word);
	}
}

static void set_main(struct index *x, const char *text)
{
	if (x->url_count == 0)
		add_urls(x->urls, &x->url_count, text);
}

static void set_extra(struct index *x, const char *text)
{
	add_urls(x->extra, &x->extra_count, text);
}

static void set_alone(struct index *x, const char *text)
{
	bool yes;

	if (num_bool(text, &yes) == 0 && yes)
		x->alone = true;
}

static void set_cert(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *at = copy, *word = next_word(&at);

	if (!x->cert && word && word[0] == '/' && access(word, R_OK) == 0)
		x->cert = mem_copy(word);
}

/* as pip and uv call them: in the environment, and in a file */
static const struct {
	const char *variable, *key;
	void (*take)(struct index *x, const char *text);
} options[] = {
	{"UV_DEFAULT_INDEX", "default-index", set_main},
	{"UV_INDEX_URL", "index-url", set_main},
	{"PIP_INDEX_URL", "index-url", set_main},
	{"UV_INDEX", "index", set_extra},
	{"UV_EXTRA_INDEX_URL", "extra-index-url", set_extra},
	{"PIP_EXTRA_INDEX_URL", "extra-index-url", set_extra},
	{"UV_FIND_LINKS", "find-links", add_links},
	{"PIP_FIND_LINKS", "find-links", add_links},
	{"UV_NO_INDEX", "no-index", set_alone},
	{"PIP_NO_INDEX", "no-index", set_alone},
	{"PIP_CERT", "cert", set_cert},
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

static void from_environment(struct index *x)
{
	for (size_t i = 0; i < OPTIONS; i++) {
		const char *value = getenv(options[i].variable);

		if (value && *value)
			options[i].take(x, value);
	}
}

/* quotes and brackets of TOML are taken for blanks */
static void unquote(char *text)
{
	for (char *c = text; *c; c++)
		if (strchr("\"'[]", *c))
			*c = ' ';
}

/* "key = value"; false: no such line */
static bool split(char *line, char **out_key, char **out_value)
{
	char *equals = strchr(line, '=');

	line += strspn(line, BLANK);
	if (!equals || *line == '#' || *line == ';' || *line == '[')
		return false;
	*equals = '\0';
	line[strcspn(line, BLANK)] = '\0';
	unquote(equals + 1);
	*out_key = line;
	*out_value = equals + 1;
	return true;
}

static size_t find_option(const char *key)
{
	size_t i = 0;

	while (i < OPTIONS && strcmp(options[i].key, key) != 0)
		i++;
	return i;
}

/* how far a file was read */
struct reading {
	size_t option; /* whose value may go on in lines that are indented more */
	size_t indent;
	bool in_table; /* [[index]], as uv has it */
	bool is_default;
	bool is_explicit; /* for packages that a project names alone: for none of ours */
	char url[LINE_MOST]; /* of that */
};

static void end_table(struct index *x, struct reading *r)
{
	if (r->url[0] && !r->is_explicit)
		(r->is_default ? set_main : set_extra)(x, r->url);
	r->in_table = r->is_default = r->is_explicit = false;
	r->url[0] = '\0';
}

static void take_table(struct reading *r, const char *key, char *value)
{
	const char *word = next_word(&value);

	if (word && strcmp(key, "url") == 0)
		snprintf(r->url, sizeof(r->url), "%s", word);
	if (word && strcmp(key, "default") == 0)
		r->is_default = strcmp(word, "true") == 0;
	if (word && strcmp(key, "explicit") == 0)
		r->is_explicit = strcmp(word, "true") == 0;
}

static void take_line(struct index *x, struct reading *r, char *line)
{
	const size_t indent = strspn(line, BLANK);
	char *key, *value = line;

	if (line[indent] == '#' || line[indent] == ';')
		return;
	if (r->option < OPTIONS && indent > r->indent) {
		unquote(line);
		options[r->option].take(x, value);
		return;
	}
	r->option = OPTIONS;
	r->indent = indent;
	if (line[indent] == '[') {
		end_table(x, r);
		r->in_table = strncmp(line + indent, "[[index]]", 9) == 0;
	} else if (split(line, &key, &value)) {
		if (r->in_table)
			take_table(r, key, value);
		else
			r->option = find_option(key);
		if (r->option < OPTIONS)
			options[r->option].take(x, value);
	}
}

static void from_file(struct index *x, const char *path)
{
	struct reading r = {.option = OPTIONS};
	char line[LINE_MOST];
	FILE *f = path ? fopen(path, "re") : NULL;

	while (f && fgets(line, sizeof(line), f))
		take_line(x, &r, line);
	end_table(x, &r);
	if (f)
		fclose(f);
}

static void from_below(struct index *x, const char *top, const char *below)
{
	auto_free char *path = top && *top ? mem_printf("%s/%s", top, below) : NULL;

	from_file(x, path);
}

/* a virtual environment's, a user's, then the host's: of an index the first one counts */
static void from_files(struct index *x)
{
	const char *home = getenv("HOME"), *named = getenv("PIP_CONFIG_FILE");
	const char *own = getenv("XDG_CONFIG_HOME"), *dirs = getenv("XDG_CONFIG_DIRS");
	/* so pip is told to read no file at all */
	const bool pip = !named || strcmp(named, "/dev/null") != 0;
	auto_free char *usual = home ? mem_printf("%s/.config", home) : NULL;
	auto_free char *all = mem_copy(dirs && *dirs ? dirs : "/etc/xdg");
	char *rest = all, *dir;

	own = own && *own ? own : usual;
	from_file(x, named);
	from_file(x, getenv("UV_CONFIG_FILE"));
	from_below(x, pip ? getenv("VIRTUAL_ENV") : NULL, "pip.conf");
	from_below(x, pip ? own : NULL, "pip/pip.conf");
	from_below(x, pip ? home : NULL, ".pip/pip.conf");
	from_below(x, own, "uv/uv.toml");
	from_below(x, pip ? "/etc" : NULL, "pip.conf");
	while ((dir = strsep(&rest, ":"))) {
		from_below(x, pip ? dir : NULL, "pip/pip.conf");
		from_below(x, dir, "uv/uv.toml");
	}
	from_below(x, "/etc", "uv/uv.toml");
}

void index_python(const struct settings *s, struct index *out)
{
	memset(out, 0, sizeof(*out));
	if (s->python_index && strcmp(s->python_index, INDEX_HOST) != 0) {
		add_urls(out->urls, &out->url_count, s->python_index);
		add_links(out, s->python_index);
		out->alone = out->url_count == 0;
		return;
	}
	from_environment(out);
	from_files(out);
}

/* define('registry', { default: 'https://...', on a line of its own each */
static char *default_in(const char *path)
{
	char line[LINE_MOST], *url, *found = NULL;
	FILE *f = fopen(path, "re");
	bool ours = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		url = ours ? strstr(line, "default: '") : NULL;
		if (url && index_is_url(url + 10))
			found = mem_copy_n(url + 10, strcspn(url + 10, "'"));
		ours = strstr(line, "'registry', {");
	}
	if (f)
		fclose(f);
	return found;
}

/* read, since asking npm takes longer than all the rest of a start */
char *index_npm_default(const char *npm)
{
	static const char *const tables[] = {
		"node_modules/@npmcli/config/lib/definitions/definitions.js",
		"../@npmcli/config/lib/definitions/definitions.js",
		"lib/utils/config/definitions.js",
	};
	char *found = NULL;

	for (size_t i = 0; !found && i < sizeof(tables) / sizeof(tables[0]); i++) {
		auto_free char *path = mem_printf("%s/%s", npm, tables[i]);

		found = default_in(path);
	}
	return found;
}

/* "https://user:password@host:port/path" */
int index_host(const char *url, struct rules *out, struct err *e)
{
	const bool tls = strncmp(url, "https://", 8) == 0;
	const char *from = url + (tls ? 8 : 7);
	const size_t len = strcspn(from, "/?#");
	auto_free char *host = mem_copy_n(from, len);
	char *at = strrchr(host, '@'), *name = at ? at + 1 : host, *end;
	uint64_t port = tls ? 443 : 80;

	/* only the host is ever shown: before it may stand a password */
	if (!index_is_url(url))
		return err_bad(e, "an index is no URL");
	end = strrchr(name, ':');
	if (end && !strchr(end, ']')) {
		*end = '\0';
		if (num_range(end + 1, 1, 65535, &port) < 0)
			return err_bad(e, "index '%.80s' has a port that is none", name);
	}
	if (name[0] == '[') { /* an address of IPv6 */
		name++;
		name[strcspn(name, "]")] = '\0';
	}
	return rules_add_index(out, name, (unsigned)port, e);
}

void index_done(struct index *x)
{
	for (size_t i = 0; i < INDEX_MOST; i++) {
		free(x->urls[i]);
		free(x->extra[i]);
		free(x->links[i]);
	}
	free(x->cert);
	memset(x, 0, sizeof(*x));
}
