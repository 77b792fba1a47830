/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_request.c - every rule for a field of POST /execute
 */
#include <errno.h>
#include <stdbool.h>

#include "api/api.h"
#include "base/mem.h"
#include "config/mode.h"
#include "config/settings.h"
#include "egress/rules.h"
#include "tap.h"

static struct settings settings;
static struct modes modes;
static struct run_request r;
static struct err e;

static void start(void)
{
	static char output_dir[] = "output", version[] = "20.1.0";
	static const struct limits own = {.memory_mb = 512, .pids = 64, .disk_mb = 256};

	settings = (struct settings){.max_concurrent = 3,
				     .timeout_sec = 30,
				     .max_timeout_sec = 300,
				     .max_output_kb = 10,
				     .output_ceiling_kb = 1024,
				     .output_dir = output_dir};
	modes.count = 4;
	modes.mode[0] = (struct mode){.id = MODE_PYTHON, .name = "python", .row = 0};
	modes.mode[1] = (struct mode){.id = MODE_NODE, .name = "node", .row = 1};
	modes.mode[2] = (struct mode){.id = MODE_SHELL, .name = "shell", .row = 3};
	modes.mode[3] = (struct mode){.id = MODE_GOLANG, .name = "golang", .row = 4};
	for (int i = 0; i < 4; i++) {
		modes.mode[i].typescript_row = -1;
		modes.mode[i].defaults = own;
		modes.mode[i].version_number = version;
	}
	modes.mode[1].typescript_row = 2;
}

static int parse(const char *body)
{
	request_done(&r);
	memset(&e, 0, sizeof(e));
	return request_parse(body, strlen(body), &settings, &modes, &r, &e);
}

static bool fails(const char *body, int status, const char *code, const char *part)
{
	bool ok = parse(body) == -1 && err_status(&e) == status &&
		  strcmp(e.code, code) == 0 && strstr(e.text, part);

	if (!ok)
		fprintf(stderr, "# %.200s: %d %s: %s\n", body, err_status(&e), e.code,
			e.text);
	request_done(&r);
	return ok;
}

/* as fails(), for {"code":"x", FIELD} */
static bool field_fails(const char *field, int status, const char *code, const char *part)
{
	char *body = mem_printf("{\"code\":\"x\",%s}", field);
	bool ok = fails(body, status, code, part);

	free(body);
	return ok;
}

static int parse_field(const char *field)
{
	char *body = mem_printf("{\"code\":\"x\",%s}", field);
	int rc = parse(body);

	if (rc < 0)
		fprintf(stderr, "# %s: %s\n", field, e.text);
	free(body);
	return rc;
}

TEST(the_least_request)
{
	start();
	CHECK(parse("{\"code\":\"print('hi')\"}") == 0);
	CHECK(r.code.len == 11 && memcmp(r.code.bytes, "print('hi')", 11) == 0);
	CHECK(r.mode == &modes.mode[0] && r.row == 0 && r.file_count == 0);
	CHECK(r.limits.wall_ms == 30000 && r.limits.memory_mb == 512);
	CHECK(r.args && !r.args[0] && r.env && !r.env[0] && r.stdin_text.len == 0);
	request_done(&r);
}

TEST(code_is_required)
{
	start();
	CHECK(fails("{}", 400, "code_required", "code is required"));
	CHECK(strcmp(e.text, "code is required") == 0);
	CHECK(fails("{\"code\":null}", 400, "code_required", "code is required"));
	CHECK(fails("{\"code\":\"\"}", 400, "code_required", "code is required"));
	CHECK(fails("{\"code\":1}", 400, "bad_request", "code must be a string"));
	CHECK(fails("{\"code\":\"a\\u0000b\"}", 400, "bad_request",
		    "code must not contain NUL"));
}

TEST(what_is_no_object_is_refused)
{
	start();
	CHECK(fails("[]", 400, "bad_request", "object"));
	CHECK(fails("\"x\"", 400, "bad_request", "object"));
	CHECK(fails("", 400, "invalid_json", ""));
	CHECK(fails("{\"code\":\"x\"", 400, "invalid_json", ""));
	CHECK(fails("{\"code\":\"x\"}x", 400, "invalid_json", ""));
	CHECK(fails("{\"code\":\"x\",\"code\":\"y\"}", 400, "invalid_json", "twice"));
	CHECK(fails("{\"code\":\"\xff\"}", 400, "invalid_json", ""));
	CHECK(fails("{\"code\":\"\\ud800\"}", 400, "invalid_json", ""));
}

