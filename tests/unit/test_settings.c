/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_settings.c - environment and flags to struct settings
 */
#include <ctype.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "config/settings.h"
#include "config/settings_rows.h"
#include "egress/rules.h"
#include "tap.h"
#include "wire/report.h"

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

/* a start with this variable fails with exactly this text */
static void expect_refused(const char *name, const char *value, const char *text)
{
	clearenv();
	setenv(name, value, 1);
	CHECK(load(NULL, NULL) == -1);
	if (strcmp(e.text, text) != 0)
		fprintf(stderr, "# got: %s\n# not: %s\n", e.text, text);
	CHECK(strcmp(e.text, text) == 0);
}

static void expect_taken(const char *name, const char *value)
{
	clearenv();
	setenv(name, value, 1);
	if (load(NULL, NULL) != 0)
		fprintf(stderr, "# %s\n", e.text);
	CHECK(e.kind == ERR_NONE);
	settings_done(&s);
}

TEST(defaults_are_those_of_the_manual)
{
	clearenv();
	CHECK(load(NULL, NULL) == 0);
	CHECK(s.port == 8080 && strcmp(s.listen, "127.0.0.1") == 0);
	CHECK(!s.mode && !s.mode_named);
	CHECK(s.max_concurrent == 3 && s.queue == 0);
	CHECK(s.timeout_sec == 30 && s.max_timeout_sec == 300);
	CHECK(s.max_output_kb == 10 && s.output_ceiling_kb == 1024 &&
	      s.max_body_mb == 10);
	CHECK(s.memory_mb == 0 && s.pids == 0 && s.disk_mb == 0 && s.cpu_sec == 0);
	CHECK(s.cpus >= 1 && s.cpus <= 1);
	CHECK(s.max_files == 200 && s.max_files_mb == 10);
	CHECK(strcmp(s.output_dir, "output") == 0);
	CHECK(s.store_code == STORE_ON_ERROR && s.artifact_max_mb == 100);
	CHECK(!s.artifact_dir && !s.state_dir && !s.policy_dir);
	CHECK(s.min_isolation == LEVEL_NAMESPACES && s.uid_base == 0);
	CHECK(!s.allowed_hosts && !s.allowed_origins);
	CHECK(s.log_level == LOG_INFO && s.log_format == LOG_TEXT);
	CHECK(s.grace_sec == 25 && s.max_connections == 4096);
	settings_done(&s);
}

TEST(the_environment_is_read)
{
	clearenv();
	setenv("SANDBOX_PORT", "0", 1);
	setenv("SANDBOX_LISTEN", "::", 1);
	setenv("SANDBOX_CPUS", "0.5", 1);
	setenv("SANDBOX_STORE_CODE", "never", 1);
	setenv("SANDBOX_MIN_ISOLATION", "full", 1);
	setenv("SANDBOX_ALLOWED_HOSTS", "", 1);
	setenv("SANDBOX_LOG_FORMAT", "json", 1);
	setenv("SANDBOX_STATE_DIR", "/state", 1);
	CHECK(load(NULL, NULL) == 0);
	CHECK(s.port == 0 && strcmp(s.listen, "::") == 0 && s.cpus < 0.6 && s.cpus > 0.4);
	CHECK(s.store_code == STORE_NEVER && s.min_isolation == LEVEL_FULL);
	CHECK(!s.allowed_hosts && s.log_format == LOG_JSON);
	CHECK(strcmp(s.state_dir, "/state") == 0);
	settings_done(&s);
}

TEST(a_flag_beats_the_environment_in_both_forms)
{
	clearenv();
	setenv("SANDBOX_PORT", "1", 1);
	setenv("SANDBOX_MODE", "shell", 1);
	CHECK(load(FLAGS("--port", "2", "--mode=python", "--max-concurrent=7"), NULL) ==
	      4);
	CHECK(s.port == 2 && s.max_concurrent == 7);
	CHECK(strcmp(s.mode, "python") == 0 && s.mode_named);
	settings_done(&s);
}

TEST(scanning_stops_at_what_is_the_subcommands_own)
{
	static const char *const own[] = {"--json", "--file", NULL};

	clearenv();
	CHECK(load(FLAGS("--port", "2", "--json", "--queue", "1"), own) == 2);
	settings_done(&s);
	CHECK(load(FLAGS("--port=2", "--file=a=b"), own) == 1);
	settings_done(&s);
	CHECK(load(FLAGS("--port=2", "script.py", "--queue"), own) == 1);
	settings_done(&s);
	CHECK(load(FLAGS("-"), own) == 0);
	settings_done(&s);
	CHECK(load(FLAGS("--", "--port"), own) == 1);
	settings_done(&s);
}

