/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * result.c - verdict, exit code, message, files
 *
 * The verdict is the launcher's, from evidence. Here it becomes what a client reads: an
 * exit code, a sentence, and for a run that did not end by itself that sentence as the
 * last line of stderr.
 */
#include "job/job.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/mode.h"
#include "config/settings.h"
#include "job/jobs.h"

#define KILLED_EXIT (128 + SIGKILL)

static const char *const names[] = {
	[VERDICT_OK] = "ok",
	[VERDICT_NONZERO_EXIT] = "nonzero_exit",
	[VERDICT_TIMEOUT] = "timeout",
	[VERDICT_CPU_TIMEOUT] = "cpu_timeout",
	[VERDICT_OUT_OF_MEMORY] = "out_of_memory",
	[VERDICT_SIGNAL] = "signal",
	[VERDICT_DISK_FULL] = "disk_full",
	[VERDICT_INSTALL_FAILED] = "install_failed",
	[VERDICT_BLOCKED_IMPORT] = "blocked_import",
};
static_assert(sizeof(names) / sizeof(names[0]) == VERDICT_COUNT,
	      "a verdict lacks its name");

const char *verdict_name(enum verdict v)
{
	assert(v < VERDICT_COUNT);
	return names[v];
}

/* 1000 as "1", 500 as "0.5" */
const char *job_seconds(uint32_t ms, char room[16])
{
	int len = snprintf(room, 16, "%u.%03u", ms / 1000, ms % 1000);

	while (room[len - 1] == '0')
		room[--len] = 0;
	if (room[len - 1] == '.')
		room[--len] = 0;
	return room;
}

/* ended: by us, at the end of the server */
static void say_signal(struct result *r, bool ended)
{
	const char *name = sigabbrev_np(r->outcome.signal);

	/* real-time signals have no name */
	snprintf(r->message, sizeof(r->message), "killed by signal %d%s%s%s%s",
		 r->outcome.signal, name ? " (SIG" : "", name ? name : "",
		 name ? ")" : "",
		 ended && r->outcome.signal == SIGKILL ? ": the server is shutting down"
						       : "");
}

/* go run turns every failure into 1; an older one leaves 2 for a program that does not
 * compile, and which go there is should not be seen in an answer */
static int exit_code_of(const struct result *r)
{
	if (r->outcome.signal)
		return 128 + r->outcome.signal;
	return r->mode->id == MODE_GOLANG && r->outcome.exit_code ? 1
								  : r->outcome.exit_code;
}

/* exit code and message; true when the message belongs into stderr too */
static bool judge(struct result *r, bool ended)
{
	const struct limits *l = &r->limits;
	const size_t room = sizeof(r->message);
	char seconds[16];

	r->exit_code = exit_code_of(r);
	switch ((enum verdict)r->outcome.verdict) {
	case VERDICT_TIMEOUT:
		r->exit_code = -1;
		snprintf(r->message, room, "execution timed out after %s seconds",
			 job_seconds(l->wall_ms, seconds));
		return true;
	case VERDICT_CPU_TIMEOUT:
		r->exit_code = KILLED_EXIT;
		snprintf(r->message, room, "CPU limit of %s s exceeded",
			 job_seconds(l->cpu_ms, seconds));
		return true;
	case VERDICT_OUT_OF_MEMORY:
		r->exit_code = KILLED_EXIT;
		snprintf(r->message, room, "memory limit of %u MB exceeded",
			 l->memory_mb);
		return true;
	case VERDICT_SIGNAL:
		if (r->outcome.pids_out)
			snprintf(r->message, room, "process limit of %u exceeded",
				 l->pids);
		else
			say_signal(r, ended);
		return true;
	case VERDICT_DISK_FULL:
		snprintf(r->message, room, "disk limit of %u MB reached", l->disk_mb);
		return r->outcome.signal != 0;
	case VERDICT_NONZERO_EXIT:
		if (r->outcome.unbuilt)
			snprintf(r->message, room,
				 "a package has an install script that was not run, "
				 "which SANDBOX_ALLOW_BUILD=true permits");
		return r->outcome.unbuilt;
	case VERDICT_OK:
	case VERDICT_INSTALL_FAILED: /* such a result is complete already */
	case VERDICT_BLOCKED_IMPORT:
	case VERDICT_COUNT:
		break;
	}
	return false;
}

/* what a collector that keeps to its limits can have written at most */
static bool plausible(const struct job *job)
{
	const struct settings *s = job->jobs->settings;
	uint64_t heads = (s->max_files + FILES_SKIPPED_MAX + 1) * (FILES_NAME_MAX + 64);

	return job->files.len <= s->max_files_mb * 1024 * 1024 + heads;
}

static void add_record(struct result *r, const struct files_record *rec)
{
	char *name = mem_copy_n(rec->name, rec->name_len);

	if (rec->kind == FILES_FILE)
		r->files[r->file_count++] = (struct produced_file){
			.name = name, .bytes = rec->data, .len = rec->data_len};
	else
		r->skipped[r->skipped_count++] = (struct skipped_file){
			.name = name, .reason = mem_copy_n(rec->data, rec->data_len)};
}

static int read_files(struct job *job)
{
	const size_t most = job->jobs->settings->max_files;
	struct result *r = &job->result;
	struct files_record rec;
	int rc;

	r->files = mem_array(most + 1, sizeof(*r->files));
	while ((rc = files_next(&job->files, &rec)) == 1) {
		if (rec.kind == FILES_FILE
			    ? r->file_count == most
			    : r->skipped_count > FILES_SKIPPED_MAX || rec.data_len > 64)
			return -1;
		add_record(r, &rec);
	}
	return rc;
}

/* the client is told that there may have been more */
static void add_lost(struct job *job)
{
	struct result *r = &job->result;

	r->skipped[r->skipped_count++] = (struct skipped_file){
		.name = mem_copy(job->jobs->settings->output_dir),
		.reason = mem_copy("collector_failed")};
}

int result_add_violation(struct result *r, const struct violation *v)
{
	if (r->violation_count == VIOLATIONS_MOST)
		return -1;
	if (!r->violations)
		r->violations = mem_array(VIOLATIONS_MOST, sizeof(*r->violations));
	r->violations[r->violation_count++] = *v;
	return 0;
}

void result_complete(struct job *job)
{
	if (judge(&job->result, job->ended) && !job->request.bare)
		capture_last_line(&job->result.err, job->result.message);
	if (job->result.outcome.files == OUTCOME_NO_FILES)
		return;
	/* as many as the collector may say, and one of our own */
	job->result.skipped = mem_array(FILES_SKIPPED_MAX + 2,
					sizeof(*job->result.skipped));
	if (job->result.outcome.files == OUTCOME_FILES_LOST) {
		add_lost(job);
	} else if (!plausible(job) || read_files(job) < 0) {
		log_error("job.files", LOG_IDS " bytes=%zu files=%zu reason=\"%s\"",
			  JOB_IDS(job), job->files.len, job->result.file_count,
			  "not what a collector writes");
		add_lost(job);
	}
}

void result_done(struct result *r)
{
	for (size_t i = 0; i < r->file_count; i++)
		free(r->files[i].name);
	for (size_t i = 0; i < r->skipped_count; i++) {
		free(r->skipped[i].name);
		free(r->skipped[i].reason);
	}
	free(r->violations);
	free(r->blocked);
	free(r->files);
	free(r->skipped);
	capture_done(&r->out);
	capture_done(&r->err);
	memset(r, 0, sizeof(*r));
}
