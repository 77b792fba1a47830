/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * imports.c - the import guard: what a python program imports, before it runs
 *
 * Runs in: the server. A program to be looked at waits in JOB_GUARDED, and a guard is
 * made for it: a job of its own that runs imports.py over the program's text, in a
 * sandbox like any other's, a waiting one if there is one. What is found ends the program
 * before it began. So does a guard that cannot tell: whatever ends it otherwise than with
 * one of its own lines is a refusal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/mode.h"
#include "config/settings.h"
#include "job/imports.h"
#include "job/jobs.h"

#define GUARD_MS 5000 /* of wall clock and of processor */
#define GUARD_KB 64   /* of what it says */
#define REFUSED_BYTES " ,ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* what does the same without reaching out of the program, for who reads the log */
static const struct {
	const char *name, *instead;
} alternatives[] = {
	{"os", "pathlib"},     {"os", "tempfile"},    {"os", "platform"},
	{"shutil", "pathlib"}, {"shutil", "zipfile"}, {"socket", "io"},
	{"glob", "pathlib"},   {"pickle", "json"},    {"marshal", "json"},
	{"ctypes", "struct"},
};

bool imports_wanted(const struct job *job)
{
	const struct run_request *r = &job->request;

	return job->jobs->settings->block_imports && r->mode->id == MODE_PYTHON &&
	       r->session.how == SESSION_NOT;
}

/* "os,subprocess" as words */
static char **list_words(const char *list)
{
	char **words = mem_array(strlen(list) + 2, sizeof(*words));
	size_t n = 0;

	for (size_t len; *list; list += len + (list[len] == ',')) {
		len = strcspn(list, ",");
		if (len)
			words[n++] = mem_copy_n(list, len);
	}
	return words;
}

static int fill(const struct job *job, struct run_request *r, struct err *e)
{
	const struct settings *s = job->jobs->settings;
	const struct buf *code = &job->request.code;
	const struct limits wanted = {
		.wall_ms = GUARD_MS, .cpu_ms = GUARD_MS, .output_kb = GUARD_KB};

	job_limits(s, r->mode, &wanted, &r->limits);
	memcpy(r->request_id, job->request.request_id, sizeof(r->request_id));
	r->args = list_words(s->blocked_imports);
	r->files = mem_array(1, sizeof(*r->files));
	r->file_count = 1;
	r->files[0].name = mem_copy("code");
	buf_init(&r->files[0].data, code->len);
	buf_init(&r->code, strlen(imports_script));
	if (buf_puts(&r->code, imports_script) < 0 ||
	    buf_add(&r->files[0].data, code->bytes, code->len) < 0)
		return err_errno(e, "pack the input of an import guard");
	return 0;
}

struct job *imports_begin(struct job *job, struct err *e)
{
	struct run_request r = {.mode = job->request.mode, .row = job->request.mode->row};
	struct job *guard;

	if (fill(job, &r, e) < 0) {
		request_done(&r);
		return NULL;
	}
	guard = job_new(job->jobs, 0, &r, false);
	job->jobs->nobodys++;
	guard->is_guard = true;
	memcpy(guard->trace, job->trace, sizeof(guard->trace));
	if (prepare_job(guard, e) < 0) {
		job_drop(guard);
		return NULL;
	}
	guard->guards = job;
	job->guard = guard;
	job_move(job, JOB_GUARDED);
	return guard;
}

void imports_leave(struct job *job)
{
	struct job *guard = job->guard;

	if (job->guards)
		job->guards->guard = NULL;
	if (!guard)
		return;
	/* nobody wants to know any more */
	guard->guards = NULL;
	job->guard = NULL;
	if (guard->state == JOB_QUEUED) {
		job_drop(guard);
	} else {
		guard->kill_wanted = true;
		client_kill(guard);
	}
}

static bool is_listed(const char *list, const char *word, size_t len)
{
	for (size_t n; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (n == len && n && strncmp(list, word, n) == 0)
			return true;
	}
	return false;
}

/* "os subprocess" becomes "os,subprocess"; false: that is nothing the guard says */
static bool read_names(const struct job *guard, char *names)
{
	const char *list = guard->jobs->settings->blocked_imports;
	size_t n;

	for (;; names += n + 1) {
		n = strcspn(names, " ");
		if (!is_listed(list, names, n))
			return false;
		if (!names[n])
			return true;
		names[n] = ',';
	}
}

