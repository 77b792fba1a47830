/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_index_npm.c - what npm is told on this host
 */
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "config/index.h"
#include "index_fixture.h"

static const char none[] = "/nonexistent/npm";

TEST(npm_files_have_scopes_tokens_and_variables)
{
	static const char said[] = "\n//a.test/:_auth=${NONE}"
				   "\n//b.test/x/:_authToken=t0k="
				   "\n@b:registry=https://b.test/x/"
				   "\nregistry=https://a.test/";
	struct npmrc x;

	say("NPM_CONFIG_USERCONFIG",
	    "\xef\xbb\xbfregistry=https://early.test/\n; registry=https://no.test/\n"
	    "registry = \"https://a.test/\"\n@b:registry=https://b.test/x/\n"
	    "//b.test/x/:_authToken=${TOKEN}=\n//a.test/:_auth=${NONE}\n"
	    "//a.test/:certfile=/etc/passwd\nscript-shell=/bin/sh\n"
	    "cafile=/nonexistent\n[section]\nregistry=https://no.test/\n");
	setenv("TOKEN", "t0k", 1);
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
	unlink(path);
	CHECK(x.has_main && x.url_count >= 2 &&
	      (!x.cafile || access(x.cafile, R_OK) == 0));
	CHECK(strncmp(x.text.bytes, said, strlen(said)) == 0);
	CHECK(!strstr(x.text.bytes, "/etc/passwd") &&
	      !strstr(x.text.bytes, "script-shell"));
	npmrc_done(&x);
}

TEST(npm_files_are_read_as_npm_reads_them)
{
	static const struct {
		const char *text, *said;
	} rows[] = {
		{"\"@c:registry\"=https://a.test/", "@c:registry=https://a.test/"},
		{"'@c:registry' = 'https://a.test/'", "@c:registry=https://a.test/"},
		{"${K}=https://a.test/", "@c:registry=https://a.test/"},
		{"@c:registry ; d=https://a.test/", "@c:registry=https://a.test/"},
		{"timeout=1\r@c:registry=https://a.test/\r\n",
		 "@c:registry=https://a.test/"},
		{"[x\n@c:registry=https://a.test/", "@c:registry=https://a.test/"},
		{" [x]\n@c:registry=https://a.test/", "@c:registry=https://a.test/"},
		{"[x]y\n@c:registry=https://a.test/", "@c:registry=https://a.test/"},
		{"@c:registry=https://a.test/\n[x] \n@c:registry=https://no.test/",
		 "@c:registry=https://a.test/"},
		{"@c:registry=https://a.test/;b", "@c:registry=https://a.test/"},
		{"@c:registry=https://a.test/#b", "@c:registry=https://a.test/"},
		{"@c:registry=https://${NO?}a.test/${H?}",
		 "@c:registry=https://a.test/h"},
		{"@c:registry=https://a.test/${NO}", "@c:registry=https://a.test/${NO}"},
		{"@c:registry=https://a.test/${H-b}",
		 "@c:registry=https://a.test/${H-b}"},
	};
	struct npmrc x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const size_t len = strlen(rows[i].said);

		say("NPM_CONFIG_USERCONFIG", rows[i].text);
		setenv("K", "@c:registry", 1);
		setenv("H", "h", 1);
		CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
		CHECK(strncmp(x.text.bytes + 1, rows[i].said, len) == 0);
		CHECK(!x.text.bytes[1 + len] || x.text.bytes[1 + len] == '\n');
		unlink(path);
		npmrc_done(&x);
	}
}

/* else the public one would be asked for what a private one has */
TEST(a_registry_that_cannot_be_used_is_not_passed_over)
{
	static const char *const rows[] = {
		"registry=HTTPS://me:pw0rd@a.test/\n",
		"@c:registry=file:///etc\n",
		"@1:registry=http://a.test\n@2:registry=http://a.test\n"
		"@3:registry=http://a.test\n@4:registry=http://a.test\n"
		"@5:registry=http://a.test\n@6:registry=http://a.test\n"
		"@7:registry=http://a.test\n@8:registry=http://a.test\n"
		"@9:registry=http://a.test\n",
		"registry\n",
		"registry=https://a.test/ https://b.test/\n",
		"registry[]=https://a.test/\n",
		"registry=\"https://a.test/\n",
		"registry=\"https://a.test/\\u0061\"\n",
		"registry=https://a.test/\\${A}/\n",
		"registry=\"https://a.test/;b\"\n",
		"@c\\:registry=https://a.test/\n",
		"c:registry=https://a.test/\n",
		"//a.test/:_authToken=\"a;b\"\n",
		"//a.test/:_authToken=a\\;b\n",
		"prefix=below\n",
		"globalconfig=npmrc\n",
		"@${C}:registry=a.test\n",
	};
	struct npmrc x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = {0};

		say("NPM_CONFIG_USERCONFIG", rows[i]);
		CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, &e) == -1);
		CHECK(e.text[0] && !strstr(e.text, "pw0rd"));
		unlink(path);
		npmrc_done(&x);
	}
}

