/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_python.c - where packages for python come from: what the host's own uv and pip
 * are told
 *
 * Runs in: the supervisor, once, at start, with the environment and home of whoever
 * started it. The installer itself reads none of this: it runs in a sandbox, and is told
 * by its arguments and variables.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/num.h"
#include "config/index.h"
#include "config/index_add.h"
#include "config/settings.h"

static void add(struct index *x, char **list, size_t *count, char *word)
{
	if (*count == INDEX_MOST) {
		x->too_many = true;
		free(word);
	} else {
		list[(*count)++] = word;
	}
}

/* file:///dir, ~/dir and /dir are directories here, and dir in a file of uv's is beside
 * that file; a list of links on a web page is none */
void index_add_directory(struct index *x, const char *word, const char *beside)
{
	const char *home = getenv("HOME");
	const char *slash = beside ? strrchr(beside, '/') : NULL;
	auto_free char *path = NULL;
	struct stat st;

	if (strncmp(word, "file://", 7) == 0)
		path = mem_copy(word + 7);
	else if (strncmp(word, "~/", 2) == 0 && home)
		path = mem_printf("%s%s", home, word + 1);
	else if (word[0] != '/' && slash && !index_is_url(word))
		path = mem_printf("%.*s%s", (int)(slash - beside + 1), beside, word);
	else
		path = mem_copy(word);
	if (path[0] == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		add(x, x->links, &x->link_count, take_ptr(&path));
}

void index_add_links(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *at = copy, *word;

	while ((word = index_word(&at)))
		index_add_directory(x, word, NULL);
}

/* a word at blanks alone: there may be commas in a URL */
static char *next_url(char **rest)
{
	char *word;

	while ((word = strsep(rest, " \t\r\n")) && !*word)
		continue;
	return word;
}

/* for a URL; NULL is nothing */
static char *encoded(const char *text)
{
	const size_t len = text ? strlen(text) : 0;
	char *out = mem_zero(3 * len + 1), *to = out;

	for (size_t i = 0; i < len; i++)
		to += snprintf(to, 4, isalnum((unsigned char)text[i]) ? "%c" : "%%%02X",
			       (unsigned char)text[i]);
	return out;
}

/* UV_INDEX_NAME_USERNAME and its like, as uv spells the name of an index */
static const char *of_index(const char *name, size_t len, const char *what)
{
	auto_free char *variable = mem_printf("UV_INDEX_%.*s_%s", (int)len, name, what);

	for (char *c = variable; *c; c++)
		*c = isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
	return getenv(variable);
}

/* the URL, with what the variables of that name say of who asks */
static char *with_credentials(const char *name, size_t len, const char *url)
{
	const char *user = of_index(name, len, "USERNAME");
	const char *password = of_index(name, len, "PASSWORD");
	const char *host = strstr(url, "://") + 3;
	auto_free char *first = encoded(user), *second = encoded(password);

	if ((!user && !password) || memchr(host, '@', strcspn(host, "/?#")))
		return mem_copy(url);
	return mem_printf("%.*s%s:%s@%s", (int)(host - url), url, first, second, host);
}

/* of two of one name uv asks the first alone: it has what variables say of that name */
static bool is_second(struct index *x, const char *name, size_t len)
{
	auto_free char *before = x->names ? x->names : mem_copy(" ");
	auto_free char *word = mem_printf(" %.*s ", (int)len, name);
	const bool known = strstr(before, word);

	x->names = mem_printf("%s%s", before, known ? "" : word + 1);
	return known;
}

/* "https://..." or, as uv has it, "name=https://..." */
static void add_url(struct index *x, char **list, size_t *count, const char *word)
{
	const char *equals = index_is_url(word) ? NULL : strchr(word, '=');
	const char *url = equals ? equals + 1 : word;

	if (!index_is_url(url))
		x->odd = "an index that is no http(s) URL";
	else if (!equals || list != x->extra ||
		 !is_second(x, word, (size_t)(equals - word)))
		add(x, list, count,
		    equals ? with_credentials(word, (size_t)(equals - word), url)
			   : mem_copy(url));
}

void index_set_main(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *rest = copy, *word = next_url(&rest);

	if (word && x->url_count == 0)
		add_url(x, x->urls, &x->url_count, word);
}

void index_set_extra(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *rest = copy, *word;

	while ((word = next_url(&rest)))
		add_url(x, x->extra, &x->extra_count, word);
}

void index_set_alone(struct index *x, const char *text)
{
	static const char *const letters[] = {"y", "t", "n", "f"}; /* pip has these too */
	auto_free char *copy = mem_copy(text);
	char *at = copy, *word = index_word(&at);
	bool yes = false;

	for (size_t i = 0; word && i < 4; i++) {
		if (strcasecmp(word, letters[i]) == 0) {
			x->alone = x->alone || i < 2;
			return;
		}
	}
	if (word && num_bool(word, &yes) < 0)
		x->odd = "no-index with a value that is neither true nor false";
	x->alone = x->alone || yes;
}

void index_set_cert(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *at = copy, *word = index_word(&at);

	if (!x->cert && word && word[0] == '/' && access(word, R_OK) == 0)
		x->cert = mem_copy(word);
}

int index_read(const char *path, char out[INDEX_FILE_MOST], struct err *e)
{
	const ssize_t len = fs_read_at(AT_FDCWD, path, out, INDEX_FILE_MOST);

	if (len < 0 && errno == EFBIG)
		return err_bad(e, "%s is larger than 64 KiB", path);
	/* what is behind it would be passed over */
	if (len >= 0 && memchr(out, 0, (size_t)len))
		return err_bad(e, "%s is no text", path);
	return len < 0 ? 0 : 1;
}

static void from_setting(const char *text, struct index *out)
{
	auto_free char *copy = mem_copy(text);
	char *at = copy, *word;

	while ((word = index_word(&at)))
		if (index_is_url(word))
			add(out, out->urls, &out->url_count, mem_copy(word));
		else
			index_add_directory(out, word, NULL);
	out->alone = out->url_count == 0;
}

int index_python(const struct settings *s, struct index *out, struct err *e)
{
	const char *home = getenv("HOME"), *own = getenv("XDG_CONFIG_HOME");
	const char *dirs = getenv("XDG_CONFIG_DIRS");
	auto_free char *usual = home ? mem_printf("%s/.config", home) : NULL;

	memset(out, 0, sizeof(*out));
	own = own && *own ? own : usual;
	dirs = dirs && *dirs ? dirs : "/etc/xdg";
	if (s->python_index && strcmp(s->python_index, INDEX_HOST) != 0)
		from_setting(s->python_index, out);
	else if (index_of_uv(out, own, dirs, e) < 0 ||
		 index_of_pip(out, own, dirs, e) < 0)
		return -1;
	if (out->too_many)
		return err_bad(e,
			       "this host names more than %d indexes of one kind: set "
			       "SANDBOX_PYTHON_INDEX",
			       INDEX_MOST);
	/* passed over, the public index would be asked for what that one has */
	if (out->odd)
		return err_bad(e, "this host has %s: set SANDBOX_PYTHON_INDEX", out->odd);
	return 0;
}
