/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tools.h - what agents call by name: by MCP, and as POST /tools/NAME
 *
 * One table for both. A tool that runs a program has a form for its request and a reply
 * for the result; one that has neither is done in a session, by src/session.
 */
#ifndef API_TOOLS_H
#define API_TOOLS_H

#include "api/api.h"

enum tool_effect {
	TOOL_MAKES, /* what was there before stays as it is */
	TOOL_READS,
	TOOL_DESTROYS, /* or writes over */
};

struct tool {
	const char *name;
	const char *title;
	const char *description; /* for a model: what, when, limits, one example */
	const char *input;       /* JSON Schema 2020-12, as tools_text.h has it */
	const char *output;      /* NULL: the answer is a text */
	enum tool_effect effect;
	const struct request_form *form; /* NULL: it is a session's */
	int (*reply)(struct buf *out, const struct result *r);
};

struct tool_text {
	const char *p;
	size_t len;
};

/* NULL and *e: 404 unknown_tool, which lists those that this server offers */
const struct tool *tools_find(const struct request_world *w, const char *name, size_t len,
			      struct err *e);
/* every tool that this server offers, as MCP lists them: a JSON array */
int tools_list(struct buf *out, const struct request_world *w);
/* *e: an argument that the tool's schema does not name. A model is told what it
 * misspelt; clients of POST /tools may send what they like */
int tools_check(const struct tool *t, const struct request_world *w,
		const struct json *arguments, struct err *e);
/* the i-th of those that this server offers; NULL: there are no more */
const struct tool *tools_at(const struct request_world *w, size_t i);
/* text with this server's own words for $WORD; quote: what ' stands for */
int tools_text(struct buf *out, struct tool_text text, char quote,
	       const struct request_world *w);

/* openapi.c: GET /openapi.json, of src/web/openapi.json and the tools */
int openapi_write(struct buf *out, const struct request_world *w);

#endif
