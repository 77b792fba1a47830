/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * audit_line.c - what an audit line says of a run
 *
 * Who asked for what, and what became of it. Of the code its hash alone; of output,
 * files, variables and tokens nothing.
 */
#include "job/audit_line.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "config/filter.h"
#include "config/policy.h"
#include "job/jobs.h"

#define LINE_BYTES (128 * 1024)

int audit_line_begin(struct buf *out, const char *event)
{
	struct timespec now = {0};
	char day[24];
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
	buf_init(out, LINE_BYTES);
	return buf_printf(out, "{\"time\":\"%s.%03uZ\",\"event\":\"%s\"", day,
			  (unsigned)(now.tv_nsec / 1000000), event);
}

static bool is_command(const struct run_request *r)
{
	return r->session.how || r->session.kept;
}

/* the code; of a session's command, what bash is given behind -c */
void audit_line_take(struct job *job)
{
	const struct run_request *r = &job->request;
	uint8_t hash[SHA256_BYTES];
	struct sha256 h;

	sha256_begin(&h);
	sha256_add(&h, r->code.bytes, r->code.len);
	for (char **w = is_command(r) ? r->args : NULL; w && *w; w++)
		sha256_add(&h, *w, strlen(*w) + (w[1] ? 1 : 0));
	sha256_end(&h, hash);
	for (size_t i = 0; i < sizeof(hash); i++)
		snprintf(job->code_hash + 2 * i, 3, "%02x", hash[i]);
}

static int add_text(struct buf *b, const char *name, const char *text)
{
	return buf_printf(b, ",\"%s\":", name) < 0
		       ? -1
		       : buf_json_string(b, text, strlen(text));
}

static int add_known(struct buf *b, const char *name, uint64_t n)
{
	return n == USAGE_UNKNOWN ? buf_printf(b, ",\"%s\":null", name)
				  : buf_printf(b, ",\"%s\":%" PRIu64, name, n);
}

static const char *const session_done[] = {
	[SESSION_NOT] = "",
	[SESSION_OPEN] = "open",
	[SESSION_EXEC] = "command",
	[SESSION_CLOSE] = "close",
	[SESSION_FORK] = "fork",
	[SESSION_CHECKPOINT] = "checkpoint",
	[SESSION_RESTORE] = "restore",
	[SESSION_DIFF] = "diff",
};
static_assert(sizeof(session_done) / sizeof(session_done[0]) == SESSION_KINDS,
	      "what is done in sessions lacks its word");

static int add_asked(struct buf *b, const struct job *job)
{
	const struct run_request *r = &job->request;

	if (add_text(b, "request", r->request_id) < 0 ||
	    (job->trace[0] && add_text(b, "trace", job->trace) < 0) ||
	    (r->token[0] && add_text(b, "token", r->token) < 0) ||
	    add_text(b, "mode", counts_mode_name(job)) < 0)
		return -1;
	if (is_command(r)) {
		const enum plan_session how = r->session.kept ? SESSION_EXEC
							      : r->session.how;

		if (add_text(b, "done", session_done[how]) < 0 ||
		    buf_puts(b, ",\"session\":\"") < 0)
			return -1;
		for (size_t i = 0; i < SESSION_KEY; i++)
			if (buf_printf(b, "%02x", r->session.key[i]) < 0)
				return -1;
		if (buf_puts(b, "\"") < 0)
			return -1;
	}
	return job->code_hash[0] ? add_text(b, "code_sha256", job->code_hash) : 0;
}

static int add_violations(struct buf *b, const struct result *r)
{
	char name[POLICY_NAME];

	if (r->outcome.violations == VIOLATIONS_UNKNOWN)
		return buf_puts(b, ",\"violations\":null");
	if (buf_puts(b, ",\"violations\":[") < 0)
		return -1;
	for (size_t i = 0; i < r->violation_count && i < VIOLATIONS_USUAL; i++) {
		filter_name(r->violations[i].nr, name);
		if (buf_printf(b, "%s{\"syscall\":\"%s\",\"count\":%" PRIu64 "}",
			       i ? "," : "", name, r->violations[i].count) < 0)
			return -1;
	}
	return buf_puts(b, "]");
}

static int add_network(struct buf *b, const struct result *r)
{
	if (!r->has_network)
		return buf_puts(b, r->request->pod ? ",\"network\":\"pod\""
						   : ",\"network\":null");
	return buf_printf(b,
			  ",\"network\":{\"connections\":%" PRIu64 ",\"refused\":%" PRIu64
			  ",\"sent_bytes\":%" PRIu64 ",\"received_bytes\":%" PRIu64 "}",
			  r->network.connections, r->network.refused,
			  r->network.sent_bytes, r->network.received_bytes);
}

static int add_outcome(struct buf *b, const struct result *r)
{
	const struct outcome *o = &r->outcome;

	if (add_text(b, "verdict", verdict_name(o->verdict)) < 0 ||
	    buf_printf(b,
		       ",\"exit_code\":%d,\"isolation\":\"%s\",\"usage\":{\"wall_ms\":"
		       "%" PRIu64 ",\"cpu_ms\":%" PRIu64,
		       r->exit_code, report_level_name(r->level),
		       (o->wall_us + 500) / 1000, (o->cpu_us + 500) / 1000) < 0 ||
	    add_known(b, "memory_peak_kb", o->memory_peak_kb) < 0 ||
	    add_known(b, "pids_peak", o->pids_peak) < 0 || buf_puts(b, "}") < 0 ||
	    add_violations(b, r) < 0)
		return -1;
	return add_network(b, r);
}

int audit_line_run(struct buf *out, const struct job *job, const struct err *e)
{
	if (audit_line_begin(out, "run") < 0 || add_asked(out, job) < 0)
		return -1;
	if (!e)
		return add_outcome(out, &job->result);
	/* whether its program began, nobody knows when a launcher died */
	return add_text(out, "verdict", "failed") < 0 ? -1
						      : add_text(out, "error", e->code);
}
