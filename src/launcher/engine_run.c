/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * engine_run.c - a run in a container, from its client's start to its answer
 *
 * Runs in: the launcher. The engine's client has a container with our own binary in it
 * (cmd/inside.c), and a relay takes what comes out. That binary keeps the deadline and
 * judges; here is only the last one, for a container that does not come to its end. A
 * container that is killed goes: --rm.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/sys.h"
#include "launcher/engine.h"

#define MS 1000000ull
#define START_MS 60000 /* to the program's start */
#define GRACE_MS 10000 /* more than the program has */
#define KILL_AGAIN_MS 1000

static void on_news(void *arg, uint32_t events);

static void clear(struct engine_run *r)
{
	struct engine *g = r->engine;

	loop_timer_stop(g->launcher.loop, &r->timer);
	if (r->news_fd >= 0)
		loop_remove(g->launcher.loop, r->news_fd);
	defer_close(&r->news_fd);
	defer_close(&r->files_fd);
	defer_close(&r->errors_fd);
	r->news_fd = r->files_fd = r->errors_fd = -1;
	r->id = 0;
}

static void tell_failed(struct engine_run *r, bool lost)
{
	struct message m = {.type = MSG_FAILED, .run = r->id};

	m.failure.num = EIO;
	m.failure.lost_layer = lost ? FAILURE_BELOW_MINIMUM : 0;
	snprintf(m.failure.step, sizeof(m.failure.step), "container");
	launcher_send(&r->engine->launcher, &m, NULL);
	clear(r);
}