/* of each module those that are not blocked themselves, "os: pathlib, tempfile" */
static void list_alternatives(const struct job *job, struct buf *out)
{
	const char *list = job->jobs->settings->blocked_imports, *last = "";

	for (size_t i = 0; i < sizeof(alternatives) / sizeof(*alternatives); i++) {
		const char *name = alternatives[i].name;
		const char *instead = alternatives[i].instead;
		const bool again = strcmp(name, last) == 0;

		if (!is_listed(job->result.blocked, name, strlen(name)) ||
		    is_listed(list, instead, strlen(instead)))
			continue;
		/* a table's worth of words: there is room */
		(void)buf_printf(out, "%s%s%s%s",
				 again      ? ", "
				 : out->len ? "; "
					    : "",
				 again ? "" : name, again ? "" : ": ", instead);
		last = name;
	}
}

/* the answer of a run that never was; why: NULL, or why nobody could tell */
static void refuse(struct job *job, const char *why)
{
	struct result *r = &job->result;
	struct buf instead;

	r->outcome = (struct outcome){.verdict = VERDICT_BLOCKED_IMPORT,
				      .violations = VIOLATIONS_ALL};
	r->exit_code = 1;
	r->level = job->jobs->report.level;
	if (why)
		snprintf(r->message, sizeof(r->message),
			 "Security policy could not check imports: %s", why);
	else
		snprintf(r->message, sizeof(r->message),
			 "Security policy blocked import: %s", r->blocked);
	capture_add(&r->err, r->message, strlen(r->message));
	buf_init(&instead, 1024);
	if (!why)
		list_alternatives(job, &instead);
	log_info("imports.blocked", LOG_IDS " imports=\"%s\" alternatives=\"%s\"%s%s%s",
		 JOB_IDS(job), why ? "" : r->blocked,
		 buf_text(&instead) == 0 ? instead.bytes : "", why ? " reason=\"" : "",
		 why ? why : "", why ? "\"" : "");
	buf_done(&instead);
	job_answer(job);
}

/* what its line says; whatever ends it otherwise is no leave to run */
static void decide(struct job *guard, struct job *job, char *line)
{
	static const char blocked[] = "blocked ", refused[] = "refused ";

	if (guard->result.outcome.verdict != VERDICT_OK) {
		refuse(job, guard->result.message[0] ? guard->result.message
						     : "the parser failed");
	} else if (strcmp(line, "clean") == 0 || strcmp(line, "syntax") == 0) {
		job_move(job, JOB_QUEUED);
	} else if (strncmp(line, blocked, strlen(blocked)) == 0 &&
		   read_names(guard, line + strlen(blocked))) {
		job->result.blocked = mem_copy(line + strlen(blocked));
		refuse(job, NULL);
	} else {
		refuse(job, strncmp(line, refused, strlen(refused)) == 0 &&
					    strspn(line, REFUSED_BYTES) == strlen(line)
				    ? line + strlen(refused)
				    : "the parser failed");
	}
}

void imports_over(struct job *guard)
{
	const struct buf *said = &guard->result.out.kept;
	struct job *job = guard->guards;
	auto_free char *line = NULL;
	struct err e;

	if (!job)
		return;
	if (job->jobs->draining && guard->result.outcome.verdict == VERDICT_SIGNAL) {
		(void)queue_refuse_draining(&e);
		job_fail(job, &e);
		return;
	}
	log_debug("imports.looked", LOG_IDS " warm=%u wall_ms=%llu", JOB_IDS(job),
		  guard->result.outcome.warm,
		  (unsigned long long)(guard->result.outcome.wall_us / 1000));
	line = mem_copy_n(said->len ? said->bytes : "", said->len);
	/* one line, all of it: a NUL or a second one make it something else */
	if (strlen(line) != said->len || !said->len || line[said->len - 1] != '\n')
		line[0] = 0;
	else
		line[said->len - 1] = 0;
	decide(guard, job, line);
}

void imports_lost(struct job *guard, const struct err *e)
{
	if (guard->guards)
		job_fail(guard->guards, e);
}
