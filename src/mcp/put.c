/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * put.c - what goes back: results, errors, progress
 *
 * Written straight into the buffer. Every function returns 0, or -1 with errno when the
 * buffer is full; what it then holds is of no use.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/tools.h"
#include "mcp/parts.h"

#ifndef SANDBOX_VERSION
#define SANDBOX_VERSION "dev"
#endif

#define ANSWER_CAP_BYTES (256u << 20)
#define OURSELVES "{\"name\":\"sandbox-server\",\"version\":\"" SANDBOX_VERSION "\"}"
/* true with sessions and without: the table of tools says which it is */
#define INSTRUCTIONS                                                                 \
	"run_code runs a program in a Linux sandbox that is made for the call and "  \
	"thrown away after it: the call must bring all that the program needs. If "  \
	"sandbox_open is among the tools, it gives an environment whose files stay " \
	"from call to call, for the other sandbox_ tools."
/* the table of tools is as constant as the server that answers, and alike for all */
#define CACHED "\"ttlMs\":3600000,\"cacheScope\":\"public\""

const char *const mcp_legacy[] = {"2025-11-25", "2025-06-18", "2025-03-26", NULL};

static int add_versions(struct buf *b)
{
	if (buf_puts(b, "[\"" MCP_MODERN "\"") < 0)
		return -1;
	for (size_t i = 0; mcp_legacy[i]; i++)
		if (buf_printf(b, ",\"%s\"", mcp_legacy[i]) < 0)
			return -1;
	return buf_puts(b, "]");
}

int put_begin(struct buf *b, const struct mcp_call *c)
{
	if (buf_printf(b, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{", c->id) < 0)
		return -1;
	if (!c->modern)
		return 0;
	return buf_puts(b, "\"resultType\":\"complete\",\"_meta\":{"
			   "\"io.modelcontextprotocol/serverInfo\":" OURSELVES "},");
}

int put_end(struct buf *b)
{
	return buf_puts(b, "}}");
}

int put_initialize(struct buf *b, const char *version)
{
	return buf_printf(b,
			  "\"protocolVersion\":\"%s\",\"capabilities\":{\"tools\":{}},"
			  "\"serverInfo\":" OURSELVES ",\"instructions\":\"" INSTRUCTIONS
			  "\"",
			  version);
}

int put_discover(struct buf *b)
{
	if (buf_puts(b, "\"supportedVersions\":") < 0 || add_versions(b) < 0)
		return -1;
	return buf_puts(b, ",\"capabilities\":{\"tools\":{}},"
			   "\"instructions\":\"" INSTRUCTIONS "\"," CACHED);
}

int put_tools(struct buf *b, const struct request_world *w, bool modern)
{
	if (buf_puts(b, "\"tools\":") < 0 || tools_list(b, w) < 0)
		return -1;
	return modern ? buf_puts(b, "," CACHED) : 0;
}

int put_refusal(struct buf *b, const struct mcp_call *c, enum rpc_code code,
		const char *text, const char *requested)
{
	if (buf_puts(b, "{\"jsonrpc\":\"2.0\"") < 0 ||
	    (c->id[0] && buf_printf(b, ",\"id\":%s", c->id) < 0) ||
	    buf_printf(b, ",\"error\":{\"code\":%d,\"message\":", (int)code) < 0 ||
	    buf_json_string(b, text, strlen(text)) < 0)
		return -1;
	if (requested && (buf_puts(b, ",\"data\":{\"supported\":") < 0 ||
			  add_versions(b) < 0 || buf_puts(b, ",\"requested\":") < 0 ||
			  buf_json_string(b, requested, strlen(requested)) < 0 ||
			  buf_puts(b, "}") < 0))
		return -1;
	return put_end(b);
}

/* a result's text, for models; the same as an object too, for programs */
static int add_content(struct buf *b, const struct buf *text, bool structured,
		       bool is_error)
{
	if (buf_puts(b, "\"content\":[{\"type\":\"text\",\"text\":") < 0 ||
	    buf_json_string(b, text->bytes, text->len) < 0 || buf_puts(b, "}]") < 0)
		return -1;
	if (structured && (buf_puts(b, ",\"structuredContent\":") < 0 ||
			   buf_add(b, text->bytes, text->len) < 0))
		return -1;
	return buf_printf(b, ",\"isError\":%s", is_error ? "true" : "false");
}

static int put_call(struct buf *out, const struct mcp_call *c, const struct buf *text,
		    bool is_error)
{
	if (put_begin(out, c) < 0 ||
	    add_content(out, text, !is_error && c->tool->output, is_error) < 0)
		return -1;
	return put_end(out);
}

int mcp_done(struct buf *out, const struct mcp_call *c, const struct result *r)
{
	struct buf text;
	int rc;

	buf_init(&text, ANSWER_CAP_BYTES);
	rc = c->tool->reply(&text, r);
	if (rc == 0)
		rc = put_call(out, c, &text, false);
	buf_done(&text);
	return rc;
}

int mcp_told(struct buf *out, const struct mcp_call *c, const struct buf *json)
{
	return put_call(out, c, json, false);
}

int mcp_failed(struct buf *out, const struct mcp_call *c, const struct err *e,
	       const char *request_id)
{
	const int status = err_status(e);
	struct buf text;
	int rc;

	buf_init(&text, 2048);
	if (e->kind == ERR_OURS &&
	    (!e->code[0] || strcmp(e->code, "internal_error") == 0))
		rc = buf_printf(&text, "Error (internal_error): request %.64s failed",
				request_id);
	else
		rc = buf_printf(&text, "Error (%s): %s", e->code, e->text);
	if (rc == 0 && (status == 429 || status == 503))
		rc = buf_puts(&text, "; try again in a second");
	if (rc == 0)
		rc = put_call(out, c, &text, true);
	buf_done(&text);
	return rc;
}

int mcp_progress(struct buf *out, const struct mcp_call *c, uint64_t elapsed_ms)
{
	const uint64_t sec = elapsed_ms / 1000;
	char most[16], total[40] = "", message[80];

	job_seconds(c->wall_ms, most);
	/* who waits for a place or for packages has not begun to use its time */
	if (elapsed_ms <= c->wall_ms)
		snprintf(total, sizeof(total), ",\"total\":%s", most);
	snprintf(message, sizeof(message), "%" PRIu64 " s%s%s%s", sec,
		 c->wall_ms ? "; the program may take " : "", c->wall_ms ? most : "",
		 c->wall_ms ? " s" : "");
	return buf_printf(out,
			  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\","
			  "\"params\":{\"progressToken\":%s,\"progress\":%" PRIu64
			  ".%03u%s,\"message\":\"%s\"}}",
			  c->token, sec, (unsigned)(elapsed_ms % 1000), total, message);
}
