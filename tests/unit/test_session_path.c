/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_session_path.c - paths of sessions: read once, climbing nowhere
 */
#include "../tap.h"
#include "api/api.h"
#include "base/err.h"

/* the status; 0: *where says what it became */
static int resolved(const char *text, struct session_path *where)
{
	struct err e = {0};

	return session_path_resolve(text, strlen(text), where, &e) < 0 ? err_status(&e)
								       : 0;
}

static int url(const char *below)
{
	struct err e = {0};

	return session_url_check(below, strlen(below), &e) < 0 ? err_status(&e) : 0;
}

TEST(paths_are_absolute_or_below_work)
{
	static const struct {
		const char *text, *where;
		bool directory;
	} rows[] = {
		{"a", "work/a", false},
		{"a/b.txt", "work/a/b.txt", false},
		{"./a/./b", "work/a/b", false},
		{"a//b", "work/a/b", false},
		{"a/", "work/a", true},
		{".", "work", false},
		{"./", "work", true},
		{"/", "", true},
		{"/.", "", false},
		{"//etc//hostname", "etc/hostname", false},
		{"/work/../x", NULL, false},
		{"/etc/passwd2", "etc/passwd2", false},
		{"/rooted", "rooted", false},
		{"...", "work/...", false},
		{"a b\\c;d%2e", "work/a b\\c;d%2e", false},
		{"\xc3\xa9", "work/\xc3\xa9", false},
		{"..", NULL, false},
		{"a/..", NULL, false},
		{"../work/a", NULL, false},
		{"/..", NULL, false},
		{"", NULL, false},
		{"a\nb", NULL, false},
		{"a\x7f", NULL, false},
		{"\xff", NULL, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct session_path p = {.len = 99};
		const int status = resolved(rows[i].text, &p);

		CHECK(status == (rows[i].where ? 0 : 400));
		CHECK(rows[i].where ? strcmp(p.text, rows[i].where) == 0 &&
					      p.len == strlen(p.text) &&
					      p.directory == rows[i].directory
				    : p.len == 99);
	}
}

TEST(what_is_not_the_sessions_own_is_blocked)
{
	static const char *const texts[] = {
		"/etc/passwd", "//etc/./passwd", "/etc/passwd/", "/etc/shadow",
		"/root",       "/root/",         "/root/.ssh/x", "/proc/1/environ",
		"/proc",       "/sys/kernel",    "/dev/null"};
	struct session_path p = {.len = 99};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK(resolved(texts[i], &p) == 403 && p.len == 99);
}

TEST(long_paths_and_names_are_refused)
{
	static char text[SESSION_PATH_MAX + 1];
	struct session_path p;

	memset(text, 'a', 256);
	CHECK(resolved(text, &p) == 400);
	text[255] = '\0';
	CHECK(resolved(text, &p) == 0 && p.len == 5 + 255);
	for (size_t i = 0; i < SESSION_PATH_MAX; i++)
		text[i] = i % 2 ? '/' : 'a';
	CHECK(resolved(text, &p) == 400);
	text[SESSION_PATH_MAX - 7] = '\0';
	CHECK(resolved(text, &p) == 0);
}

TEST(urls_are_decoded_once)
{
	static const struct {
		const char *below;
		int status;
	} rows[] = {
		{"", 0},
		{"/agent_7_sandbox", 0},
		{"/a/exec", 0},
		{"/a/files/", 0},
		{"/a/files/x%20y", 0},
		{"/a/files/%252e%252e", 0},
		{"/a/files/d/", 0},
		{"/a/files//etc/hostname", 0},
		{"/a/files//etc/passwd", 403},
		{"/a/files//%65tc/passw%64", 403},
		{"/a/files/%2e%2e", 400},
		{"/a/files/..%2fx", 400},
		{"/a/files/%2e%2e%2Fx", 400},
		{"/a/files/%00", 400},
		{"/a/files/%", 400},
		{"/a/files/%4", 400},
		{"/a/files/%4g", 400},
		{"/a/files/%0a", 400},
		{"/", 404},
		{"//exec", 404},
		{"/a/", 404},
		{"/a/files", 404},
		{"/a/execs", 404},
		{"/a/filesx", 404},
		{"/a%2f/exec", 404},
		{"/a b/exec", 404},
	};
	char id[170] = "/";

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(url(rows[i].below) == rows[i].status);
	memset(id + 1, 'x', 160);
	CHECK(url(id) == 0);
	id[161] = 'x';
	CHECK(url(id) == 404);
}