/* what the client said last, on a line; what is not printable becomes a blank */
static void log_errors(const struct engine_run *r)
{
	char text[400];
	const off_t len = lseek(r->errors_fd, 0, SEEK_END);
	const off_t from = len > (off_t)sizeof(text) - 1 ? len - (off_t)sizeof(text) + 1
							 : 0;
	const ssize_t n = pread(r->errors_fd, text, sizeof(text) - 1, from);

	for (ssize_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~' || text[i] == '"')
			text[i] = ' ';
	log_error("container.failed", "container=%s status=%d error=\"%.*s%s\"", r->name,
		  r->client.status, n > 0 ? (int)n : 0, text, r->failed);
}

void engine_suspects(struct engine *g)
{
	for (unsigned i = 0; i < g->setup->slots; i++)
		if (g->runs[i].id && g->runs[i].suspect)
			tell_failed(&g->runs[i], !g->there);
}

static void tell_done(struct engine_run *r)
{
	struct message m = {.type = MSG_DONE, .run = r->id, .outcome = r->outcome};
	struct stat st;

	if (r->outcome.files == OUTCOME_FILES &&
	    (fstat(r->files_fd, &st) < 0 || st.st_size == 0 || fs_seal(r->files_fd) < 0))
		m.outcome.files = OUTCOME_FILES_LOST;
	m.fds = m.outcome.files == OUTCOME_FILES;
	m.outcome.warm = 0;
	m.outcome.layer = LAYER_MADE;
	launcher_send(&r->engine->launcher, &m, &r->files_fd);
	clear(r);
}

/* an end that nobody inside could tell of. Who killed process 1 of a container, if we did
 * not, is the kernel for its memory. */
static void judge(struct engine_run *r)
{
	const bool memory = WIFEXITED(r->client.status) &&
			    WEXITSTATUS(r->client.status) == 128 + SIGKILL;

	if (!r->timed_out && !r->killed && !(memory && r->started_ns)) {
		log_errors(r);
		r->suspect = true;
		engine_look(r->engine);
		return;
	}
	r->outcome = (struct outcome){
		.verdict = r->timed_out ? VERDICT_TIMEOUT
			   : r->killed  ? VERDICT_SIGNAL
					: VERDICT_OUT_OF_MEMORY,
		.signal = SIGKILL,
		.memory_peak_kb = USAGE_UNKNOWN,
		.pids_peak = USAGE_UNKNOWN,
		.files = OUTCOME_FILES_LOST,
		.violations = VIOLATIONS_UNKNOWN,
		.wall_us = r->started_ns ? (loop_now_ns() - r->started_ns) / 1000 : 0,
	};
	tell_done(r);
}

static void settle(struct engine_run *r)
{
	if (r->client.pid_fd >= 0 || r->relay.pid_fd >= 0 || r->killer.pid_fd >= 0 ||
	    r->suspect)
		return;
	if (r->done)
		tell_done(r);
	else if (r->failed[0]) {
		log_errors(r);
		tell_failed(r, false);
	} else
		judge(r);
}

static void on_killer(void *arg, uint32_t events)
{
	struct engine_run *r = arg;

	(void)events;
	engine_reap(r->engine, &r->killer);
	settle(r);
}

/* its container, which may not be there yet: again and again until its client is gone */
void engine_kill(struct engine_run *r)
{
	const int nowhere[3] = {-1, -1, -1};
	struct engine *g = r->engine;
	struct engine_words w;

	loop_timer_at(g->launcher.loop, &r->timer, loop_now_ns() + KILL_AGAIN_MS * MS);
	if (r->client.pid_fd < 0 || r->killer.pid_fd >= 0)
		return;
	if (engine_words_short(&w, g->setup, "kill", r->name) < 0 ||
	    engine_client(g, &w, nowhere, &r->killer) < 0 ||
	    loop_add(g->launcher.loop, r->killer.pid_fd, EPOLLIN, on_killer, r) < 0)
		sys_pidfd_send_signal(r->client.pid_fd, SIGKILL);
}

static void on_timer(void *arg)
{
	struct engine_run *r = arg;

	if (!r->killed)
		r->timed_out = true;
	engine_kill(r);
}

static void on_client(void *arg, uint32_t events)
{
	struct engine_run *r = arg;

	(void)events;
	engine_reap(r->engine, &r->client);
	settle(r);
}

static void on_relay(void *arg, uint32_t events)
{
	struct engine_run *r = arg;

	on_news(r, events); /* what it said last */
	engine_reap(r->engine, &r->relay);
	settle(r);
}

static void on_started(struct engine_run *r)
{
	struct message m = {.type = MSG_STARTED, .run = r->id};

	if (r->started_ns)
		return;
	r->started_ns = loop_now_ns();
	m.setup_us = (r->started_ns - r->arrived_ns) / 1000;
	launcher_send(&r->engine->launcher, &m, NULL);
	if (!r->killed)
		loop_timer_at(r->engine->launcher.loop, &r->timer,
			      r->started_ns + (r->plan.limits.wall_ms + GRACE_MS) * MS);
}

static void on_news(void *arg, uint32_t events)
{
	struct engine_run *r = arg;
	struct message m = {.type = MSG_VIOLATION, .run = r->id};
	struct engine_news news;

	(void)events;
	while (r->news_fd >= 0 &&
	       read(r->news_fd, &news, sizeof(news)) == (ssize_t)sizeof(news)) {
		if (r->done || r->failed[0])
			continue;
		if (news.kind == ENGINE_STARTED) {
			on_started(r);
		} else if (news.kind == ENGINE_VIOLATION) {
			m.violation = news.violation;
			launcher_send(&r->engine->launcher, &m, NULL);
		} else if (news.kind == ENGINE_DONE) {
			r->outcome = news.outcome;
			r->outcome.setup_us = r->started_ns
						      ? (r->started_ns - r->arrived_ns) /
								1000
						      : 0;
			r->done = true;
		} else if (news.kind == ENGINE_FAILED) {
			snprintf(r->failed, sizeof(r->failed), "%.*s", ENGINE_TEXT - 1,
				 news.text[0] ? news.text : "no reason");
		}
	}
}

/* ---- its beginning */

struct pipes {
	int out[2], err[2], in[2], from[2], news[2];
};

static int make_pipes(struct pipes *p)
{
	int *all[] = {p->out, p->err, p->in, p->from, p->news};
	int rc = 0;

	memset(p, 0xff, sizeof(*p));
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		rc |= pipe2(all[i], O_CLOEXEC);
	return rc;
}

static void close_pipes(struct pipes *p)
{
	int *all[] = {p->out, p->err, p->in, p->from, p->news};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		defer_close(&all[i][0]);
		defer_close(&all[i][1]);
	}
}