TEST(mistakes_in_flags_are_named)
{
	clearenv();
	CHECK(load(FLAGS("--prot", "1"), NULL) == -1);
	CHECK(strcmp(e.text, "unknown flag '--prot'") == 0);
	CHECK(load(FLAGS("--Port", "1"), NULL) == -1);
	CHECK(load(FLAGS("-p"), NULL) == -1);
	CHECK(load(FLAGS("--port"), NULL) == -1);
	CHECK(strcmp(e.text, "--port needs a value") == 0);
	CHECK(load(FLAGS("--port", "abc"), NULL) == -1);
	CHECK(strcmp(e.text, "--port abc: must be a number from 0 to 65535") == 0);
	CHECK(load(FLAGS("--type", "e2b"), NULL) == -1);
	CHECK(strcmp(e.text, "--type e2b is not supported (supported: local, docker)") ==
	      0);
}

TEST(values_that_do_not_parse_are_named)
{
	expect_refused("SANDBOX_PORT", "abc",
		       "SANDBOX_PORT=abc: must be a number from 0 to 65535");
	expect_refused("SANDBOX_PORT", "65536",
		       "SANDBOX_PORT=65536: must be a number from 0 to 65535");
	expect_refused("SANDBOX_PORT", "",
		       "SANDBOX_PORT=: must be a number from 0 to 65535");
	expect_refused("SANDBOX_PORT", " 80",
		       "SANDBOX_PORT= 80: must be a number from 0 to 65535");
	expect_refused("SANDBOX_PORT", "-1",
		       "SANDBOX_PORT=-1: must be a number from 0 to 65535");
	expect_refused("SANDBOX_PYTHON_INDEX", "https://me:pw@a.test/ ./wheels",
		       "SANDBOX_PYTHON_INDEX=https://***@a.test/ ./wheels: must be "
		       "http(s) URLs, absolute paths of directories, host or none");
	expect_refused("SANDBOX_NPM_REGISTRY", "http://a.test:99999/",
		       "SANDBOX_NPM_REGISTRY=http://a.test:99999/: has a URL without a "
		       "host, or with a port that is none");
	expect_refused("SANDBOX_MAX_CONCURRENT", "0",
		       "SANDBOX_MAX_CONCURRENT=0: must be a number from 1 to 256");
	expect_refused("SANDBOX_WARM", "some",
		       "SANDBOX_WARM=some: must be auto or a number from 0 to 256");
	expect_refused("SANDBOX_CPUS", "0",
		       "SANDBOX_CPUS=0: must be a number from 0.01 to 1024");
	expect_refused("SANDBOX_CPUS", "1e3",
		       "SANDBOX_CPUS=1e3: must be a number from 0.01 to 1024");
	expect_refused(
		"SANDBOX_LISTEN", "localhost",
		"SANDBOX_LISTEN=localhost: must be an address, such as 127.0.0.1 or ::");
	expect_refused(
		"SANDBOX_STORE_CODE", "sometimes",
		"SANDBOX_STORE_CODE=sometimes: must be one of on_error, always, never");
	expect_refused("SANDBOX_MIN_ISOLATION", "most",
		       "SANDBOX_MIN_ISOLATION=most: must be one of full, namespaces, "
		       "landlock, process");
	expect_refused("SANDBOX_STATE_DIR", "state",
		       "SANDBOX_STATE_DIR=state: must be an absolute path");
	expect_refused("SANDBOX_MODE", "", "SANDBOX_MODE=: must not be empty");
}