TEST(unknown_fields_are_ignored_and_null_is_missing)
{
	start();
	CHECK(parse("{\"code\":\"x\",\"future\":{\"a\":[1]},\"timeout_seconds\":null,"
		    "\"files\":null,\"stdin\":null,\"args\":null,\"env\":null,"
		    "\"language\":null,\"limits\":null,\"requirements\":null,"
		    "\"network\":null}") == 0);
	request_done(&r);
}

TEST(wrong_types_name_their_field)
{
	static const char *const fields[][2] = {
		{"\"timeout_seconds\":\"5\"", "timeout_seconds"},
		{"\"timeout_seconds\":true", "timeout_seconds"},
		{"\"stdin\":1", "stdin"},
		{"\"args\":\"x\"", "args"},
		{"\"args\":[1]", "args"},
		{"\"env\":[]", "env"},
		{"\"env\":{\"A\":1}", "env value of \"A\""},
		{"\"files\":[]", "files"},
		{"\"files\":{\"x\":1}", "files: \"x\""},
		{"\"files\":{\"x\":null}", "files: \"x\""},
		{"\"language\":[]", "language"},
		{"\"limits\":1", "limits"},
		{"\"requirements\":\"six\"", "requirements"},
		{"\"requirements\":[1]", "requirements"},
		{"\"network\":\"yes\"", "network"},
		{"\"network\":[1]", "network"},
	};

	start();
	for (unsigned i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		CHECK(field_fails(fields[i][0], 400, "bad_request", fields[i][1]));
}

TEST(timeouts)
{
	static const struct {
		const char *value;
		uint32_t wall_ms;
	} rows[] = {
		{"0", 30000},    {"-0", 30000},   {"null", 30000},   {"1", 1000},
		{"0.5", 500},    {"0.0001", 1},   {"1.0005", 1001},  {"300", 300000},
		{"301", 300000}, {"1e9", 300000}, {"1e300", 300000},
	};
	char field[64];

	start();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		snprintf(field, sizeof(field), "\"timeout_seconds\":%s", rows[i].value);
		CHECK(parse_field(field) == 0 && r.limits.wall_ms == rows[i].wall_ms);
	}
	request_done(&r);
	CHECK(field_fails("\"timeout_seconds\":-1", 400, "bad_request",
			  "timeout_seconds"));
	CHECK(field_fails("\"timeout_seconds\":-0.001", 400, "bad_request",
			  "timeout_seconds"));
	CHECK(parse("{\"code\":\"x\",\"timeout_seconds\":1e400}") == -1);
	request_done(&r);
}

TEST(limits_are_positive_whole_numbers)
{
	static const char *const bad[] = {"0",    "-1",   "1.5",  "\"1G\"",
					  "true", "[]",   "1e-3", "5000000000.5",
					  "{}",   "false"};
	char field[64];

	start();
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(field, sizeof(field), "\"limits\":{\"memory_mb\":%s}", bad[i]);
		CHECK(field_fails(field, 400, "bad_request",
				  "limits.memory_mb must be a positive whole number"));
	}
	CHECK(field_fails("\"limits\":{\"memory_mb\":7}", 400, "bad_request",
			  "limits.memory_mb must be at least 8"));
	CHECK(parse_field("\"limits\":{\"memory_mb\":8}") == 0);
	CHECK(r.limits.memory_mb == 8 && r.limits.disk_mb == 4);
	CHECK(field_fails("\"limits\":{\"pids\":0}", 400, "bad_request", "limits.pids"));
	CHECK(parse_field("\"limits\":{\"memory_mb\":1e2,\"cpu_seconds\":2,\"pids\":8,"
			  "\"disk_mb\":16,\"max_output_kb\":20,\"other\":-1}") == 0);
	CHECK(r.limits.memory_mb == 100 && r.limits.cpu_ms == 2000 && r.limits.pids == 8);
	CHECK(r.limits.disk_mb == 16 && r.limits.output_kb == 20);
	CHECK(parse_field("\"limits\":{\"memory_mb\":9223372036854775808,"
			  "\"cpu_seconds\":1e300,\"pids\":4294967297,\"disk_mb\":257,"
			  "\"max_output_kb\":1025}") == 0);
	CHECK(r.limits.memory_mb == 512 && r.limits.cpu_ms == 30000);
	CHECK(r.limits.pids == 64 && r.limits.disk_mb == 256 &&
	      r.limits.output_kb == 1024);
	request_done(&r);
}

