/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_index.c - what pip and uv are told on this host
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
#include "egress/rules.h"
#include "index_fixture.h"

TEST(pip_files_have_options_in_sections_and_values_of_several_lines)
{
	struct index x;

	say("PIP_CONFIG_FILE", "[global]\n  # index-url = https://no.test/\n"
			       "  index-url = https://a.test/simple\n"
			       "  extra-index-url =\n      https://b.test/\n"
			       "      # https://c.test/\n      https://d.test/\n"
			       "  timeout = 60\n      https://e.test/\n"
			       "[install]\nfind-links = /usr /nonexistent\n");
	CHECK(index_python(&s, NULL, &x, NULL) == 0);
	unlink(path);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/simple") == 0);
	CHECK(x.extra_count >= 2 && strcmp(x.extra[1], "https://d.test/") == 0);
	CHECK(x.link_count >= 1 && strcmp(x.links[0], "/usr") == 0);
	index_done(&x);
}

TEST(uv_files_have_tables_of_indexes)
{
	struct index x;

	say("UV_CONFIG_FILE", "extra-index-url = [\n  \"https://a.test/\",\n]\n"
			      "[[index]]\nname = \"b\"\nurl = \"https://b.test/\"\n"
			      "[[index]]\nurl = \"https://c.test/\"\ndefault = true\n"
			      "[[index]]\nurl = \"https://e.test/\"\nexplicit = true\n"
			      "[pip]\nurl = \"https://d.test/\"\n");
	CHECK(index_python(&s, NULL, &x, NULL) == 0);
	unlink(path);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://c.test/") == 0);
	CHECK(x.extra_count >= 2 && strcmp(x.extra[0], "https://b.test/") == 0);
	CHECK(strcmp(x.extra[1], "https://a.test/") == 0);
	for (size_t i = 0; i < x.extra_count; i++) /* a project's own, for what it says */
		CHECK(strcmp(x.extra[i], "https://e.test/") != 0);
	index_done(&x);
}

TEST(an_index_of_uv_is_the_one_it_is_however_it_is_written)
{
	static const struct {
		const char *text, *main, *extra;
	} rows[] = {
		{"index = [{url = \"https://a.test/\", default = true}]",
		 "https://a.test/", NULL},
		{"index = [\n  { name = 'b', url = 'https://b.test/' }, # default\n"
		 "  { default = true, url = 'https://a.test/' },\n]",
		 "https://a.test/", "https://b.test/"},
		{"index-url = \"https://a.test/\" # was https://b.test/",
		 "https://a.test/", NULL},
		{"index-url = 'https://b.test/'\n[[index]]\nurl = 'https://a.test/'\n"
		 "default = true",
		 "https://a.test/", NULL},
		{"index-url = 'https://b.test/'\nextra-index-url = ['https://c.test/']\n"
		 "[pip]\nindex-url = 'https://a.test/'",
		 "https://a.test/", "https://c.test/"},
		{"[[index]]\nname = 'x'\nurl = 'https://a.test/'\ndefault = true\n"
		 "authenticate = 'auto'\nformat = 'simple'\n"
		 "ignore-error-codes = [403]\ncache-control = {api = 'x', files = 'y'}\n"
		 "[[index]]\nname = 'x'\nurl = 'https://b.test/'",
		 "https://a.test/", NULL},
		{"index-url = 'https://a.test/'\n"
		 "[[index]]\nname = 'x'\nurl = 'https://b.test/'\n[[index]]\n"
		 "name = 'x'\nurl = 'https://c.test/'\ndefault = true",
		 "https://a.test/", "https://b.test/"},
		{"index-url = 'https://a.test/'\n"
		 "[[index]]\nname = 'x'\nurl = 'https://b.test/'\nexplicit = true\n"
		 "[[index]]\nname = 'x'\nurl = 'https://c.test/'",
		 "https://a.test/", NULL},
		{"extra-index-url = ['https://c.test/']\n[[index]]\n"
		 "url = 'https://b.test/'\n[[index]]\nurl = 'https://a.test/'\n"
		 "default = true",
		 "https://a.test/", "https://b.test/"},
	};
	struct index x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		say("UV_CONFIG_FILE", rows[i].text);
		setenv("PIP_CONFIG_FILE", "/dev/null", 1);
		CHECK(index_python(&s, NULL, &x, NULL) == 0);
		unlink(path);
		CHECK(x.url_count == 1 && strcmp(x.urls[0], rows[i].main) == 0);
		CHECK(rows[i].extra ? x.extra_count >= 1 &&
					      strcmp(x.extra[0], rows[i].extra) == 0
				    : x.extra_count == 0);
		index_done(&x);
	}
}