TEST(every_number_keeps_its_bounds)
{
	char text[32];

	for (size_t i = 0; i < setting_count; i++) {
		const struct setting *row = &setting_rows[i];

		if (row->type != SETTING_COUNT)
			continue;
		clearenv();
		/* these two must not be above their ceilings */
		setenv("SANDBOX_MAX_TIMEOUT_SEC", "86400", 1);
		setenv("SANDBOX_OUTPUT_CEILING_KB", "1048576", 1);
		setenv("SANDBOX_TIMEOUT_SEC", "1", 1);
		setenv("SANDBOX_MAX_OUTPUT_KB", "1", 1);
		snprintf(text, sizeof(text), "%llu", (unsigned long long)row->least);
		setenv(row->key, text, 1);
		CHECK(load(NULL, NULL) == 0);
		settings_done(&s);
		snprintf(text, sizeof(text), "%llu", (unsigned long long)row->most);
		setenv(row->key, text, 1);
		CHECK(load(NULL, NULL) == 0);
		settings_done(&s);
		snprintf(text, sizeof(text), "%llu", (unsigned long long)row->most + 1);
		setenv(row->key, text, 1);
		CHECK(load(NULL, NULL) == -1);
		CHECK(strncmp(e.text, row->key, strlen(row->key)) == 0);
		snprintf(text, sizeof(text), "%llu", (unsigned long long)row->least - 1);
		setenv(row->key, text, 1);
		CHECK(load(NULL, NULL) == -1);
	}
}

TEST(an_output_directory_is_one_plain_name)
{
	static const char *const bad[] = {"a/b",
					  ".",
					  "..",
					  ".hidden",
					  "script.py",
					  "script.ts",
					  "a\nb",
					  "/abs",
					  "",
					  ("0123456789012345678901234567890123456789"
					   "012345678901234567890123")};

	expect_taken("SANDBOX_OUTPUT_DIR", "results");
	clearenv();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("SANDBOX_OUTPUT_DIR", bad[i], 1);
		CHECK(load(NULL, NULL) == -1);
		CHECK(strncmp(e.text, "SANDBOX_OUTPUT_DIR=", 19) == 0);
	}
}

TEST(another_executor_stops_the_start_by_name)
{
	expect_refused("SANDBOX_TYPE", "e2b",
		       "SANDBOX_TYPE=e2b is not supported (supported: local, docker)");
}

TEST(volumes_have_a_name_and_a_path)
{
	expect_taken("SANDBOX_VOLUMES", "data=/srv/data, cache=/var/cache/x:rw");
	expect_refused("SANDBOX_VOLUMES", "data",
		       "SANDBOX_VOLUMES=data: must be NAME=/PATH or NAME=/PATH:rw, "
		       "separated by commas");
	expect_refused("SANDBOX_VOLUMES", "a/b=/srv",
		       "SANDBOX_VOLUMES=a/b=/srv: must have names of letters, digits, "
		       "dots, dashes and underscores");
	expect_refused("SANDBOX_VOLUMES", ".a=/srv",
		       "SANDBOX_VOLUMES=.a=/srv: must have names of letters, digits, "
		       "dots, dashes and underscores");
	expect_refused(
		"SANDBOX_VOLUMES", "a=srv",
		"SANDBOX_VOLUMES=a=srv: must have absolute paths, and not the root");
	expect_refused("SANDBOX_VOLUMES", "a=/",
		       "SANDBOX_VOLUMES=a=/: must have absolute paths, and not the root");
	expect_refused("SANDBOX_VOLUMES", "a=/b,a=/c",
		       "SANDBOX_VOLUMES=a=/b,a=/c: names a volume twice");
}

