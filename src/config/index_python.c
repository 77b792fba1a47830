/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_python.c - where packages for python come from: what the host's own uv and pip
 * are told
 *
 * Runs in: the supervisor, once, at start, with the environment and home of whoever
 * started it. The installer itself reads none of this: it runs in a sandbox, and is told
 * by its arguments and variables.
 */
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

/* NULL: a page of the web, or what is relative to where somebody else is */
static char *local_path(const char *word, const char *beside)
{
	const char *home = index_home();
	const char *slash = beside ? strrchr(beside, '/') : NULL;
	char *path = NULL;

	if (strncmp(word, "file:///", 8) == 0 ||
	    strncmp(word, "file://localhost/", 17) == 0)
		path = mem_copy(strchr(word + 7, '/'));
	else if (word[0] == '/')
		return mem_copy(word);
	else if (!beside && strncmp(word, "~/", 2) == 0 && home)
		return mem_printf("%s%s", home, word + 1);
	else if (slash && !strchr(word, ':'))
		return mem_printf("%.*s%s", (int)(slash - beside + 1), beside, word);
	if (path && (strpbrk(path, "?#") || index_decode(path) != strlen(path)))
		free(take_ptr(&path));
	return path;
}

/* a page of links, passed over, would leave its packages to the public index */
void index_add_directory(struct index *x, const char *word, const char *beside)
{
	auto_free char *path = local_path(word, beside);
	struct stat st;

	if (path && stat(path, &st) < 0 && !beside)
		return;
	/* at a comma uv begins another one */
	if (path && !strchr(path, ',') && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		add(x, x->links, &x->link_count, take_ptr(&path));
	else
		x->odd = "find-links that are no directory";
}

void index_add_links(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *rest = copy, *word;

	while ((word = strsep(&rest, " \t\r\n")))
		if (*word)
			index_add_directory(x, word, NULL);
}

void index_add_uv_links(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *rest = copy, *word;

	while ((word = strsep(&rest, ",")))
		if (*word)
			index_add_directory(x, word, "");
}

/* a word at blanks alone: there may be commas in a URL */
static char *next_url(char **rest)
{
	char *word;

	while ((word = strsep(rest, " \t\r\n")) && !*word)
		continue;
	return word;
}

/* of several of one name uv asks the first alone, which has what variables say of it */
bool index_is_second(struct index *x, const char *name)
{
	auto_free char *before = x->names ? x->names : mem_copy(" ");
	auto_free char *word = mem_printf(" %s ", name);
	const bool known = strstr(before, word);

	x->names = mem_printf("%s%s", before, known ? "" : word + 1);
	return known;
}

void index_add(struct index *x, bool main, const char *name, const char *url)
{
	if (main && x->url_count)
		return;
	if (!index_is_url(url))
		x->odd = "an index that is no http(s) URL";
	else if (strstr(url, "${"))
		x->odd = "an index with a variable in its URL";
	else
		add(x, main ? x->urls : x->extra, main ? &x->url_count : &x->extra_count,
		    index_login(x, name, url));
}

/* "https://..." or, as uv has it, "name=https://..." */
static void add_word(struct index *x, bool main, char *word)
{
	char *equals = index_is_url(word) ? NULL : strchr(word, '=');

	if (equals)
		*equals = '\0';
	if (!equals || !index_is_second(x, word))
		index_add(x, main, equals ? word : NULL, equals ? equals + 1 : word);
}

void index_set_main(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *rest = copy, *word = next_url(&rest);

	if (word)
		add_word(x, true, word);
}

void index_set_extra(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *rest = copy, *word;

	while ((word = next_url(&rest)))
		add_word(x, false, word);
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

void index_set_keyring(struct index *x, const char *text)
{
	auto_free char *copy = mem_copy(text);
	char *at = copy, *word = index_word(&at);

	/* by "auto" pip asks one if it can, and here nobody can */
	if (word && strcasecmp(word, "disabled") != 0 && strcasecmp(word, "auto") != 0)
		x->keyring = true;
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

static bool has(char *const *list, size_t count, const char *url)
{
	size_t i = 0;

	while (i < count && strcmp(list[i], url) != 0)
		i++;
	return i < count;
}

/* what pip is told besides. All indexes are one to it, of which the best version counts,
 * and to uv one comes before the other: what they mean together nobody said */
static int add_pip(struct index *x, const char *prefix, const char *own, const char *dirs,
		   struct err *e)
{
	const size_t urls = x->url_count, before = x->extra_count;
	bool more = false;

	if (index_of_pip(x, prefix, own, dirs, e) < 0)
		return -1;
	for (size_t i = before; i < x->extra_count; i++)
		more = more || (!has(x->urls, urls, x->extra[i]) &&
				!has(x->extra, before, x->extra[i]));
	if (urls + before == 0) {
		x->best = more;
		return 0;
	}
	if (more)
		x->odd = "indexes of uv's, and extra ones of pip's";
	for (; x->extra_count > before; x->extra_count--)
		free(take_ptr(&x->extra[x->extra_count - 1]));
	return 0;
}

static bool needs_keyring(const struct index *x)
{
	bool needs = false;

	for (size_t i = 0; x->keyring && i < x->url_count; i++)
		needs = needs || !index_has_password(x->urls[i]);
	for (size_t i = 0; x->keyring && i < x->extra_count; i++)
		needs = needs || !index_has_password(x->extra[i]);
	return needs;
}

static int from_host(const char *prefix, struct index *out, struct err *e)
{
	const char *home = index_home(), *own = getenv("XDG_CONFIG_HOME");
	const char *dirs = getenv("XDG_CONFIG_DIRS");
	auto_free char *usual = home ? mem_printf("%s/.config", home) : NULL;

	dirs = dirs && *dirs ? dirs : "/etc/xdg";
	/* a relative one is none to uv */
	if (index_of_uv(out, own && *own == '/' ? own : usual, dirs, e) < 0)
		return -1;
	return add_pip(out, prefix, own && *own ? own : usual, dirs, e);
}

int index_python(const struct settings *s, const char *prefix, struct index *out,
		 struct err *e)
{
	memset(out, 0, sizeof(*out));
	if (s->python_index && strcmp(s->python_index, INDEX_HOST) != 0)
		from_setting(s->python_index, out);
	else if (from_host(prefix, out, e) < 0)
		return -1;
	if (out->too_many)
		return err_bad(e,
			       "this host names more than %d indexes of one kind: set "
			       "SANDBOX_PYTHON_INDEX",
			       INDEX_MOST);
	if (needs_keyring(out))
		out->odd = "an index whose password is in a keyring";
	/* passed over, the public index would be asked for what that one has */
	if (out->odd)
		return err_bad(e, "this host has %s: set SANDBOX_PYTHON_INDEX", out->odd);
	return 0;
}
