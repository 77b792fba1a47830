/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * on_health.c - /health, /healthz, /readyz, /isolation, /metrics
 *
 * None of them waits for anything; load changes no status.
 */
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "config/settings.h"
#include "http/conn.h"
#include "session/session.h"

enum { HEALTH_CAP_BYTES = 4 << 20 };

static struct health health_of(const struct http_server *h)
{
	return (struct health){
		.modes = h->modes,
		.settings = h->settings,
		.report = h->jobs ? jobs_report(h->jobs) : NULL,
		.loss = h->jobs ? jobs_loss(h->jobs) : NULL,
		.warm = h->jobs ? jobs_warm(h->jobs) : NULL,
		.layers = h->jobs ? jobs_layers(h->jobs) : NULL,
		.running = h->jobs ? jobs_running(h->jobs) : 0,
		.draining = h->draining,
		.uptime_sec = (unsigned long)((loop_now_ns() - h->start_ns) / 1000000000),
		.state_note = h->state_note,
	};
}

void on_health(struct conn *k)
{
	const struct http_server *h = k->h;
	const struct health health = health_of(h);
	struct buf body;
	struct err e;

	buf_init(&body, HEALTH_CAP_BYTES);
	if (reply_health(&body, &health) == 0)
		return answer_json(k, h->draining ? 503 : 200, NULL, &body);
	err_errno(&e, "write the health answer");
	buf_done(&body);
	answer_error(k, &e);
}

void on_metrics(struct conn *k)
{
	const struct http_server *h = k->h;
	const struct health health = health_of(h);
	struct metrics m = {
		.health = &health,
		.answers = h->answers,
		.refused = &h->refused,
		.connections = h->conn_count,
		.sessions = h->sessions ? sessions_count(h->sessions) : 0,
		.started_sec = h->started_sec,
	};
	struct buf body;
	struct err e;

	if (!h->jobs) {
		err_client(&e, 503, "not_ready", "the server is starting");
		return answer_error(k, &e);
	}
	m.counts = jobs_counts(h->jobs);
	m.queued = jobs_queued(h->jobs);
	m.audit = jobs_audit(h->jobs);
	m.ready = !h->draining && jobs_ready(h->jobs);
	buf_init(&body, HEALTH_CAP_BYTES);
	if (reply_metrics(&body, &m) == 0)
		return answer_metrics(k, &body);
	err_errno(&e, "write the metrics");
	buf_done(&body);
	answer_error(k, &e);
}

void on_healthz(struct conn *k)
{
	answer_text(k, 200, "{\"status\":\"ok\"}");
}

/* which layer is gone and why; /isolation has it all */
static void answer_lost(struct conn *k, const struct report *r)
{
	const enum layer_id gone = (enum layer_id)(r->lost - 1);
	struct buf body;

	buf_init(&body, HEALTH_CAP_BYTES);
	if (buf_printf(&body,
		       "{\"status\":\"isolation_lost\",\"layer\":\"%s\",\"reason\":",
		       report_layer_name(gone)) == 0 &&
	    buf_json_string(&body, r->layer[gone].reason,
			    strlen(r->layer[gone].reason)) == 0 &&
	    buf_puts(&body, "}") == 0)
		return answer_json(k, 503, NULL, &body);
	buf_done(&body);
	answer_text(k, 503, "{\"status\":\"isolation_lost\"}");
}

void on_readyz(struct conn *k)
{
	const struct http_server *h = k->h;
	const struct report *r = h->jobs ? jobs_report(h->jobs) : NULL;
	struct err e;

	if (h->draining)
		answer_text(k, 503, "{\"status\":\"draining\"}");
	else if (r && r->lost)
		answer_lost(k, r);
	else if (h->settings->docker && h->jobs && jobs_may_run(h->jobs, &e) < 0)
		answer_error(k, &e);
	else if (!h->jobs || !jobs_ready(h->jobs))
		answer_text(k, 503, "{\"status\":\"not_ready\"}");
	else
		answer_text(k, 200, "{\"status\":\"ready\"}");
}

void on_isolation(struct conn *k)
{
	const struct report *r = k->h->jobs ? jobs_report(k->h->jobs) : NULL;
	struct buf body;
	struct err e;

	if (!r) {
		err_client(&e, 503, "not_ready",
			   "the isolation of this host is not known yet");
		return answer_error(k, &e);
	}
	buf_init(&body, HEALTH_CAP_BYTES);
	if (reply_isolation(&body, r, jobs_loss(k->h->jobs)) == 0)
		return answer_json(k, 200, NULL, &body);
	err_errno(&e, "write the isolation answer");
	buf_done(&body);
	answer_error(k, &e);
}
