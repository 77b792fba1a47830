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
#include "base/err.h"
#include "base/mem.h"
#include "config/index.h"
#include "config/index_add.h"
#include "config/settings.h"

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
	if (is_known(x, key))
		return;
	if (buf_printf(&x->text, "\n%s=%s", key, value) < 0 || buf_text(&x->text) < 0)
		x->odd = "more registries and tokens than fit into 16 KiB";
}

/* "user:password", in which other characters are written as %41, as npm's _auth */
static char *as_basic(const char *said)
{
	auto_free char *plain = mem_printf("%s%s", said, strchr(said, ':') ? "" : ":");
	const size_t len = index_decode(plain);
	char *out = mem_zero(base64_room(len) + 1);

	base64_encode(plain, len, out);
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

/* what cannot be used is not passed over: the public one would be asked instead */
static void take_registry(struct npmrc *x, const char *key, char *value, bool main)
{
	value[strcspn(value, BLANK)] = '\0'; /* behind it may be a comment */
	if (!*value)
		return;
	if (!index_is_url(value)) {
		x->odd = "a registry that is no http(s) URL";
	} else if (x->url_count == INDEX_MOST) {
		x->odd = "more than 8 registries";
	} else {
		part_credentials(x, value);
		x->urls[x->url_count++] = mem_copy(value);
		x->has_main = x->has_main || main;
		say(x, key, value);
	}
}

static void take_prefix(struct npmrc *x, const char *value)
{
	const char *home = getenv("HOME");

	if (x->prefix)
		return;
	if (strncmp(value, "~/", 2) == 0 && home)
		x->prefix = mem_printf("%s%s", home, value + 1);
	else if (value[0] == '/')
		x->prefix = mem_copy(value);
}

/* the first that says something counts */
static void take(struct npmrc *x, const char *key, const char *said)
{
	const bool main = strcmp(key, "registry") == 0;
	const bool scope = key[0] == '@' && ends_with(key, ":registry");
	auto_free char *value = expand(said);

	if (is_known(x, key))
		return;
	if (main || scope) {
		take_registry(x, key, value, main);
	} else if (strcmp(key, "prefix") == 0) {
		take_prefix(x, value);
	} else if (strpbrk(value, "\r\n")) {
		return;
	} else if (strcmp(key, "cafile") == 0) {
		if (value[0] != '/' || access(value, R_OK) < 0)
			return;
		x->cafile = mem_copy(value);
		say(x, key, value);
	} else if (is_credential(key)) {
		say(x, key, value);
	}
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

/* where a section begins: npm needs none, and nothing of what is in one */
static char *end_of_file(char *text)
{
	char *line = text;

	while (line && line[strspn(line, BLANK)] != '[') {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return line;
}

/* of lines that say the same the last one counts: from the end to the beginning */
static int from_file(struct npmrc *x, const char *path, struct err *e)
{
	auto_free char *text = mem_zero(INDEX_FILE_MOST);
	char *from = text, *end, *line;

	if (path && index_read(path, text, e) < 0)
		return -1;
	if (strncmp(from, "\xef\xbb\xbf", 3) == 0)
		from += 3;
	if ((end = end_of_file(from)))
		*end = '\0';
	while ((line = strrchr(from, '\n'))) {
		take_line(x, line + 1);
		*line = '\0';
	}
	take_line(x, from);
	return 0;
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
		if (strncasecmp(word, "prefix=", 7) == 0)
			memcpy(word, "prefix", 6);
		take_line(x, word);
	}
}

/* of npm's, whose names may be in capitals; NULL: not set */
static const char *variable(const char *capitals, const char *small)
{
	const char *value = getenv(capitals);

	value = value && *value ? value : getenv(small);
	return value && *value ? value : NULL;
}

/* the host's file: the one that is named, else below the prefix, else beside node */
static int from_host(struct npmrc *x, const char *node, struct err *e)
{
	const char *named = variable("NPM_CONFIG_GLOBALCONFIG",
				     "npm_config_globalconfig");
	const char *bin = strstr(node, "/bin/"), *prefix = getenv("PREFIX");
	auto_free char *top = bin ? mem_copy_n(node, (size_t)(bin - node)) : NULL;
	auto_free char *path = NULL;

	if (named)
		return from_file(x, named, e);
	if (!x->prefix && prefix)
		take_prefix(x, prefix);
	if (x->prefix || top)
		path = mem_printf("%s/etc/npmrc", x->prefix ? x->prefix : top);
	if (from_file(x, path, e) < 0)
		return -1;
	return from_file(x, "/etc/npmrc", e); /* as Debian's npm has it */
}

int index_npm(const struct settings *s, const char *node, struct npmrc *out,
	      struct err *e)
{
	const char *home = getenv("HOME");
	const char *named = variable("NPM_CONFIG_USERCONFIG", "npm_config_userconfig");
	auto_free char *own = home ? mem_printf("%s/.npmrc", home) : NULL;

	memset(out, 0, sizeof(*out));
	buf_init(&out->text, TEXT_MOST);
	if (s->npm_registry && index_is_url(s->npm_registry)) {
		take(out, "registry", s->npm_registry);
		return 0;
	}
	from_environment(out);
	if (from_file(out, named ? named : own, e) < 0 || from_host(out, node, e) < 0)
		return -1;
	if (out->odd)
		return err_bad(e,
			       "npm is told of %s on this host: set "
			       "SANDBOX_NPM_REGISTRY",
			       out->odd);
	return 0;
}

void npmrc_done(struct npmrc *x)
{
	for (size_t i = 0; i < x->url_count; i++)
		free(x->urls[i]);
	free(x->cafile);
	free(x->prefix);
	buf_done(&x->text);
	memset(x, 0, sizeof(*x));
}
