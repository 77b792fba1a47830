/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tools.c - the table of tools, and how it is told to clients
 *
 * Descriptions and schemas have words that this server's own limits take the place of:
 * $TIMEOUT and the like.
 */
#include "api/tools.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/tools_session.h"
#include "api/tools_text.h"
#include "base/json.h"
#include "config/mode.h"
#include "config/settings.h"

#ifndef SANDBOX_VERSION
#define SANDBOX_VERSION "dev"
#endif

static const struct tool tools[] = {
	{"run_code", "Run code", RUN_CODE_TEXT, RUN_CODE_INPUT, RUN_CODE_OUTPUT,
	 TOOL_MAKES, &request_execute, reply_result},
	{"run_python_code", "Run Python", RUN_PYTHON_TEXT, RUN_PYTHON_INPUT, NULL,
	 TOOL_MAKES, &request_python, reply_python},
	{"sandbox_run", "Run a program with files", SANDBOX_RUN_TEXT, SANDBOX_RUN_INPUT,
	 SANDBOX_RUN_OUTPUT, TOOL_MAKES, &request_sandbox_run, reply_sandbox_run},
	{"sandbox_open", "Open a session", OPEN_TEXT, OPEN_INPUT, OPEN_OUTPUT, TOOL_MAKES,
	 NULL, NULL},
	{"sandbox_exec", "Run a command in a session", EXEC_TEXT, EXEC_INPUT, EXEC_OUTPUT,
	 TOOL_DESTROYS, NULL, NULL},
	{"sandbox_fs_write", "Write a file", WRITE_TEXT, WRITE_INPUT, WRITE_OUTPUT,
	 TOOL_DESTROYS, NULL, NULL},
	{"sandbox_fs_read", "Read a file", READ_TEXT, READ_INPUT, READ_OUTPUT, TOOL_READS,
	 NULL, NULL},
	{"sandbox_fs_list", "List a directory", LIST_TEXT, LIST_INPUT, LIST_OUTPUT,
	 TOOL_READS, NULL, NULL},
	{"sandbox_fs_delete", "Remove a file", DELETE_TEXT, DELETE_INPUT, DELETE_OUTPUT,
	 TOOL_DESTROYS, NULL, NULL},
	{"sandbox_close", "Close a session", CLOSE_TEXT, CLOSE_INPUT, CLOSE_OUTPUT,
	 TOOL_DESTROYS, NULL, NULL},
};
#define TOOLS (sizeof(tools) / sizeof(tools[0]))

/* ---- words ---- */

static int put_timeout(struct buf *out, const struct request_world *w)
{
	return buf_printf(out, "%" PRIu64, w->settings->timeout_sec);
}

static int put_max_timeout(struct buf *out, const struct request_world *w)
{
	return buf_printf(out, "%" PRIu64, w->settings->max_timeout_sec);
}

static int put_output_kb(struct buf *out, const struct request_world *w)
{
	return buf_printf(out, "%" PRIu64, w->settings->max_output_kb);
}

static int put_memory(struct buf *out, const struct request_world *w)
{
	return buf_printf(out, "%" PRIu32, w->modes->mode[0].defaults.memory_mb);
}

static int put_default(struct buf *out, const struct request_world *w)
{
	return buf_puts(out, w->modes->mode[0].name);
}

static int put_languages(struct buf *out, const struct request_world *w)
{
	const char *name, *lead = "[\"";

	for (size_t at = 0; (name = modes_language(w->modes, &at)); lead = "\",\"")
		if (buf_puts(out, lead) < 0 || buf_puts(out, name) < 0)
			return -1;
	return buf_puts(out, "\"]");
}

static int put_served(struct buf *out, const struct request_world *w)
{
	for (size_t i = 0; i < w->modes->count; i++)
		if (buf_printf(out, "%s%s", i ? ", " : "", w->modes->mode[i].name) < 0)
			return -1;
	return 0;
}

static bool has_network(const struct request_world *w)
{
	return w->settings->network_rules || w->settings->network_pod;
}

static int put_network(struct buf *out, const struct request_world *w)
{
	return buf_puts(out, has_network(w)
				     ? "Network is there only as far as the operator of "
				       "this server allows it."
				     : "There is no network.");
}

/* a first program, as a model should write it */
static int put_sample(struct buf *out, const struct request_world *w)
{
	static const char *const samples[MODE_COUNT] = {
		[MODE_PYTHON] = "print(6*7)",
		[MODE_GOLANG] = "package main\\nfunc main() { println(6*7) }",
		[MODE_NODE] = "console.log(6*7)",
		[MODE_SHELL] = "echo $((6*7))",
	};

	return buf_puts(out, samples[w->modes->mode[0].id]);
}

static int put_version(struct buf *out, const struct request_world *w)
{
	(void)w;
	return buf_puts(out, SANDBOX_VERSION);
}

static const struct {
	const char *word;
	int (*put)(struct buf *out, const struct request_world *w);
} words[] = {
	{"TIMEOUT", put_timeout},     {"MAX_TIMEOUT", put_max_timeout},
	{"OUTPUT_KB", put_output_kb}, {"MEMORY_MB", put_memory},
	{"DEFAULT", put_default},     {"LANGUAGES", put_languages},
	{"SERVED", put_served},       {"NETWORK", put_network},
	{"SAMPLE", put_sample},       {"VERSION", put_version},
};

