/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index.c - the addresses of indexes
 *
 * Runs in: the supervisor, once, at start.
 */
#include "config/index.h"

#include <pwd.h>
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
#include "config/index_add.h"
#include "config/settings.h"
#include "egress/rules.h"

#define LINE_MOST 4096
#define BLANK " \t\r\n"

bool index_is_url(const char *text)
{
	return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

const char *index_home(void)
{
	const char *home = getenv("HOME");
	const struct passwd *who;

	if (home && *home)
		return home;
	who = getpwuid(geteuid());
	return who ? who->pw_dir : NULL;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* one word after the other, at blanks and, as pip's variables have it, commas */
char *index_word(char **at)
{
	char *word = *at + strspn(*at, BLANK ",");

	if (!*word)
		return NULL;
	*at = word + strcspn(word, BLANK ",");
	if (**at)
		*(*at)++ = '\0';
	return word;
}

static int hex(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c) : NULL;

	return at ? (int)(at - digits) : -1;
}

size_t index_decode(char *text)
{
	char *to = text;

	for (const char *c = text; *c; c++) {
		const int high = *c == '%' ? hex(c[1]) : -1;
		const int low = high >= 0 ? hex(c[2]) : -1;

		*to++ = low >= 0 ? (char)(high * 16 + low) : *c;
		c += low >= 0 ? 2 : 0;
	}
	*to = '\0';
	return (size_t)(to - text);
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
	while ((word = index_word(&at))) {
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
		end = strchr(++name, ']');
		if (!end || end[1])
			return err_bad(e, "an index has an address without an end");
		*end = '\0';
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
	free(x->names);
	memset(x, 0, sizeof(*x));
}
