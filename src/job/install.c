/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * install.c - the packages that a run needs, before it runs
 *
 * Runs in: the server. A run with requirements is sent to the launcher like any other,
 * with the key of its layer. Where that is there already, which the launcher knows, that
 * is all. Else the job waits, and an install is made for the key: a job of its own, which
 * nobody asked for by name and all that wait for the same key share. Then they are sent
 * once more, or told why not.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "config/mode.h"
#include "config/settings.h"
#include "job/jobs.h"

#define TRIES 3         /* of a job whose layer is gone again when it comes */
#define TOLD_BYTES 4096 /* of what an installer said last */
#define LEARN_ROUNDS 4  /* that one who waits is given for it */
#define LEAD "package installation failed: "

void install_key(const struct run_request *r, uint8_t out[LAYER_KEY])
{
	struct sha256 h;

	static_assert(LAYER_KEY == SHA256_BYTES, "a key is a hash");
	sha256_begin(&h);
	sha256_add(&h, r->mode->layer_seed, sizeof(r->mode->layer_seed));
	for (char *const *w = r->requirements; w && *w; w++)
		sha256_add(&h, *w, strlen(*w) + 1);
	sha256_end(&h, out);
}

static bool same_key(const struct job *a, const struct job *b)
{
	return memcmp(a->plan.layer, b->plan.layer, LAYER_KEY) == 0;
}

static bool waits_for(const struct job *job, const struct job *install)
{
	return job->state == JOB_INSTALLING && !job->installs && same_key(job, install);
}

static struct job *find_install(const struct job *job)
{
	struct job *at = job->jobs->first;

	while (at && !(at->installs && same_key(at, job)))
		at = at->next;
	return at;
}

static struct job *find_waiting(const struct job *install)
{
	struct job *at = install->jobs->first;

	while (at && !waits_for(at, install))
		at = at->next;
	return at;
}

/* the last lines of what it said, whole ones */
static void add_told(struct capture *to, const struct capture *said)
{
	const char *from = said->kept.bytes;
	size_t len = said->kept.len;
	const char *line;

	if (len > TOLD_BYTES) {
		from += len - TOLD_BYTES;
		len = TOLD_BYTES;
		line = memchr(from, '\n', len);
		if (line) {
			len -= (size_t)(line + 1 - from);
			from = line + 1;
		}
	}
	if (len)
		capture_add(to, from, len);
}

/* the answer of a run that never was; install: what failed, or NULL */
static void refuse(struct job *job, const struct install_why *why,
		   const struct job *install)
{
	struct result *r = &job->result;
	char text[640];

	r->outcome = (struct outcome){
		.verdict = VERDICT_INSTALL_FAILED,
		.memory_peak_kb = 0,
		.violations = VIOLATIONS_ALL,
	};
	r->exit_code = -1;
	r->install_reason = why->reason;
	r->install_exit = install ? install->result.outcome.exit_code : -1;
	r->level = job->jobs->report.level;
	static_assert(sizeof(r->message) >= sizeof(LEAD) + sizeof(why->text),
		      "nothing of it is cut");
	snprintf(r->message, sizeof(r->message), "%s%s", LEAD, why->text);
	snprintf(text, sizeof(text), "%s%s\n", LEAD, why->text);
	capture_add(&r->err, text, strlen(text));
	if (install) {
		add_told(&r->err, &install->result.out);
		add_told(&r->err, &install->result.err);
	}
	job_answer(job);
}

static void on_impossible(void *arg)
{
	struct job *job = arg;
	struct install_why why = {.reason = "no_installer"};

	snprintf(why.text, sizeof(why.text), "%s",
		 job->request.mode->no_installer ? job->request.mode->no_installer
						 : "nothing installs packages here");
	refuse(job, &why, NULL);
}

bool install_impossible(struct job *job)
{
	if (!job->request.requirements || job->request.mode->install_row >= 0)
		return false;
	/* answered from the loop: who asked does not expect it before we return */
	job_move(job, JOB_INSTALLING);
	job->grace.fn = on_impossible;
	loop_timer_at(job->jobs->loop, &job->grace, loop_now_ns());
	return true;
}

