/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_reply.c - answers, byte by byte
 */
#include "api/api.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "base/json.h"
#include "config/filter.h"
#include "config/mode.h"
#include "config/settings.h"
#include "tap.h"

static struct buf b;
static struct mode python = {.id = MODE_PYTHON, .name = "python"};
static struct result r;

static const char *text(void)
{
	CHECK(buf_text(&b) == 0);
	return b.bytes;
}

static void start(void)
{
	buf_init(&b, 64 << 20);
	r = (struct result){
		.mode = &python,
		.outcome = {.wall_us = 14400,
			    .setup_us = 900,
			    .cpu_us = 12000,
			    .memory_peak_kb = 9120,
			    .pids_peak = 1},
		.limits = {30000, 30000, 512, 64, 256, 10},
		.level = LEVEL_FULL,
	};
	buf_init(&r.out.kept, 32 << 20);
	buf_init(&r.err.kept, 32 << 20);
}

static void finish(void)
{
	buf_done(&b);
	buf_done(&r.out.kept);
	buf_done(&r.err.kept);
}

TEST(a_plain_success)
{
	start();
	CHECK(buf_puts(&r.out.kept, "hi\n") == 0 && reply_result(&b, &r) == 0);
	CHECK(strcmp(text(),
		     "{\"status\":\"success\",\"stdout\":\"hi\\n\",\"stderr\":\"\","
		     "\"exit_code\":0,\"execution_time_ms\":14,\"duration\":0.014,"
		     "\"meta\":{\"runtime\":\"local\",\"mode\":\"python\","
		     "\"verdict\":\"ok\",\"truncated\":false,\"timed_out\":false,"
		     "\"signal\":null,\"blocked_imports\":[],\"violations\":null,"
		     "\"resource_limits\":{\"timeout_sec\":30,\"max_output_kb\":10,"
		     "\"memory_mb\":512,\"cpu_seconds\":30,\"pids\":64,\"disk_mb\":256},"
		     "\"usage\":{\"cpu_ms\":12,\"memory_peak_kb\":9120,\"pids_peak\":1,"
		     "\"setup_us\":900,\"warm\":false},\"isolation\":\"full\"}}") == 0);
	finish();
}

TEST(files_skipped_files_message_and_unknown_usage)
{
	struct produced_file files[] = {{(char[]){"r.csv"}, "a,b\n1,2", 7},
					{(char[]){"d/e"}, "", 0}};
	struct skipped_file skipped[] = {{(char[]){"l"}, (char[]){"symlink"}}};

	start();
	r.files = files;
	r.file_count = 2;
	r.skipped = skipped;
	r.skipped_count = 1;
	r.exit_code = -1;
	r.outcome.warm = 1;
	r.limits.wall_ms = r.limits.cpu_ms = 500;
	r.out.truncated = true;
	r.outcome.verdict = VERDICT_TIMEOUT;
	r.outcome.signal = 9;
	r.outcome.wall_us = 1500600;
	r.outcome.pids_peak = USAGE_UNKNOWN;
	snprintf(r.outcome.pids_reason, sizeof(r.outcome.pids_reason), "cgroup v1");
	snprintf(r.message, sizeof(r.message), "execution timed out after 0.5 seconds");
	CHECK(reply_result(&b, &r) == 0);
	CHECK(strcmp(text(),
		     "{\"status\":\"error\",\"stdout\":\"\",\"stderr\":\"\","
		     "\"exit_code\":-1,\"execution_time_ms\":1501,"
		     "\"files_produced\":{\"r.csv\":\"YSxiCjEsMg==\",\"d/e\":\"\"},"
		     "\"duration\":1.501,\"meta\":{\"runtime\":\"local\","
		     "\"mode\":\"python\",\"verdict\":\"timeout\",\"message\":"
		     "\"execution timed out after 0.5 seconds\",\"truncated\":true,"
		     "\"timed_out\":true,\"signal\":9,\"blocked_imports\":[],"
		     "\"violations\":null,\"files_skipped\":[{\"name\":\"l\","
		     "\"reason\":\"symlink\"}],\"resource_limits\":{\"timeout_sec\":0.5,"
		     "\"max_output_kb\":10,\"memory_mb\":512,\"cpu_seconds\":0.5,"
		     "\"pids\":64,\"disk_mb\":256},\"usage\":{\"cpu_ms\":12,"
		     "\"memory_peak_kb\":9120,\"pids_peak\":null,\"setup_us\":900,"
		     "\"warm\":true,"
		     "\"unavailable\":{\"pids_peak\":\"cgroup v1\"}},"
		     "\"isolation\":\"full\"}}") == 0);
	b.len = 0;
	r.outcome.memory_peak_kb = USAGE_UNKNOWN;
	CHECK(reply_result_stored(&b, &r) == 0);
	CHECK(!strstr(text(), "files_produced") && strstr(b.bytes, "files_skipped"));
	CHECK(strstr(b.bytes, "\"unavailable\":{\"memory_peak_kb\":\"not measured\","
			      "\"pids_peak\":\"cgroup v1\"}}"));
	finish();
}

