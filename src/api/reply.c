/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reply.c - struct result to JSON, and errors
 *
 * Written straight into the buffer, in one pass: an answer can have tens of megabytes of
 * base64, of which there shall be one copy. Every function returns 0, or -1 with errno
 * when the buffer is full; what it then holds is of no use.
 */
#include "api/api.h"

#include <inttypes.h>
#include <string.h>

#include "config/filter.h"
#include "config/mode.h"

static int add_text(struct buf *b, const char *text)
{
	return buf_json_string(b, text, strlen(text));
}

static int add_files(struct buf *b, const struct result *r)
{
	if (!r->file_count)
		return 0;
	if (buf_puts(b, ",\"files_produced\":{") < 0)
		return -1;
	for (size_t i = 0; i < r->file_count; i++) {
		const struct produced_file *f = &r->files[i];

		if ((i && buf_puts(b, ",") < 0) || add_text(b, f->name) < 0 ||
		    buf_puts(b, ":\"") < 0 || buf_base64(b, f->bytes, f->len) < 0 ||
		    buf_puts(b, "\"") < 0)
			return -1;
	}
	return buf_puts(b, "}");
}

static int add_skipped(struct buf *b, const struct result *r)
{
	if (!r->skipped_count)
		return 0;
	if (buf_puts(b, ",\"files_skipped\":[") < 0)
		return -1;
	for (size_t i = 0; i < r->skipped_count; i++) {
		if (buf_puts(b, i ? ",{\"name\":" : "{\"name\":") < 0 ||
		    add_text(b, r->skipped[i].name) < 0 ||
		    buf_puts(b, ",\"reason\":") < 0 ||
		    add_text(b, r->skipped[i].reason) < 0 || buf_puts(b, "}") < 0)
			return -1;
	}
	return buf_puts(b, "]");
}

static int add_limits(struct buf *b, const struct limits *l)
{
	char wall[16], cpu[16];

	return buf_printf(b,
			  ",\"resource_limits\":{\"timeout_sec\":%s,\"max_output_kb\":%u,"
			  "\"memory_mb\":%u,\"cpu_seconds\":%s,\"pids\":%u,"
			  "\"disk_mb\":%u}",
			  job_seconds(l->wall_ms, wall), l->output_kb, l->memory_mb,
			  job_seconds(l->cpu_ms, cpu), l->pids, l->disk_mb);
}

static int add_known(struct buf *b, const char *name, uint64_t n)
{
	if (n == USAGE_UNKNOWN)
		return buf_printf(b, ",\"%s\":null", name);
	return buf_printf(b, ",\"%s\":%" PRIu64, name, n);
}

/* why a number is null; none may be given without a reason */
static int add_unavailable(struct buf *b, const struct outcome *o)
{
	const struct {
		const char *name, *reason;
		bool missing;
	} rows[] = {
		{"memory_peak_kb", o->memory_reason, o->memory_peak_kb == USAGE_UNKNOWN},
		{"pids_peak", o->pids_reason, o->pids_peak == USAGE_UNKNOWN},
	};
	const char *lead = ",\"unavailable\":{";

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (!rows[i].missing)
			continue;
		if (buf_printf(b, "%s\"%s\":", lead, rows[i].name) < 0 ||
		    add_text(b, rows[i].reason[0] ? rows[i].reason : "not measured") < 0)
			return -1;
		lead = ",";
	}
	return lead[1] ? 0 : buf_puts(b, "}");
}

static int add_usage(struct buf *b, const struct outcome *o)
{
	if (buf_printf(b, ",\"usage\":{\"cpu_ms\":%" PRIu64, (o->cpu_us + 500) / 1000) <
		    0 ||
	    add_known(b, "memory_peak_kb", o->memory_peak_kb) < 0 ||
	    add_known(b, "pids_peak", o->pids_peak) < 0 ||
	    buf_printf(b, ",\"setup_us\":%" PRIu64 ",\"warm\":%s", o->setup_us,
		       o->warm ? "true" : "false") < 0 ||
	    add_unavailable(b, o) < 0)
		return -1;
	return buf_puts(b, "}");
}

static int add_violation(struct buf *b, const struct result *r, const struct violation *v)
{
	const char *error = strerrorname_np((int)v->errno_ret);
	char name[POLICY_NAME];
	const char *hint;

	filter_name(v->nr, name);
	hint = violation_hint(r, name, v);
	if (buf_printf(b, "{\"syscall\":\"%s\",\"count\":%" PRIu64, name, v->count) < 0)
		return -1;
	if (error ? buf_printf(b, ",\"errno\":\"%s\",\"args\":[", error) < 0
		  : buf_printf(b, ",\"errno\":\"%u\",\"args\":[", v->errno_ret) < 0)
		return -1;
	for (int i = 0; i < 6; i++) /* as text: 64 bits do not fit into JSON's numbers */
		if (buf_printf(b, "%s\"0x%" PRIx64 "\"", i ? "," : "", v->args[i]) < 0)
			return -1;
	if (buf_puts(b, "]") < 0 ||
	    (hint && (buf_puts(b, ",\"hint\":") < 0 || add_text(b, hint) < 0)))
		return -1;
	return buf_puts(b, "}");
}

static int add_violations(struct buf *b, const struct result *r)
{
	if (r->outcome.violations == VIOLATIONS_UNKNOWN)
		return buf_puts(b, ",\"violations\":null");
	if (buf_puts(b, ",\"violations\":[") < 0)
		return -1;
	for (size_t i = 0; i < r->violation_count; i++)
		if ((i && buf_puts(b, ",") < 0) ||
		    add_violation(b, r, &r->violations[i]) < 0)
			return -1;
	return buf_puts(b, r->outcome.violations == VIOLATIONS_CUT
				   ? "],\"violations_truncated\":true"
				   : "]");
}

