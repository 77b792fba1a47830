/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * on_tools.c - POST /tools/NAME: a tool of MCP, without MCP
 */
#include <string.h>

#include "api/tools.h"
#include "base/json.h"
#include "http/conn.h"

static int submit(struct conn *k, struct err *e)
{
	const struct request_world w = {k->h->settings, k->h->modes,
					on_sessions_offered(k->h)};
	const size_t skip = strlen("/tools/");
	const struct span path = k->req.path;
	const bool named = path.len > skip;
	const struct tool *tool = tools_find(&w, named ? path.p + skip : "",
					     named ? path.len - skip : 0, e);
	struct run_request r = {0};
	struct json *body;
	int rc;

	if (!tool)
		return -1;
	body = json_parse(k->body.bytes, k->body.len, &json_request_limits, e);
	if (!body)
		return -1;
	rc = request_read(body, tool->form, &w, &r, e);
	json_free(body);
	if (rc < 0) {
		request_done(&r);
		return -1;
	}
	return on_execute_submit(k, &r, tool, e);
}

int on_tools_admit(struct conn *k, struct err *e)
{
	/* what is done in sessions takes no place of runs */
	if (!on_session_names(k))
		return on_execute_admit(k, e);
	return auth_json_body(&k->req, e) < 0 ? -1 : on_sessions_admit(k, e);
}

void on_tools(struct conn *k)
{
	struct err e;

	if (on_session_names(k))
		return on_session_tool(k);

	/* asked again: others may have come in while the body was arriving */
	if (on_execute_admit(k, &e) < 0 || submit(k, &e) < 0)
		answer_error(k, &e);
}