TEST(violations_have_names_errnos_arguments_and_hints)
{
	struct violation seen[] = {
		{.nr = filter_number(FILTER_ARCH, "socket"),
		 .errno_ret = EAFNOSUPPORT,
		 .count = 3,
		 .args = {AF_INET, 1, UINT64_MAX}},
		{.nr = filter_number(FILTER_ARCH, "mbind"),
		 .errno_ret = EPERM,
		 .count = 1},
		{.nr = 1000, .errno_ret = 4000, .count = UINT64_MAX},
	};

	start();
	r.outcome.violations = VIOLATIONS_ALL;
	CHECK(reply_result(&b, &r) == 0);
	CHECK(strstr(text(), "\"violations\":[],\"resource_limits\""));
	b.len = 0;
	r.violations = seen;
	r.violation_count = 3;
	CHECK(reply_result(&b, &r) == 0);
	CHECK(strstr(text(),
		     "\"violations\":[{\"syscall\":\"socket\",\"count\":3,"
		     "\"errno\":\"EAFNOSUPPORT\",\"args\":[\"0x2\",\"0x1\","
		     "\"0xffffffffffffffff\",\"0x0\",\"0x0\",\"0x0\"],"
		     "\"hint\":\"sockets are denied: network is off\"},"
		     "{\"syscall\":\"mbind\",\"count\":1,\"errno\":\"EPERM\","
		     "\"args\":[\"0x0\",\"0x0\",\"0x0\",\"0x0\",\"0x0\",\"0x0\"]},"
		     "{\"syscall\":\"1000\",\"count\":18446744073709551615,"
		     "\"errno\":\"4000\",\"args\":[\"0x0\",\"0x0\",\"0x0\",\"0x0\","
		     "\"0x0\",\"0x0\"]}],\"resource_limits\""));
	b.len = 0;
	r.outcome.violations = VIOLATIONS_CUT;
	CHECK(reply_result_stored(&b, &r) == 0);
	CHECK(strstr(text(), "}],\"violations_truncated\":true,\"resource_limits\""));
	finish();
}

/* what is said of a refused socket, for a run of this level that could reach that */
static const char *socket_hint(uint32_t level, uint32_t reach, uint64_t family)
{
	const struct result of = {.level = level, .reach = reach};
	const struct violation v = {.args = {family, 3, 4}, .errno_ret = EAFNOSUPPORT};

	return violation_hint(&of, "socket", &v);
}

TEST(hints_depend_on_what_was_asked_for)
{
	const struct result of = {.level = LEVEL_FULL};
	const struct violation none = {0};

	CHECK(strcmp(socket_hint(LEVEL_FULL, NETWORK_NONE, AF_INET6),
		     "sockets are denied: network is off") == 0);
	CHECK(strcmp(socket_hint(LEVEL_FULL, NETWORK_NONE, 1ull << 32 | AF_ALG),
		     "sockets of this family are denied") == 0);
	CHECK(violation_hint(&of, "ptrace", &none) &&
	      !violation_hint(&of, "nonsense", &none));
}

