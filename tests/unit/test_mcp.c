/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_mcp.c - messages of the Model Context Protocol, and what is to be done with them
 */
#include "mcp/mcp.h"

#include "../tap.h"
#include "api/tools.h"
#include "base/json.h"
#include "config/mode.h"
#include "config/settings.h"

static char output_dir[] = "output";
static const struct settings settings = {.timeout_sec = 30,
					 .max_timeout_sec = 300,
					 .max_output_kb = 10,
					 .output_ceiling_kb = 1024,
					 .output_dir = output_dir};
#define OWN                                                  \
	{                                                    \
		.memory_mb = 512, .pids = 64, .disk_mb = 256 \
	}
static const struct modes modes = {
	.count = 2,
	.mode = {{.id = MODE_PYTHON,
		  .name = "python",
		  .defaults = OWN,
		  .typescript_row = -1},
		 {.id = MODE_NODE,
		  .name = "node",
		  .defaults = OWN,
		  .row = 1,
		  .typescript_row = -1}},
};
static const struct modes shell = {
	.count = 1,
	.mode = {{.id = MODE_SHELL,
		  .name = "shell",
		  .defaults = OWN,
		  .typescript_row = -1}},
};
static const struct request_world world = {&settings, &modes, false};
static const struct mcp_headers no_headers;

static struct mcp_call call;
static struct mcp_answer answer;

static enum mcp_what say(const struct mcp_headers *h, const char *text)
{
	enum mcp_what what = mcp_receive(&world, h, text, strlen(text), &call, &answer);

	if (what == MCP_ANSWER)
		CHECK(buf_text(&answer.json) == 0);
	return what;
}

static bool has(const char *text)
{
	return answer.json.bytes && strstr(answer.json.bytes, text);
}

/* an answer, with this status and this in it */
static bool answers(const struct mcp_headers *h, const char *text, int status,
		    const char *part)
{
	bool ok = say(h, text) == MCP_ANSWER && answer.status == status && has(part);
	struct json *doc = json_parse(answer.json.bytes, answer.json.len,
				      &json_request_limits, NULL);

	ok = ok && doc;
	if (!ok)
		printf("# %d %.*s\n", answer.status, (int)answer.json.len,
		       answer.json.bytes);
	json_free(doc);
	buf_done(&answer.json);
	mcp_call_done(&call);
	return ok;
}

#define REQUEST(method, params) \
	"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":" params "}"
#define CAPABLE "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define META(version)                                                       \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" version \
	"\"," CAPABLE "}"

TEST(what_is_no_message_is_refused)
{
	static const struct {
		const char *text, *part;
	} rows[] = {
		{"", "-32700"},
		{"{", "-32700"},
		{"{} x", "-32700"},
		{"[]", "-32600"},
		{"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", "batches"},
		{"7", "-32600"},
		{"{\"id\":1,\"method\":\"ping\"}", "jsonrpc"},
		{"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", "-32600"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1}", "method must be"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", "method must be"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\\u0000\"}", "method"},
		{"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", "id must be"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", "id must be"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1e99,\"method\":\"ping\"}", "id must be"},
		{"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", "id must be"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}",
		 "-32602"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK(answers(&no_headers, rows[i].text, 400, rows[i].part));
}

TEST(an_id_comes_back_as_it_was)
{
	static const char *const ids[] = {"1",           "-7", "9007199254740992",
					  "\"a\"",       "0",  "\"\\u0000\\\"\\\\\"",
					  "\"\303\274\""};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		char text[256], part[256];

		snprintf(text, sizeof(text),
			 "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"ping\"}", ids[i]);
		snprintf(part, sizeof(part),
			 "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", ids[i]);
		CHECK(answers(NULL, text, 200, part));
	}
}

TEST(a_long_id_is_refused)
{
	char text[1200];

	snprintf(text, sizeof(text),
		 "{\"jsonrpc\":\"2.0\",\"id\":\"%0600d\",\"method\":\"ping\"}", 0);
	CHECK(answers(NULL, text, 400, "id must be"));
}

