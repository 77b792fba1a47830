/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * selftest.c - the attacks of src/attack against this host's own sandbox
 *
 * Starts a launcher as `serve` would, with the settings of this host, and runs every case
 * of the table. Exit 0: whatever the level promises holds; 1: something does not.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "egress/rules.h"

#define OUTPUT_CAP (4u << 20)
#define SLOTS 4 /* an attacker, two victims, and the ordinary program beside them */

enum format { FOR_PEOPLE, AS_JSON, AS_JUNIT };

struct selftest {
	struct alone alone;
	struct battery battery;
	enum format format;
	bool progress; /* there is a terminal to show it on */
	bool reported;
	struct report report;
	const char **steps;
	char **settings_words; /* as they were given, NULL-terminated */
	int signal;
};

static const char usage[] =
	"usage: sandbox-server selftest [SETTINGS] [--json|--junit] [--level L]\n"
	"                               [--case NAME]\n\n"
	"Attacks its own sandbox, with the settings of this host: every case is a\n"
	"program that tries to get out, to see, to take or to last more than it may.\n"
	"Prints a line a case, and a summary by group. Exit 0: everything holds; 1: it\n"
	"does not, nothing was tried, or the host gives less than level L.\n\n"
	"  --json       one JSON object\n"
	"  --junit      a JUnit file\n"
	"  --level L    what must hold: full, namespaces, landlock, process; as a\n"
	"               default, what this host gives\n"
	"  --case NAME  a case (NS01), a group (NS) or a list (NS,FS01) only\n";

static void erase_progress(const struct selftest *s)
{
	if (s->progress)
		fprintf(stderr, "\r\033[K");
}

static void on_begin(void *arg, const struct attack *a, unsigned at, unsigned of)
{
	const struct selftest *s = arg;

	if (s->progress)
		fprintf(stderr, "\r\033[K[%u/%u] %s %.60s", at + 1, of, a->id, a->tried);
}

static void print(struct buf *b)
{
	if (fs_write_all(STDOUT_FILENO, b->bytes, b->len) < 0 && errno != EPIPE)
		log_warn("selftest.output", "error=\"%s\"", strerror(errno));
}

static void on_end(void *arg, const struct case_result *r)
{
	struct selftest *s = arg;
	struct buf line;

	erase_progress(s);
	if (s->format != FOR_PEOPLE)
		return;
	buf_init(&line, OUTPUT_CAP);
	if (print_line(&line, &s->battery, r) == 0)
		print(&line);
	buf_done(&line);
}

static void on_report(void *arg, const struct report *r)
{
	struct selftest *s = arg;

	if (!s->reported)
		s->report = *r;
	s->reported = true;
	loop_stop(s->alone.loop);
}

static void on_signal(void *arg, int signo)
{
	struct battery *b = arg;
	struct selftest *s = b->arg;

	s->signal = signo;
	b->stopped = true;
	loop_stop(b->loop);
}

static int set_level(struct selftest *s, const char *text, struct err *e)
{
	const int level = report_level_parse(text);

	if (level <= LEVEL_NONE)
		return err_bad(e,
			       "--level %s: want full, namespaces, landlock or process",
			       text);
	s->battery.level_wanted = (uint32_t)level;
	return 0;
}

static int set_case(struct selftest *s, const char *text, struct err *e)
{
	if (!battery_knows(text))
		return err_bad(e, "--case %s: there is no such case or group", text);
	s->battery.only = text;
	return 0;
}

static int set_json(struct selftest *s, const char *text, struct err *e)
{
	(void)text;
	(void)e;
	s->format = AS_JSON;
	return 0;
}

static int set_junit(struct selftest *s, const char *text, struct err *e)
{
	(void)text;
	(void)e;
	s->format = AS_JUNIT;
	return 0;
}

static const struct {
	const char *name;
	bool has_value;
	int (*set)(struct selftest *s, const char *text, struct err *e);
} options[] = {
	{"--level", true, set_level},
	{"--case", true, set_case},
	{"--json", false, set_json},
	{"--junit", false, set_junit},
};

/* how many arguments it took; 0: none of ours; -1 */
static int own_option(struct selftest *s, int left, char **argv, struct err *e)
{
	unsigned i;

	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		const size_t len = strlen(options[i].name);
		const char *rest = argv[0] + len;

		if (strncmp(argv[0], options[i].name, len) != 0 ||
		    (*rest && *rest != '='))
			continue;
		if (!options[i].has_value && *rest)
			return err_bad(e, "%s has no value", options[i].name);
		if (!options[i].has_value || *rest)
			return options[i].set(s, rest + (*rest == '='), e) < 0 ? -1 : 1;
		if (left < 2)
			return err_bad(e, "%s wants a value", options[i].name);
		return options[i].set(s, argv[1], e) < 0 ? -1 : 2;
	}
	return 0;
}

/* our own flags may stand anywhere between the settings; 1, 0 for help, -1 */
static int read_arguments(struct selftest *s, int argc, char **argv, struct err *e)
{
	char **rest = mem_array((size_t)argc + 1, sizeof(char *));
	int at, took, used, count = 0;

	s->settings_words = rest;

	for (at = 0; at < argc; at += took) {
		if (strcmp(argv[at], "--help") == 0) {
			print_usage(usage);
			return 0;
		}
		took = own_option(s, argc - at, argv + at, e);
		if (took < 0)
			return -1;
		if (took == 0) {
			rest[count++] = argv[at];
			took = 1;
		}
	}
	used = settings_load(&s->alone.prepared.settings, count, rest, NULL, e);
	if (used >= 0 && used < count)
		return err_bad(e, "unknown argument '%s' (try selftest --help)",
			       rest[used]);
	return used < 0 ? -1 : 1;
}

