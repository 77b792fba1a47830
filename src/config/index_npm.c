/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_npm.c - where packages for node come from: registries, of scopes too, and what
 * they want to know of who asks
 *
 * Runs in: the supervisor, once, at start. What npm's own files and variables say becomes
 * the .npmrc of an install, and is in nobody's arguments: there may be tokens in it.
 */
#include <ctype.h>
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
#define BLANK " \t\r\n\v\f"
#define QUOTED ";#\\\"'" /* what npm reads otherwise than it is written */

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

/* "${NAME}" and "${NAME?}" are that variable, as npm has it; one that is not set stays as
 * it is, or is nothing */
static char *expand(const char *value)
{
	char *out = mem_copy(""), *longer, *name;

	while (*value) {
		const size_t len = strncmp(value, "${", 2) == 0
					   ? strcspn(value + 2, "${}?")
					   : 0;
		const char *end = value + 2 + len;
		const char *found = NULL;

		if (len && (*end == '}' || strncmp(end, "?}", 2) == 0)) {
			name = mem_copy_n(value + 2, len);
			found = getenv(name);
			found = !found && *end == '?' ? "" : found;
			free(name);
		}
		longer = found ? mem_printf("%s%s", out, found)
			       : mem_printf("%s%c", out, *value);
		free(out);
		out = longer;
		value = !found ? value + 1 : end + (*end == '?' ? 2 : 1);
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
	if (strpbrk(key, "=\r\n" QUOTED) || strpbrk(value, "\r\n" QUOTED))
		x->odd = "a registry or a token with quotes, a comment or a backslash in "
			 "it";
	else if (buf_printf(&x->text, "\n%s=%s", key, value) < 0 ||
		 buf_text(&x->text) < 0)
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
	auto_free char *user = NULL, *basic = NULL, *key = NULL;
	size_t len;

	if (!at)
		return;
	user = mem_copy_n(host, (size_t)(at - host));
	basic = as_basic(user);
	memmove(host, at + 1, strlen(at + 1) + 1);
	len = strcspn(host, "?#");
	key = mem_printf("//%.*s%s:_auth", (int)len, host,
			 len && host[len - 1] == '/' ? "" : "/");
	say(x, key, basic);
}

/* what cannot be used is not passed over: the public one would be asked instead */
static void take_registry(struct npmrc *x, const char *key, char *value, bool main)
{
	if (!*value)
		return;
	if (!index_is_url(value) || strpbrk(value, BLANK)) {
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

/* npm takes a relative one from where it was started */
static void take_path(struct npmrc *x, char **to, const char *value)
{
	const char *home = index_home();

	if (*to || !*value)
		return;
	if (strncmp(value, "~/", 2) == 0 && home)
		*to = mem_printf("%s%s", home, value + 1);
	else if (value[0] == '/')
		*to = mem_copy(value);
	else
		x->odd = "a prefix or a globalconfig that is no absolute path";
}

/* what decides where packages come from, and who asks for them */
static bool matters(const char *key)
{
	static const char *const keys[] = {"prefix", "globalconfig", "cafile"};
	bool found = strstr(key, "registry") || strncmp(key, "//", 2) == 0;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		found = found || strcmp(key, keys[i]) == 0;
	return found;
}

/* the first that says something counts */
static void take(struct npmrc *x, const char *name, const char *said)
{
	auto_free char *key = expand(name), *value = expand(said);
	const bool main = strcmp(key, "registry") == 0;
	const bool scope = key[0] == '@' && ends_with(key, ":registry");

	if (is_known(x, key) || (x->leads_alone && strcmp(key, "prefix") != 0 &&
				 strcmp(key, "globalconfig") != 0))
		return;
	if (main || scope) {
		take_registry(x, key, value, main);
	} else if (ends_with(key, "registry")) {
		x->odd = "a registry of what is not known";
	} else if (strcmp(key, "prefix") == 0) {
		take_path(x, &x->prefix, value);
	} else if (strcmp(key, "globalconfig") == 0) {
		take_path(x, &x->globalconfig, value);
	} else if (strcmp(key, "cafile") == 0) {
		if (value[0] != '/' || access(value, R_OK) < 0)
			return;
		x->cafile = mem_copy(value);
		say(x, key, value);
	} else if (is_credential(key)) {
		say(x, key, value);
	}
}

static char *trim(char *text)
{
	char *end;

	text += strspn(text, BLANK);
	for (end = text + strlen(text); end > text && strchr(BLANK, end[-1]); end--)
		end[-1] = '\0';
	return text;
}

/* a key or value of a line, in quotes or up to a comment */
static char *unquote(char *text, bool *unclear)
{
	size_t len;

	text = trim(text);
	len = strlen(text);
	if (len > 1 && strchr("\"'", *text) && text[len - 1] == *text) {
		text[len - 1] = '\0';
		text++;
	} else {
		text[strcspn(text, ";#")] = '\0';
		text = trim(text);
	}
	*unclear = *unclear || strpbrk(text, "\\\"'");
	return text;
}

/* "key = value"; a key alone is "true" */
static void take_line(struct npmrc *x, char *line)
{
	char none[] = "true", *equals = strchr(line, '='), *key, *value;
	bool unclear = false;

	if (strchr(";#", line[strspn(line, BLANK)]) || equals == line)
		return;
	if (equals)
		*equals = '\0';
	key = unquote(line, &unclear);
	value = equals ? unquote(equals + 1, &unclear) : none;
	if ((unclear || ends_with(key, "[]")) && matters(key))
		x->odd = "a line of an npmrc that cannot be understood";
	else
		take(x, key, value);
}

/* "[name]" and nothing else */
static bool is_section(const char *line)
{
	const char *end = line + strcspn(line, "]\n");

	if (*line != '[' || *end != ']')
		return false;
	end += 1 + strspn(end + 1, " \t\v\f");
	return !*end || *end == '\n';
}

/* where a section begins: npm needs none, and nothing of what is in one */
static char *end_of_file(char *text)
{
	char *line = text;

	while (line && !is_section(line)) {
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
	for (char *cr = from; (cr = strchr(cr, '\r'));)
		*cr = '\n';
	if ((end = end_of_file(from)))
		*end = '\0';
	while ((line = strrchr(from, '\n'))) {
		take_line(x, line + 1);
		*line = '\0';
	}
	take_line(x, from);
	return 0;
}

/* names are in any case, and have dashes; of two that are the same the last counts */
static void from_environment(struct npmrc *x)
{
	static const char lead[] = "npm_config_";
	size_t count = 0;

	while (environ && environ[count])
		count++;
	while (count-- > 0) {
		auto_free char *word = NULL;
		char *key, *value;

		if (strncasecmp(environ[count], lead, strlen(lead)) != 0)
			continue;
		word = mem_copy(environ[count] + strlen(lead));
		key = word;
		value = strchr(word, '=');
		if (!value || !value[1])
			continue;
		*value++ = '\0';
		for (char *c = key; *c && strncmp(key, "//", 2) != 0; c++)
			*c = *c == '_' && c > key ? '-'
						  : (char)tolower((unsigned char)*c);
		if (strcmp(key, "userconfig") == 0)
			take_path(x, &x->userconfig, value);
		else if (strchr(value, '\\') && matters(key))
			x->odd = "a variable that cannot be understood";
		else
			take(x, key, trim(value));
	}
}

/* TOP/etc/npmrc of TOP/bin/node */
static char *beside(const char *node)
{
	auto_free char *top = mem_copy(node);
	char *slash = strrchr(top, '/');

	if (slash)
		*slash = '\0';
	slash = strrchr(top, '/');
	if (slash)
		*slash = '\0';
	return slash ? mem_printf("%s/etc/npmrc", top) : NULL;
}

/* the host's file: the one that is named, else below the prefix, else beside node */
static int from_host(struct npmrc *x, const char *node, struct err *e)
{
	const char *prefix = getenv("PREFIX");
	auto_free char *path = NULL;

	if (x->globalconfig)
		return from_file(x, x->globalconfig, e);
	if (!x->prefix && prefix)
		take_path(x, &x->prefix, prefix);
	if (x->prefix)
		path = mem_printf("%s/etc/npmrc", x->prefix);
	else
		path = beside(node);
	if (from_file(x, path, e) < 0)
		return -1;
	return from_file(x, "/etc/npmrc", e); /* as Debian's npm has it */
}

/* what is npm's own, as its packager has it, says less than all the others, but comes
 * before PREFIX and node in where the host's file is */
static int from_files(struct npmrc *x, const char *node, const char *npm, struct err *e)
{
	const char *home = index_home();
	auto_free char *own = home ? mem_printf("%s/.npmrc", home) : NULL;
	auto_free char *builtin = mem_printf("%s/npmrc", npm);
	int rc;

	if (from_file(x, x->userconfig ? x->userconfig : own, e) < 0)
		return -1;
	x->leads_alone = true;
	rc = from_file(x, builtin, e);
	x->leads_alone = false;
	if (rc < 0 || from_host(x, node, e) < 0)
		return -1;
	return from_file(x, builtin, e);
}

int index_npm(const struct settings *s, const char *node, const char *npm,
	      struct npmrc *out, struct err *e)
{
	memset(out, 0, sizeof(*out));
	buf_init(&out->text, TEXT_MOST);
	if (s->npm_registry && index_is_url(s->npm_registry)) {
		take(out, "registry", s->npm_registry);
	} else {
		from_environment(out);
		if (from_files(out, node, npm, e) < 0)
			return -1;
	}
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
	free(x->globalconfig);
	free(x->userconfig);
	buf_done(&x->text);
	memset(x, 0, sizeof(*x));
}
