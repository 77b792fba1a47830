/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * prefetch.c - layers of packages before anybody asks for them
 *
 * Each list is a request like any other, whose program does nothing: what it leaves is
 * the layer, and that it ran shows that the layer can be used. A server may use the same
 * state directory meanwhile: locks keep them apart (launcher/layer.h).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cmd/cmd.h"

#define BODY_CAP (1u << 20)

struct prefetch {
	struct alone alone;
	struct loop_timer next;
	FILE *lists;
	char *line; /* getline's */
	size_t room;
	unsigned number; /* of the line */
	unsigned failed;
	int status; /* -1: not over */
};

static void end(struct prefetch *p, int status)
{
	p->status = status;
	loop_stop(p->alone.loop);
}

/* the next line with a list on it; false: there is none */
static bool next_list(struct prefetch *p)
{
	while (getline(&p->line, &p->room, p->lists) >= 0) {
		p->number++;
		p->line[strcspn(p->line, "\r\n")] = '\0';
		if (p->line[strspn(p->line, " \t")] && p->line[0] != '#')
			return true;
	}
	return false;
}

static void tell(struct prefetch *p, bool made, const char *how)
{
	p->failed += !made;
	printf("%s %s: %s\n", made ? "ok    " : "FAILED", p->line, how);
	fflush(stdout);
}

/* "[...]", or that with the name of a mode before it, as a request */
static int write_body(const char *line, struct buf *out, struct err *e)
{
	const size_t len = strspn(line, "abcdefghijklmnopqrstuvwxyz");
	const char *list = line + len + strspn(line + len, " \t");

	if (list[0] != '[')
		return err_bad(e, "want a list, as [\"six\", \"numpy>=2\"], or the "
				  "name of a mode and a list");
	if (buf_printf(out, "{\"code\":\"0\",\"requirements\":%s", list) < 0 ||
	    (len && buf_printf(out, ",\"language\":\"%.*s\"", (int)len, line) < 0) ||
	    buf_puts(out, "}") < 0)
		return err_bad(e, "is too long");
	return 0;
}

static int submit(struct prefetch *p, struct err *e)
{
	struct run_request r = {0};
	struct buf body;
	int rc = -1;

	buf_init(&body, BODY_CAP);
	if (write_body(p->line, &body, e) < 0 ||
	    request_parse(body.bytes, body.len, &p->alone.prepared.settings,
			  &p->alone.prepared.modes, &r, e) < 0)
		rc = -1;
	else if (!r.requirements)
		err_bad(e, "the list is empty, or its mode takes no packages");
	else
		rc = jobs_submit(p->alone.jobs, 1, &r, false, e);
	request_done(&r);
	buf_done(&body);
	return rc;
}

static void on_next(void *arg)
{
	struct prefetch *p = arg;
	struct err e = {0};

	while (next_list(p)) {
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "line %u: %s ...\n", p->number, p->line);
		if (submit(p, &e) == 0)
			return;
		tell(p, false, e.text);
	}
	end(p, p->failed ? 1 : 0);
}

static void on_output(void *arg, uint64_t who, enum job_stream stream, const char *text,
		      size_t len)
{
	(void)arg;
	(void)who;
	(void)stream;
	(void)text;
	(void)len;
}

/* not from within the end of the last one */
static void go_on(struct prefetch *p)
{
	p->next.fn = on_next;
	p->next.arg = p;
	loop_timer_at(p->alone.loop, &p->next, loop_now_ns());
}

static void on_done(void *arg, uint64_t who, const struct result *r)
{
	struct prefetch *p = arg;
	char how[64];

	(void)who;
	if (r->exit_code != 0) {
		tell(p, false, r->message[0] ? r->message : "the layer cannot be used");
		fprintf(stderr, "%.*s\n", (int)r->err.kept.len,
			r->err.kept.len ? r->err.kept.bytes : "");
	} else {
		snprintf(how, sizeof(how), "installed in %llu ms",
			 (unsigned long long)r->install_ms);
		tell(p, true, r->install_ms ? how : "was there");
	}
	go_on(p);
}

static void on_failed(void *arg, uint64_t who, const struct err *e)
{
	struct prefetch *p = arg;

	(void)who;
	tell(p, false, e->text);
	go_on(p);
}

static void on_report(void *arg, const struct report *report)
{
	struct prefetch *p = arg;
	const struct settings *s = &p->alone.prepared.settings;

	if (report->level < s->min_isolation) {
		explain_level(report, (uint32_t)s->min_isolation);
		end(p, 1);
	} else {
		go_on(p);
	}
}

static void on_signal(void *arg, int signo)
{
	end(arg, 128 + signo);
}

static int all(struct prefetch *p, struct err *e)
{
	const struct job_observer observer = {p, on_output, on_done, on_failed, NULL};

	if (prepare(&p->alone.prepared, 1, TO_PREFETCH, e) < 0 ||
	    alone_start(&p->alone, &observer, on_signal, e) < 0)
		return -1;
	jobs_on_report(p->alone.jobs, on_report, p);
	if (loop_run(p->alone.loop) < 0)
		return err_errno(e, "run the loop");
	return p->status < 0 ? err_ours(e, "the launcher died") : 0;
}

int layers_prefetch(const char *path, int argc, char **argv, struct err *e)
{
	struct prefetch p = {.alone = ALONE_NONE, .status = -1};
	struct settings *s = &p.alone.prepared.settings;
	int rc = -1;

	p.lists = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	if (!p.lists) {
		err_errno(e, "open '%s'", path);
	} else if (settings_load(s, argc, argv, NULL, e) >= 0) {
		if (s->log_level < LOG_WARN)
			s->log_level = LOG_WARN;
		log_setup((enum log_level)s->log_level, (enum log_format)s->log_format,
			  "prefetch");
		rc = all(&p, e);
	}
	if (p.lists && p.lists != stdin)
		fclose(p.lists);
	free(p.line);
	alone_done(&p.alone);
	return rc < 0 ? -1 : p.status;
}
