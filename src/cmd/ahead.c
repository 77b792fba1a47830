/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ahead.c - can python import the modules of SANDBOX_PRELOAD, and be forked from?
 *
 * Runs in: the supervisor, before there is a server: with a launcher of its own, which
 * goes again, and in a sandbox, in the way that runs will be made.
 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "job/job.h"

#define MODULES_MS 60000 /* that all imports may take together */
#define PROGRAM_BYTES (AHEAD_NAMES + 1024)
#define LOOK_MS 10
#define MS 1000000ull

enum { TRY_AHEAD = 1, TRY_FORK }; /* who asks for a run */

struct trial {
	struct prepared *prepared;
	struct loop *loop;
	struct launched launcher;
	struct jobs *jobs;
	struct loop_timer look;
	uint64_t give_up_ns;
	bool over;
	struct err e; /* .text: what is wrong; "" when nothing is */
};

/* Where nothing waits, and so nothing comes ahead, it imports them itself; else they must
 * be there. The first word it writes says which it was, the others are what it has. */
static const char program[] =
	"import sys\n"
	"names = '%s'.split(',')\n"
	"there = all(name in sys.modules for name in names)\n"
	"for name in names:\n"
	"    try:\n"
	"        __import__(name)\n"
	"    except BaseException as e:\n"
	"        sys.exit(\"'%%s': %%s: %%s\" %% (name, type(e).__name__, e))\n"
	"print('ahead' if there else 'later', "
	"*sorted({name.partition('.')[0] for name in sys.modules}))\n";

static void on_output(void *arg, uint64_t who, enum job_stream stream, const char *text,
		      size_t len)
{
	(void)arg;
	(void)who;
	(void)stream;
	(void)text;
	(void)len;
}

static void end(struct trial *t)
{
	t->over = true;
	loop_stop(t->loop);
}

/* the first line of what it said, for a person */
static void say(struct trial *t, const char *what, const struct capture *c)
{
	const char *text = c->kept.len ? c->kept.bytes : "it said nothing";
	size_t len = c->kept.len ? c->kept.len : strlen(text);
	const char *end_of_line = memchr(text, '\n', len);

	if (end_of_line)
		len = (size_t)(end_of_line - text);
	err_bad(&t->e, "SANDBOX_PRELOAD=%s: %s %.*s", t->prepared->settings.preload, what,
		(int)(len < 300 ? len : 300), text);
}

/* as warm.c and fork.c have it */
static bool waits_here(const struct trial *t)
{
	const struct report *r = jobs_report(t->jobs);

	return r->level >= LEVEL_NAMESPACES && r->layer[LAYER_MEMORY_LIMIT].active;
}

/* the words behind the first, up to the end of the line */
static void keep_names(struct trial *t, const char *at, const char *end)
{
	struct mode *mode = t->prepared->modes.mode;
	size_t n = 1, i = 0;

	while (mode->id != MODE_PYTHON) /* it is served: it ran */
		mode++;
	for (const char *c = at; c < end; c++)
		n += *c == ' ';
	mode->imported = mem_array(n, sizeof(char *));
	for (at = memchr(at, ' ', (size_t)(end - at)); at;) {
		const char *const word = at + 1;

		at = memchr(word, ' ', (size_t)(end - word));
		mode->imported[i++] = mem_copy_n(word, (size_t)((at ? at : end) - word));
	}
}

/* "ahead os sys ...", and nothing else */
static bool is_answer(const struct buf *out)
{
	static const char ahead[] = "ahead ", later[] = "later ";

	return out->len > strlen(ahead) &&
	       (memcmp(out->bytes, ahead, strlen(ahead)) == 0 ||
		memcmp(out->bytes, later, strlen(later)) == 0) &&
	       memchr(out->bytes, '\n', out->len) == out->bytes + out->len - 1;
}

static void judge_ahead(struct trial *t, const struct result *r)
{
	const struct buf *out = &r->out.kept;

	if (r->exit_code != 0)
		say(t, "python cannot import", &r->err);
	else if (r->err.kept.len)
		say(t, "a module writes when it is imported:", &r->err);
	else if (!is_answer(out))
		say(t, "a module writes when it is imported:", &r->out);
	else if (waits_here(t) && out->bytes[0] != 'a')
		err_bad(&t->e,
			"SANDBOX_PRELOAD=%s: this python does not load a shared object "
			"that is to import modules ahead",
			t->prepared->settings.preload);
	else
		keep_names(t, out->bytes, out->bytes + out->len - 1);
}

