/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_index_login.c - who asks an index, and what several of them are together
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "config/index.h"
#include "config/settings.h"
#include "tap.h"

#define ODD NULL

static struct settings s;
static const char fresh[] = "/tmp/test-index-XXXXXX";

/* the files that a row is about, in a directory of its own: no others are read */
static void write_below(const char *top, const char *below, const char *text)
{
	char name[96];
	FILE *f;

	snprintf(name, sizeof(name), "%s/%s", top, below);
	for (char *c = name + strlen(top); (c = strchr(c + 1, '/'));) {
		*c = '\0';
		(void)mkdir(name, 0700);
		*c = '/';
	}
	f = fopen(name, "we");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void at_home(char home[sizeof(fresh)])
{
	CHECK(clearenv() == 0 && mkdtemp(memcpy(home, fresh, sizeof(fresh))));
	setenv("HOME", home, 1);
}

TEST(a_netrc_file_says_who_asks)
{
	static const struct {
		const char *url, *netrc, *becomes;
	} rows[] = {
		{"https://a.test/s", "machine a.test login me password p:w",
		 "https://me:p%3Aw@a.test/s"},
		{"https://A.test:81/s", "machine a.test\n\tlogin me\n\tpassword pw\n",
		 "https://me:pw@A.test:81/s"},
		{"https://a.test/s@x",
		 "# machine a.test login no\nmachine b.test login no "
		 "password no\nmachine a.test login a account x password #b # c\n",
		 "https://a:%23b@a.test/s@x"},
		{"https://a.test/s",
		 "default login d password dp\nmachine b.test login b password bp",
		 "https://d:dp@a.test/s"},
		{"https://a.test/s",
		 "machine a.test login a password ap\nmachine a.test login b password bp",
		 "https://b:bp@a.test/s"},
		{"https://a.test/s",
		 "macdef init\nmachine a.test login no password no\n\n"
		 "machine a.test login me password pw",
		 "https://me:pw@a.test/s"},
		{"https://a.test/s", "machine a.test:443 login me password pw",
		 "https://a.test/s"},
		{"https://[::1]:80/s", "machine ::1 login me password pw",
		 "https://me:pw@[::1]:80/s"},
		{"https://m%65@a.test/s", "machine a.test login me password pw",
		 "https://me:pw@a.test/s"},
		{"https://you@a.test/s", "machine a.test login me password pw",
		 "https://you@a.test/s"},
		{"https://me:own@a.test/s", "machine a.test login me password pw",
		 "https://me:own@a.test/s"},
		{"https://me:own@a.test/s", "what is this", "https://me:own@a.test/s"},
		{"https://a.test/s", "machine a.test login me password", ODD},
		{"https://a.test/s", "machine a.test login me password \"p w\"", ODD},
		{"https://a.test/s", "machine a.test login me password p\\w", ODD},
		{"https://a.test/s", "machine a.test user me password pw", ODD},
		{"https://a.test/s", "what is this", ODD},
		{"https://a.test/s", "machine a.test login me password pw\r\n", ODD},
	};
	char home[sizeof(fresh)];
	struct index x;

	for (size_t i = 0; i < 2 * (sizeof(rows) / sizeof(rows[0])); i++) {
		const char *becomes = rows[i / 2].becomes;
		struct err e = {0};

		at_home(home);
		write_below(home, ".netrc", rows[i / 2].netrc);
		setenv(i & 1 ? "UV_DEFAULT_INDEX" : "PIP_INDEX_URL", rows[i / 2].url, 1);
		CHECK(index_python(&s, NULL, &x, &e) == (becomes ? 0 : -1));
		CHECK(!becomes || (x.url_count == 1 && strcmp(x.urls[0], becomes) == 0));
		CHECK(becomes || strstr(e.text, "netrc"));
		index_done(&x);
		CHECK(fs_remove_tree(AT_FDCWD, home) == 0);
	}
}

/* as requests does for pip: the one that is named is the only one, whether it is there or
 * not */
TEST(the_netrc_file_that_is_named_takes_the_place_of_those_at_home)
{
	static const char *const names[] = {"_netrc", ".netrc", "named", "tilde"};
	char home[sizeof(fresh)], named[64], text[64];
	struct index x;

	at_home(home);
	snprintf(named, sizeof(named), "%s/named", home);
	setenv("UV_INDEX", "x=https://me@a.test/ https://b.test/", 1);
	for (size_t i = 0; i < 4; i++) {
		snprintf(text, sizeof(text), "machine a.test login me password %zu", i);
		if (i > 1) {
			setenv("NETRC", i == 2 ? named : "~/tilde", 1);
			CHECK(index_python(&s, NULL, &x, NULL) == 0);
			CHECK(strcmp(x.extra[0], "https://me@a.test/") == 0);
			index_done(&x);
		}
		write_below(home, names[i], text);
		CHECK(index_python(&s, NULL, &x, NULL) == 0);
		snprintf(text, sizeof(text), "https://me:%zu@a.test/", i);
		CHECK(x.extra_count == 2 && strcmp(x.extra[0], text) == 0);
		CHECK(strcmp(x.extra[1], "https://b.test/") == 0);
		index_done(&x);
	}
	/* whose home that is we do not know */
	setenv("NETRC", "~somebody/tilde", 1);
	CHECK(index_python(&s, NULL, &x, NULL) == -1);
	index_done(&x);
	setenv("NETRC", named, 1);
	/* what is said of an index with a name comes first */
	setenv("UV_INDEX_X_USERNAME", "me", 1);
	setenv("UV_INDEX_X_PASSWORD", "v", 1);
	CHECK(index_python(&s, NULL, &x, NULL) == 0);
	CHECK(x.extra_count == 2 && strcmp(x.extra[0], "https://me:v@a.test/") == 0);
	index_done(&x);
	CHECK(fs_remove_tree(AT_FDCWD, home) == 0);
}

/* asked by nobody, such an index has nothing, and the next one is asked */
TEST(an_index_whose_password_we_do_not_have_turns_installs_off)
{
	static const struct {
		const char *variable, *value, *below, *text;
		bool odd;
	} rows[] = {
		{"UV_INDEX", "x=https://a.test/", ".config/uv/uv.toml",
		 "keyring-provider = 'subprocess'", true},
		{"UV_INDEX", "https://me@a.test/", ".config/uv/uv.toml",
		 "[pip]\nkeyring-provider = 'subprocess'", true},
		{"UV_INDEX", "https://me:pw@a.test/", ".config/uv/uv.toml",
		 "keyring-provider = 'subprocess'", false},
		{"UV_INDEX", "https://a.test/", ".config/uv/uv.toml",
		 "keyring-provider = 'disabled'", false},
		{"UV_KEYRING_PROVIDER", "subprocess", ".config/uv/uv.toml",
		 "index-url = 'https://a.test/'", true},
		{"UV_KEYRING_PROVIDER", "subprocess", ".config/uv/uv.toml", "", false},
		{"PIP_KEYRING_PROVIDER", "import", ".config/pip/pip.conf",
		 "[global]\nindex-url = https://a.test/", true},
		{"PIP_INDEX_URL", "https://a.test/", ".config/pip/pip.conf",
		 "[install]\nkeyring-provider = subprocess", true},
		{"PIP_KEYRING_PROVIDER", "auto", ".config/pip/pip.conf",
		 "[global]\nindex-url = https://a.test/", false},
		{"X", "", ".config/uv/uv.toml",
		 "[[index]]\nurl = 'https://a.test/'\nauthenticate = 'always'", true},
		{"UV_INDEX_X_PASSWORD", "pw", ".config/uv/uv.toml",
		 "[[index]]\nurl = 'https://a.test/'\nauthenticate = 'always'\n"
		 "name = 'x'\n[[index]]\nurl = 'https://b.test/'",
		 false},
	};
	char home[sizeof(fresh)];
	struct index x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		at_home(home);
		write_below(home, rows[i].below, rows[i].text);
		setenv(rows[i].variable, rows[i].value, 1);
		CHECK(index_python(&s, NULL, &x, NULL) == (rows[i].odd ? -1 : 0));
		index_done(&x);
		CHECK(fs_remove_tree(AT_FDCWD, home) == 0);
	}
}