TEST(hints_are_true_for_level_and_network)
{
	for (uint32_t level = LEVEL_PROCESS; level < LEVEL_COUNT; level++) {
		CHECK(strstr(socket_hint(level, NETWORK_BROKER, AF_INET), "proxy"));
		CHECK(strcmp(socket_hint(level, NETWORK_POD, AF_INET6),
			     "only TCP and UDP") == 0);
		for (uint32_t reach = 0; reach < NETWORK_COUNT; reach++) {
			CHECK(strstr(socket_hint(level, reach, AF_UNIX), "socketpair"));
			/* which is not allowed wherever these are refused */
			CHECK(!strstr(socket_hint(level, reach, AF_ALG), "AF_UNIX"));
			CHECK(!strstr(socket_hint(level, reach, AF_ALG), "off"));
			CHECK(!strstr(socket_hint(level, reach, AF_NETLINK), "only"));
		}
	}
}

TEST(hints_of_unix_sockets_say_which_type_works)
{
	const struct result of = {.level = LEVEL_FULL};
	const struct violation type = {.args = {AF_UNIX, SOCK_DGRAM},
				       .errno_ret = ESOCKTNOSUPPORT};
	const struct violation family = {.args = {AF_INET, SOCK_DGRAM},
					 .errno_ret = EAFNOSUPPORT};

	CHECK(strstr(violation_hint(&of, "socket", &type), "other than SOCK_STREAM"));
	CHECK(strstr(violation_hint(&of, "socketpair", &type), "of SOCK_STREAM"));
	CHECK(strstr(violation_hint(&of, "socketpair", &family), "of AF_UNIX"));
}

TEST(hints_of_what_shared_processes_lack_are_given_there_only)
{
	static const char *const names[] = {"inotify_add_watch", "setpriority",
					    "sched_setaffinity"};
	const struct violation v = {0};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct result of = {.level = LEVEL_LANDLOCK};
		const char *shared = violation_hint(&of, names[i], &v);

		CHECK(shared);
		of.level = LEVEL_FULL;
		CHECK(violation_hint(&of, names[i], &v) &&
		      violation_hint(&of, names[i], &v) != shared);
		of.level = LEVEL_CONTAINER; /* which is neither */
		CHECK(!violation_hint(&of, names[i], &v));
	}
}

TEST(any_bytes_become_valid_json)
{
	struct json *doc;
	struct err e;

	start();
	for (int i = 0; i < 1000; i++) {
		char byte = (char)(i * 7 + i / 256);

		CHECK(buf_add(&r.out.kept, &byte, 1) == 0);
		CHECK(buf_add(&r.err.kept, &byte, 1) == 0);
	}
	CHECK(reply_result(&b, &r) == 0);
	doc = json_parse(b.bytes, b.len, &json_request_limits, &e);
	CHECK(doc && strstr(text(), "\\u0000"));
	json_free(doc);
	finish();
}

TEST(ten_megabytes_take_no_time)
{
	char *bytes = calloc(1, 10 << 20);
	struct produced_file file = {(char[]){"big"}, bytes, 10 << 20};
	struct timespec from, to;

	start();
	r.files = &file;
	r.file_count = 1;
	clock_gettime(CLOCK_MONOTONIC, &from);
	CHECK(reply_result(&b, &r) == 0);
	clock_gettime(CLOCK_MONOTONIC, &to);
	CHECK(b.len > (10 << 20) / 3 * 4 && to.tv_sec - from.tv_sec < 2);
	finish();
	free(bytes);
}

TEST(a_buffer_that_is_too_small_is_an_error)
{
	start();
	b.cap_bytes = 300;
	CHECK(reply_result(&b, &r) == -1);
	finish();
}

TEST(errors_show_what_is_the_clients_business)
{
	struct err e;

	start();
	err_client(&e, 400, "code_required", "code is required");
	CHECK(reply_error(&b, "error", &e, "id1") == 0);
	CHECK(strcmp(text(), "{\"error\":\"code is required\",\"code\":"
			     "\"code_required\"}") == 0);
	b.len = 0;
	errno = EACCES;
	err_errno(&e, "open '/etc/secret'");
	CHECK(reply_error(&b, "error", &e, "id1") == 0);
	CHECK(strcmp(text(), "{\"error\":\"internal error (request id1)\",\"code\":"
			     "\"internal_error\"}") == 0);
	b.len = 0;
	err_server(&e, 500, "sandbox_setup_failed", "sandbox step \"proc\" failed");
	CHECK(reply_error(&b, "error", &e, "id1") == 0);
	CHECK(strcmp(text(), "{\"error\":\"sandbox step \\\"proc\\\" failed\",\"code\":"
			     "\"sandbox_setup_failed\"}") == 0);
	b.len = 0;
	CHECK(reply_output(&b, "a\"\xff", 3) == 0);
	CHECK(strcmp(text(), "{\"text\":\"a\\\"\xef\xbf\xbd\"}") == 0);
	finish();
}

