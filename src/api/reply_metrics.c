/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * reply_metrics.c - GET /metrics, as Prometheus reads it
 *
 * Every label has few values that are known beforehand: modes, verdicts, codes, classes.
 * What a client sends never becomes one.
 */
#include "api/api.h"

#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/metrics.h"
#include "config/mode.h"
#include "config/settings.h"
#include "job/audit.h"
#include "job/counts.h"

#ifndef SANDBOX_VERSION
#define SANDBOX_VERSION "dev"
#endif

#define LABELS 96

static int add_runs(struct buf *b, const struct job_counts *c)
{
	static const char name[] = "sandbox_runs_total";
	char labels[LABELS];

	if (metrics_family(b, name, "counter",
			   "Programs that ended, by mode and verdict.") < 0)
		return -1;
	for (int k = 0; k < COUNT_KINDS; k++) {
		for (unsigned v = 0; v < VERDICT_COUNT; v++) {
			snprintf(labels, sizeof(labels), "mode=\"%s\",verdict=\"%s\"",
				 counts_kind_name(k), verdict_name((enum verdict)v));
			/* the ordinary ones always, so that a rate has a beginning */
			if ((c->runs[k][v] || v <= VERDICT_NONZERO_EXIT) &&
			    metrics_count(b, name, labels, c->runs[k][v]) < 0)
				return -1;
		}
	}
	return 0;
}

static int add_times(struct buf *b, const struct job_counts *c)
{
	static const char duration[] = "sandbox_run_duration_seconds";
	static const char setup[] = "sandbox_run_setup_seconds";
	char labels[LABELS];

	if (metrics_family(b, duration, "histogram",
			   "From the start of a program to its end.") < 0)
		return -1;
	for (int k = 0; k < COUNT_KINDS; k++) {
		snprintf(labels, sizeof(labels), "mode=\"%s\"", counts_kind_name(k));
		if (metrics_histogram(b, duration, labels, &c->duration[k],
				      counts_duration_bounds) < 0)
			return -1;
	}
	if (metrics_family(b, setup, "histogram",
			   "From a run's admission to its program's start, by whether "
			   "its sandbox was waiting.") < 0 ||
	    metrics_histogram(b, setup, "warm=\"false\"", &c->setup[0],
			      counts_setup_bounds) < 0)
		return -1;
	return metrics_histogram(b, setup, "warm=\"true\"", &c->setup[1],
				 counts_setup_bounds);
}

static int add_network(struct buf *b, const struct job_counts *c)
{
	static const char connections[] = "sandbox_egress_connections_total";
	static const char bytes[] = "sandbox_egress_bytes_total";
	char labels[LABELS];

	if (metrics_family(b, connections, "counter",
			   "Connections that runs asked their broker for, by verdict.") <
	    0)
		return -1;
	for (unsigned v = 0; v < EGRESS_VERDICTS; v++) {
		snprintf(labels, sizeof(labels), "verdict=\"%s\"",
			 egress_verdict_name(v));
		if (metrics_count(b, connections, labels, c->connections[v]) < 0)
			return -1;
	}
	if (metrics_family(b, bytes, "counter",
			   "What went through brokers, by verdict and direction.") < 0)
		return -1;
	for (unsigned v = 0; v < EGRESS_VERDICTS; v++) {
		snprintf(labels, sizeof(labels), "verdict=\"%s\",direction=\"sent\"",
			 egress_verdict_name(v));
		if (metrics_count(b, bytes, labels, c->sent_bytes[v]) < 0)
			return -1;
		snprintf(labels, sizeof(labels), "verdict=\"%s\",direction=\"received\"",
			 egress_verdict_name(v));
		if (metrics_count(b, bytes, labels, c->received_bytes[v]) < 0)
			return -1;
	}
	return 0;
}

static int add_waiting(struct buf *b, const struct health *h)
{
	static const char name[] = "sandbox_waiting_sandboxes";
	const struct warm_state *w = h->warm;
	char labels[LABELS];

	if (metrics_family(b, name, "gauge",
			   "Sandboxes that wait for a request, by mode.") < 0)
		return -1;
	for (size_t i = 0; i < h->modes->count; i++) {
		const struct mode *m = &h->modes->mode[i];

		snprintf(labels, sizeof(labels), "mode=\"%s\"", m->name);
		if (metrics_count(b, name, labels,
				  w && m->row < w->rows ? w->ready[m->row] : 0) < 0)
			return -1;
	}
	return metrics_one(b, "sandbox_waiting_memory_bytes", "gauge",
			   "Memory that they hold together.",
			   w ? (double)w->memory_kb * 1024 : 0);
}