/* else the public index would be asked for what a private one has */
TEST(an_index_that_cannot_be_understood_is_not_passed_over)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{"index-url = https://a.test/", "line 1"},
		{"\n[[index]]\nurl = \"\"\"https://a.test/\"\"\"", "line 3"},
		{"[[index]]\nurl = './wheels'\ndefault = true", "no http(s) URL"},
		{"[[index]]\nurl = '/usr'\ndefault = true\nformat = 'flat'",
		 "a list of links"},
		{"[[index]]\nurl = 'https://a.test/'\nformat = 'flat'",
		 "a list of links"},
		{"[[index]]\nname = 'a'\nurl = 'https://a.test/'\ndefault = true\n"
		 "explicit = true",
		 "explicit"},
		{"index-url = 'ssh://me:pw0rd@a.test/'", "no http(s) URL"},
		{"[[index]]\nurl = 'https://a.test/'\nauthenticate = 'sometimes'",
		 "not known"},
		{"[[index]]\nurl = 'https://a.test/'\nformat = 'html'", "not known"},
		{"[[index]]\nurl = 'https://a.test/'\nproxy-for = 'x'", "not known"},
		{"indexurl = 'https://a.test/'", "not known"},
		{"[[pip.index]]\nurl = 'https://a.test/'", "not known"},
		{"index-url = 'https://${H}/'", "a variable"},
		{"extra-index-url = ['https://1.test', 'https://2.test', "
		 "'https://3.test', 'https://4.test', 'https://5.test', "
		 "'https://6.test', 'https://7.test', 'https://8.test', "
		 "'https://9.test']",
		 "more than 8"},
	};
	struct index x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = {0};

		say("UV_CONFIG_FILE", rows[i].text);
		CHECK(index_python(&s, NULL, &x, &e) == -1 &&
		      strstr(e.text, rows[i].why));
		CHECK(!strstr(e.text, "pw0rd"));
		unlink(path);
		index_done(&x);
	}
}

TEST(variables_say_who_asks_an_index_that_has_a_name)
{
	struct index x;

	say("UV_CONFIG_FILE", "[[index]]\nname = 'my-corp.x'\n"
			      "url = 'https://a.test/s'\ndefault = true\n"
			      "[[index]]\nname = 'three'\nurl = 'https://c.test/'\n"
			      "[[index]]\nname = 'two'\nurl = 'https://me@b.test/'\n");
	setenv("UV_INDEX_MY_CORP_X_USERNAME", "me@home", 1);
	setenv("UV_INDEX_MY_CORP_X_PASSWORD", "p:w/\xc3\xa4", 1);
	setenv("UV_INDEX_TWO_PASSWORD", "other", 1);
	setenv("UV_INDEX", "three=http://c.test:81/", 1);
	setenv("UV_INDEX_THREE_USERNAME", "token", 1);
	CHECK(index_python(&s, NULL, &x, NULL) == 0);
	unlink(path);
	CHECK(x.url_count == 1 &&
	      strcmp(x.urls[0], "https://me%40home:p%3Aw%2F%C3%A4@a.test/s") == 0);
	CHECK(x.extra_count >= 2 && strcmp(x.extra[0], "http://token:@c.test:81/") == 0);
	CHECK(strcmp(x.extra[1], "https://me@b.test/") == 0);
	index_done(&x);
}

