/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reply_tools.c - results as the tools sandbox_run and run_python_code give them
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/utf8.h"
#include "config/mode.h"

/* why it is no success, in a sentence */
static int add_why(struct buf *b, const struct result *r)
{
	char text[64];

	if (r->exit_code == 0)
		return buf_puts(b, "null");
	if (r->message[0])
		return buf_json_string(b, r->message, strlen(r->message));
	snprintf(text, sizeof(text), "the program ended with exit code %d", r->exit_code);
	return buf_json_string(b, text, strlen(text));
}

int reply_sandbox_run(struct buf *out, const struct result *r)
{
	const uint64_t ms = (r->outcome.wall_us + 500) / 1000;

	if (buf_printf(out,
		       "{\"ok\":%s,\"runtime\":\"%s\",\"exit_code\":%d,"
		       "\"duration_ms\":%" PRIu64 ",\"stdout\":",
		       r->exit_code == 0 ? "true" : "false", r->mode->name, r->exit_code,
		       ms) < 0 ||
	    buf_json_string(out, r->out.kept.bytes, r->out.kept.len) < 0 ||
	    buf_puts(out, ",\"stderr\":") < 0 ||
	    buf_json_string(out, r->err.kept.bytes, r->err.kept.len) < 0 ||
	    buf_puts(out, ",\"error\":") < 0 || add_why(out, r) < 0)
		return -1;
	return buf_puts(out, "}");
}

/* as in JSON: what is not UTF-8 becomes U+FFFD */
static int add_plain(struct buf *b, const char *p, size_t len)
{
	for (size_t at = 0, n; at < len; at += n) {
		for (n = 0; at + n < len;) {
			const size_t one = utf8_char(p + at + n, len - at - n);

			if (!one)
				break;
			n += one;
		}
		if (buf_add(b, p + at, n) < 0)
			return -1;
		if (n == 0) {
			n = utf8_bad(p + at, len - at);
			if (buf_puts(b, "\xef\xbf\xbd") < 0)
				return -1;
		}
	}
	return 0;
}

int reply_python(struct buf *out, const struct result *r)
{
	if (r->exit_code == 0 && r->out.kept.len == 0)
		return buf_puts(out, "(no output)");
	if (r->exit_code == 0)
		return add_plain(out, r->out.kept.bytes, r->out.kept.len);
	if (buf_printf(out, "Error (exit %d, %s): ", r->exit_code,
		       verdict_name(r->outcome.verdict)) < 0)
		return -1;
	return add_plain(out, r->err.kept.bytes, r->err.kept.len);
}
