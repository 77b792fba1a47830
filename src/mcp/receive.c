/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * receive.c - what came: JSON-RPC, the protocol's version, the method
 *
 * A request is of the modern kind when it names its version in params._meta. By HTTP the
 * headers then must say the same: somebody on the way may have decided by them.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/tools.h"
#include "base/base64.h"
#include "base/json.h"
#include "mcp/parts.h"

#define ANSWER_CAP_BYTES (1u << 20)
#define META "io.modelcontextprotocol/"
#define SENTINEL "=?base64?"

/* a message while it is looked at */
struct message {
	const struct request_world *world;
	const struct mcp_headers *headers; /* NULL: there are none */
	const struct json *root;
	const struct json *params; /* NULL, or an object */
	const struct json *meta;   /* the same */
	const struct json *none;   /* an object with nothing in it */
	const char *method;        /* NULL: it is a response */
	struct mcp_call *call;
	struct mcp_answer *answer;
};

static enum mcp_what out_of_memory(struct message *m)
{
	static const char text[] = "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,"
				   "\"message\":\"there is no memory for an answer\"}}";

	buf_done(&m->answer->json);
	(void)buf_puts(&m->answer->json, text); /* else an empty one */
	m->answer->status = 503;
	return MCP_ANSWER;
}

static enum mcp_what refuse_version(struct message *m, enum rpc_code code, int status,
				    const char *text, const char *requested)
{
	m->answer->status = status;
	if (put_refusal(&m->answer->json, m->call, code, text, requested) < 0)
		return out_of_memory(m);
	return MCP_ANSWER;
}

static enum mcp_what refuse(struct message *m, enum rpc_code code, int status,
			    const char *fmt, ...) ERR_PRINTF(4, 5);
static enum mcp_what refuse(struct message *m, enum rpc_code code, int status,
			    const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return refuse_version(m, code, status, text, NULL);
}

/* what is wrong with a request that is one: of old, HTTP does not take part in that */
static int wrong_status(const struct message *m)
{
	return m->call->modern ? 400 : 200;
}

/* NULL: not a string, or one that a C string cannot hold */
static const char *word(const struct json *v)
{
	size_t len;
	const char *text = json_text(v, &len);

	return text && strlen(text) == len ? text : NULL;
}

/* ---- JSON-RPC ---- */

/* a string or a whole number, as JSON again; -1: it is neither, or too long */
static int write_id(const struct json *v, char out[MCP_ID_ROOM])
{
	const double n = json_double(v);
	struct buf b;
	int rc = -1;

	buf_init(&b, MCP_ID_ROOM - 1);
	if (json_is_string(v)) {
		size_t len;
		const char *text = json_text(v, &len);

		rc = buf_json_string(&b, text, len);
	} else if (json_is_number(v) && fabs(n) <= 0x1p53 && n == (double)(int64_t)n) {
		rc = buf_printf(&b, "%.0f", n + 0.0); /* no "-0" */
	}
	if (rc == 0) {
		memcpy(out, b.bytes, b.len);
		out[b.len] = '\0';
	}
	buf_done(&b);
	return rc;
}

/* 0: go on; else *out is what to do */
static int read_envelope(struct message *m, enum mcp_what *out)
{
	const struct json *id = json_member(m->root, "id");
	const char *version = word(json_member(m->root, "jsonrpc"));
	const struct json *params = json_member(m->root, "params");

	if (json_is_array(m->root))
		*out = refuse(m, RPC_INVALID, 400,
			      "batches are not served: send one "
			      "message at a time");
	else if (!version || strcmp(version, "2.0") != 0)
		*out = refuse(m, RPC_INVALID, 400,
			      "a message is an object with \"jsonrpc\":\"2.0\"");
	else if (id && write_id(id, m->call->id) < 0)
		*out = refuse(m, RPC_INVALID, 400,
			      "id must be a string or a whole number, and short");
	else if (!m->method && id &&
		 (json_member(m->root, "result") || json_member(m->root, "error")))
		*out = MCP_ACCEPTED; /* we asked nothing: it is no answer to us */
	else if (!m->method)
		*out = refuse(m, RPC_INVALID, 400, "method must be a string");
	else if (params && !json_is_object(params))
		*out = refuse(m, RPC_BAD_PARAMS, 400, "params must be an object");
	else
		return 0;
	return -1;
}

static enum mcp_what take_notification(struct message *m)
{
	if (strcmp(m->method, "notifications/cancelled") != 0)
		return MCP_ACCEPTED;
	if (write_id(json_member(m->params, "requestId"), m->call->id) < 0)
		return MCP_ACCEPTED; /* such ones are ignored */
	return MCP_CANCEL;
}