TEST(directories_of_links_may_be_at_home_or_beside_uvs_file)
{
	struct index x;

	say("UV_CONFIG_FILE", "find-links = ['.', 'file://localhost/us%72/bin', "
			      "'file:///usr/lib']\n"
			      "[[index]]\nurl = '/usr/share'\nformat = 'flat'\n");
	setenv("HOME", "/usr", 1);
	setenv("UV_FIND_LINKS", "/usr/local,/etc", 1);
	setenv("PIP_FIND_LINKS", "~/sbin /nonexistent", 1);
	CHECK(index_python(&s, NULL, &x, NULL) == 0);
	unlink(path);
	CHECK(x.link_count == 7 && strcmp(x.links[2], "/tmp/.") == 0);
	CHECK(strcmp(x.links[0], "/usr/local") == 0 && strcmp(x.links[1], "/etc") == 0);
	CHECK(strcmp(x.links[3], "/usr/bin") == 0 && strcmp(x.links[4], "/usr/lib") == 0);
	CHECK(strcmp(x.links[5], "/usr/share") == 0 &&
	      strcmp(x.links[6], "/usr/sbin") == 0);
	index_done(&x);
}

/* the packages of what was passed over would come from the public index */
TEST(links_that_are_no_directory_are_not_passed_over)
{
	static const struct {
		const char *variable, *text;
	} rows[] = {
		{"UV_CONFIG_FILE", "find-links = ['~/bin']"}, /* no home to uv */
		{"UV_CONFIG_FILE", "find-links = ['https://a.test/links']"},
		{"UV_CONFIG_FILE", "find-links = ['/nonexistent']"},
		{"UV_CONFIG_FILE", "find-links = ['file://a.test/usr']"},
		{"UV_CONFIG_FILE", "find-links = ['file:///us%00r']"},
		{"UV_FIND_LINKS", "/usr/bin /usr/lib"}, /* one directory */
		{"UV_FIND_LINKS", "usr"},
		{"PIP_FIND_LINKS", "/usr https://a.test/links"},
		{"PIP_FIND_LINKS", "/etc/passwd"}, /* a page of links */
		{"PIP_FIND_LINKS", "wheels"},
		{"PIP_FIND_LINKS", "~nobody/wheels"},
	};
	struct index x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = {0};

		say(rows[i].variable, rows[i].text);
		if (!strstr(rows[i].variable, "FILE"))
			setenv(rows[i].variable, rows[i].text, 1);
		setenv("HOME", "/usr", 1);
		CHECK(index_python(&s, NULL, &x, &e) == -1);
		CHECK(strstr(e.text, "find-links that are no directory"));
		unlink(path);
		index_done(&x);
	}
}

TEST(a_file_of_uvs_may_be_named_from_where_we_are)
{
	struct index x;

	say("UV_CONFIG_FILE", "find-links = ['.']\n");
	CHECK(chdir("/tmp") == 0);
	setenv("UV_CONFIG_FILE", path + strlen("/tmp/"), 1);
	setenv("PIP_CONFIG_FILE", "/dev/null", 1);
	CHECK(index_python(&s, NULL, &x, NULL) == 0 && x.link_count == 1);
	CHECK(strcmp(x.links[0], "/tmp/.") == 0);
	unlink(path);
	index_done(&x);
}

TEST(of_pip_the_first_place_that_says_something_counts)
{
	struct index x;

	say("PIP_CONFIG_FILE", "[download]\nindex-url = https://no.test/\n"
			       "[global]\nindex-url = https://b.test/\n"
			       "extra-index-url = https://c.test/\n"
			       "[install]\nindex_url: https://a.test/ https://no.test/\n"
			       "no-index = false\n");
	setenv("PIP_EXTRA_INDEX_URL", "https://d.test/", 1);
	CHECK(index_python(&s, NULL, &x, NULL) == 0);
	unlink(path);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/") == 0);
	CHECK(x.extra_count == 1 && strcmp(x.extra[0], "https://d.test/") == 0);
	CHECK(!x.alone);
	index_done(&x);
}

TEST(pip_has_more_than_one_way_to_write_an_option)
{
	static const char *const rows[] = {
		"[global]\n--index-url = https://a.test/,b",
		"[global]\r\n--Index_URL: https://a.test/,b\r\n",
		"[global]\npypi-url = https://a.test/,b",
		"[install]\nindex-url =\n[global]\nindex-url = https://a.test/,b",
		("[global]\ntrusted-host = b.test\n  [install]\n  c.test\n"
		 "index-url = https://a.test/,b"),
		"[DEFAULT]\nindex-url = https://a.test/,b\n[global]\n",
	};
	struct index x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		say("PIP_CONFIG_FILE", rows[i]);
		setenv("PIP_INDEX_URL", "", 1);
		CHECK(index_python(&s, NULL, &x, NULL) == 0);
		unlink(path);
		CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/,b") == 0);
		index_done(&x);
	}
}