static int submit(struct trial *t, int what)
{
	const struct settings *s = &t->prepared->settings;
	const struct limits wanted = {.wall_ms = MODULES_MS};
	struct run_request q = {.ahead = what == TRY_AHEAD};
	int rc = -1;

	q.mode = modes_for_language(&t->prepared->modes, "python", &q.row, &t->e);
	if (q.mode) {
		job_limits(s, q.mode, &wanted, &q.limits);
		q.env = mem_array(1, sizeof(char *));
		q.args = mem_array(1, sizeof(char *));
		buf_init(&q.stdin_text, 1);
		buf_init(&q.code, PROGRAM_BYTES);
		if (what == TRY_AHEAD)
			buf_printf(&q.code, program, s->preload);
		else
			buf_puts(&q.code, "print(6 * 7)\n");
		rc = jobs_submit(t->jobs, (uint64_t)what, &q, false, &t->e);
	}
	request_done(&q);
	return rc;
}

static void explain_fork(struct trial *t, const char *step)
{
	static const struct {
		const char *step, *why;
	} reasons[] = {
		{"worker", "it does not load a shared object that its loader is told to"},
		{"fork_ended", "it ends by itself when it has started"},
		{"fork_python", "it does not show its functions"},
		{"fork_modules", "a module cannot be imported"},
		{"fork_threads", "a module has started threads"},
		{"fork_memory", "SANDBOX_WARM_MEMORY_MB is less than it needs"},
		{"fork_output", "a module has written something"},
		{"fork_shared", "a module has made memory that forks would share"},
		{"fork_descriptors", "a module has opened something"},
	};
	const char *why = step;

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcmp(step, reasons[i].step) == 0)
			why = reasons[i].why;
	err_bad(&t->e, "SANDBOX_WARM_FORK=on: runs cannot be forked from this python: %s",
		why);
	end(t);
}

/* is there one to fork from yet? */
static void on_look(void *arg)
{
	struct trial *t = arg;
	const struct warm_state *w = jobs_warm(t->jobs);
	const uint64_t now = loop_now_ns();

	if (w->fork_failed[0])
		explain_fork(t, w->fork_failed);
	else if (now > t->give_up_ns)
		explain_fork(t, "it does not start in time");
	else if (w->ready[t->prepared->start->setup.fork_row] == 0)
		loop_timer_at(t->loop, &t->look, now + LOOK_MS * MS);
	else if (submit(t, TRY_FORK) < 0)
		end(t);
}

static void try_fork(struct trial *t)
{
	if (t->e.text[0] || !t->prepared->settings.warm_fork || !waits_here(t)) {
		end(t);
		return;
	}
	t->look.fn = on_look;
	t->look.arg = t;
	t->give_up_ns = loop_now_ns() + MODULES_MS * MS;
	on_look(t);
}

static void on_done(void *arg, uint64_t who, const struct result *r)
{
	struct trial *t = arg;

	if (who == TRY_AHEAD) {
		judge_ahead(t, r);
		try_fork(t);
		return;
	}
	if (!r->outcome.warm || r->exit_code != 0 || r->out.kept.len != 3 ||
	    memcmp(r->out.kept.bytes, "42\n", 3) != 0)
		explain_fork(t, "a program does not run in it");
	end(t);
}

static void on_failed(void *arg, uint64_t who, const struct err *e)
{
	struct trial *t = arg;

	(void)who;
	t->e = *e;
	end(t);
}

static void on_report(void *arg, const struct report *report)
{
	struct trial *t = arg;
	const struct settings *s = &t->prepared->settings;

	/* of too little isolation the server speaks itself, and in more words */
	if (report->level >= s->min_isolation && !s->preload)
		try_fork(t);
	else if (report->level < s->min_isolation || submit(t, TRY_AHEAD) < 0)
		end(t);
}

static void on_launcher_dead(void *arg, uint32_t events)
{
	struct trial *t = arg;

	(void)events;
	loop_remove(t->loop, t->launcher.pid_fd);
	if (!t->over)
		err_ours(&t->e, "the launcher died at its start");
	end(t);
}

static int try(struct trial *t, struct err *e)
{
	const struct job_observer observer = {t, on_output, on_done, on_failed, NULL};
	struct prepared *p = t->prepared;

	if (launch(p, &t->launcher, e) < 0)
		return -1;
	t->jobs = jobs_new(t->loop, &p->settings, &p->modes, &observer,
			   take_fd(&t->launcher.socket_fd));
	if (loop_add(t->loop, t->launcher.pid_fd, EPOLLIN, on_launcher_dead, t) < 0)
		return err_errno(e, "watch the launcher");
	jobs_on_report(t->jobs, on_report, t);
	if (loop_run(t->loop) < 0)
		return err_errno(e, "run the loop");
	*e = t->e;
	return t->e.text[0] ? -1 : 0;
}

int ahead_check(struct prepared *p, struct err *e)
{
	struct trial t = {.prepared = p,
			  .loop = loop_new(),
			  .launcher = {.pid_fd = -1, .socket_fd = -1}};
	int rc;

	if (!t.loop)
		return err_errno(e, "make the loop");
	rc = try(&t, e);
	jobs_free(t.jobs);
	launched_done(&t.launcher);
	loop_free(t.loop);
	return rc;
}
