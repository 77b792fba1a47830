/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_index.c - what pip, uv and npm are told on this host
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "config/index.h"
#include "config/settings.h"
#include "egress/rules.h"
#include "tap.h"

static struct settings s;
static char path[] = "/tmp/test-index-XXXXXX";

/* this file comes before whatever the host has in /etc */
static void say(const char *variable, const char *text)
{
	const int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	CHECK(clearenv() == 0 && setenv(variable, path, 1) == 0);
}

TEST(pip_files_have_options_in_sections_and_values_of_several_lines)
{
	struct index x;

	say("PIP_CONFIG_FILE", "[global]\n  # index-url = https://no.test/\n"
			       "  index-url = https://a.test/simple\n"
			       "  extra-index-url =\n      https://b.test/\n"
			       "      # https://c.test/\n      https://d.test/\n"
			       "  timeout = 60\n      https://e.test/\n"
			       "[install]\nfind-links = /usr /nonexistent\n");
	index_python(&s, &x);
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
	index_python(&s, &x);
	unlink(path);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://c.test/") == 0);
	CHECK(x.extra_count >= 2 && strcmp(x.extra[1], "https://b.test/") == 0);
	for (size_t i = 0; i < x.extra_count; i++) /* a project's own, for what it says */
		CHECK(strcmp(x.extra[i], "https://e.test/") != 0);
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
	CHECK(fputs("[global]\nextra-index-url = https://b.test/\n", f) >= 0);
	fclose(f);
	for (size_t i = 0; i < 4; i++) {
		clearenv();
		setenv("UV_DEFAULT_INDEX", "corp=https://a.test/?b=c", 1);
		setenv(i < 2 ? variables[i] : "VIRTUAL_ENV", i < 2 ? top : dir, 1);
		if (i == 3) /* no files at all */
			setenv("PIP_CONFIG_FILE", "/dev/null", 1);
		index_python(&s, &x);
		CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/?b=c") == 0);
		CHECK((x.extra_count && strcmp(x.extra[0], "https://b.test/") == 0) ==
		      (i < 3));
		index_done(&x);
	}
	unlink(file);
	rmdir(dir);
	rmdir(top);
}

TEST(a_url_is_one_with_a_host_and_no_message_shows_its_password)
{
	static const char *const bad[] = {
		"https://me:pw0rd@a.test:99999/",  "https://me:pw0rd@a.test:x/",
		"https://me:pw0rd@a b.test/",      "https://me:pw0rd@/simple",
		"ftp://me:pw0rd@a.test/",          "https://me:pw0rd@[::1/",
		"https://me:pw0rd@0x7f.1:8080/s/",
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

TEST(npm_files_have_scopes_tokens_and_variables)
{
	static const char said[] = "\nregistry=https://a.test/"
				   "\n@b:registry=https://b.test/x/"
				   "\n//b.test/x/:_authToken=t0k="
				   "\n//a.test/:_auth=${NONE}";
	struct npmrc x;

	say("NPM_CONFIG_USERCONFIG",
	    "; registry=https://no.test/\nregistry = \"https://a.test/\"\n"
	    "registry=https://late.test/\n@b:registry=https://b.test/x/\n"
	    "//b.test/x/:_authToken=${TOKEN}=\n//a.test/:_auth=${NONE}\n"
	    "//a.test/:certfile=/etc/passwd\nscript-shell=/bin/sh\n"
	    "cafile=/nonexistent\n@c:registry=file:///etc\n");
	setenv("TOKEN", "t0k", 1);
	index_npm(&s, &x);
	unlink(path);
	CHECK(x.has_main && x.url_count >= 2 &&
	      (!x.cafile || access(x.cafile, R_OK) == 0));
	CHECK(strncmp(x.text.bytes, said, strlen(said)) == 0);
	CHECK(!strstr(x.text.bytes, "/etc/passwd") &&
	      !strstr(x.text.bytes, "script-shell"));
	npmrc_done(&x);
}

TEST(npm_is_told_no_credentials_in_a_url)
{
	/* "me:p:w@" and "t0k:" */
	static const char said[] = "\n//a.test:81/x/:_auth=bWU6cDp3QA=="
				   "\nregistry=https://a.test:81/x"
				   "\n//b.test/:_auth=dDBrOg=="
				   "\n@b:registry=http://b.test";
	struct npmrc x;

	say("NPM_CONFIG_USERCONFIG", "registry=https://me:p%3aw%40@a.test:81/x\n"
				     "@b:registry=http://t0k@b.test\n");
	index_npm(&s, &x);
	unlink(path);
	CHECK(x.url_count >= 2 && strcmp(x.urls[0], "https://a.test:81/x") == 0);
	CHECK(strncmp(x.text.bytes, said, strlen(said)) == 0);
	npmrc_done(&x);
}

TEST(a_variable_comes_before_a_file_and_a_setting_before_both)
{
	struct npmrc x;

	say("NPM_CONFIG_USERCONFIG", "registry=https://a.test/\n");
	setenv("NPM_CONFIG_REGISTRY", "https://b.test/", 1);
	index_npm(&s, &x);
	CHECK(x.url_count >= 1 && strcmp(x.urls[0], "https://b.test/") == 0);
	npmrc_done(&x);
	s.npm_registry = (char[]){"https://c.test/"};
	index_npm(&s, &x);
	unlink(path);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://c.test/") == 0);
	npmrc_done(&x);
}
