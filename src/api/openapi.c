/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * openapi.c - the description of every route, for programs
 *
 * src/web/openapi.json has what is the same on every server. Two words in it stand for
 * what the table of tools says: a path each, and their schemas, which other paths refer
 * to. So a schema is written once, for MCP and for this.
 */
#include <assert.h>
#include <string.h>

#include "api/tools.h"
#include "config/embedded.h"

enum { TEXT_CAP_BYTES = 65536 };
#define SCHEMA(kind) "{\"$ref\":\"#/components/schemas/%s." kind "\"}"
static const char example_mark[] = "Example: ";

static struct tool_text text_of(const char *text)
{
	return (struct tool_text){text, strlen(text)};
}

static int put_description(struct buf *out, const struct tool *t,
			   const struct request_world *w)
{
	const char *example = strstr(t->description, example_mark);
	struct tool_text text = {t->description, (size_t)(example - t->description)};
	struct buf b;
	int rc;

	while (text.len && text.p[text.len - 1] == ' ')
		text.len--;
	buf_init(&b, TEXT_CAP_BYTES);
	rc = tools_text(&b, text, '\'', w);
	if (rc == 0)
		rc = buf_json_string(out, b.bytes, b.len);
	buf_done(&b);
	return rc;
}

static int put_path(struct buf *out, const struct tool *t, const struct request_world *w)
{
	const char *example = strstr(t->description, example_mark);

	assert(example);
	if (buf_printf(out,
		       "\"/tools/%s\":{\"post\":{\"operationId\":\"%s\","
		       "\"tags\":[\"tools\"],\"summary\":\"%s\",\"description\":",
		       t->name, t->name, t->title) < 0 ||
	    put_description(out, t, w) < 0 ||
	    buf_printf(
		    out,
		    ",\"requestBody\":{\"required\":true,\"content\":"
		    "{\"application/json\":{\"schema\":" SCHEMA("input") ","
									 "\"example\":",
		    t->name) < 0 ||
	    tools_text(out, text_of(example + strlen(example_mark)), '\'', w) < 0 ||
	    buf_puts(out, "}}},\"responses\":{\"200\":{\"description\":\"Done\","
			  "\"content\":{") < 0)
		return -1;
	if (t->output
		    ? buf_printf(out,
				 "\"application/json\":{\"schema\":" SCHEMA("output") "}",
				 t->name) < 0
		    : buf_puts(out, "\"text/plain\":{\"schema\":{\"type\":"
				    "\"string\"}}") < 0)
		return -1;
	return buf_puts(out,
			"}},\"400\":{\"$ref\":\"#/components/responses/BadRequest\"},"
			"\"default\":{\"$ref\":\"#/components/responses/Error\"}"
			"}}}");
}

static int put_schema(struct buf *out, const struct tool *t,
		      const struct request_world *w)
{
	if (buf_printf(out, "\"%s.input\":", t->name) < 0 ||
	    tools_text(out, text_of(t->input), '"', w) < 0)
		return -1;
	if (!t->output)
		return 0;
	if (buf_printf(out, ",\"%s.output\":", t->name) < 0)
		return -1;
	return tools_text(out, text_of(t->output), '"', w);
}

static const struct {
	const char *word;
	int (*put)(struct buf *out, const struct tool *t, const struct request_world *w);
} parts[] = {{"$TOOL_PATHS", put_path}, {"$TOOL_SCHEMAS", put_schema}};

int openapi_write(struct buf *out, const struct request_world *w)
{
	const struct embedded_file *file = embedded_web;
	const struct tool *t;
	struct tool_text rest;

	while (strcmp(file->name, "openapi") != 0)
		file++;
	rest = (struct tool_text){file->text, file->len};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const char *at = strstr(rest.p, parts[i].word);

		assert(at);
		if (tools_text(out, (struct tool_text){rest.p, (size_t)(at - rest.p)},
			       '\'', w) < 0)
			return -1;
		for (size_t n = 0; (t = tools_at(w, n)); n++)
			if ((n && buf_puts(out, ",") < 0) || parts[i].put(out, t, w) < 0)
				return -1;
		at += strlen(parts[i].word);
		rest = (struct tool_text){at, file->len - (size_t)(at - file->text)};
	}
	return tools_text(out, rest, '\'', w);
}
