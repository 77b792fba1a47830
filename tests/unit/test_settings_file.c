/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_settings_file.c - files of settings, and what is shown of all of them
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "config/settings.h"
#include "config/settings_rows.h"
#include "tap.h"

static struct settings s;
static struct err e;

#define FLAGS(...) ((char *[]){__VA_ARGS__, NULL})

static int load(char **flags, const char *const *own)
{
	int count = 0;

	memset(&e, 0, sizeof(e));
	setenv("SANDBOX_CONFIG", "", 0); /* nothing of this host */
	while (flags && flags[count])
		count++;
	return settings_load(&s, count, flags, own, &e);
}

/* what a file of settings does, by its text */
static int load_file(const char *text, char **flags)
{
	char path[] = "/tmp/test-settings-XXXXXX";
	int fd = mkstemp(path), rc;

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	setenv("SANDBOX_CONFIG", path, 1);
	rc = load(flags, NULL);
	unlink(path);
	unsetenv("SANDBOX_CONFIG");
	return rc;
}

/* the path has a name that differs each time: what follows it */
static void expect_line(const char *text, const char *said)
{
	CHECK(load_file(text, NULL) == -1);
	if (!strchr(e.text, ':') || strcmp(strchr(e.text, ':') + 1, said) != 0)
		fprintf(stderr, "# got: %s\n# not: %s\n", e.text, said);
	CHECK(strncmp(e.text, "/tmp/test-settings-", 19) == 0);
	CHECK(strchr(e.text, ':') && strcmp(strchr(e.text, ':') + 1, said) == 0);
}

TEST(a_file_gives_way_to_the_environment_and_that_to_flags)
{
	clearenv();
	setenv("SANDBOX_PIDS", "2", 1);
	setenv("SANDBOX_QUEUE", "2", 1);
	CHECK(load_file("SANDBOX_QUEUE=1\nSANDBOX_PIDS=1\nSANDBOX_MAX_FILES=1\n",
			FLAGS("--queue", "3")) == 2);
	CHECK(s.queue == 3 && s.pids == 2 && s.max_files == 1 && s.max_body_mb == 10);
	CHECK(s.file && s.config && strcmp(s.file, s.config) == 0);
	settings_done(&s);
}

TEST(a_flag_names_the_file_wherever_it_stands)
{
	clearenv();
	setenv("SANDBOX_CONFIG", "/proc/nonexistent/of-the-variable", 1);
	CHECK(load(FLAGS("--mode", "--config", "--config", "/proc/nonexistent/x"),
		   NULL) == -1);
	CHECK(strcmp(e.text, "read settings from '/proc/nonexistent/x': No such file or "
			     "directory") == 0);
	CHECK(load(FLAGS("--config="), NULL) == 1);
	CHECK(!s.file && !s.config);
	settings_done(&s);
	CHECK(load(FLAGS("--config", "/"), NULL) == -1);
	CHECK(strcmp(e.text, "read settings from '/': Is a directory") == 0);
	/* an argument of the subcommand is none of ours */
	CHECK(load(FLAGS("--config=", "x", "--config=/proc/nonexistent/y"), NULL) == 1);
	settings_done(&s);
}

TEST(mistakes_in_a_file_have_its_name_and_line)
{
	clearenv();
	expect_line("# a\n\nSANDBOX_PORT=abc\n",
		    "3: SANDBOX_PORT=abc: must be a number from 0 to 65535");
	expect_line("SANDBOX_PROT=1", "1: SANDBOX_PROT is not a setting");
	expect_line("PATH=/bin\n", "1: PATH is not a setting");
	expect_line("export SANDBOX_PORT=1\n", "1: export SANDBOX_PORT is not a setting");
	expect_line("SANDBOX_SERVICE_HOST=1\n",
		    "1: SANDBOX_SERVICE_HOST is not a setting");
	expect_line("SANDBOX_PIDS=1\nSANDBOX_PORT=1\n\nSANDBOX_PIDS=1\n",
		    "4: SANDBOX_PIDS is set in line 1 already");
	expect_line("SANDBOX_CONFIG=/x\n", "1: SANDBOX_CONFIG cannot name another file");
	expect_line("SANDBOX_TYPE=e2b\n",
		    "1: SANDBOX_TYPE=e2b is not supported (supported: local, docker)");
	expect_line("\n\nSANDBOX_NETWORK=http://x/\n",
		    "3: SANDBOX_NETWORK: 'http://x/' is no host: example.org, "
		    "*.example.org, example.org:8443, 192.0.2.7 or 10.0.0.0/8");
	expect_line("SANDBOX_PORT\n", "1: is not NAME=value");
	expect_line("\nSANDBOX_PORT", "2: is not NAME=value");
	expect_line("=1\n", "1: there is no name before '='");
	expect_line("SANDBOX_MODE=\"a\nb\"\n",
		    "1: a quote is not closed before the line ends");
	expect_line("SANDBOX_MODE='a", "1: a quote is not closed before the line ends");
	expect_line("# a \\\nSANDBOX_PIDS=1\n", "1: a comment ends in a backslash");
	expect_line("SANDBOX_PIDS=1\r\n", "1: has a control character");
	expect_line("\nSANDBOX_MODE=\xff\n", "2: is not UTF-8");
}