/* the names of a run's own steps at this level, NULL-terminated */
static const char **step_names(uint32_t level)
{
	const char **names = mem_array((size_t)child_step_count() + 1, sizeof(*names));
	int i, n = 0;

	for (i = 0; i < child_step_count(); i++) {
		if (child_step_of_runs(i, level))
			names[n++] = child_step_name(i);
	}
	return names;
}

static void fill_battery(struct selftest *s)
{
	const struct launcher_start *start = s->alone.prepared.start;
	struct battery *b = &s->battery;
	unsigned i, n = 0;

	b->loop = s->alone.loop;
	b->jobs = s->alone.jobs;
	b->settings = &s->alone.prepared.settings;
	b->modes = &s->alone.prepared.modes;
	b->self_row = start->setup.rows - 2;
	b->forks = start->setup.forks;
	b->missing_row = start->setup.rows - 1;
	b->self = (struct mode){.id = MODE_SHELL,
				.name = "selftest",
				.row = b->self_row,
				.defaults = start->setup.row[b->self_row].ceiling,
				.typescript_row = -1};
	b->report = &s->report;
	b->launcher = s->alone.launcher.pid;
	b->launcher_fd = s->alone.launcher.pid_fd;
	b->run_dirs = s->alone.prepared.start->setup.run_dir;
	for (i = 0; i < CGROUP_CONTROLLERS && n + 1 < INVARIANT_CGROUPS; i++) {
		if (start->cgroups.dir[i][0])
			b->cgroups[n++] = start->cgroups.dir[i];
	}
	if (!b->level_wanted)
		b->level_wanted = s->report.level;
	s->steps = step_names(s->report.level);
	b->steps = s->steps;
	binary_settings((const char *const *)s->settings_words);
	b->on_begin = on_begin;
	b->on_end = on_end;
	b->arg = s;
}

static void print_all(struct selftest *s)
{
	struct buf b;
	int rc;

	erase_progress(s);
	buf_init(&b, OUTPUT_CAP);
	switch (s->format) {
	case AS_JSON:
		rc = print_json(&b, &s->battery);
		break;
	case AS_JUNIT:
		rc = print_junit(&b, &s->battery);
		break;
	default:
		rc = print_summary(&b, &s->battery);
	}
	if (rc == 0)
		print(&b);
	buf_done(&b);
}

/* what cases have on their lists is allowed; they go nowhere by another host */
static int allow_network(struct settings *s, struct err *e)
{
	free(s->egress_proxy);
	s->egress_proxy = mem_copy("none");
	if (s->network_pod)
		return 0;
	if (!s->network_rules)
		s->network_rules = mem_zero(sizeof(*s->network_rules));
	return egress_cases_begin(s->network_rules, e);
}

static int run_it(struct selftest *s, struct err *e)
{
	const struct job_observer observer = {
		.arg = &s->battery,
		.on_output = battery_on_output,
		.on_done = battery_on_done,
		.on_failed = battery_on_failed,
	};
	struct settings *settings = &s->alone.prepared.settings;

	settings->max_concurrent = SLOTS;
	if (settings->warm == WARM_AUTO)
		settings->warm = 1; /* of each row: as good as more */
	settings->log_level = LOG_ERROR +
			      1; /* what fails here is meant to, and is told */
	if (allow_network(settings, e) < 0 ||
	    prepare(&s->alone.prepared, SLOTS, TO_SELFTEST, e) < 0 ||
	    alone_start(&s->alone, &observer, on_signal, e) < 0)
		return -1;
	s->battery.arg = s;
	s->battery.loop = s->alone.loop;
	jobs_on_report(s->alone.jobs, on_report, s);
	if (loop_run(s->alone.loop) < 0)
		return err_errno(e, "run the loop");
	if (!s->reported)
		return s->signal ? 0 : err_ours(e, "the launcher died at its start");
	fill_battery(s);
	if (s->report.level < settings->min_isolation) {
		explain_level(&s->report, (uint32_t)settings->min_isolation);
		return err_ours(e, "nothing can be tried below the minimum");
	}
	if (battery_run(&s->battery, e) < 0)
		return -1;
	if (s->signal)
		return 0;
	print_all(s);
	return battery_tried(&s->battery) ? 0 : err_bad(e, BATTERY_NOTHING);
}

int cmd_selftest(int argc, char **argv)
{
	static struct selftest s = {.alone = ALONE_NONE};
	struct err e = {0};
	int go_on, status = 0;

	log_setup(LOG_ERROR, LOG_TEXT, "selftest");
	go_on = read_arguments(&s, argc, argv, &e);
	s.progress = isatty(STDERR_FILENO);
	if (go_on < 0 || (go_on > 0 && run_it(&s, &e) < 0)) {
		erase_progress(&s);
		fprintf(stderr, "sandbox-server: %s\n", e.text);
		status = 1;
	} else if (go_on > 0) {
		status = s.signal ? 128 + s.signal : battery_held(&s.battery) ? 0 : 1;
	}
	battery_done(&s.battery);
	free(s.steps);
	free(s.settings_words);
	alone_done(&s.alone);
	return status;
}