TEST(languages)
{
	start();
	CHECK(parse_field("\"language\":\"js\"") == 0 && r.mode == &modes.mode[1]);
	CHECK(r.row == 1);
	CHECK(parse_field("\"language\":\"ts\"") == 0 && r.mode == &modes.mode[1]);
	CHECK(r.row == 2);
	request_done(&r);
	CHECK(field_fails("\"language\":\"ruby\"", 400, "unsupported_language",
			  "python"));
	CHECK(field_fails("\"language\":\"\"", 400, "unsupported_language", ""));
	CHECK(field_fails("\"language\":\"../../bin/sh\"", 400, "unsupported_language",
			  ""));
	CHECK(field_fails("\"language\":\"python\\u0000x\"", 400, "unsupported_language",
			  "language"));
}

TEST(files_are_decoded)
{
	start();
	CHECK(parse_field("\"files\":{\"in.txt\":\"ZGF0YQ==\",\"d/e/f\":\"\","
			  "\"-x\":\"AA==\",\"...\":\"\",\"d/e/g\":\"\"}") == 0);
	CHECK(r.file_count == 5 && strcmp(r.files[0].name, "in.txt") == 0);
	CHECK(r.files[0].data.len == 4 && memcmp(r.files[0].data.bytes, "data", 4) == 0);
	CHECK(r.files[1].data.len == 0);
	CHECK(r.files[2].data.len == 1 && r.files[2].data.bytes[0] == 0);
	request_done(&r);
}

TEST(bad_file_names)
{
	static const char *const names[] = {
		"",        "/",         "/etc/x",      ".",         "..",
		"../x",    "a/../../x", "a/../b",      "./a",       "a/.",
		"a//b",    "a/",        "a\\nb",       "a\\u007fb", "script.py",
		"output",  "output/x",  "script.py/x", "a/..",      "\\u0001",
		"output/",
	};
	char field[128], *longest = mem_zero(5001);

	start();
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(field, sizeof(field), "\"files\":{\"%s\":\"\"}", names[i]);
		CHECK(field_fails(field, 400, "bad_file_name", "file name"));
	}
	CHECK(field_fails("\"files\":{\"a\\u0000b\":\"\"}", 400, "invalid_json", ""));
	for (size_t len = 256; len <= 4096; len += 3840) {
		char *body;

		for (size_t i = 0; i < len; i++)
			longest[i] = len > 256 && i % 2 ? '/' : 'x';
		longest[len - 1] = 'x';
		body = mem_printf("{\"code\":\"x\",\"files\":{\"%s\":\"\"}}", longest);
		CHECK(fails(body, 400, "bad_file_name", "file name"));
		free(body);
	}
	free(longest);
}

TEST(names_near_the_reserved_ones_are_fine)
{
	start();
	CHECK(parse_field(
		      "\"files\":{\"script.pyc\":\"\",\"output.txt\":\"\","
		      "\"d/script.py\":\"\",\"script.js\":\"\",\"outputs/x\":\"\"}") ==
	      0);
	CHECK(parse_field("\"language\":\"ts\",\"files\":{\"script.js\":\"\"}") == 0);
	request_done(&r);
	CHECK(field_fails("\"language\":\"ts\",\"files\":{\"script.ts\":\"\"}", 400,
			  "bad_file_name", "script"));
}

TEST(a_file_that_is_also_a_directory)
{
	start();
	CHECK(field_fails("\"files\":{\"a/b\":\"\",\"a-b\":\"\",\"a\":\"\"}", 400,
			  "bad_file_name", "\"a\""));
	CHECK(field_fails("\"files\":{\"x/y/z\":\"\",\"x/y\":\"\"}", 400, "bad_file_name",
			  "\"x/y\""));
	CHECK(parse_field("\"files\":{\"a/b\":\"\",\"a-b\":\"\",\"ab\":\"\"}") == 0);
	request_done(&r);
}