TEST(npm_files_that_have_no_end_hold_nobody_up)
{
	struct npmrc x;

	say("NPM_CONFIG_USERCONFIG", "");
	CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
	unlink(path);
	npmrc_done(&x);
	setenv("NPM_CONFIG_USERCONFIG", "/dev/zero", 1);
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == -1);
	npmrc_done(&x);
}

TEST(npm_reads_the_hosts_file_below_its_prefix)
{
	char home[] = "/tmp/test-index-XXXXXX", dir[64], file[96];
	struct npmrc x;
	FILE *f;

	say("NPM_CONFIG_USERCONFIG", "prefix=~/own\n");
	CHECK(mkdtemp(home) && setenv("HOME", home, 1) == 0);
	snprintf(dir, sizeof(dir), "%s/own", home);
	CHECK(mkdir(dir, 0700) == 0);
	snprintf(dir, sizeof(dir), "%s/own/etc", home);
	snprintf(file, sizeof(file), "%s/npmrc", dir);
	CHECK(mkdir(dir, 0700) == 0 && (f = fopen(file, "we")));
	CHECK(fputs("@a:registry=https://a.test/\n", f) >= 0);
	fclose(f);
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
	CHECK(x.url_count >= 1 && strcmp(x.urls[0], "https://a.test/") == 0);
	npmrc_done(&x);
	unlink(path);
	CHECK(fs_remove_tree(AT_FDCWD, home) == 0);
}