/* an index at a loopback address is another host's to an install */
static char **install_words(const struct mode *m)
{
	char **words;
	size_t n = 0;

	while (m->install_env && m->install_env[n])
		n++;
	words = mem_array(n + 3, sizeof(*words));
	for (size_t i = 0; i < n; i++)
		words[i] = mem_copy(m->install_env[i]);
	if (m->install_hosts) {
		words[n] = mem_copy("no_proxy=");
		words[n + 1] = mem_copy("NO_PROXY=");
	}
	return words;
}

static int start(struct job *job, struct err *e)
{
	const struct mode *m = job->request.mode;
	struct run_request r = {
		.mode = m, .row = (unsigned)m->install_row, .limits = m->install_limits};
	struct job *install;

	memcpy(r.request_id, job->request.request_id, sizeof(r.request_id));
	memcpy(r.token, job->request.token, sizeof(r.token));
	r.env = install_words(m);
	if (m->install_hosts) {
		r.network = mem_zero(sizeof(*r.network));
		*r.network = job->jobs->learned[m->id].count ? job->jobs->learned[m->id]
							     : *m->install_hosts;
	}
	install = job_new(job->jobs, 0, &r, false);
	install->installs = true;
	memcpy(install->trace, job->trace, sizeof(install->trace));
	job->jobs->nobodys++;
	memcpy(install->plan.layer, job->plan.layer, LAYER_KEY);
	install->hears = install->request.network &&
			 job->jobs->report.install_network == NETWORK_HOST_PORT;
	if (!install->hears && prepare_install(install, &job->request, e) < 0) {
		job_drop(install);
		return -1;
	}
	log_info("install.start", LOG_IDS " mode=%s", JOB_IDS(install), m->name);
	return 0;
}

bool install_waits(const struct job *job)
{
	return job->hears && job->input_fd < 0 && job->state == JOB_QUEUED;
}

void install_heard(struct job *install)
{
	struct job *job = find_waiting(install);
	struct jobs *j = install->jobs;
	struct err e = {0};

	if (!job)
		job_drop(install); /* nobody wants it any more */
	else if (prepare_install(install, &job->request, &e) < 0)
		job_fail(install, &e);
	queue_pump(j);
}

void install_begin(struct job *job)
{
	static const struct install_why gone = {
		.reason = "no_room",
		.text = "the packages were removed again before the program could start: "
			"raise SANDBOX_LAYER_CACHE_MB"};
	static const struct install_why no_network = {
		.reason = "no_installer",
		.text = "this host can give installs no network: packages come from "
			"directories here, see SANDBOX_PYTHON_INDEX and "
			"SANDBOX_NPM_REGISTRY"};
	struct err e = {0};

	job_move(job, JOB_INSTALLING);
	job->install_began_ns = loop_now_ns();
	if (++job->install_tries > TRIES)
		refuse(job, &gone, NULL);
	else if (job->request.mode->install_hosts &&
		 job->jobs->report.install_network == NETWORK_NONE)
		refuse(job, &no_network, NULL);
	else if (!find_install(job) && start(job, &e) < 0)
		job_fail(job, &e);
}

/* their layer is there, or another try finds out that it is not */
static void send_again(struct job *install)
{
	struct job *job;

	while ((job = find_waiting(install))) {
		job->result.install_ms += (loop_now_ns() - job->install_began_ns) /
					  1000000;
		job_move(job, JOB_QUEUED);
	}
}

/* "://user:password@": uv shows a URL whole that it cannot read */
static void hide_credentials(struct capture *said)
{
	char *at = said->kept.bytes, *end = at ? at + said->kept.len : NULL, *last;

	while (at < end && (at = memmem(at, (size_t)(end - at), "://", 3))) {
		char *from = at += 3;

		for (last = from; at < end && !strchr(" \t\r\n/?#", *at); at++)
			last = *at == '@' ? at : last;
		memset(from, '*', (size_t)(last - from));
	}
}

