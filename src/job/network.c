/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * network.c - the broker of a run that has network
 *
 * Runs in: the server. It asks for a broker when the run is sent to the launcher, hears
 * of each connection, and is told the rest when the run is over; the broker ends by
 * itself when its socket does.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/settings.h"
#include "job/jobs.h"

#define WAKE_NEWS 64
#define SLACK_MS 10000 /* beyond the run's own deadline: then nobody wants it any more */

#define TEXT_OF(n) TEXT_OF_(n)
#define TEXT_OF_(n) #n

static const char own_proxy[] = "http://127.0.0.1:" TEXT_OF(NETWORK_PORT);

/* programs look for either case, some for one of them only */
static const struct {
	const char *name;
	const char *value; /* NULL: the host's certificates */
} words[] = {
	{"http_proxy", own_proxy},     {"https_proxy", own_proxy},
	{"all_proxy", own_proxy},      {"no_proxy", "localhost,127.0.0.1,::1"},
	{"HTTP_PROXY", own_proxy},     {"HTTPS_PROXY", own_proxy},
	{"ALL_PROXY", own_proxy},      {"NO_PROXY", "localhost,127.0.0.1,::1"},
	{"NODE_USE_ENV_PROXY", "1"}, /* fetch of node does not look for it else */
	{"SSL_CERT_FILE", NULL},       {"REQUESTS_CA_BUNDLE", NULL},
	{"NODE_EXTRA_CA_CERTS", NULL}, {"CURL_CA_BUNDLE", NULL},
	{"GIT_SSL_CAINFO", NULL},
};
static_assert(sizeof(words) / sizeof(words[0]) <= NETWORK_WORDS, "too many variables");

bool network_word_of_host(size_t i)
{
	return i < sizeof(words) / sizeof(words[0]) && !words[i].value;
}

bool network_word(const struct settings *s, const char *proxy, size_t i,
		  char out[NETWORK_WORD])
{
	const char *value;

	if (i >= sizeof(words) / sizeof(words[0]))
		return false;
	value = words[i].value ? words[i].value : s->ca_bundle;
	if (value == own_proxy && proxy && proxy[0])
		value = proxy;
	out[0] = '\0';
	if (words[i].value && proxy && !proxy[0])
		return true;
	if (value && strlen(value) < NETWORK_WORD - 32)
		snprintf(out, NETWORK_WORD, "%s=%s", words[i].name, value);
	return true;
}

void jobs_set_broker(struct jobs *j, int mother_fd)
{
	defer_close(&j->mother_fd);
	j->mother_fd = mother_fd;
	if (j->report_fresh)
		network_possible(j);
}

void network_possible(struct jobs *j)
{
	if (j->report.network != NETWORK_BROKER &&
	    j->report.install_network == NETWORK_NONE && j->mother_fd >= 0)
		close(take_fd(&j->mother_fd)); /* which is her end */
}

static void tell(struct job *job, const struct egress_news *n)
{
	if (n->type != EGRESS_CONNECTION)
		return;
	counts_connection(&job->jobs->counts, n);
	log_info("network.connection",
		 LOG_IDS " host=\"%s\" port=%u verdict=%s sent_bytes=%llu "
			 "received_bytes=%llu ms=%u",
		 JOB_IDS(job), n->host, n->port, egress_verdict_name(n->verdict),
		 (unsigned long long)n->sent_bytes, (unsigned long long)n->received_bytes,
		 n->ms);
	install_refused(job, n);
}

static int lost(struct err *e, int num)
{
	err_server(e, 500, "network_lost", "there is no broker for this run");
	e->num = num;
	return -1;
}

/* nothing more will come of its broker */
static void end_news(struct job *job)
{
	struct jobs *j = job->jobs;
	struct err e = {0};

	network_close(job);
	if (!install_waits(job)) {
		job_settle(job);
		return;
	}
	(void)lost(&e, 0);
	job_fail(job, &e);
	queue_pump(j);
}

static void on_news(void *arg, uint32_t events)
{
	struct job *job = arg;
	struct egress_news n;
	int rc = 1;

	(void)events;
	for (int i = 0; i < WAKE_NEWS && rc == 1; i++) {
		rc = egress_read(&job->egress, &n);
		if (rc == 1)
			tell(job, &n);
	}
	if (rc == 1 || (rc < 0 && errno == EAGAIN)) {
		if (install_waits(job) && job->egress.port)
			install_heard(job);
		return;
	}
	if (rc < 0)
		log_error("network.news", LOG_IDS " errno=%d", JOB_IDS(job), errno);
	end_news(job);
}

/* whoever is on this host can connect to a port of it */
static int make_secret(char out[EGRESS_SECRET])
{
	unsigned char bytes[(EGRESS_SECRET - 1) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -1;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static struct egress_order *order_of(const struct job *job)
{
	const struct settings *s = job->jobs->settings;
	struct egress_order *o = mem_zero(sizeof(*o));

	o->connections = job->jobs->share.through_broker;
	o->bytes = s->egress_mb << 20;
	o->time_ms = job->plan.limits.wall_ms + SLACK_MS;
	o->rules = *job->request.network;
	o->listens = job->secret[0] != '\0';
	memcpy(o->secret, job->secret, sizeof(o->secret));
	return o;
}

int network_open(struct job *job, struct err *e)
{
	auto_free struct egress_order *o = NULL;

	if (job->egress.control_fd >= 0)
		return 0; /* it was not sent the last time */
	if (job->hears && make_secret(job->secret) < 0)
		return err_errno(e, "make the secret of a broker");
	o = order_of(job);
	job->result.has_network = true;
	if (egress_open(job->jobs->mother_fd, o, &job->egress) < 0)
		return lost(e, errno);
	if (loop_add(job->jobs->loop, job->egress.control_fd, EPOLLIN, on_news, job) < 0)
		return err_errno(e, "watch the broker of a run");
	job->egress_watched = true;
	return 0;
}

void network_sent(struct job *job)
{
	if (job->egress.run_fd >= 0)
		close(take_fd(&job->egress.run_fd));
}

void network_end(struct job *job)
{
	egress_end(&job->egress);
}

bool network_ended(const struct job *job)
{
	return job->egress.control_fd < 0;
}

void network_close(struct job *job)
{
	if (job->egress_watched)
		loop_remove(job->jobs->loop, job->egress.control_fd);
	job->egress_watched = false;
	egress_close(&job->egress);
	job->result.network = job->egress.count;
}
