/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_npm.c - where packages for node come from: registries, of scopes too, and what
 * they want to know of who asks
 *
 * Runs in: the supervisor, once, at start. What npm's own files and variables say becomes
 * the .npmrc of an install, and is in nobody's arguments: there may be tokens in it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/defer.h"
#include "base/mem.h"
#include "config/index.h"
#include "config/settings.h"

#define LINE_MOST 4096
#define TEXT_MOST (16u << 10)
#define BLANK " \t\r\n"

static bool ends_with(const char *text, const char *end)
{
	const size_t len = strlen(text), of_end = strlen(end);

	return len > of_end && strcmp(text + len - of_end, end) == 0;
}

/* "//host/path/:_authToken": for whoever is asked below that address */
static bool is_credential(const char *key)
{
	static const char *const ends[] = {":_authToken", ":_auth", ":username",
					   ":_password"};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (strncmp(key, "//", 2) == 0 && ends_with(key, ends[i]))
			return true;
	return false;
}

/* "${NAME}" is that variable, as npm has it; one that is not set stays as it is */
static char *expand(const char *value)
{
	char *out = mem_copy(""), *longer, *name;

	while (*value) {
		const size_t plain = strncmp(value, "${", 2) == 0 ? 0 : 1;
		const char *end = plain ? NULL : strchr(value, '}');
		const char *found = NULL;

		if (end) {
			name = mem_copy_n(value + 2, (size_t)(end - value - 2));
			found = getenv(name);
			free(name);
		}
		longer = found ? mem_printf("%s%s", out, found)
			       : mem_printf("%s%c", out, *value);
		free(out);
		out = longer;
		value = found ? end + 1 : value + 1;
	}
	return out;
}

static bool is_known(const struct npmrc *x, const char *key)
{
	auto_free char *line = mem_printf("\n%s=", key);

	return x->text.len && strstr(x->text.bytes, line);
}

static void say(struct npmrc *x, const char *key, const char *value)
{
	/* more than that is cut short: then npm says what it lacks */
	if (!is_known(x, key) && buf_printf(&x->text, "\n%s=%s", key, value) == 0)
		(void)buf_text(&x->text);
}

static int hex(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* "user:password", in which other characters are written as %41, as npm's _auth */
static char *as_basic(const char *said)
{
	auto_free char *plain = mem_printf("%s%s", said, strchr(said, ':') ? "" : ":");
	char *to = plain, *out;

	for (const char *c = plain; *c; c++) {
		const int high = *c == '%' ? hex(c[1]) : -1;
		const int low = high >= 0 ? hex(c[2]) : -1;

		*to++ = low >= 0 ? (char)(high * 16 + low) : *c;
		c += low >= 0 ? 2 : 0;
	}
	out = mem_zero(base64_room((size_t)(to - plain)) + 1);
	base64_encode(plain, (size_t)(to - plain), out);
	return out;
}

/* npm tells everybody the name in a URL, and sends neither that nor the password when it
 * gets the package itself: as a credential of that address both are right */
static void part_credentials(struct npmrc *x, char *url)
{
	char *host = strstr(url, "://") + 3, *end = host + strcspn(host, "/?#");
	char *at = memrchr(host, '@', (size_t)(end - host));
	auto_free char *user = at ? mem_copy_n(host, (size_t)(at - host)) : NULL;
	auto_free char *basic = user ? as_basic(user) : NULL;
	auto_free char *key = NULL;
	size_t len;

	if (!at)
		return;
	memmove(host, at + 1, strlen(at + 1) + 1);
	len = strcspn(host, "?#");
	key = mem_printf("//%.*s%s:_auth", (int)len, host,
			 len && host[len - 1] == '/' ? "" : "/");
	say(x, key, basic);
}

/* the first that says something counts */
static void take(struct npmrc *x, const char *key, const char *said)
{
	const bool main = strcmp(key, "registry") == 0;
	const bool scope = key[0] == '@' && ends_with(key, ":registry");
	auto_free char *value = expand(said);

	if (is_known(x, key) || strpbrk(value, "\r\n"))
		return;
	if (main || scope) {
		if (!index_is_url(value) || x->url_count == INDEX_MOST)
			return;
		part_credentials(x, value);
		x->urls[x->url_count++] = mem_copy(value);
		x->has_main = x->has_main || main;
	} else if (strcmp(key, "cafile") == 0) {
		if (value[0] != '/' || access(value, R_OK) < 0)
			return;
		x->cafile = mem_copy(value);
	} else if (!is_credential(key)) {
		return;
	}
	say(x, key, value);
}

/* "key = value", perhaps in quotes */
static void take_line(struct npmrc *x, char *line)
{
	char *equals = strchr(line, '='), *value, *end;

	line += strspn(line, BLANK);
	if (!equals || strchr("#;[=", *line))
		return;
	*equals = '\0';
	line[strcspn(line, BLANK)] = '\0';
	value = equals + 1 + strspn(equals + 1, BLANK);
	for (end = value + strlen(value); end > value && strchr(BLANK, end[-1]); end--)
		end[-1] = '\0';
	if (end > value + 1 && (*value == '"' || *value == '\'') && end[-1] == *value) {
		end[-1] = '\0';
		value++;
	}
	take(x, line, value);
}

static void from_file(struct npmrc *x, const char *path)
{
	char line[LINE_MOST];
	FILE *f = path ? fopen(path, "re") : NULL;

	while (f && fgets(line, sizeof(line), f))
		take_line(x, line);
	if (f)
		fclose(f);
}

static void from_environment(struct npmrc *x)
{
	static const char lead[] = "npm_config_";

	for (char **v = environ; v && *v; v++) {
		auto_free char *word = NULL;

		if (strncasecmp(*v, lead, strlen(lead)) != 0)
			continue;
		word = mem_copy(*v + strlen(lead));
		/* names of one word may be in capitals */
		if (strncasecmp(word, "registry=", 9) == 0)
			memcpy(word, "registry", 8);
		if (strncasecmp(word, "cafile=", 7) == 0)
			memcpy(word, "cafile", 6);
		take_line(x, word);
	}
}

void index_npm(const struct settings *s, struct npmrc *out)
{
	static const char *const host[] = {"/etc/npmrc", "/usr/etc/npmrc",
					   "/usr/local/etc/npmrc"};
	const char *home = getenv("HOME"), *named = getenv("NPM_CONFIG_USERCONFIG");
	auto_free char *own = home ? mem_printf("%s/.npmrc", home) : NULL;

	memset(out, 0, sizeof(*out));
	buf_init(&out->text, TEXT_MOST);
	if (s->npm_registry && index_is_url(s->npm_registry)) {
		take(out, "registry", s->npm_registry);
		return;
	}
	from_environment(out);
	from_file(out, named ? named : getenv("npm_config_userconfig"));
	from_file(out, own);
	for (size_t i = 0; i < sizeof(host) / sizeof(host[0]); i++)
		from_file(out, host[i]);
}

void npmrc_done(struct npmrc *x)
{
	for (size_t i = 0; i < x->url_count; i++)
		free(x->urls[i]);
	free(x->cafile);
	buf_done(&x->text);
	memset(x, 0, sizeof(*x));
}