/* ---- versions ---- */

static bool is_legacy(const char *version)
{
	for (size_t i = 0; mcp_legacy[i]; i++)
		if (strcmp(mcp_legacy[i], version) == 0)
			return true;
	return false;
}

/* a header as it is, or in base64 */
static bool header_is(const char *header, const char *text)
{
	const size_t len = header ? strlen(header) : 0, n = strlen(SENTINEL);
	char plain[256];
	ssize_t got;

	if (!header)
		return false;
	if (strncmp(header, SENTINEL, n) != 0)
		return strcmp(header, text) == 0;
	if (len < n + 2 || strcmp(header + len - 2, "?=") != 0 ||
	    (len - n - 2) / 4 * 3 >= sizeof(plain))
		return false;
	got = base64_decode(header + n, len - n - 2, plain);
	return got >= 0 && (size_t)got == strlen(text) &&
	       memcmp(plain, text, (size_t)got) == 0;
}

static int mismatch(struct message *m, const char *header, enum mcp_what *out)
{
	*out = refuse(m, MCP_HEADER_MISMATCH, 400,
		      "the header %s is missing, or does not say what the body says",
		      header);
	return -1;
}

/* of a request that names its version in the body */
static int check_headers(struct message *m, enum mcp_what *out)
{
	const char *name = word(json_member(m->params, "name"));

	if (!m->headers)
		return 0;
	if (!header_is(m->headers->method, m->method))
		return mismatch(m, "Mcp-Method", out);
	if (strcmp(m->method, "tools/call") == 0 && name &&
	    !header_is(m->headers->name, name))
		return mismatch(m, "Mcp-Name", out);
	return 0;
}

static int check_modern(struct message *m, enum mcp_what *out)
{
	m->call->modern = true;
	if (!word(json_member(m->meta, META "protocolVersion")))
		*out = refuse(m, RPC_BAD_PARAMS, 400,
			      "params._meta needs \"" META "protocolVersion\"");
	else if (!json_is_object(json_member(m->meta, META "clientCapabilities")))
		*out = refuse(m, RPC_BAD_PARAMS, 400,
			      "params._meta needs \"" META "clientCapabilities\"");
	else
		return check_headers(m, out);
	return -1;
}

/* decides which kind of request it is; 0: go on, else *out is what to do */
static int settle_version(struct message *m, enum mcp_what *out)
{
	const char *body = word(json_member(m->meta, META "protocolVersion"));
	const char *version = m->headers ? m->headers->version : body;

	if (strcmp(m->method, "initialize") == 0 && !body)
		return 0; /* it asks which versions there are */
	if (m->headers && body && (!version || strcmp(version, body) != 0))
		return mismatch(m, "MCP-Protocol-Version", out);
	if (version && strcmp(version, MCP_MODERN) == 0)
		return check_modern(m, out);
	if (!version || is_legacy(version))
		return 0;
	*out = refuse_version(m, MCP_BAD_VERSION, 400, "unsupported protocol version",
			      version);
	return -1;
}

/* ---- methods ---- */

static enum mcp_what finish(struct message *m, int rc)
{
	if (rc < 0 || put_end(&m->answer->json) < 0)
		return out_of_memory(m);
	return MCP_ANSWER;
}

static enum mcp_what on_initialize(struct message *m)
{
	const char *wanted = word(json_member(m->params, "protocolVersion"));
	struct buf *b = &m->answer->json;

	if (!wanted)
		return refuse(m, RPC_BAD_PARAMS, 200,
			      "params.protocolVersion must be a string");
	m->answer->begins = true;
	return finish(m, put_begin(b, m->call) < 0
				 ? -1
				 : put_initialize(b, is_legacy(wanted) ? wanted
								       : mcp_legacy[0]));
}

static enum mcp_what on_ping(struct message *m)
{
	return finish(m, put_begin(&m->answer->json, m->call));
}

static enum mcp_what on_discover(struct message *m)
{
	struct buf *b = &m->answer->json;

	return finish(m, put_begin(b, m->call) < 0 ? -1 : put_discover(b));
}

static enum mcp_what on_tools_list(struct message *m)
{
	const struct json *cursor = json_member(m->params, "cursor");
	struct buf *b = &m->answer->json;

	if (cursor && !json_is_null(cursor))
		return refuse(m, RPC_BAD_PARAMS, wrong_status(m),
			      "the list has one page: there is no cursor");
	return finish(m, put_begin(b, m->call) < 0
				 ? -1
				 : put_tools(b, m->world, m->call->modern));
}