TEST(bad_base64)
{
	static const char *const texts[] = {
		"A",      "AA",   "AAA",  "A===",     "AAA=A", "A A=",
		"AA\\n=", "AB==", "_-==", "AA==AA==", "AAAA=", "\\u0000"};
	char field[64];

	start();
	for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		snprintf(field, sizeof(field), "\"files\":{\"x\":\"%s\"}", texts[i]);
		CHECK(field_fails(field, 400, "bad_base64",
				  "failed to decode file \"x\""));
		CHECK(strcmp(e.text, "failed to decode file \"x\"") == 0);
	}
}

TEST(files_must_fit_on_the_disk)
{
	const size_t len = 1400000; /* a little over 1 MB when decoded */
	char *text = mem_zero(len + 1), *body;

	start();
	memset(text, 'A', len);
	body = mem_printf("{\"code\":\"x\",\"files\":{\"x\":\"%s\"},\"limits\":{"
			  "\"disk_mb\":1}}",
			  text);
	CHECK(fails(body, 400, "files_too_large", "1 MB"));
	free(body);
	body = mem_printf("{\"code\":\"x\",\"files\":{\"x\":\"%s\"},\"limits\":{"
			  "\"disk_mb\":2}}",
			  text);
	CHECK(parse(body) == 0 && r.files[0].data.len == len / 4 * 3);
	request_done(&r);
	free(body);
	/* directories cost too: a few deep ones against 256 pages */
	for (size_t i = 0; i < 600; i++)
		text[i] = i % 2 ? '/' : 'd';
	text[599] = 'f';
	text[600] = 0;
	body = mem_printf("{\"code\":\"x\",\"files\":{\"%s\":\"\"},\"limits\":{"
			  "\"disk_mb\":1}}",
			  text);
	CHECK(fails(body, 400, "files_too_large", "disk limit"));
	free(body);
	free(text);
}

TEST(arguments)
{
	char *body, *text = mem_zero(200001);

	start();
	CHECK(parse_field("\"args\":[\"a\",\"\",\"-x y\"]") == 0);
	CHECK(strcmp(r.args[0], "a") == 0 && strcmp(r.args[1], "") == 0);
	CHECK(strcmp(r.args[2], "-x y") == 0 && !r.args[3]);
	request_done(&r);
	CHECK(field_fails("\"args\":[\"a\\u0000b\"]", 400, "bad_request", "args"));
	for (int i = 0; i < INPUT_ARGS_MAX + 1; i++)
		memcpy(text + strlen(text), i ? ",\"\"" : "\"\"", 3);
	body = mem_printf("{\"code\":\"x\",\"args\":[%s]}", text);
	CHECK(fails(body, 400, "bad_request", "args has more than 256 items"));
	free(body);
	memset(text, 'x', 200000);
	body = mem_printf("{\"code\":\"x\",\"args\":[\"%s\"]}", text);
	CHECK(fails(body, 400, "bad_request", "args has an item"));
	free(body);
	text[110000] = 0;
	body = mem_printf("{\"code\":\"x\",\"args\":[\"%s\",\"%s\",\"%s\",\"%s\",\"%s\","
			  "\"%s\",\"%s\",\"%s\",\"%s\",\"%s\"]}",
			  text, text, text, text, text, text, text, text, text, text);
	CHECK(fails(body, 400, "bad_request", "args and env"));
	free(body);
	free(text);
}

TEST(environment)
{
	static const char *const names[] = {
		"PATH",       "HOME",    "LANG",        "TMPDIR",  "OUTPUT_DIR",
		"LD_PRELOAD", "LD_",     "TRACEPARENT", "GOCACHE", "GLIBC_TUNABLES",
		"",           "1A",      "A-B",         "A=B",     "A B",
		"=x",         "\\u00e9",
	};
	char field[128];

	start();
	CHECK(parse_field("\"env\":{\"A\":\"b=c\",\"_x9\":\"\",\"path\":\"y\"}") == 0);
	CHECK(strcmp(r.env[0], "A=b=c") == 0 && strcmp(r.env[1], "_x9=") == 0);
	CHECK(!r.env[3]);
	request_done(&r);
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(field, sizeof(field), "\"env\":{\"%s\":\"x\"}", names[i]);
		CHECK(field_fails(field, 400, "bad_request", "env"));
		CHECK(names[i][0] == '\\' || strstr(e.text, names[i]));
	}
	CHECK(field_fails("\"env\":{\"A\":\"x\\u0000y\"}", 400, "bad_request", "\"A\""));
}