TEST(pip_may_be_told_to_ask_no_index)
{
	static const char *const yes[] = {"true", "Y", "t", "on", "1", "yes\r"};
	static const char *const no[] = {"false", "N", "f", "off", "0", ""};
	struct index x;
	char text[64];

	for (size_t i = 0; i < 12; i++) {
		snprintf(text, sizeof(text), "[global]\nno-index = %s\n",
			 i < 6 ? yes[i] : no[i - 6]);
		say("PIP_CONFIG_FILE", text);
		CHECK(index_python(&s, NULL, &x, NULL) == 0 && x.alone == (i < 6));
		unlink(path);
		index_done(&x);
	}
}

TEST(a_file_that_pip_does_not_read_is_not_passed_over)
{
	static const char *const rows[] = {
		"\xef\xbb\xbf[global]\nindex-url = https://a.test/\n",
		"index-url = https://a.test/\n",
		"[global]\nindex-url\n",
		"[global\nindex-url = https://a.test/\n",
		"[global]\rindex-url = https://a.test/\r",
		"[global]\nno-index = maybe\n",
		"[global]\nindex-url = https://a.test/\nindex_url = https://b.test/",
		"[global]\ntimeout = 60\n  index-url = https://a.test/\n",
		"[global]\nindex-url = https://a.test/\n[global]\ntimeout = 60\n",
	};
	struct index x;
	struct err e = {0};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		say("PIP_CONFIG_FILE", rows[i]);
		CHECK(index_python(&s, NULL, &x, NULL) == -1);
		unlink(path);
		index_done(&x);
	}
	clearenv();
	setenv("HOME", "/nonexistent", 1);
	setenv("PIP_CONFIG_FILE", "/dev/zero", 1);
	CHECK(index_python(&s, NULL, &x, &e) == -1 && strstr(e.text, "larger"));
	index_done(&x);
}

/* files of the user and of the host; "" is none */
static void say_both(const char *below, const char *own, const char *host)
{
	const char *const texts[] = {own, host};
	char name[96];
	FILE *f;

	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s/%s/%s", path, i ? "host" : "own", below);
		for (char *c = name + strlen(path); (c = strchr(c + 1, '/'));) {
			*c = '\0';
			(void)mkdir(name, 0700);
			*c = '/';
		}
		f = fopen(name, "we");
		CHECK(f && fputs(texts[i], f) >= 0 && fclose(f) == 0);
	}
}

TEST(files_of_user_and_host_are_one)
{
	static const struct {
		const char *below, *own, *host, *extra;
	} rows[] = {
		{"pip/pip.conf", "[global]\nindex-url = https://b.test/",
		 "[install]\nindex-url = https://a.test/", NULL},
		{"uv/uv.toml", "index-url = 'https://b.test/'",
		 "[[index]]\nurl = 'https://a.test/'\ndefault = true", NULL},
		{"uv/uv.toml", "index-url = 'https://b.test/'",
		 "[pip]\nindex-url = 'https://a.test/'", NULL},
		{"uv/uv.toml", "extra-index-url = ['https://b.test/']",
		 "index-url = 'https://a.test/'\n[[index]]\nurl = 'https://c.test/'",
		 "https://c.test/"},
	};
	char own[64], host[64];
	struct index x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK(clearenv() == 0 && mkdtemp(memcpy(path, fresh, sizeof(path))));
		snprintf(own, sizeof(own), "%s/own", path);
		snprintf(host, sizeof(host), "%s/host", path);
		setenv("HOME", "/nonexistent", 1);
		setenv("XDG_CONFIG_HOME", own, 1);
		setenv("XDG_CONFIG_DIRS", host, 1);
		say_both(rows[i].below, rows[i].own, rows[i].host);
		CHECK(index_python(&s, NULL, &x, NULL) == 0);
		CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/") == 0);
		CHECK(!rows[i].extra ||
		      (x.extra_count >= 2 && strcmp(x.extra[0], rows[i].extra) == 0));
		index_done(&x);
		CHECK(fs_remove_tree(AT_FDCWD, path) == 0);
	}
}

