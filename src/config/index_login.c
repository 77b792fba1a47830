/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_login.c - who asks an index: what its URL, uv's variables and a netrc file say
 *
 * Runs in: the supervisor, once, at start. Asked without the password that the host's own
 * pip and uv have, an index may refuse or show less, and what it does not show comes from
 * the next one. A netrc file that is not understood is therefore no file to pass over.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/index.h"
#include "config/index_add.h"

#define BLANK " \t\n"

struct login {
	char *user, *password; /* or NULL */
};

static void login_done(struct login *l)
{
	free(take_ptr(&l->user));
	free(take_ptr(&l->password));
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

static char *copy_or_null(const char *text)
{
	return text ? mem_copy(text) : NULL;
}

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

/* UV_INDEX_NAME_USERNAME and its like, as uv spells the name of an index */
static const char *of_index(const char *name, const char *what)
{
	auto_free char *variable = mem_printf("UV_INDEX_%s_%s", name, what);

	for (char *c = variable; *c; c++)
		*c = isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
	return getenv(variable);
}

/* a user in the URL counts; of that one a variable may have the password */
static void from_variables(const char *name, struct login *l)
{
	const char *user = name ? of_index(name, "USERNAME") : NULL;
	const char *password = name ? of_index(name, "PASSWORD") : NULL;

	if (l->user && !same(l->user, user))
		return;
	if (!l->user)
		l->user = copy_or_null(user);
	l->password = copy_or_null(password);
}

/* NULL: no more */
static char *next_word(const char **at)
{
	const char *from = *at + strspn(*at, BLANK);
	const size_t len = strcspn(from, BLANK);

	*at = from + len;
	return len ? mem_copy_n(from, len) : NULL;
}

/* a word with its value, where comments may stand; 0: no more */
static int next_pair(const char **at, char **key, char **value)
{
	*at += strspn(*at, BLANK);
	while (**at == '#') {
		*at += strcspn(*at, "\n");
		*at += strspn(*at, BLANK);
	}
	*key = next_word(at);
	*value = *key && strcmp(*key, "default") != 0 ? next_word(at) : NULL;
	return *key != NULL;
}

struct netrc {
	const char *host;
	struct login of[2]; /* of that host, the last counts; of default */
	bool has[2];
	struct login *now; /* whose words these are; NULL: another host's */
};

static void begin_login(struct netrc *n, int which)
{
	login_done(&n->of[which]);
	n->has[which] = true;
	n->now = &n->of[which];
}

/* -1: not what pip and uv take for the same */
static int take_pair(struct netrc *n, const char *key, const char *value)
{
	char **to;

	if (strcmp(key, "default") == 0) {
		begin_login(n, 1);
		return 0;
	}
	if (!value)
		return -1;
	if (strcmp(key, "machine") == 0) {
		n->now = NULL;
		if (strcasecmp(value, n->host) == 0)
			begin_login(n, 0);
		return 0;
	}
	if (strcmp(key, "account") == 0)
		return 0;
	if (strcmp(key, "login") != 0 && strcmp(key, "password") != 0)
		return -1;
	if (!n->now)
		return 0;
	if (strpbrk(value, "\"\\"))
		return -1;
	to = *key == 'l' ? &n->now->user : &n->now->password;
	free(*to);
	*to = mem_copy(value);
	return 0;
}

static int read_netrc(struct netrc *n, const char *text)
{
	const char *at = text;
	char *key, *value;
	int rc = strchr(text, '\r') ? -1 : 0;

	while (rc == 0 && next_pair(&at, &key, &value)) {
		if (strcmp(key, "macdef") == 0) { /* to an empty line */
			at = strstr(at, "\n\n");
			at = at ? at : "";
		} else {
			rc = take_pair(n, key, value);
		}
		free(key);
		free(value);
	}
	return rc;
}

/* as pip and uv look for it; -1: it cannot be understood, else 1 if there is one */
static int find_netrc(char text[INDEX_FILE_MOST])
{
	static const char *const usual[] = {"~/.netrc", "~/_netrc"};
	const char *home = index_home(), *named = getenv("NETRC");
	const bool alone = named && *named; /* then pip reads no other one */
	const size_t count = alone ? 1 : sizeof(usual) / sizeof(usual[0]);
	struct err e = {0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count; i++) {
		const char *said = alone ? named : usual[i];
		const bool at_home = strncmp(said, "~/", 2) == 0;
		auto_free char *path = mem_printf("%s%s", at_home && home ? home : "",
						  at_home ? said + 1 : said);

		if (*said == '~' && !at_home) /* somebody else's home */
			return -1;
		rc = at_home && !home ? 0 : index_read(path, text, &e);
	}
	return rc;
}

static int from_netrc(const char *host, struct login *l)
{
	auto_free char *text = mem_zero(INDEX_FILE_MOST);
	struct netrc n = {.host = host};
	int rc = find_netrc(text);
	struct login *found;

	if (rc > 0)
		rc = read_netrc(&n, text);
	found = n.has[0] ? &n.of[0] : &n.of[1];
	if (rc == 0 && (n.has[0] || n.has[1]) &&
	    (!l->user || same(l->user, found->user))) {
		free(l->user);
		l->user = take_ptr(&found->user);
		l->password = take_ptr(&found->password);
	}
	login_done(&n.of[0]);
	login_done(&n.of[1]);
	return rc < 0 ? -1 : 0;
}

static const char *host_in(const char *url)
{
	return strstr(url, "://") + 3;
}

/* behind the user and password; NULL: there are none */
static const char *at_in(const char *url)
{
	const char *host = host_in(url);

	return memrchr(host, '@', strcspn(host, "/?#"));
}

bool index_has_password(const char *url)
{
	const char *host = host_in(url), *at = at_in(url);

	return at && memchr(host, ':', (size_t)(at - host));
}

/* the host of "host:port/path" or "[address]:port/path", as a netrc file has it */
static char *host_of(const char *from)
{
	const bool of_six = *from == '[';

	return mem_copy_n(from + of_six, strcspn(from + of_six, of_six ? "]" : ":/?#"));
}

char *index_login(struct index *x, const char *name, const char *url)
{
	const char *host = host_in(url), *at = at_in(url);
	auto_free char *only = host_of(at ? at + 1 : host);
	auto_free char *first = NULL, *second = NULL;
	struct login l = {.user = at ? mem_copy_n(host, (size_t)(at - host)) : NULL};
	char *out;

	if (l.user)
		(void)index_decode(l.user);
	if (!index_has_password(url)) {
		from_variables(name, &l);
		if (!l.password && x->asks != ASKS_NEVER && from_netrc(only, &l) < 0)
			x->odd = "an index without a password, and a netrc file that "
				 "cannot be understood";
	}
	first = encoded(l.user);
	second = encoded(l.password);
	if (index_has_password(url) || (!l.password && (at || !l.user)))
		out = mem_copy(url);
	else
		out = mem_printf("%.*s%s:%s@%s", (int)(host - url), url, first, second,
				 at ? at + 1 : host);
	login_done(&l);
	if (x->asks == ASKS_ALWAYS && !at_in(out))
		x->odd = "an index that wants to know who asks, and nobody to name";
	return out;
}