TEST(standard_input_may_have_any_character)
{
	start();
	CHECK(parse_field("\"stdin\":\"a\\u0000\\n\"") == 0);
	CHECK(r.stdin_text.len == 3 && memcmp(r.stdin_text.bytes, "a\0\n", 3) == 0);
	request_done(&r);
}

TEST(network_is_what_the_operator_allows_or_less)
{
	start();
	CHECK(field_fails("\"network\":true", 403, "network_not_allowed", "no network"));
	CHECK(field_fails("\"network\":[\"a.test\"]", 403, "network_not_allowed", ""));
	CHECK(parse_field("\"network\":[]") == 0 && !r.network);
	settings.network_rules = mem_zero(sizeof(*settings.network_rules));
	CHECK(rules_parse(settings.network_rules, "a.test,*.b.test,10.0.0.0/8", &e) == 0);
	CHECK(parse_field("\"args\":[]") == 0 && !r.network);
	CHECK(parse_field("\"network\":false") == 0 && !r.network);
	CHECK(parse_field("\"network\":true") == 0 && r.network->count == 3);
	CHECK(parse_field("\"network\":[\"x.b.test\"]") == 0);
	/* and the operator's range, for what it resolves to */
	CHECK(r.network->count == 2 && r.network->rule[1].resolved_only);
	CHECK(field_fails("\"network\":[\"a.test\",\"c.test\"]", 403,
			  "network_not_allowed", "network[1]: 'c.test' is more"));
	CHECK(field_fails("\"network\":[\"http://a.test\"]", 400, "bad_request",
			  "network[0]: 'http://a.test' is no host"));
	CHECK(field_fails("\"network\":[1]", 400, "bad_request", "array of strings"));
	settings.network_default = 1;
	CHECK(parse_field("\"args\":[]") == 0 && r.network);
	CHECK(parse_field("\"network\":null") == 0 && r.network);
	CHECK(parse_field("\"network\":false") == 0 && !r.network);
}

TEST(the_network_of_the_pod_is_had_or_not_but_has_no_list)
{
	start();
	settings.network_pod = true;
	CHECK(parse_field("\"args\":[]") == 0 && !r.pod && !r.network);
	CHECK(parse_field("\"network\":true") == 0 && r.pod && !r.network);
	CHECK(parse_field("\"network\":[]") == 0 && !r.pod);
	CHECK(field_fails("\"network\":[\"a.test\"]", 400, "bad_request",
			  "SANDBOX_NETWORK=pod"));
	CHECK(field_fails("\"network\":\"a\"", 400, "bad_request", "false or true"));
	settings.network_default = 1;
	CHECK(parse_field("\"args\":[]") == 0 && r.pod);
	CHECK(parse_field("\"network\":null") == 0 && r.pod);
	CHECK(parse_field("\"network\":false") == 0 && !r.pod);
	CHECK(parse_field("\"network\":[]") == 0 && !r.pod);
}

TEST(what_is_not_there_yet_says_so)
{
	start();
	CHECK(field_fails("\"requirements\":[\"six\",\"-r x\"]", 400, "bad_requirement",
			  "\"-r x\""));
	CHECK(field_fails("\"language\":\"js\",\"requirements\":[\"a/b\"]", 400,
			  "bad_requirement", "\"a/b\""));
	CHECK(parse_field("\"requirements\":[],\"network\":false") == 0);
	CHECK(parse_field("\"language\":\"go\",\"requirements\":[\"six\"]") == 0);
	CHECK(parse_field("\"language\":\"sh\",\"requirements\":[\"six\"]") == 0);
	CHECK(field_fails("\"language\":\"sh\",\"requirements\":[1]", 400, "bad_request",
			  "requirements"));
}