TEST(a_file_of_uvs_that_is_named_must_be_there)
{
	struct index x;
	struct err e = {0};

	say("UV_CONFIG_FILE", "index-url = 'https://a.test/'");
	setenv("UV_NO_CONFIG", "1", 1); /* of other files */
	CHECK(index_python(&s, NULL, &x, NULL) == 0);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/") == 0);
	index_done(&x);
	unlink(path);
	CHECK(index_python(&s, NULL, &x, &e) == -1 && strstr(e.text, path));
	index_done(&x);
	setenv("UV_CONFIG_FILE", "/tmp", 1);
	CHECK(index_python(&s, NULL, &x, &e) == -1 && strstr(e.text, "/tmp"));
	index_done(&x);
}

TEST(an_index_may_have_a_name_and_files_are_where_their_variables_say)
{
	char top[] = "/tmp/test-index-XXXXXX", dir[64], file[96];
	static const char *const variables[] = {"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"};
	struct index x;
	FILE *f;

	CHECK(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/pip", top);
	snprintf(file, sizeof(file), "%s/pip.conf", dir);
	CHECK(mkdir(dir, 0700) == 0 && (f = fopen(file, "we")));
	CHECK(fputs("[global]\nfind-links = /usr/lib\n", f) >= 0);
	fclose(f);
	for (size_t i = 0; i < 4; i++) {
		clearenv();
		setenv("HOME", "/nonexistent", 1);
		setenv("UV_DEFAULT_INDEX", "corp=https://a.test/?b=c", 1);
		setenv(i < 2 ? variables[i] : "VIRTUAL_ENV", i < 2 ? top : dir, 1);
		if (i == 3) /* no files at all */
			setenv("PIP_CONFIG_FILE", "/dev/null", 1);
		CHECK(index_python(&s, NULL, &x, NULL) == 0);
		CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/?b=c") == 0);
		CHECK((x.link_count && strcmp(x.links[0], "/usr/lib") == 0) == (i < 3));
		index_done(&x);
	}
	unlink(file);
	rmdir(dir);
	rmdir(top);
}

TEST(a_home_that_is_not_said_is_the_users_own)
{
	static const char *const homes[] = {NULL, ""};
	const struct passwd *who = getpwuid(geteuid());
	char links[PATH_MAX];
	struct index x;

	CHECK(who && who->pw_dir[0] == '/');
	snprintf(links, sizeof(links), "%s/", who->pw_dir);
	for (size_t i = 0; i < 2; i++) {
		clearenv();
		setenv("PIP_CONFIG_FILE", "/dev/null", 1);
		setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
		setenv("XDG_CONFIG_DIRS", "/nonexistent", 1);
		setenv("PIP_FIND_LINKS", "~/", 1);
		if (homes[i])
			setenv("HOME", homes[i], 1);
		CHECK(index_python(&s, NULL, &x, NULL) == 0);
		CHECK(x.link_count == (access(links, F_OK) == 0));
		CHECK(x.link_count == 0 || strcmp(x.links[0], links) == 0);
		index_done(&x);
	}
}

TEST(a_url_is_one_with_a_host_and_no_message_shows_its_password)
{
	static const char *const bad[] = {
		"https://me:pw0rd@a.test:99999/",  "https://me:pw0rd@a.test:x/",
		"https://me:pw0rd@a b.test/",      "https://me:pw0rd@/simple",
		"ftp://me:pw0rd@a.test/",          "https://me:pw0rd@[::1/",
		"https://me:pw0rd@0x7f.1:8080/s/", "https://me:pw0rd@[::1]x:80/",
	};
	struct rules *r = calloc(1, sizeof(*r));

	CHECK(r);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = {0};

		CHECK(index_host(bad[i], r, &e) == -1 && r->count == 0);
		CHECK(e.text[0] && !strstr(e.text, "pw0rd"));
		CHECK(index_ok(bad[i]));
	}
	CHECK(!index_ok("https://me:pw0rd@a.test:8443/simple http://[::1]:80/ /usr"));
	free(r);
}