static int start_relay(struct engine_run *r, const struct pipes *p)
{
	const struct setup *setup = r->engine->setup;
	const struct relay relay = {
		.from_fd = p->from[0],
		.out_fd = p->out[1],
		.err_fd = p->err[1],
		.files_fd = r->files_fd,
		.news_fd = p->news[1],
		.files_most = setup->max_files_bytes + (16u << 20),
	};

	r->relay.pid = fork();
	if (r->relay.pid == 0) {
		close(p->from[1]); /* else it would wait for itself */
		relay_main(&relay, setup->uid_base ? setup->uid_base : ENGINE_UID);
	}
	r->relay.pid_fd = r->relay.pid < 0 ? -1 : sys_pidfd_open(r->relay.pid, 0);
	return r->relay.pid_fd < 0 ? -1 : 0;
}

static int begin(struct engine_run *r, struct pipes *p, int input_fd)
{
	struct engine *g = r->engine;
	const int fds[3] = {input_fd, p->from[1], r->errors_fd};
	struct loop *l = g->launcher.loop;
	struct engine_words w;

	if (lseek(input_fd, 0, SEEK_SET) != 0 ||
	    engine_words_run(&w, g->setup, &r->plan, r->name) < 0 ||
	    fcntl(p->news[0], F_SETFL, O_NONBLOCK) < 0 || start_relay(r, p) < 0)
		return -1;
	if (loop_add(l, r->relay.pid_fd, EPOLLIN, on_relay, r) < 0 ||
	    engine_client(g, &w, fds, &r->client) < 0 ||
	    loop_add(l, r->client.pid_fd, EPOLLIN, on_client, r) < 0)
		return -1;
	r->news_fd = take_fd(&p->news[0]);
	return loop_add(l, r->news_fd, EPOLLIN, on_news, r);
}

void engine_begin(struct engine_run *r, const struct message *m, int input_fd)
{
	struct engine *g = r->engine;
	struct message streams = {.type = MSG_STREAMS, .fds = 3, .run = m->run};
	struct pipes p;
	uint64_t random = 0;

	(void)!getrandom(&random, sizeof(random), 0);
	*r = (struct engine_run){.engine = g, .id = m->run, .plan = m->plan};
	r->client.pid_fd = r->relay.pid_fd = r->killer.pid_fd = r->news_fd = -1;
	r->arrived_ns = loop_now_ns();
	r->timer = (struct loop_timer){.fn = on_timer, .arg = r};
	snprintf(r->name, sizeof(r->name), "sandbox-%016llx-%llu",
		 (unsigned long long)random, (unsigned long long)m->run);
	r->files_fd = memfd_create("files", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r->errors_fd = memfd_create("errors", MFD_CLOEXEC);
	if (make_pipes(&p) < 0 || r->files_fd < 0 || r->errors_fd < 0 ||
	    begin(r, &p, input_fd) < 0) {
		log_error("container.start", "error=\"%s\"", strerror(errno));
		snprintf(r->failed, sizeof(r->failed), "it could not be started");
		close_pipes(&p);
		settle(r);
		return;
	}
	loop_timer_at(g->launcher.loop, &r->timer, r->arrived_ns + START_MS * MS);
	launcher_send(&g->launcher, &streams, (const int[]){p.in[1], p.out[0], p.err[0]});
	close_pipes(&p);
}