TEST(an_index_that_is_never_told_who_asks_is_not)
{
	char home[sizeof(fresh)];
	struct index x;

	at_home(home);
	write_below(home, ".netrc", "default login me password pw");
	write_below(home, ".config/uv/uv.toml",
		    "[[index]]\nurl = 'https://a.test/'\nauthenticate = 'never'\n"
		    "[[index]]\nurl = 'https://b.test/'\n");
	CHECK(index_python(&s, NULL, &x, NULL) == 0);
	CHECK(x.extra_count == 2 && strcmp(x.extra[0], "https://a.test/") == 0);
	CHECK(strcmp(x.extra[1], "https://me:pw@b.test/") == 0);
	index_done(&x);
	CHECK(fs_remove_tree(AT_FDCWD, home) == 0);
}

/* what uv asks first, and pip like all others, would be one or the other's meaning */
TEST(indexes_of_pip_are_one_and_those_of_uv_one_after_the_other)
{
	enum what { FIRST, BEST, NEITHER };
	static const struct {
		const char *uv, *uv_extra, *pip, *pip_extra;
		enum what what;
	} rows[] = {
		{NULL, NULL, "https://a.test/", "https://b.test/", BEST},
		{NULL, NULL, NULL, "https://b.test/", BEST},
		{NULL, NULL, "https://a.test/", NULL, FIRST},
		{"https://a.test/", "https://b.test/", NULL, NULL, FIRST},
		{NULL, "https://b.test/", "https://a.test/", NULL, FIRST},
		{"https://a.test/", "https://b.test/", "https://a.test/",
		 "https://b.test/", FIRST},
		{"https://a.test/", NULL, NULL, "https://b.test/", NEITHER},
		{NULL, "https://a.test/", NULL, "https://b.test/", NEITHER},
	};
	static const char *const names[] = {"UV_INDEX_URL", "UV_EXTRA_INDEX_URL",
					    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"};
	char home[sizeof(fresh)];
	struct index x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *const said[] = {rows[i].uv, rows[i].uv_extra, rows[i].pip,
					    rows[i].pip_extra};

		at_home(home);
		for (size_t k = 0; k < 4; k++)
			if (said[k])
				setenv(names[k], said[k], 1);
		CHECK(index_python(&s, NULL, &x, NULL) ==
		      (rows[i].what == NEITHER ? -1 : 0));
		CHECK(rows[i].what == NEITHER || x.best == (rows[i].what == BEST));
		CHECK(rows[i].what == NEITHER || x.extra_count <= 1);
		index_done(&x);
		CHECK(fs_remove_tree(AT_FDCWD, home) == 0);
	}
}