TEST(switched_off_is_no_demand)
{
	expect_taken("SANDBOX_NETWORK", "off");
	expect_taken("SANDBOX_NETWORK_DEFAULT", "false");
	expect_taken("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "false");
	expect_taken("SANDBOX_WARM_FORK", "off");
	expect_taken("SANDBOX_SESSIONS", "off");
	expect_taken("SANDBOX_ALLOW_BUILD", "false");
	expect_taken("SANDBOX_TOKEN_FILE", "/t");
	expect_taken("SANDBOX_TYPE", "local");
	expect_taken("DOCKER_IMAGE", "anything");
}

TEST(an_unknown_variable_is_an_error_and_others_are_not_ours)
{
	expect_refused("SANDBOX_PROT", "1", "SANDBOX_PROT is not a setting");
	expect_refused("SANDBOX_", "1", "SANDBOX_ is not a setting");
	expect_taken("SANDBOX_SERVER", "/x");
	expect_taken("SANDBO", "1");
	expect_taken("XSANDBOX_PORT", "abc");
#ifdef SANDBOX_TEST_HOOKS
	expect_taken("SANDBOX_TEST_FAULT", "exec");
#else
	expect_refused("SANDBOX_TEST_FAULT", "exec",
		       "SANDBOX_TEST_FAULT is not a setting");
#endif
}

TEST(what_kubernetes_sets_for_a_service_is_left_alone)
{
	expect_taken("SANDBOX_PORT", "tcp://10.0.0.1:80");
	expect_taken("SANDBOX_SERVER_PORT", "tcp://10.0.0.1:80");
	expect_taken("SANDBOX_SERVICE_HOST", "10.0.0.1");
	expect_taken("SANDBOX_SERVER_SERVICE_PORT", "80");
	expect_taken("SANDBOX_SERVICE_PORT_HTTP", "80");
	expect_taken("SANDBOX_PORT_80_TCP_ADDR", "10.0.0.1");
}

TEST(ceilings_are_not_below_defaults)
{
	expect_refused("SANDBOX_TIMEOUT_SEC", "301",
		       "SANDBOX_MAX_TIMEOUT_SEC=300 is below SANDBOX_TIMEOUT_SEC=301");
	expect_refused(
		"SANDBOX_MAX_OUTPUT_KB", "1025",
		"SANDBOX_OUTPUT_CEILING_KB=1024 is below SANDBOX_MAX_OUTPUT_KB=1025");
}

TEST(supported_languages_join_the_mode)
{
	clearenv();
	setenv("SANDBOX_SUPPORTED_LANGUAGES", "python,shell", 1);
	CHECK(load(NULL, NULL) == 0);
	CHECK(strcmp(s.mode, "python,shell") == 0 && s.mode_named);
	settings_done(&s);
	CHECK(load(FLAGS("--mode", "shell"), NULL) == 2);
	CHECK(strcmp(s.mode, "shell,python,shell") == 0);
	settings_done(&s);
	clearenv();
	CHECK(load(FLAGS("--mode", "auto"), NULL) == 2);
	CHECK(!s.mode && !s.mode_named);
	settings_done(&s);
}

TEST(help_has_a_line_for_each_setting_that_is_there)
{
	struct buf out;

	buf_init(&out, 1 << 16);
	settings_help(&out);
	CHECK(buf_text(&out) == 0);
	CHECK(strstr(out.bytes, "--max-concurrent "));
	CHECK(strstr(out.bytes, "(127.0.0.1)"));
	for (const char *line = out.bytes; *line; line += strcspn(line, "\n") + 1)
		CHECK(strcspn(line, "\n") <= 110);
	buf_done(&out);
}

TEST(rows_are_well_formed)
{
	for (size_t i = 0; i < setting_count; i++) {
		const struct setting *row = &setting_rows[i];

		CHECK((strncmp(row->key, "SANDBOX_", 8) == 0 && row->key[8]) ||
		      (strncmp(row->key, "DOCKER_", 7) == 0 && row->key[7]));
		for (const char *p = row->key; *p; p++)
			CHECK(isupper((unsigned char)*p) || *p == '_');
		CHECK(row->help);
		CHECK(row->type != SETTING_CHOICE || row->choices);
		CHECK(!row->choices || row->type == SETTING_CHOICE ||
		      row->type == SETTING_COUNT);
		for (size_t j = 0; j < i; j++)
			CHECK(strcmp(row->key, setting_rows[j].key) != 0);
	}
}

TEST(network_is_a_word_or_a_list_of_hosts)
{
	setenv("SANDBOX_NETWORK", "allow", 1);
	CHECK(settings_load(&s, 0, NULL, NULL, &e) == 0 && s.network_rules->count == 1);
	settings_done(&s);
	setenv("SANDBOX_NETWORK", "example.org, *.example.org:8443,10.0.0.0/8", 1);
	CHECK(settings_load(&s, 0, NULL, NULL, &e) == 0 && s.network_rules->count == 3);
	settings_done(&s);
	/* an empty list is nothing, and not everything */
	setenv("SANDBOX_NETWORK", " , ", 1);
	CHECK(settings_load(&s, 0, NULL, NULL, &e) == 0 && !s.network_rules);
	settings_done(&s);
	setenv("SANDBOX_NETWORK", "pod", 1);
	CHECK(settings_load(&s, 0, NULL, NULL, &e) == 0 && !s.network_rules);
	CHECK(s.network_pod);
	settings_done(&s);
	setenv("SANDBOX_NETWORK", "example.org,http://x/", 1);
	CHECK(settings_load(&s, 0, NULL, NULL, &e) < 0);
	CHECK(strncmp(e.text, "SANDBOX_NETWORK: 'http://x/' is no host", 38) == 0);
}