static void refuse_all(struct job *install)
{
	struct install_why why;
	struct job *job;

	hide_credentials(&install->result.out);
	hide_credentials(&install->result.err);
	install_explain(install, &why);
	log_info("install.failed", LOG_IDS " reason=%s exit_code=%d", JOB_IDS(install),
		 why.reason, install->result.outcome.exit_code);
	while ((job = find_waiting(install))) {
		job->result.install_ms += (loop_now_ns() - job->install_began_ns) /
					  1000000;
		refuse(job, &why, install);
	}
}

bool install_learns(const struct settings *s, const struct mode *m)
{
	return m->install_hosts && m->id == MODE_PYTHON && !s->allow_build;
}

/*
 * An index names the host that its files are at, and we learn it when the installer is
 * refused there; it is ended then, and begins again. No code of a package runs in an
 * install and uv follows no address that a package names, so nobody but the index names
 * any. Where either is not so, as with npm, nothing is learned. What an index may be
 * because the operator named it, a host that only the index names may not: it is public,
 * and on a usual port.
 */
static void learn(struct job *install, const char *host, unsigned port)
{
	const struct mode *m = install->request.mode;
	struct rules *r = &install->jobs->learned[m->id];

	if (install->learned || !install_learns(install->jobs->settings, m))
		return;
	if (r->count == 0)
		*r = *m->install_hosts;
	if (rules_add_public(r, host, port) < 0)
		return;
	install->learned = true;
	log_info("install.host", LOG_IDS " host=\"%s\" port=%u", JOB_IDS(install), host,
		 port);
	install->kill_wanted = true;
	client_kill(install);
}

static bool of_index(const struct job *install, const struct egress_news *n)
{
	struct name name;

	return name_parse(n->host, strlen(n->host), &name) == 0 &&
	       rules_host(install->request.mode->install_hosts, &name, n->port) >= 0;
}

void install_refused(struct job *install, const struct egress_news *n)
{
	if (!install->installs || !n->host[0] ||
	    (n->verdict != EGRESS_BAD_ADDRESS && n->verdict != EGRESS_NOT_LISTED))
		return;
	snprintf(install->refused_host, sizeof(install->refused_host), "%s", n->host);
	install->refused = REFUSED_UNLISTED;
	if (n->verdict == EGRESS_NOT_LISTED)
		learn(install, n->host, n->port);
	else
		install->refused = of_index(install, n) ? REFUSED_NEAR : REFUSED_LEARNED;
}

static bool try_again(struct job *install)
{
	struct job *job = find_waiting(install);
	struct err e = {0};

	if (!install->learned || !job || job->install_rounds++ >= LEARN_ROUNDS)
		return false;
	if (start(job, &e) < 0)
		install_lost(install, &e);
	return true;
}

void install_over(struct job *install)
{
	const struct outcome *o = &install->result.outcome;

	if (o->verdict != VERDICT_OK || o->layer != LAYER_MADE) {
		if (!try_again(install))
			refuse_all(install);
		return;
	}
	log_info("install.done", LOG_IDS " wall_ms=%llu", JOB_IDS(install),
		 (unsigned long long)(o->wall_us / 1000));
	send_again(install);
}

void install_lost(struct job *install, const struct err *e)
{
	struct job *job;

	while ((job = find_waiting(install)))
		job_fail(job, e);
}

static struct job *first_installing(const struct jobs *j)
{
	struct job *job = j->first;

	while (job && job->state != JOB_INSTALLING)
		job = job->next;
	return job;
}

void install_drain(struct jobs *j, const struct err *e)
{
	struct job *job;

	while ((job = first_installing(j)))
		job_fail(job, e);
	for (job = j->first; job; job = job->next) {
		if (job->installs) {
			job->kill_wanted = true;
			client_kill(job);
		}
	}
}