static void write_in(const char *dir, const char *text)
{
	char file[96];
	FILE *f;

	snprintf(file, sizeof(file), "%s/npmrc", dir);
	CHECK((f = fopen(file, "we")) && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* as packagers write it: the last that counts, but for where the host's is, in which it
 * comes before PREFIX */
TEST(npm_has_a_file_of_its_own)
{
	static const struct {
		const char *own, *user, *said, *unsaid; /* said NULL: not understood */
	} rows[] = {
		{"@a:registry=https://own.test/", "", "\n@a:registry=https://own.test/",
		 "host.test"},
		{"@a:registry=https://own.test/", "@a:registry=https://user.test/",
		 "\n@a:registry=https://user.test/", "own.test"},
		{"prefix=${TOP}\n@a:registry=https://own.test/", "",
		 "\n@a:registry=https://host.test/", "own.test"},
		{"globalconfig=${TOP}/etc/npmrc", "", "\n@a:registry=https://host.test/",
		 "own.test"},
		{"prefix=${TOP}\n@a:registry=https://own.test/", "prefix=/nonexistent",
		 "\n@a:registry=https://own.test/", "host.test"},
		{"globalconfig=${TOP}/etc/npmrc\n@a:registry=https://own.test/",
		 "globalconfig=/nonexistent", "\n@a:registry=https://own.test/",
		 "host.test"},
		{"prefix=below", "", NULL, NULL},
		{"@a:registry=file:///etc", "", NULL, NULL},
	};
	char npm[sizeof(fresh)], etc[64];
	struct npmrc x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *said = rows[i].said;

		say("NPM_CONFIG_USERCONFIG", rows[i].user);
		CHECK(mkdtemp(memcpy(npm, fresh, sizeof(fresh))));
		setenv("PREFIX", "/nonexistent", 1);
		setenv("TOP", npm, 1);
		snprintf(etc, sizeof(etc), "%s/etc", npm);
		CHECK(mkdir(etc, 0700) == 0);
		write_in(etc, "@a:registry=https://host.test/");
		write_in(npm, rows[i].own);
		CHECK(index_npm(&s, "/nonexistent/bin/node", npm, &x, NULL) ==
		      (said ? 0 : -1));
		CHECK(!said || strstr(x.text.bytes, said));
		CHECK(!said || !strstr(x.text.bytes, rows[i].unsaid));
		unlink(path);
		npmrc_done(&x);
		CHECK(fs_remove_tree(AT_FDCWD, npm) == 0);
	}
}

TEST(npm_knows_the_users_home_where_none_is_said)
{
	const struct passwd *who = getpwuid(geteuid());
	char own[PATH_MAX];
	struct npmrc x;

	say("NPM_CONFIG_USERCONFIG", "prefix=~/own\n");
	CHECK(who && unsetenv("HOME") == 0);
	snprintf(own, sizeof(own), "%s/own", who->pw_dir);
	(void)index_npm(&s, "/nonexistent/bin/node", none, &x, NULL);
	CHECK(x.prefix && strcmp(x.prefix, own) == 0);
	unlink(path);
	npmrc_done(&x);
}

TEST(the_hosts_file_may_be_named_in_that_of_the_user)
{
	char named[sizeof(fresh)], text[64];
	struct npmrc x;

	say("X", "@a:registry=https://a.test/\n");
	memcpy(named, path, sizeof(named));
	snprintf(text, sizeof(text), "globalconfig = %s\n", named);
	say("NPM_CONFIG_USERCONFIG", text);
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/") == 0);
	npmrc_done(&x);
	unlink(path);
	unlink(named);
}

TEST(npm_is_told_no_credentials_in_a_url)
{
	/* "t0k:" and "me:p:w@" */
	static const char said[] = "\n//b.test/:_auth=dDBrOg=="
				   "\n@b:registry=http://b.test"
				   "\n//a.test:81/x/:_auth=bWU6cDp3QA=="
				   "\nregistry=https://a.test:81/x";
	struct npmrc x;

	say("NPM_CONFIG_USERCONFIG", "registry=https://me:p%3aw%40@a.test:81/x\n"
				     "@b:registry=http://t0k@b.test\n");
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
	unlink(path);
	CHECK(x.url_count >= 2 && strcmp(x.urls[1], "https://a.test:81/x") == 0);
	CHECK(strncmp(x.text.bytes, said, strlen(said)) == 0);
	npmrc_done(&x);
}

TEST(npm_reads_the_hosts_file_that_is_named_or_beside_node)
{
	char top[] = "/tmp/test-index-XXXXXX", dir[64], file[96], node[64];
	struct npmrc x;
	FILE *f;

	say("npm_config_globalconfig", "@a:registry=https://a.test/\n");
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
	unlink(path);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/") == 0);
	npmrc_done(&x);

	CHECK(mkdtemp(top) && clearenv() == 0);
	setenv("HOME", "/nonexistent", 1);
	snprintf(node, sizeof(node), "%s/bin/node", top);
	snprintf(dir, sizeof(dir), "%s/etc", top);
	snprintf(file, sizeof(file), "%s/npmrc", dir);
	CHECK(mkdir(dir, 0700) == 0 && (f = fopen(file, "we")));
	CHECK(fputs("@b:registry=https://b.test/\n", f) >= 0);
	fclose(f);
	CHECK(index_npm(&s, node, none, &x, NULL) == 0);
	CHECK(x.url_count >= 1 && strcmp(x.urls[0], "https://b.test/") == 0);
	npmrc_done(&x);
	CHECK(unlink(file) == 0 && rmdir(dir) == 0);

	/* whatever is called bin above that */
	snprintf(node, sizeof(node), "%s/bin/x/bin/node", top);
	snprintf(dir, sizeof(dir), "%s/bin", top);
	CHECK(mkdir(dir, 0700) == 0);
	snprintf(dir, sizeof(dir), "%s/bin/x", top);
	CHECK(mkdir(dir, 0700) == 0);
	snprintf(dir, sizeof(dir), "%s/bin/x/etc", top);
	snprintf(file, sizeof(file), "%s/npmrc", dir);
	CHECK(mkdir(dir, 0700) == 0 && (f = fopen(file, "we")));
	CHECK(fputs("@c:registry=https://c.test/\n", f) >= 0);
	fclose(f);
	CHECK(index_npm(&s, node, none, &x, NULL) == 0);
	CHECK(x.url_count >= 1 && strcmp(x.urls[0], "https://c.test/") == 0);
	npmrc_done(&x);
	CHECK(fs_remove_tree(AT_FDCWD, top) == 0);
}

TEST(a_variable_comes_before_a_file_and_a_setting_before_both)
{
	struct npmrc x;

	say("NPM_CONFIG_USERCONFIG", "registry=https://a.test/\n");
	setenv("NPM_CONFIG_REGISTRY", "https://b.test/", 1);
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
	CHECK(x.url_count >= 1 && strcmp(x.urls[0], "https://b.test/") == 0);
	npmrc_done(&x);
	/* names in any case; of two the last counts, as for npm */
	setenv("Npm_Config_Registry", "https://d.test/", 1);
	setenv("NPM_CONFIG_@A:registry", "https://e.test/", 1);
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
	CHECK(x.url_count == 2 && strcmp(x.urls[0], "https://e.test/") == 0);
	CHECK(strcmp(x.urls[1], "https://d.test/") == 0);
	CHECK(strstr(x.text.bytes, "\n@a:registry=https://e.test/"));
	npmrc_done(&x);
	s.npm_registry = (char[]){"https://c.test/#d"}; /* npm would read less of it */
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == -1);
	npmrc_done(&x);
	s.npm_registry = (char[]){"https://c.test/"};
	CHECK(index_npm(&s, "/nonexistent/bin/node", none, &x, NULL) == 0);
	unlink(path);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://c.test/") == 0);
	npmrc_done(&x);
}
