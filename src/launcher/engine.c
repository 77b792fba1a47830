/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * engine.c - SANDBOX_TYPE=docker: the launcher that has runs made by a container engine
 *
 * Runs in: the launcher, instead of launcher/start.c. Messages of the server, the
 * engine's client, and whether the engine is there; engine_run.c has the runs.
 */
#include "launcher/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/mem.h"
#include "base/sys.h"

#define LOOK_MS 2000 /* is the engine there again */
#define END_MS 5000  /* that a container has to go, when we do */

static const char missing[] =
	"Docker daemon not available. Set SANDBOX_TYPE=local or start Docker daemon";

/* a client of the engine's; fds: standard ones, -1 for nothing. 0, or -1 with errno */
int engine_client(const struct engine *g, struct engine_words *w, const int fds[3],
		  struct helper *out)
{
	const pid_t launcher = getpid();
	struct engine_words env;
	sigset_t none;
	int fd[3], i;

	if (engine_words_env(&env, g->setup) < 0) {
		errno = E2BIG;
		return -1;
	}
	out->pid = fork();
	if (out->pid == 0) {
		const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		for (i = 0; i < 3; i++)
			fd[i] = fcntl(fds[i] >= 0 ? fds[i] : null_fd, F_DUPFD_CLOEXEC,
				      10);
		for (i = 0; i < 3; i++)
			if (dup2(fd[i], i) < 0)
				_exit(126);
		sys_close_range(3, ~0U, 0);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		if (getppid() == launcher)
			execve(w->word[0], w->word, env.word);
		_exit(126);
	}
	out->pid_fd = out->pid < 0 ? -1 : sys_pidfd_open(out->pid, 0);
	if (out->pid > 0 && out->pid_fd < 0) {
		kill(out->pid, SIGKILL);
		(void)sys_reap(out->pid, NULL, NULL);
	}
	return out->pid_fd < 0 ? -1 : 0;
}

void engine_reap(struct engine *g, struct helper *h)
{
	loop_remove(g->launcher.loop, h->pid_fd);
	(void)sys_reap(h->pid, &h->status, NULL);
	close(take_fd(&h->pid_fd));
}

/* ---- is it there */

static void tell_report(struct engine *g)
{
	struct report *r = &g->launcher.report;

	r->level = g->there ? LEVEL_CONTAINER : LEVEL_NONE;
	r->slots = g->setup->slots;
	r->network = g->setup->engine.network ? NETWORK_POD : NETWORK_NONE;
	snprintf(r->summary, sizeof(r->summary), "%s", g->there ? "" : missing);
	launcher_report(&g->launcher);
	g->told = true;
}

static void set_there(struct engine *g, bool there)
{
	const bool news = !g->told || g->there != there;

	g->there = there;
	if (news)
		tell_report(g);
	engine_suspects(g);
}

static void on_look_again(void *arg)
{
	engine_look(arg);
}

static void on_looked(void *arg, uint32_t events)
{
	struct engine *g = arg;

	(void)events;
	engine_reap(g, &g->look);
	set_there(g, WIFEXITED(g->look.status) && WEXITSTATUS(g->look.status) == 0);
	if (g->there)
		return;
	g->look_again = (struct loop_timer){.fn = on_look_again, .arg = g};
	loop_timer_at(g->launcher.loop, &g->look_again,
		      loop_now_ns() + LOOK_MS * 1000000ull);
}

/* a question that no client answers without its engine */
void engine_look(struct engine *g)
{
	const int nowhere[3] = {-1, -1, -1};
	struct engine_words w;

	if (g->look.pid_fd >= 0)
		return;
	if (!g->setup->engine.exe[0] ||
	    engine_words_short(&w, g->setup, "ps", "-q") < 0 ||
	    engine_client(g, &w, nowhere, &g->look) < 0 ||
	    loop_add(g->launcher.loop, g->look.pid_fd, EPOLLIN, on_looked, g) < 0)
		set_there(g, false);
}

/* ---- the server */

static struct engine_run *find(struct engine *g, uint64_t id)
{
	for (unsigned i = 0; i < g->setup->slots; i++)
		if (g->runs[i].id == id)
			return &g->runs[i];
	return NULL;
}

static void on_run(struct engine *g, const struct message *m, const int *fds)
{
	struct engine_run *r = find(g, 0);
	struct message answer = {.type = MSG_FAILED, .run = m->run};

	if (r && g->there)
		return engine_begin(r, m, fds[RUN_INPUT]);
	answer.failure.busy = g->there;
	answer.failure.lost_layer = g->there ? 0 : FAILURE_BELOW_MINIMUM;
	snprintf(answer.failure.step, sizeof(answer.failure.step), "container");
	launcher_send(&g->launcher, &answer, NULL);
}

bool engine_take(struct launcher *l, const struct message *m, int *fds)
{
	struct engine *g = (struct engine *)l;
	struct engine_run *r;

	if (m->type == MSG_RUN) {
		on_run(g, m, fds);
		return true;
	}
	r = find(g, m->run);
	if (r && !r->done) {
		r->killed = true;
		engine_kill(r);
	}
	return true;
}

/* what still runs goes with us */
static void end_all(struct engine *g)
{
	for (unsigned i = 0; i < g->setup->slots; i++) {
		struct engine_run *r = &g->runs[i];
		const int nowhere[3] = {-1, -1, -1};
		struct engine_words w;
		struct pollfd p = {.fd = r->client.pid_fd, .events = POLLIN};

		if (!r->id)
			continue;
		if (r->client.pid_fd >= 0 && r->killer.pid_fd < 0 &&
		    engine_words_short(&w, g->setup, "kill", r->name) == 0 &&
		    engine_client(g, &w, nowhere, &r->killer) == 0)
			(void)sys_reap(r->killer.pid, NULL, NULL);
		if (r->client.pid_fd >= 0 && poll(&p, 1, END_MS) != 1)
			kill(r->client.pid, SIGKILL);
	}
}

int engine_main(const struct launcher_start *start, int server_fd)
{
	struct engine g = {.setup = &start->setup};
	struct launcher *l = &g.launcher;

	l->start = start;
	l->setup = &start->setup;
	l->server_fd = server_fd;
	l->ledger_fd = -1;
	l->slot_count = start->setup.slots;
	l->loop = loop_new();
	g.look.pid_fd = -1;
	g.runs = mem_array(start->setup.slots, sizeof(*g.runs));
	for (unsigned i = 0; i < start->setup.slots; i++)
		g.runs[i].engine = &g;
	if (!l->loop || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    fcntl(server_fd, F_SETFL, O_NONBLOCK) < 0 ||
	    loop_add(l->loop, server_fd, EPOLLIN, launcher_on_server, l) < 0)
		return 1;
	engine_look(&g);
	if (loop_run(l->loop) < 0)
		return 1;
	end_all(&g);
	return 0;
}
