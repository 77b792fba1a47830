/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * battery.c - runs the table from outside: cases, one after the other
 *
 * Runs in: `selftest`. Beside every case an ordinary program runs, which must not notice.
 */
#include "attack/battery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define CONTROL_MOST_MS 5000

/* is it one of these, separated by commas? */
static bool is_listed(const char *list, const char *name)
{
	const size_t len = strlen(name);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (strncmp(list, name, len) == 0 &&
		    (list[len] == ',' || list[len] == '\0'))
			return true;
	}
	return false;
}

static bool is_known(const char *name)
{
	const struct attack_group *g;
	const struct attack *a;

	for (g = attack_groups; g->name; g++) {
		if (strcmp(g->name, name) == 0)
			return true;
		for (a = g->attacks; a->id; a++) {
			if (strcmp(a->id, name) == 0)
				return true;
		}
	}
	return false;
}

bool battery_knows(const char *list)
{
	char names[256], *rest = names, *name;

	if (strlen(list) >= sizeof(names))
		return false;
	memcpy(names, list, strlen(list) + 1);
	while ((name = strsep(&rest, ",")))
		if (!is_known(name))
			return false;
	return true;
}

static bool chosen(const struct battery *b, const struct attack_group *g,
		   const struct attack *a)
{
	return !b->only || is_listed(b->only, g->name) || is_listed(b->only, a->id);
}

static unsigned count_chosen(const struct battery *b)
{
	const struct attack_group *g;
	const struct attack *a;
	unsigned n = 0;

	for (g = attack_groups; g->name; g++) {
		for (a = g->attacks; a->id; a++)
			n += chosen(b, g, a);
	}
	return n;
}

/* the case's own run, when it has no side outside */
static void plain_case(struct battery *b, const struct attack *a, struct tries *t)
{
	struct attack_run r = {.attack = a->id};

	run_inside(b, t, &r);
	run_done(&r);
}

/* G1 and G2: the launcher lives, and others get what they came for */
static void judge_control(struct battery *b, struct tries *t)
{
	struct attack_run *c = &b->control;
	uint64_t ms;

	if (!c->who)
		run_start(b, c);
	run_wait(b, c);
	ms = c->over_ms - c->started_ms;
	invariant(t,
		  !c->failed && c->exit_code == 0 && c->out && !strcmp(c->out, "fine\n"),
		  "an ordinary program beside it failed: %s (exit %d)",
		  c->failed ? c->error.text : c->message, c->exit_code);
	invariant(t, ms <= CONTROL_MOST_MS, "an ordinary program beside it took %llu ms",
		  (unsigned long long)ms);
	b->control_ms[b->controls++] = ms;
	run_done(c);
}

static void tell(const struct tries *t, struct case_result *out)
{
	const size_t room = sizeof(out->observed);

	out->status = tries_status(t);
	if (out->status == ATTACK_SKIPPED)
		snprintf(out->observed, room, "%s", t->skipped);
	else if (out->status == ATTACK_FAILED)
		snprintf(out->observed, room, "%s",
			 t->wrong_count ? t->wrong : "nothing was tried");
	else
		snprintf(out->observed, room, "%s%s%s%s", t->seen[0] ? t->seen : "held",
			 t->untested[0] ? " (not tried here: " : "", t->untested,
			 t->untested[0] ? ")" : "");
}

/* Nobody replaces it: what comes after its death fails by name, and is not tried. A case
 * that found it alive has ended; it died in the next, or before it. */
static bool is_over(struct battery *b, const struct attack *a, struct case_result *out)
{
	if (!launcher_lives(b) && !b->died_in)
		b->died_in = a->id;
	if (!b->died_in)
		return false;
	out->status = ATTACK_FAILED;
	snprintf(out->observed, sizeof(out->observed),
		 "not tried: the launcher died in or before %s", b->died_in);
	return true;
}

static void one_case(struct battery *b, const struct attack *a, struct case_result *out)
{
	const uint64_t begin = now_ms();
	struct tries *t = mem_zero(sizeof(*t));

	t->level = b->report->level;
	t->layers = battery_layers(b);
	out->attack = a;
	out->required = a->from <= b->level_wanted;
	if (a->pending) {
		out->status = ATTACK_PENDING;
		snprintf(out->observed, sizeof(out->observed), "%s", a->pending);
	} else if (t->level < a->from) {
		out->status = ATTACK_SKIPPED;
		snprintf(out->observed, sizeof(out->observed),
			 "only from level %s up: this host gives %s",
			 report_level_name(a->from), report_level_name(t->level));
	} else if (!is_over(b, a, out)) {
		b->control = (struct attack_run){.attack = "control"};
		b->leaked = false;
		if (a->outside)
			a->outside(b, t);
		else
			plain_case(b, a, t);
		judge_control(b, t);
		invariants_after(b, a, t);
		tell(t, out);
	}
	out->ms = (unsigned)(now_ms() - begin);
	free(t);
}

int battery_run(struct battery *b, struct err *e)
{
	const unsigned of = count_chosen(b);
	const struct attack_group *g;
	const struct attack *a;

	b->results = mem_array(of + 1, sizeof(*b->results));
	b->control_ms = mem_array(of + 1, sizeof(*b->control_ms));
	if (invariants_begin(b, e) < 0)
		return -1;
	for (g = attack_groups; g->name; g++) {
		for (a = g->attacks; a->id && !b->stopped; a++) {
			struct case_result *r = &b->results[b->count];

			if (!chosen(b, g, a))
				continue;
			if (b->on_begin)
				b->on_begin(b->arg, a, b->count, of);
			r->group = g;
			one_case(b, a, r);
			if (b->stopped)
				break;
			b->count++;
			if (b->on_end)
				b->on_end(b->arg, r);
		}
	}
	b->control = (struct attack_run){.attack = NULL};
	/* that they do not run any more was told by the cases */
	(void)invariants_baseline(b, NULL);
	if (!b->stopped && b->count && !launcher_lives(b) && !b->died_in) {
		struct case_result *last = &b->results[b->count - 1];

		last->status = ATTACK_FAILED;
		snprintf(last->observed, sizeof(last->observed),
			 "the launcher died after it");
	}
	return 0;
}

void battery_done(struct battery *b)
{
	invariants_end(b);
	free(b->results);
	free(b->control_ms);
}
