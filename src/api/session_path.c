/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_path.c - which session a URL means, and where a client's path leads in it
 *
 * A path is read once, as text, before any file is looked at. What comes out are plain
 * components below the session's root: nothing in it climbs, and nothing is left to
 * decode. Links are the business of who opens it beneath that root.
 */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/fs.h"

#define ID_MOST 160 /* {scope_type}_{scope_id}_sandbox, of which scope_id has 128 */
#define HOME "work/"

/* neither a session's own nor anybody's to read: with all that is below them */
static const char *const blocked[] = {"etc/passwd", "etc/shadow", "root",
				      "proc",       "sys",        "dev"};

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int session_path_decode(const char *text, size_t len, char *out, size_t *out_len,
			struct err *e)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++, n++) {
		int high, low;

		out[n] = text[i];
		if (text[i] != '%')
			continue;
		high = len - i > 2 ? hex(text[i + 1]) : -1;
		low = len - i > 2 ? hex(text[i + 2]) : -1;
		if (high < 0 || low < 0)
			return err_client(e, 400, "bad_path",
					  "the path has a %% without two digits");
		out[n] = (char)(high << 4 | low);
		/* one that hides a separator would mean something else to who reads it
		 * before us */
		if (out[n] == '/' || out[n] == '\0')
			return err_client(e, 400, "bad_path",
					  "the path has an encoded slash or NUL");
		i += 2;
	}
	*out_len = n;
	return 0;
}

static bool is_blocked(const char *path, size_t len)
{
	for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++) {
		const size_t n = strlen(blocked[i]);

		if (len >= n && memcmp(path, blocked[i], n) == 0 &&
		    (len == n || path[n] == '/'))
			return true;
	}
	return false;
}

/* the next component of text behind *at; 0: there is none */
static size_t next(const char *text, size_t len, size_t *at)
{
	const char *slash;

	while (*at < len && text[*at] == '/')
		(*at)++;
	slash = memchr(text + *at, '/', len - *at);
	return slash ? (size_t)(slash - text) - *at : len - *at;
}

int session_path_resolve(const char *text, size_t len, struct session_path *out,
			 struct err *e)
{
	struct session_path p = {.len = 0};
	size_t at = 0, n;

	if (len == 0 || len > SESSION_PATH_MAX - sizeof(HOME))
		return err_client(e, 400, "bad_path", "a path has 1 to %zu bytes",
				  SESSION_PATH_MAX - sizeof(HOME));
	p.directory = text[len - 1] == '/';
	if (text[0] != '/') {
		memcpy(p.text, HOME, sizeof(HOME) - 1);
		p.len = sizeof(HOME) - 1;
	}
	for (; (n = next(text, len, &at)) > 0; at += n) {
		if (n == 1 && text[at] == '.')
			continue;
		memcpy(p.text + p.len, text + at, n);
		p.len += n;
		p.text[p.len++] = '/';
	}
	if (p.len) /* the root itself is "" */
		p.len--;
	p.text[p.len] = '\0';
	if (p.len && !fs_name_ok(p.text, p.len, SESSION_PATH_MAX))
		return err_client(e, 400, "bad_path",
				  "a path has no \"..\", no control characters, and "
				  "components of at most 255 bytes of UTF-8");
	if (is_blocked(p.text, p.len))
		return err_client(e, 403, "blocked_path",
				  "this path is not the session's own");
	*out = p;
	return 0;
}

static bool id_ok(const char *id, size_t len)
{
	static const char fit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789._-";

	for (size_t i = 0; i < len; i++) {
		if (!memchr(fit, id[i], sizeof(fit) - 1))
			return false;
	}
	return len > 0 && len <= ID_MOST;
}

static bool is_action(const char *rest, size_t len)
{
	static const char *const actions[] = {"/exec", "/fork", "/checkpoints",
					      "/restore", "/diff"};
	size_t i = 0;

	while (i < sizeof(actions) / sizeof(actions[0]) &&
	       (strlen(actions[i]) != len || memcmp(actions[i], rest, len) != 0))
		i++;
	return i < sizeof(actions) / sizeof(actions[0]);
}

int session_url_check(const char *below, size_t len, struct err *e)
{
	static const char files[] = "/files/";
	const char *rest = len > 1 ? memchr(below + 1, '/', len - 1) : NULL;
	const size_t id_len = len ? (rest ? (size_t)(rest - below) : len) - 1 : 0;
	const size_t rest_len = rest ? len - 1 - id_len : 0;
	char text[SESSION_PATH_MAX] = "";
	struct session_path path;
	size_t n;

	if (len == 0)
		return 0;
	if (!id_ok(below + 1, id_len))
		return err_client(e, 404, "not_found", "there is no such session");
	if (rest_len == 0 || is_action(rest, rest_len))
		return 0;
	if (rest_len < sizeof(files) - 1 || memcmp(rest, files, sizeof(files) - 1) != 0)
		return err_client(e, 404, "not_found", "there is nothing at this path");
	rest += sizeof(files) - 1;
	n = rest_len - (sizeof(files) - 1);
	if (n > sizeof(text))
		return err_client(e, 400, "bad_path", "the path is too long");
	if (session_path_decode(rest, n, text, &n, e) < 0)
		return -1;
	return n == 0 ? 0 : session_path_resolve(text, n, &path, e);
}
