/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * counts.c - what jobs have done since the start, for GET /metrics
 */
#include "job/counts.h"

#include "job/jobs.h"

histogram_bounds counts_duration_bounds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
					   1,     2.5,  5,     10,   30,  60,   300};
histogram_bounds counts_setup_bounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
					0.01,   0.025,   0.05,   0.1,   0.25,   1};

const char *counts_kind_name(int kind)
{
	static const char *const names[COUNT_KINDS] = {
		[MODE_PYTHON] = "python",       [MODE_GOLANG] = "golang",
		[MODE_NODE] = "node",           [MODE_SHELL] = "shell",
		[COUNT_SESSION] = "session",    [COUNT_INSTALL] = "install",
		[COUNT_GUARD] = "import_guard",
	};

	return names[kind];
}

static int kind_of(const struct job *job)
{
	if (job->installs)
		return COUNT_INSTALL;
	if (job->is_guard)
		return COUNT_GUARD;
	return job->request.session.how || job->request.session.kept
		       ? COUNT_SESSION
		       : (int)job->request.mode->id;
}

const char *counts_mode_name(const struct job *job)
{
	return counts_kind_name(kind_of(job));
}

void counts_run(struct job_counts *c, const struct job *job)
{
	const struct result *r = &job->result;
	const struct outcome *o = &r->outcome;
	const int kind = kind_of(job);

	c->runs[kind][o->verdict]++;
	c->truncated += r->out.truncated || r->err.truncated;
	for (size_t i = 0; i < r->violation_count; i++)
		c->refused_calls += r->violations[i].count;
	if (!job->run)
		return; /* it never was: no packages, or imports that are blocked */
	histogram_add(&c->duration[kind], counts_duration_bounds,
		      (double)o->wall_us / 1e6);
	histogram_add(&c->setup[o->warm ? 1 : 0], counts_setup_bounds,
		      (double)o->setup_us / 1e6);
}

void counts_connection(struct job_counts *c, const struct egress_news *n)
{
	const uint32_t verdict = n->verdict < EGRESS_VERDICTS ? n->verdict
							      : EGRESS_BAD_REQUEST;

	c->connections[verdict]++;
	c->sent_bytes[verdict] += n->sent_bytes;
	c->received_bytes[verdict] += n->received_bytes;
}