static int add_http(struct buf *b, const struct metrics *m)
{
	static const char answers[] = "sandbox_http_responses_total";
	static const char refused[] = "sandbox_requests_refused_total";
	char labels[LABELS];

	if (metrics_family(b, answers, "counter", "Answers, by class of status.") < 0)
		return -1;
	for (unsigned i = 2; i < METRICS_CLASSES; i++) {
		snprintf(labels, sizeof(labels), "code=\"%uxx\"", i);
		if (metrics_count(b, answers, labels, m->answers[i]) < 0)
			return -1;
	}
	if (metrics_family(b, refused, "counter",
			   "Requests that were answered with an error, by its code.") < 0)
		return -1;
	return metrics_tally(b, refused, "code", m->refused);
}

/* a family of one sample */
struct single {
	const char *name, *type, *help;
	double value;
};

static int add_singles(struct buf *b, const struct single *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (metrics_one(b, rows[i].name, rows[i].type, rows[i].help,
				rows[i].value) < 0)
			return -1;
	return 0;
}

static int add_load(struct buf *b, const struct metrics *m)
{
	const struct health *h = m->health;
	const struct single rows[] = {
		{"sandbox_ready", "gauge", "1 while /readyz answers 200.", m->ready},
		{"sandbox_isolation_level", "gauge",
		 "1 process, 2 landlock, 3 namespaces, 4 full; 0: not known yet.",
		 h->report ? h->report->level : 0},
		{"sandbox_runs_in_flight", "gauge", "Places that are taken.", h->running},
		{"sandbox_runs_capacity", "gauge", "Places there are.",
		 (double)h->settings->max_concurrent},
		{"sandbox_queue_length", "gauge", "Requests that wait for a place.",
		 m->queued},
		{"sandbox_queue_capacity", "gauge", "Requests that may.",
		 (double)h->settings->queue},
		{"sandbox_http_connections", "gauge", "Open connections.",
		 m->connections},
		{"sandbox_sessions", "gauge", "Sessions that there are.",
		 (double)m->sessions},
		{"sandbox_package_layers", "gauge", "Layers of packages that are kept.",
		 h->layers ? (double)h->layers->count : 0},
		{"sandbox_package_layers_bytes", "gauge", "Their size.",
		 h->layers ? (double)h->layers->bytes : 0},
		{"sandbox_audit_lines_total", "counter",
		 "Number of the last audit line, over all starts.",
		 (double)audit_lines(m->audit)},
		{"sandbox_audit_pending_lines", "gauge",
		 "Audit lines that could not be written yet.", audit_pending(m->audit)},
	};

	return add_singles(b, rows, sizeof(rows) / sizeof(rows[0]));
}

static int add_rest(struct buf *b, const struct metrics *m)
{
	const struct health *h = m->health;
	const struct job_counts *c = m->counts;
	struct timespec cpu = {0};
	const struct single rows[] = {
		{"sandbox_run_failures_total", "counter",
		 "Runs without a verdict: a step failed, or the launcher died.",
		 (double)c->failures},
		{"sandbox_refused_calls_total", "counter",
		 "System calls of programs that were refused and reported.",
		 (double)c->refused_calls},
		{"sandbox_output_truncated_total", "counter",
		 "Runs whose output was cut.", (double)c->truncated},
		{"sandbox_launcher_restarts_total", "counter",
		 "Launchers that took another one's place.", (double)c->launchers},
		{"sandbox_isolation_lost_total", "counter",
		 "Times that an isolation layer went away.", (double)c->losses},
		{"sandbox_launcher_refused_messages_total", "counter",
		 "Messages of the server that the launcher refused.",
		 h->report ? (double)h->report->refused : 0},
		{"sandbox_log_lines_lost_total", "counter",
		 "Lines of the server's log that had no room.", (double)log_lost_total()},
		{"process_start_time_seconds", "gauge",
		 "When the server started, in Unix time.", m->started_sec},
	};

	if (add_singles(b, rows, sizeof(rows) / sizeof(rows[0])) < 0)
		return -1;
	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) < 0)
		return 0;
	return metrics_one(b, "process_cpu_seconds_total", "counter",
			   "Processor time of the server, without programs.",
			   (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
}

int reply_metrics(struct buf *out, const struct metrics *m)
{
	if (metrics_family(out, "sandbox_build_info", "gauge", "Always 1.") < 0 ||
	    metrics_count(out, "sandbox_build_info", "version=\"" SANDBOX_VERSION "\"",
			  1) < 0 ||
	    add_runs(out, m->counts) < 0 || add_times(out, m->counts) < 0 ||
	    add_network(out, m->counts) < 0 || add_waiting(out, m->health) < 0 ||
	    add_http(out, m) < 0 || add_load(out, m) < 0)
		return -1;
	return add_rest(out, m);
}