TEST(a_relative_directory_of_settings_is_none_to_uv)
{
	char home[sizeof(fresh)];
	struct index x;

	at_home(home);
	CHECK(chdir(home) == 0);
	setenv("XDG_CONFIG_HOME", "own", 1);
	write_below(home, "own/uv/uv.toml", "index-url = 'https://no.test/'");
	write_below(home, "own/pip/pip.conf", "[global]\ncert = /etc/passwd");
	write_below(home, ".config/uv/uv.toml", "index-url = 'https://a.test/'");
	CHECK(index_python(&s, NULL, &x, NULL) == 0);
	CHECK(x.url_count == 1 && strcmp(x.urls[0], "https://a.test/") == 0);
	CHECK(x.cert && strcmp(x.cert, "/etc/passwd") == 0);
	index_done(&x);
	CHECK(chdir("/") == 0 && fs_remove_tree(AT_FDCWD, home) == 0);
}

/* of pip's own files: python's, the user's, which one that is named takes the place of */
TEST(pip_reads_the_file_at_the_prefix_of_python)
{
	static const struct {
		const char *named, *site, *own, *url;
	} rows[] = {
		{NULL, "[global]\nindex-url = https://a.test/",
		 "[global]\nindex-url = https://b.test/", "https://a.test/"},
		{NULL, "[global]\nindex-url = https://a.test/",
		 "[install]\nindex-url = https://b.test/", "https://b.test/"},
		{"", "[global]\ntimeout = 60", "[install]\nindex-url = https://b.test/",
		 NULL},
		{"", "[global]\nindex-url = https://a.test/",
		 "[install]\nindex-url = https://b.test/", "https://a.test/"},
		{"[global]\nindex-url = https://c.test/",
		 "[global]\nindex-url = https://a.test/",
		 "[install]\nindex-url = https://b.test/", "https://c.test/"},
		/* of a file in all of its sections, of which it has none */
		{NULL, "[DEFAULT]\nindex-url = https://a.test/",
		 "[global]\nindex-url = https://b.test/", "https://b.test/"},
		{NULL, "[DEFAULT]\nindex-url = https://a.test/\n[global]",
		 "[global]\nindex-url = https://b.test/", "https://a.test/"},
		{NULL, "[DEFAULT]\nindex-url = https://a.test/\n[install]",
		 "[install]\nindex-url = https://b.test/", "https://a.test/"},
		{NULL,
		 "[DEFAULT]\nindex-url = https://no.test/\n[install]\n"
		 "index-url = https://a.test/",
		 "", "https://a.test/"},
	};
	char home[sizeof(fresh)], named[64];
	struct index x;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		at_home(home);
		snprintf(named, sizeof(named), "%s/named", home);
		if (rows[i].named) {
			write_below(home, "named", rows[i].named);
			setenv("PIP_CONFIG_FILE", named, 1);
		}
		write_below(home, "pip.conf", rows[i].site);
		write_below(home, ".config/pip/pip.conf", rows[i].own);
		CHECK(index_python(&s, home, &x, NULL) == 0);
		CHECK(x.url_count == (rows[i].url ? 1u : 0u));
		CHECK(!rows[i].url || strcmp(x.urls[0], rows[i].url) == 0);
		index_done(&x);
		CHECK(fs_remove_tree(AT_FDCWD, home) == 0);
	}
}