TEST(health_has_the_fields_of_the_manual)
{
	struct settings s = {.max_concurrent = 3};
	struct modes modes = {.count = 1};
	struct report report = {.level = LEVEL_NAMESPACES};
	struct health h = {.modes = &modes,
			   .settings = &s,
			   .report = &report,
			   .running = 2,
			   .uptime_sec = 42};

	start();
	modes.mode[0] = python;
	modes.mode[0].runtime_version = (char[]){"Python 3.12.12"};
	modes.mode[0].packages = (char *[]){(char[]){"numpy"}, (char[]){"pandas"}, NULL};
	modes.mode[1] = (struct mode){.id = MODE_SHELL, .name = "shell"};
	for (int i = 0; i < LAYER_COUNT; i++)
		report.layer[i].requested = report.layer[i].active = 1;
	report.layer[LAYER_PROC].active = 0;
	report.layer[LAYER_LANDLOCK].requested = report.layer[LAYER_LANDLOCK].active = 0;
	CHECK(reply_health(&b, &h) == 0);
	CHECK(strstr(text(),
		     "{\"status\":\"healthy\",\"mode\":\"python\",\"runtime_version\":"
		     "\"Python 3.12.12\",\"capacity\":3,\"current_load\":2,"
		     "\"uptime_seconds\":42,\"preinstalled_packages\":[\"numpy\","
		     "\"pandas\"],\"isolation\":{\"level\":\"namespaces\",\"layers\":{"
		     "\"user_namespace\":true,") == b.bytes);
	CHECK(strstr(b.bytes, "\"missing\":[\"proc\"]},\"installer\":null,"
			      "\"package_layers\":{\"count\":0,\"bytes\":0},"
			      "\"version\":\""));
	b.len = 0;
	modes.count = 2;
	h.draining = true;
	h.report = NULL;
	h.state_note = "off: not writable";
	CHECK(reply_health(&b, &h) == 0);
	CHECK(strstr(text(), "{\"status\":\"draining\","));
	CHECK(strstr(b.bytes,
		     ",\"modes\":[\"python\",\"shell\"],\"isolation\":{\"level\":"
		     "\"none\",\"layers\":{},\"missing\":[]},"
		     "\"installer\":null,\"package_layers\":{\"count\":0,\"bytes\":0},"
		     "\"state_directory\":"
		     "\"off: not writable\",\"version\""));
	finish();
}

TEST(isolation_tells_evidence_reason_and_fix)
{
	struct report report = {.level = LEVEL_FULL};
	struct json *doc;
	struct err e;

	start();
	report.layer[0] = (struct layer){1, 1, "uid 1000", "", ""};
	report.layer[LAYER_PROC] = (struct layer){1, 0, "EPERM", "masked", "unmask it"};
	CHECK(reply_isolation(&b, &report, NULL) == 0);
	CHECK(strstr(text(), "{\"level\":\"full\",\"layers\":{\"user_namespace\":{"
			     "\"requested\":true,\"active\":true,\"evidence\":"
			     "\"uid 1000\"},"));
	CHECK(strstr(b.bytes, "\"proc\":{\"requested\":true,\"active\":false,"
			      "\"evidence\":\"EPERM\",\"reason\":\"masked\","
			      "\"fix\":\"unmask it\"}"));
	doc = json_parse(b.bytes, b.len, &json_request_limits, &e);
	CHECK(doc);
	json_free(doc);
	b.len = 0;
	CHECK(reply_isolation(&b, NULL, NULL) == 0);
	CHECK(strcmp(text(), "{\"level\":\"none\",\"layers\":{}}") == 0);
	finish();
}