static enum mcp_what refuse_call(struct message *m, const struct err *e)
{
	if (e->kind == ERR_OURS || mcp_failed(&m->answer->json, m->call, e, "") < 0)
		return out_of_memory(m);
	return MCP_ANSWER;
}

/* arguments: an object */
static enum mcp_what begin_call(struct message *m, const struct json *arguments)
{
	struct mcp_call *c = m->call;
	struct err e = {0};

	if (tools_check(c->tool, m->world, arguments, &e) < 0)
		return refuse_call(m, &e);
	if (!c->tool->form) {
		c->arguments = arguments;
		return MCP_SESSION;
	}
	if (request_read(arguments, c->tool->form, m->world, &c->run, &e) < 0)
		return refuse_call(m, &e);
	c->wall_ms = c->run.limits.wall_ms;
	return MCP_RUN;
}

static enum mcp_what on_tools_call(struct message *m)
{
	const struct json *arguments = json_member(m->params, "arguments");
	const struct json *token = json_member(m->meta, "progressToken");
	const char *name = word(json_member(m->params, "name"));
	struct mcp_call *c = m->call;
	struct err e = {0};

	if (!name)
		return refuse(m, RPC_BAD_PARAMS, wrong_status(m),
			      "params.name must be a string");
	c->tool = tools_find(m->world, name, strlen(name), &e);
	if (!c->tool)
		return refuse(m, RPC_BAD_PARAMS, wrong_status(m), "%s", e.text);
	if (token && write_id(token, c->token) < 0)
		return refuse(m, RPC_BAD_PARAMS, wrong_status(m),
			      "progressToken must be a string or a whole number");
	if (arguments && !json_is_object(arguments))
		return refuse(m, RPC_BAD_PARAMS, wrong_status(m),
			      "params.arguments must be an object");
	return begin_call(m, arguments ? arguments : m->none);
}

enum { OLD = 1, NEW = 2 };
static const struct {
	const char *name;
	unsigned kinds; /* of clients that may ask for it */
	enum mcp_what (*take)(struct message *m);
} methods[] = {
	{"initialize", OLD, on_initialize},
	{"ping", OLD, on_ping},
	{"server/discover", NEW, on_discover},
	{"tools/list", OLD | NEW, on_tools_list},
	{"tools/call", OLD | NEW, on_tools_call},
};

static enum mcp_what take_request(struct message *m)
{
	const unsigned kind = m->call->modern ? NEW : OLD;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].kinds & kind && strcmp(methods[i].name, m->method) == 0)
			return methods[i].take(m);
	return refuse(m, RPC_NO_METHOD, m->call->modern ? 404 : 200,
		      "there is no method \"%.64s\" here", m->method);
}

static enum mcp_what take(struct message *m)
{
	enum mcp_what what;

	m->params = json_member(m->root, "params");
	m->meta = json_member(m->params, "_meta");
	m->method = word(json_member(m->root, "method"));
	if (read_envelope(m, &what) < 0)
		return what;
	if (!m->call->id[0])
		return take_notification(m);
	if (settle_version(m, &what) < 0)
		return what;
	return take_request(m);
}

enum mcp_what mcp_receive(const struct request_world *w, const struct mcp_headers *h,
			  const char *text, size_t len, struct mcp_call *call,
			  struct mcp_answer *answer)
{
	struct message m = {.world = w, .headers = h, .call = call, .answer = answer};
	struct err e = {0};
	struct json *doc, *none;
	enum mcp_what what;

	memset(call, 0, sizeof(*call));
	memset(answer, 0, sizeof(*answer));
	answer->status = 200;
	buf_init(&answer->json, ANSWER_CAP_BYTES);
	doc = json_parse(text, len, &json_request_limits, &e);
	if (!doc)
		return e.kind == ERR_OURS ? out_of_memory(&m)
					  : refuse(&m, RPC_PARSE, 400, "%s", e.text);
	none = json_parse("{}", 2, &json_request_limits, &e);
	m.root = doc;
	m.none = none;
	what = none ? take(&m) : out_of_memory(&m);
	if (call->arguments == none)
		call->arguments = NULL;
	json_free(none);
	if (what == MCP_SESSION)
		call->doc = doc;
	else
		json_free(doc);
	return what;
}

void mcp_call_done(struct mcp_call *c)
{
	request_done(&c->run);
	json_free(c->doc);
	c->doc = NULL;
	c->arguments = NULL;
}