static int put_word(struct buf *out, const char *word, size_t len,
		    const struct request_world *w)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i].word) == len && memcmp(words[i].word, word, len) == 0)
			return words[i].put(out, w);
	return buf_puts(out, "$") < 0 ? -1 : buf_add(out, word, len);
}

int tools_text(struct buf *out, struct tool_text text, char quote,
	       const struct request_world *w)
{
	const char *p = text.p, *end = text.p + text.len;

	while (p < end) {
		const char *from = p;

		while (p < end && *p != '$' && *p != '\'')
			p++;
		if (buf_add(out, from, (size_t)(p - from)) < 0)
			return -1;
		if (p == end)
			break;
		if (*p++ == '\'') {
			if (buf_add(out, &quote, 1) < 0)
				return -1;
			continue;
		}
		from = p;
		while (p < end && (isupper((unsigned char)*p) || *p == '_'))
			p++;
		if (put_word(out, from, (size_t)(p - from), w) < 0)
			return -1;
	}
	return 0;
}

static int put_text(struct buf *out, const char *text, char quote,
		    const struct request_world *w)
{
	return tools_text(out, (struct tool_text){text, strlen(text)}, quote, w);
}

/* ---- the table ---- */

static bool offered(const struct tool *t, const struct request_world *w)
{
	unsigned row;

	if (!t->form)
		return w->sessions;
	return !t->form->only_language ||
	       modes_for_language(w->modes, t->form->only_language, &row, NULL);
}

const struct tool *tools_at(const struct request_world *w, size_t i)
{
	for (size_t row = 0; row < TOOLS; row++)
		if (offered(&tools[row], w) && i-- == 0)
			return &tools[row];
	return NULL;
}

const struct tool *tools_find(const struct request_world *w, const char *name, size_t len,
			      struct err *e)
{
	char list[256] = "";
	size_t at = 0;

	for (size_t i = 0; i < TOOLS; i++) {
		if (!offered(&tools[i], w))
			continue;
		if (strlen(tools[i].name) == len && memcmp(tools[i].name, name, len) == 0)
			return &tools[i];
		if (at < sizeof(list))
			at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s",
					       at ? ", " : "", tools[i].name);
	}
	err_client(e, 404, "unknown_tool",
		   "there is no tool \"%.*s\" here (there are: %s)",
		   (int)(len < 64 ? len : 64), name, list);
	return NULL;
}

static int add_tool(struct buf *out, const struct tool *t, const struct request_world *w)
{
	struct buf text;
	int rc;

	buf_init(&text, 8192);
	rc = put_text(&text, t->description, '\'', w);
	if (rc == 0)
		rc = buf_printf(out, "{\"name\":\"%s\",\"title\":\"%s\",\"description\":",
				t->name, t->title);
	if (rc == 0)
		rc = buf_json_string(out, text.bytes, text.len);
	buf_done(&text);
	if (rc < 0 || buf_puts(out, ",\"inputSchema\":") < 0 ||
	    put_text(out, t->input, '"', w) < 0)
		return -1;
	if (t->output && (buf_puts(out, ",\"outputSchema\":") < 0 ||
			  put_text(out, t->output, '"', w) < 0))
		return -1;
	return buf_printf(out,
			  ",\"annotations\":{\"readOnlyHint\":%s,"
			  "\"destructiveHint\":%s,\"idempotentHint\":false,"
			  "\"openWorldHint\":%s}}",
			  t->effect == TOOL_READS ? "true" : "false",
			  t->effect == TOOL_DESTROYS ? "true" : "false",
			  has_network(w) ? "true" : "false");
}

int tools_list(struct buf *out, const struct request_world *w)
{
	const char *lead = "[";

	for (size_t i = 0; i < TOOLS; i++) {
		if (!offered(&tools[i], w))
			continue;
		if (buf_puts(out, lead) < 0 || add_tool(out, &tools[i], w) < 0)
			return -1;
		lead = ",";
	}
	return buf_puts(out, "]");
}

static struct json *input_schema(const struct tool *t, const struct request_world *w,
				 struct err *e)
{
	static const struct json_limits own = {32, 1024, 4096};
	struct json *schema = NULL;
	struct buf text;

	buf_init(&text, 65536);
	if (put_text(&text, t->input, '"', w) < 0)
		err_errno(e, "write a schema");
	else
		schema = json_parse(text.bytes, text.len, &own, e);
	buf_done(&text);
	return schema;
}

static int refuse_argument(const struct tool *t, const char *name,
			   const struct json *known, struct err *e)
{
	char list[256] = "";
	size_t len = 0;

	for (size_t i = 0; i < json_count(known) && len < sizeof(list); i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
					i ? ", " : "", json_key(known, i));
	return err_client(e, 400, "unknown_argument",
			  "%s has no argument \"%.64s\"; it takes: %s", t->name, name,
			  list);
}

int tools_check(const struct tool *t, const struct request_world *w,
		const struct json *arguments, struct err *e)
{
	struct json *schema = input_schema(t, w, e);
	const struct json *known = json_member(schema, "properties");
	int rc = schema ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < json_count(arguments); i++)
		if (!json_member(known, json_key(arguments, i)))
			rc = refuse_argument(t, json_key(arguments, i), known, e);
	json_free(schema);
	return rc;
}
