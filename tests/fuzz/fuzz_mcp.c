/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_mcp.c - messages of the Model Context Protocol
 *
 * The first byte says which headers came with the message. Whatever it is: the answer is
 * one line of JSON, an id in it can be read again, and a run keeps every bound.
 */
#include <assert.h>
#include <string.h>

#include "api/tools.h"
#include "base/json.h"
#include "config/mode.h"
#include "config/settings.h"
#include "mcp/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
		 {.id = MODE_SHELL,
		  .name = "shell",
		  .defaults = OWN,
		  .row = 1,
		  .typescript_row = -1}},
};

static void must_be_line(const struct buf *b)
{
	const struct json_limits any = {64, 1u << 20, 1u << 20};
	struct json *doc = json_parse(b->bytes, b->len, &any, NULL);

	assert(json_is_object(doc) && json_member(doc, "jsonrpc"));
	assert(!memchr(b->bytes, '\n', b->len));
	json_free(doc);
}

static void check_run(const struct mcp_call *c)
{
	struct err e = {0};
	struct buf out;

	assert(c->tool && c->id[0]);
	assert(c->run.code.len > 0 && c->run.limits.wall_ms > 0);
	assert(c->run.limits.wall_ms <= 300000 && c->run.args && c->run.env);
	err_busy(&e, "too much");
	buf_init(&out, 1 << 16);
	assert(mcp_failed(&out, c, &e, "id") == 0);
	must_be_line(&out);
	buf_done(&out);
	if (!c->token[0])
		return;
	assert(mcp_progress(&out, c, 1234) == 0);
	must_be_line(&out);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char output_dir[] = "output";
	static const struct settings settings = {.timeout_sec = 30,
						 .max_timeout_sec = 300,
						 .max_output_kb = 10,
						 .output_ceiling_kb = 1024,
						 .output_dir = output_dir};
	static const struct request_world world = {&settings, &modes, true};
	static const struct mcp_headers sets[] = {
		{NULL, NULL, NULL},
		{"2025-11-25", NULL, NULL},
		{MCP_MODERN, "tools/list", NULL},
		{MCP_MODERN, "tools/call", "run_code"},
	};
	const size_t count = sizeof(sets) / sizeof(sets[0]);
	struct mcp_answer answer;
	struct mcp_call call;
	enum mcp_what what;

	if (size == 0)
		return 0;
	what = mcp_receive(&world, data[0] % 5 < count ? &sets[data[0] % 5] : NULL,
			   (const char *)data + 1, size - 1, &call, &answer);
	if (what == MCP_ANSWER)
		must_be_line(&answer.json);
	else
		assert(answer.json.len == 0);
	if (what == MCP_RUN)
		check_run(&call);
	assert(what != MCP_CANCEL || call.id[0]);
	assert(what != MCP_SESSION || (call.tool && !call.tool->form));
	buf_done(&answer.json);
	mcp_call_done(&call);
	return 0;
}