static void expect_mode(const char *line, const char *mode)
{
	CHECK(load_file(line, NULL) == 0);
	if (strcmp(s.mode, mode) != 0)
		fprintf(stderr, "# %s: got [%s]\n", line, s.mode);
	CHECK(strcmp(s.mode, mode) == 0);
	settings_done(&s);
}

/* each as systemd 252 reads it in an EnvironmentFile= */
TEST(quotes_blanks_and_continued_lines_are_those_of_an_environment_file)
{
	clearenv();
	expect_mode("SANDBOX_MODE=a b\n", "a b");
	expect_mode("  SANDBOX_MODE \t= a b \t \n", "a b");
	expect_mode("SANDBOX_MODE=a", "a");
	expect_mode("SANDBOX_MODE=a # b\n", "a # b");
	expect_mode("SANDBOX_MODE=a;b\n", "a;b");
	expect_mode(" ; SANDBOX_MODE=b\nSANDBOX_MODE=a\n", "a");
	expect_mode("SANDBOX_MODE=\" a \"\n", " a ");
	expect_mode("SANDBOX_MODE=' a '\n", " a ");
	expect_mode("SANDBOX_MODE='a'\"b\" 'c'\n", "abc");
	expect_mode("SANDBOX_MODE='a' b c\n", "ab c");
	expect_mode("SANDBOX_MODE=a\"b\"\n", "a\"b\"");
	expect_mode("SANDBOX_MODE='a\\b\"$x'\n", "a\\b\"$x");
	expect_mode("SANDBOX_MODE=\"a\\\\b\\\"c\\$d\\`e\\nf\"\n", "a\\b\"c$d`e\\nf");
	expect_mode("SANDBOX_MODE=a\\b\\\\c\\ \n", "ab\\c ");
	expect_mode("SANDBOX_MODE=a\\\nb\n", "ab");
	expect_mode("SANDBOX_MODE=a\\", "a");
	expect_mode("SANDBOX_MODE=\"a\\\nb\"\n", "ab");
	expect_mode("SANDBOX_MODE=${A}$B\n", "${A}$B");
	expect_mode("SANDBOX_MODE=a=b\n", "a=b");
	expect_mode("SANDBOX_MODE=\xc3\xa9\n", "\xc3\xa9");
}

static void expect_shown(const char *line)
{
	struct buf out;

	buf_init(&out, 1 << 16);
	CHECK(settings_show(&s, false, &out) == 0 && buf_text(&out) == 0);
	if (!strstr(out.bytes, line))
		fprintf(stderr, "# no [%s] in\n%s", line, out.bytes);
	CHECK(strstr(out.bytes, line));
	buf_done(&out);
}

TEST(values_are_shown_with_where_they_come_from)
{
	clearenv();
	setenv("SANDBOX_QUEUE", "2", 1);
	setenv("SANDBOX_ALLOWED_HOSTS", "", 1);
	CHECK(load_file("\nSANDBOX_PIDS=1\n", FLAGS("--mode=shell")) == 1);
	expect_shown("SANDBOX_PORT=8080                                 default\n");
	expect_shown("SANDBOX_QUEUE=2                                   environment\n");
	expect_shown("SANDBOX_MODE=shell                                flag\n");
	expect_shown("SANDBOX_PIDS=1                                    /tmp/test-set");
	expect_shown(":2\n");
	expect_shown("SANDBOX_ALLOWED_HOSTS=                            environment\n");
	expect_shown("SANDBOX_ALLOWED_ORIGINS    (none)                 default\n");
	expect_shown("SANDBOX_MEMORY_MB    (512, golang 2048)           default\n");
	settings_done(&s);
}

TEST(what_may_be_secret_is_hidden_where_values_are_shown)
{
	static const char *const pairs[][2] = {
		{"", ""},
		{"plain", "plain"},
		{"http://u:p@h:1/x", "http://***@h:1/x"},
		{"u:p@h", "***@h"},
		{"http://u:p@q@h", "http://***@h"},
		{"http://u:p/q@h", "http://***@h"},
		{" https://a@h  http://b@i ", " https://***@h  http://***@i "},
		{"@", "***@"},
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		char *hidden = setting_hide(pairs[i][0]);

		CHECK(strcmp(hidden, pairs[i][1]) == 0);
		free(hidden);
	}
	clearenv();
	setenv("SANDBOX_EGRESS_PROXY", "http://user:hunter2@h:1", 1);
	CHECK(load(NULL, NULL) == 0);
	expect_shown("SANDBOX_EGRESS_PROXY=http://***@h:1 ");
	settings_done(&s);
	setenv("SANDBOX_NPM_REGISTRY", "ftp://user:hunter2@h/", 1);
	CHECK(load(NULL, NULL) == -1);
	CHECK(strncmp(e.text, "SANDBOX_NPM_REGISTRY", 20) == 0);
	CHECK(!strstr(e.text, "hunter2"));
}
