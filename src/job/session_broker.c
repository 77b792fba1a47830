/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_broker.c - the brokers of sessions that have network
 *
 * Runs in: the server. One a session, from the first thing that is done in it until its
 * processes are gone: who keeps many sessions and runs nothing holds none. What there was
 * is known until the session is closed, and its next process 1 gets another with what is
 * left of the bytes. If a broker ends by itself, the launcher ends the session's
 * processes, which cannot reach anything any more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/defer.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/settings.h"
#include "job/jobs.h"

#define WAKE_NEWS 64
#define GRACE_NS 2000000000u /* for one to say what there was, after its session */

struct session_broker {
	struct session_broker *next;
	struct jobs *jobs;
	uint8_t key[SESSION_KEY];
	char *name;
	bool closed; /* its session is: only the rest of the news counts */
	bool ending; /* its session's processes are gone, the same */
	struct loop_timer grace;
	struct egress_channel egress; /* EGRESS_NONE: it ended */
};

static struct session_broker *find(const struct jobs *j, const uint8_t *key)
{
	struct session_broker *b = j->session_brokers;

	while (b && (b->closed || memcmp(b->key, key, SESSION_KEY) != 0))
		b = b->next;
	return b;
}

static void end_channel(struct session_broker *b)
{
	loop_timer_stop(b->jobs->loop, &b->grace);
	b->ending = false;
	if (b->egress.control_fd >= 0)
		loop_remove(b->jobs->loop, b->egress.control_fd);
	egress_close(&b->egress);
}

static void free_one(struct session_broker *b)
{
	struct session_broker **at = &b->jobs->session_brokers;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	end_channel(b);
	free(b->name);
	free(b);
}

static void over(struct session_broker *b)
{
	if (b->closed)
		free_one(b);
	else
		end_channel(b);
}

static void on_grace_over(void *arg)
{
	over(arg);
}

/* it says what is left, and ends */
static void begin_end(struct session_broker *b)
{
	egress_end(&b->egress);
	loop_timer_at(b->jobs->loop, &b->grace, loop_now_ns() + GRACE_NS);
}

static void tell(const struct session_broker *b, const struct egress_news *n)
{
	if (n->type != EGRESS_CONNECTION)
		return;
	counts_connection(&b->jobs->counts, n);
	log_info("network.connection",
		 "session=%s host=\"%s\" port=%u verdict=%s sent_bytes=%llu "
		 "received_bytes=%llu ms=%u",
		 b->name, n->host, n->port, egress_verdict_name(n->verdict),
		 (unsigned long long)n->sent_bytes, (unsigned long long)n->received_bytes,
		 n->ms);
}

/* what there is now: 1: there may be more; else as egress_read() */
static int hear(struct session_broker *b)
{
	struct egress_news n;
	int rc = 1;

	for (int i = 0; i < WAKE_NEWS && rc == 1; i++) {
		rc = egress_read(&b->egress, &n);
		if (rc == 1)
			tell(b, &n);
	}
	return rc;
}

static void on_news(void *arg, uint32_t events)
{
	struct session_broker *b = arg;
	const int rc = hear(b);

	(void)events;
	if (rc == 1 || (rc < 0 && errno == EAGAIN))
		return;
	if (!b->closed && !b->ending)
		log_error("network.lost", "session=%s errno=%d", b->name,
			  rc < 0 ? errno : 0);
	over(b);
}

static struct egress_order *order_of(const struct job *job,
				     const struct egress_count *before)
{
	const struct settings *s = job->jobs->settings;
	const uint64_t all = s->egress_mb << 20;
	const uint64_t used = before->sent_bytes + before->received_bytes;
	struct egress_order *o = mem_zero(sizeof(*o));

	o->connections = job->jobs->share.through_broker;
	o->bytes = used < all ? all - used : 0;
	o->stays = 1;
	o->rules = *job->request.network;
	return o;
}

static unsigned alive(const struct jobs *j)
{
	unsigned n = 0;

	for (const struct session_broker *b = j->session_brokers; b; b = b->next)
		n += b->egress.control_fd >= 0;
	return n;
}

static int start(struct session_broker *b, const struct job *job, struct err *e)
{
	struct jobs *j = b->jobs;
	const struct egress_count before = b->egress.count;
	auto_free struct egress_order *o = order_of(job, &before);
	int saved;

	if (alive(j) >= j->share.brokers)
		return err_busy(e, "too many sessions with network at once (%u%s)",
				j->share.brokers,
				j->share.fewer_brokers ? ", as RLIMIT_NOFILE allows"
						       : "");
	if (egress_open(j->mother_fd, o, &b->egress) < 0) {
		saved = errno;
		(void)err_server(e, 500, "network_lost",
				 "there is no broker for this session");
		e->num = saved;
		return -1;
	}
	b->egress.count = before;
	if (loop_add(j->loop, b->egress.control_fd, EPOLLIN, on_news, b) < 0) {
		saved = errno;
		egress_close(&b->egress);
		errno = saved;
		return err_errno(e, "watch the broker of a session");
	}
	return 0;
}

int session_broker_fd(struct job *job, struct err *e)
{
	struct jobs *j = job->jobs;
	struct session_broker *b = find(j, job->plan.session_key);

	if (!b) {
		b = mem_zero(sizeof(*b));
		b->jobs = j;
		b->grace = (struct loop_timer){.fn = on_grace_over, .arg = b};
		b->egress = (struct egress_channel)EGRESS_NONE;
		memcpy(b->key, job->plan.session_key, SESSION_KEY);
		b->name = mem_copy(job->request.session.name);
		b->next = j->session_brokers;
		j->session_brokers = b;
	}
	if (b->ending) { /* of the processes before: these need one that goes on */
		(void)hear(b);
		end_channel(b);
	}
	if (b->egress.control_fd < 0 && start(b, job, e) < 0)
		return -1;
	return b->egress.run_fd;
}

void session_brokers_free(struct jobs *j)
{
	while (j->session_brokers)
		free_one(j->session_brokers);
}

void jobs_close_network(struct jobs *j, const uint8_t key[SESSION_KEY])
{
	struct session_broker *b = find(j, key);

	if (!b)
		return;
	if (b->egress.control_fd < 0) {
		free_one(b);
		return;
	}
	b->closed = true;
	begin_end(b);
}

/* The launcher has answered whatever was done in those processes before it says that they
 * are gone. So what it has not answered yet is for the next ones, or is refused, and then
 * it says so again. */
static bool wanted(const struct jobs *j, const uint8_t key[SESSION_KEY])
{
	const struct job *job = j->first;

	while (job && ((job->state != JOB_STARTING && job->state != JOB_RUNNING) ||
		       job->plan.network != NETWORK_BROKER || !job->plan.session ||
		       memcmp(job->plan.session_key, key, SESSION_KEY) != 0))
		job = job->next;
	return job;
}

static void idle(struct session_broker *b)
{
	if (b->closed || b->ending || b->egress.control_fd < 0)
		return;
	b->ending = true;
	begin_end(b);
}

void session_broker_idle(struct jobs *j, const uint8_t key[SESSION_KEY])
{
	struct session_broker *b = find(j, key);

	if (b && !wanted(j, key))
		idle(b);
}

void session_brokers_end(struct jobs *j)
{
	for (struct session_broker *b = j->session_brokers; b; b = b->next)
		idle(b);
}

bool jobs_network(const struct jobs *j, const uint8_t key[SESSION_KEY],
		  struct egress_count *out)
{
	const struct session_broker *b = find(j, key);

	if (b)
		*out = b->egress.count;
	return b;
}