static int add_network(struct buf *b, const struct result *r)
{
	const struct egress_count *n = &r->network;

	if (!r->has_network)
		return 0;
	return buf_printf(b,
			  ",\"network\":{\"connections\":%" PRIu64 ",\"refused\":%" PRIu64
			  ",\"sent_bytes\":%" PRIu64 ",\"received_bytes\":%" PRIu64 "}",
			  n->connections, n->refused, n->sent_bytes, n->received_bytes);
}

/* only of runs that want packages */
static int add_install(struct buf *b, const struct result *r)
{
	if (!r->request || !r->request->requirements)
		return 0;
	if (buf_printf(b, ",\"install_ms\":%" PRIu64, r->install_ms) < 0)
		return -1;
	if (!r->install_reason)
		return 0;
	return buf_printf(b, ",\"install\":{\"reason\":\"%s\",\"exit_code\":%d}",
			  r->install_reason, r->install_exit);
}

/* "os,socket" as an array */
static int add_blocked(struct buf *b, const char *names)
{
	size_t n;

	if (buf_puts(b, ",\"blocked_imports\":[") < 0)
		return -1;
	for (; names && *names; names += n + (names[n] == ',')) {
		n = strcspn(names, ",");
		if (buf_json_string(b, names, n) < 0 ||
		    (names[n] && buf_puts(b, ",") < 0))
			return -1;
	}
	return buf_puts(b, "]");
}

int reply_meta(struct buf *b, const struct result *r)
{
	const struct outcome *o = &r->outcome;

	if (buf_printf(b,
		       ",\"meta\":{\"runtime\":\"%s\",\"mode\":\"%s\","
		       "\"verdict\":\"%s\"",
		       r->image ? "docker" : "local", r->mode->name,
		       verdict_name(o->verdict)) < 0)
		return -1;
	if (r->image && (buf_puts(b, ",\"image\":") < 0 || add_text(b, r->image) < 0))
		return -1;
	if (r->message[0] &&
	    (buf_puts(b, ",\"message\":") < 0 || add_text(b, r->message) < 0))
		return -1;
	if (buf_printf(b, ",\"truncated\":%s,\"timed_out\":%s",
		       r->out.truncated || r->err.truncated ? "true" : "false",
		       o->verdict == VERDICT_TIMEOUT ? "true" : "false") < 0)
		return -1;
	if (o->signal ? buf_printf(b, ",\"signal\":%d", o->signal) < 0
		      : buf_puts(b, ",\"signal\":null") < 0)
		return -1;
	if (add_install(b, r) < 0)
		return -1;
	if (add_blocked(b, r->blocked) < 0 || add_violations(b, r) < 0 ||
	    add_skipped(b, r) < 0 || add_limits(b, &r->limits) < 0 ||
	    add_usage(b, o) < 0 || add_network(b, r) < 0)
		return -1;
	return buf_printf(b, ",\"isolation\":\"%s\"}", report_level_name(r->level));
}

static int add_result(struct buf *b, const struct result *r, bool with_files)
{
	uint64_t ms = (r->outcome.wall_us + 500) / 1000;

	if (buf_printf(b, "{\"status\":\"%s\",\"stdout\":",
		       r->exit_code == 0 ? "success" : "error") < 0 ||
	    buf_json_string(b, r->out.kept.bytes, r->out.kept.len) < 0 ||
	    buf_puts(b, ",\"stderr\":") < 0 ||
	    buf_json_string(b, r->err.kept.bytes, r->err.kept.len) < 0 ||
	    buf_printf(b, ",\"exit_code\":%d,\"execution_time_ms\":%" PRIu64,
		       r->exit_code, ms) < 0)
		return -1;
	if (with_files && add_files(b, r) < 0)
		return -1;
	if (buf_printf(b, ",\"duration\":%" PRIu64 ".%03u", ms / 1000,
		       (unsigned)(ms % 1000)) < 0 ||
	    reply_meta(b, r) < 0)
		return -1;
	return buf_puts(b, "}");
}

int reply_result(struct buf *out, const struct result *r)
{
	return add_result(out, r, true);
}

int reply_result_stored(struct buf *out, const struct result *r)
{
	return add_result(out, r, false);
}

int reply_error(struct buf *out, const char *name, const struct err *e,
		const char *request_id)
{
	const char *code = e->code[0] ? e->code : "internal_error";
	int rc;

	if (buf_printf(out, "{\"%s\":", name) < 0)
		return -1;
	if (e->kind == ERR_OURS && strcmp(code, "internal_error") == 0) {
		struct buf text;

		buf_init(&text, 256);
		rc = buf_printf(&text, "internal error (request %.64s)", request_id);
		if (rc == 0)
			rc = buf_json_string(out, text.bytes, text.len);
		buf_done(&text);
	} else {
		rc = add_text(out, e->text);
	}
	if (rc < 0 || buf_puts(out, ",\"code\":") < 0 || add_text(out, code) < 0)
		return -1;
	return buf_puts(out, "}");
}

int reply_output(struct buf *out, const char *text, size_t len)
{
	if (buf_puts(out, "{\"text\":") < 0 || buf_json_string(out, text, len) < 0)
		return -1;
	return buf_puts(out, "}");
}