TEST(notifications_and_responses_are_accepted)
{
	CHECK(say(NULL,
		  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}") ==
	      MCP_ACCEPTED);
	CHECK(say(NULL, "{\"jsonrpc\":\"2.0\",\"method\":\"what/ever\"}") ==
	      MCP_ACCEPTED);
	CHECK(say(NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}") == MCP_ACCEPTED);
	CHECK(say(NULL, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
			"\"params\":{\"requestId\":\"x\"}}") == MCP_CANCEL);
	CHECK(strcmp(call.id, "\"x\"") == 0);
	CHECK(say(NULL, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}") ==
	      MCP_ACCEPTED);
}

TEST(initialize_agrees_on_a_version)
{
	CHECK(answers(&no_headers,
		      REQUEST("initialize", "{\"protocolVersion\":\"2025-06-18\"}"), 200,
		      "\"protocolVersion\":\"2025-06-18\""));
	CHECK(answers(&no_headers,
		      REQUEST("initialize", "{\"protocolVersion\":\"1999-01-01\"}"), 200,
		      "\"protocolVersion\":\"2025-11-25\""));
	CHECK(answers(&no_headers, REQUEST("initialize", "{}"), 200, "-32602"));
	CHECK(!answer.begins);
	CHECK(say(NULL, REQUEST("initialize", "{\"protocolVersion\":\"2025-11-25\"}")) ==
		      MCP_ANSWER &&
	      answer.begins);
	buf_done(&answer.json);
}

TEST(headers_must_say_what_the_body_says)
{
	const char *list = REQUEST("tools/list", "{" META(MCP_MODERN) "}");
	const char *run = REQUEST("tools/call", "{\"name\":\"x\"," META(MCP_MODERN) "}");
	struct mcp_headers h = {MCP_MODERN, "tools/list", NULL};

	CHECK(answers(&h, list, 200, "\"resultType\":\"complete\""));
	CHECK(answers(&no_headers, list, 400, "-32020"));
	CHECK(answers(&(struct mcp_headers){"2025-11-25", "tools/list", NULL}, list, 400,
		      "-32020"));
	CHECK(answers(&(struct mcp_headers){MCP_MODERN, NULL, NULL}, list, 400,
		      "Mcp-Method"));
	h.method = "tools/call";
	CHECK(answers(&h, list, 400, "Mcp-Method"));
	CHECK(answers(&h, run, 400, "Mcp-Name"));
	h.name = "y";
	CHECK(answers(&h, run, 400, "Mcp-Name"));
	h.name = "x";
	CHECK(answers(&h, run, 400, "-32602")); /* there is no such tool */
	h.name = "=?base64?eA==?=";
	CHECK(answers(&h, run, 400, "-32602"));
	h.name = "=?base64?eQ==?=";
	CHECK(answers(&h, run, 400, "-32020"));
	h.name = "=?base64?eA==";
	CHECK(answers(&h, run, 400, "-32020"));
}

TEST(a_modern_request_says_all_it_must)
{
	const struct mcp_headers h = {MCP_MODERN, "tools/list", NULL};

	CHECK(answers(&h, REQUEST("tools/list", "{}"), 400, "protocolVersion"));
	CHECK(answers(&h,
		      REQUEST("tools/list",
			      "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
			      "\"" MCP_MODERN "\"}}"),
		      400, "clientCapabilities"));
	CHECK(answers(NULL, REQUEST("tools/list", "{" META(MCP_MODERN) "}"), 200,
		      "\"ttlMs\":"));
}

TEST(an_unknown_version_is_told_which_there_are)
{
	CHECK(answers(&(struct mcp_headers){"1900-01-01", NULL, NULL},
		      REQUEST("tools/list", "{}"), 400,
		      "\"supported\":[\"2026-07-28\",\"2025-11-25\""));
	CHECK(answers(NULL, REQUEST("tools/list", "{" META("1900-01-01") "}"), 400,
		      "\"requested\":\"1900-01-01\""));
}

TEST(methods_belong_to_their_time)
{
	struct mcp_headers h = {MCP_MODERN, "ping", NULL};

	CHECK(answers(&no_headers, REQUEST("ping", "{}"), 200, "\"result\":{}"));
	CHECK(answers(&h, REQUEST("ping", "{" META(MCP_MODERN) "}"), 404, "-32601"));
	CHECK(answers(&no_headers, REQUEST("server/discover", "{}"), 200, "-32601"));
	h.method = "server/discover";
	CHECK(answers(&h, REQUEST("server/discover", "{" META(MCP_MODERN) "}"), 200,
		      "\"supportedVersions\":[\"2026-07-28\""));
	CHECK(answers(&no_headers, REQUEST("resources/list", "{}"), 200, "-32601"));
	CHECK(answers(&no_headers, REQUEST("tools/list", "{\"cursor\":\"2\"}"), 200,
		      "-32602"));
}

TEST(a_call_becomes_a_run)
{
	CHECK(say(NULL, REQUEST("tools/call",
				"{\"name\":\"run_code\",\"arguments\":{\"code\":\"1\","
				"\"language\":\"js\",\"timeout_seconds\":2},"
				"\"_meta\":{\"progressToken\":7}}")) == MCP_RUN);
	CHECK(call.run.mode == &modes.mode[1] && call.run.limits.wall_ms == 2000);
	CHECK(strcmp(call.token, "7") == 0 && call.wall_ms == 2000);
	CHECK(strcmp(call.tool->name, "run_code") == 0);
	mcp_call_done(&call);
	CHECK(say(NULL, REQUEST("tools/call",
				"{\"name\":\"sandbox_run\",\"arguments\":{\"code\":\"1\","
				"\"runtime\":\"node\",\"files\":{\"a/b\":\"text\"}}}")) ==
	      MCP_RUN);
	CHECK(call.run.file_count == 1 && call.run.files[0].data.len == 4);
	CHECK(call.token[0] == '\0');
	mcp_call_done(&call);
}

TEST(a_wrong_argument_is_named)
{
	static const struct {
		const char *tool, *arguments, *part;
	} rows[] = {
		{"run_code", "{}", "code is required"},
		{"run_code", "{\"code\":7}", "code must be"},
		{"run_code", "{\"code\":\"1\",\"lang\":\"x\"}",
		 "no argument \\\"lang\\\"; it takes: code, language"},
		{"run_code", "{\"code\":\"1\",\"language\":\"cobol\"}",
		 "supported: python, node"},
		{"run_python_code", "{\"code\":\"1\",\"timeout\":\"5\"}",
		 "timeout must be a number"},
		{"sandbox_run", "{\"code\":\"1\",\"files\":{\"../x\":\"\"}}",
		 "bad_file_name"},
		{"sandbox_run", "{\"code\":\"1\",\"files\":{\"x\":1}}",
		 "must be a string"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
			 "\"params\":{\"name\":\"%s\",\"arguments\":%s}}",
			 rows[i].tool, rows[i].arguments);
		CHECK(answers(&no_headers, text, 200, rows[i].part));
		CHECK(answers(&no_headers, text, 200, "\"isError\":true"));
	}
}

TEST(a_call_that_is_none_is_an_error)
{
	CHECK(answers(NULL, REQUEST("tools/call", "{}"), 200, "params.name"));
	CHECK(answers(NULL, REQUEST("tools/call", "{\"name\":\"run\"}"), 200,
		      "there are: run_code, run_python_code, sandbox_run"));
	CHECK(answers(NULL,
		      REQUEST("tools/call", "{\"name\":\"run_code\",\"arguments\":[]}"),
		      200, "-32602"));
	CHECK(answers(NULL,
		      REQUEST("tools/call", "{\"name\":\"run_code\",\"arguments\":{},"
					    "\"_meta\":{\"progressToken\":[]}}"),
		      200, "progressToken"));
}

TEST(the_list_is_json_with_this_servers_words)
{
	static const struct request_world other = {&settings, &shell, false};
	struct buf list;
	struct json *doc;
	struct err e = {0};

	buf_init(&list, 1 << 20);
	CHECK(tools_list(&list, &world) == 0);
	doc = json_parse(list.bytes, list.len, &json_request_limits, &e);
	CHECK(json_count(doc) == 3);
	json_free(doc);
	CHECK(buf_text(&list) == 0 && !strchr(list.bytes, '$'));
	CHECK(strstr(list.bytes, "[\"python\",\"py\",\"node\",\"javascript\",\"js\"]"));
	buf_done(&list);
	CHECK(tools_list(&list, &other) == 0 && buf_text(&list) == 0);
	CHECK(!strstr(list.bytes, "run_python_code"));
	CHECK(!tools_find(&other, "run_python_code", 15, &e));
	CHECK(tools_find(&other, "run_code", 8, &e));
	CHECK(!tools_find(&other, "run_code", 7, &e));
	buf_done(&list);
}

TEST(tools_of_sessions_are_for_others_to_call)
{
	static const struct request_world more = {&settings, &modes, true};
	static const char with[] = REQUEST("tools/call",
					   "{\"name\":\"sandbox_exec\",\"arguments\":"
					   "{\"command\":\"true\"}}");
	static const char without[] = REQUEST("tools/call",
					      "{\"name\":\"sandbox_open\"}");
	struct buf out;
	struct json *doc;

	buf_init(&out, 1 << 20);
	CHECK(tools_list(&out, &more) == 0);
	doc = json_parse(out.bytes, out.len, &json_request_limits, NULL);
	CHECK(json_count(doc) == 10);
	json_free(doc);
	buf_done(&out);
	CHECK(mcp_receive(&more, NULL, with, strlen(with), &call, &answer) ==
	      MCP_SESSION);
	CHECK(strcmp(json_text(json_member(call.arguments, "command"), NULL), "true") ==
	      0);
	CHECK(buf_puts(&out, "{\"exit_code\":0}") == 0);
	CHECK(mcp_told(&answer.json, &call, &out) == 0 && buf_text(&answer.json) == 0);
	CHECK(has("\"structuredContent\":{\"exit_code\":0},\"isError\":false"));
	buf_done(&out);
	buf_done(&answer.json);
	mcp_call_done(&call);
	CHECK(mcp_receive(&more, NULL, without, strlen(without), &call, &answer) ==
	      MCP_SESSION);
	CHECK(!call.arguments);
	mcp_call_done(&call);
	CHECK(answers(NULL, with, 200, "-32602")); /* where there are none */
}

TEST(progress_has_its_token_and_no_end_beyond_it)
{
	struct buf out;

	buf_init(&out, 4096);
	CHECK(say(NULL, REQUEST("tools/call",
				"{\"name\":\"run_code\",\"arguments\":{\"code\":\"1\"},"
				"\"_meta\":{\"progressToken\":\"t\"}}")) == MCP_RUN);
	CHECK(mcp_progress(&out, &call, 1007) == 0 && buf_text(&out) == 0);
	CHECK(strstr(out.bytes,
		     "\"progressToken\":\"t\",\"progress\":1.007,\"total\":30,"));
	buf_done(&out);
	CHECK(mcp_progress(&out, &call, 31000) == 0 && buf_text(&out) == 0);
	CHECK(!strstr(out.bytes, "total"));
	buf_done(&out);
	mcp_call_done(&call);
}

TEST(what_is_ours_is_not_told)
{
	struct err e;
	struct buf out;

	buf_init(&out, 4096);
	CHECK(say(NULL, REQUEST("tools/call", "{\"name\":\"run_code\",\"arguments\":{"
					      "\"code\":\"1\"}}")) == MCP_RUN);
	err_ours(&e, "open '/secret'");
	CHECK(mcp_failed(&out, &call, &e, "abc") == 0 && buf_text(&out) == 0);
	CHECK(!strstr(out.bytes, "secret") && strstr(out.bytes, "request abc"));
	buf_done(&out);
	err_busy(&e, "at capacity (4/3 concurrent executions)");
	CHECK(mcp_failed(&out, &call, &e, "abc") == 0 && buf_text(&out) == 0);
	CHECK(strstr(out.bytes, "at capacity (4/3 concurrent executions); try again"));
	CHECK(strstr(out.bytes, "\"isError\":true"));
	buf_done(&out);
	mcp_call_done(&call);
}
