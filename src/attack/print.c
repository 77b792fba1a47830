/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * print.c - what came of the cases: lines for people, JSON, JUnit
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attack/battery.h"

static const char *const words[ATTACK_STATUSES] = {
	[ATTACK_OK] = "ok",
	[ATTACK_FAILED] = "FAILED",
	[ATTACK_SKIPPED] = "skipped",
	[ATTACK_PENDING] = "pending",
};

const char *attack_status_word(enum attack_status s)
{
	return words[s];
}

static const char *expected_of(const struct battery *b, const struct attack *a)
{
	return b->report->level < LEVEL_NAMESPACES && a->expected_landlock
		       ? a->expected_landlock
		       : a->expected;
}

void summarize(const struct battery *b, const struct attack_group *g, struct summary *out)
{
	unsigned i;

	memset(out, 0, sizeof(*out));
	for (i = 0; i < b->count; i++) {
		const struct case_result *r = &b->results[i];

		if (g && r->group != g)
			continue;
		if (r->status == ATTACK_FAILED && !r->required)
			out->beyond++;
		else
			out->by_status[r->status]++;
	}
}

bool battery_tried(const struct battery *b)
{
	struct summary s;

	summarize(b, NULL, &s);
	return s.by_status[ATTACK_OK] + s.by_status[ATTACK_FAILED] + s.beyond;
}

bool battery_held(const struct battery *b)
{
	uint64_t p95, most;
	struct summary s;

	summarize(b, NULL, &s);
	/* a gate must not open because every case was left out */
	return battery_tried(b) && s.by_status[ATTACK_FAILED] == 0 &&
	       b->report->level >= b->level_wanted && invariants_on_time(b, &p95, &most);
}

int print_line(struct buf *out, const struct battery *b, const struct case_result *r)
{
	const struct attack *a = r->attack;
	const bool beyond = r->status == ATTACK_FAILED && !r->required;

	return buf_printf(out, "%-7s  %s  %s: expected %s; %s %s%s\n", words[r->status],
			  a->id, a->tried, expected_of(b, a),
			  r->status == ATTACK_OK || r->status == ATTACK_FAILED
				  ? "observed"
				  : "because",
			  r->observed, beyond ? " (not asked for at this level)" : "");
}

static int print_level(struct buf *out, const struct battery *b)
{
	const uint32_t level = b->report->level;

	if (level >= b->level_wanted)
		return buf_printf(out, "level: %s (asked for: %s)\n",
				  report_level_name(level),
				  report_level_name(b->level_wanted));
	return buf_printf(out, "level: %s, below %s that was asked for: %s\n",
			  report_level_name(level), report_level_name(b->level_wanted),
			  b->report->summary);
}

static int print_counts(struct buf *out, const char *name, const char *title,
			const struct summary *s)
{
	return buf_printf(out, "%-5s %3u ok  %3u failed  %3u skipped  %3u pending  %s\n",
			  name, s->by_status[ATTACK_OK], s->by_status[ATTACK_FAILED],
			  s->by_status[ATTACK_SKIPPED], s->by_status[ATTACK_PENDING],
			  title);
}

int print_summary(struct buf *out, const struct battery *b)
{
	const struct attack_group *g;
	uint64_t p95, most;
	struct summary s;
	bool on_time = invariants_on_time(b, &p95, &most);

	if (buf_puts(out, "\n") < 0)
		return -1;
	for (g = attack_groups; g->name; g++) {
		unsigned all = 0, i;

		summarize(b, g, &s);
		for (i = 0; i < ATTACK_STATUSES; i++)
			all += s.by_status[i];
		if (all + s.beyond && print_counts(out, g->name, g->title, &s) < 0)
			return -1;
	}
	summarize(b, NULL, &s);
	if (print_counts(out, "all", "", &s) < 0)
		return -1;
	if (s.beyond && buf_printf(out, "%u more failed that level %s does not promise\n",
				   s.beyond, report_level_name(b->level_wanted)) < 0)
		return -1;
	if (b->controls && /* none beside cases that are pending or skipped */
	    buf_printf(out,
		       "beside the cases: 95 of 100 ordinary programs within %" PRIu64
		       " ms (at most %" PRIu64 ")%s\n",
		       p95, most, on_time ? "" : ": FAILED") < 0)
		return -1;
	if (b->not_checked[0] && buf_printf(out, "not checked: %s\n", b->not_checked) < 0)
		return -1;
	return print_level(out, b);
}

static int json_text(struct buf *out, const char *name, const char *text)
{
	if (buf_printf(out, "\"%s\":", name) < 0)
		return -1;
	return buf_json_string(out, text, strlen(text));
}

static int json_counts(struct buf *out, const struct summary *s)
{
	return buf_printf(out,
			  "{\"ok\":%u,\"failed\":%u,\"skipped\":%u,\"pending\":%u,"
			  "\"not_required\":%u}",
			  s->by_status[ATTACK_OK], s->by_status[ATTACK_FAILED],
			  s->by_status[ATTACK_SKIPPED], s->by_status[ATTACK_PENDING],
			  s->beyond);
}

static int json_case(struct buf *out, const struct battery *b,
		     const struct case_result *r)
{
	static const char *const status[ATTACK_STATUSES] = {
		[ATTACK_OK] = "ok",
		[ATTACK_FAILED] = "failed",
		[ATTACK_SKIPPED] = "skipped",
		[ATTACK_PENDING] = "pending",
	};
	const struct attack *a = r->attack;

	if (buf_printf(out, "{\"id\":\"%s\",\"group\":\"%s\",\"status\":\"%s\",", a->id,
		       r->group->name, status[r->status]) < 0 ||
	    buf_printf(out, "\"required\":%s,\"from_level\":\"%s\",\"ms\":%u,",
		       r->required ? "true" : "false", report_level_name(a->from),
		       r->ms) < 0 ||
	    json_text(out, "tried", a->tried) < 0 || buf_puts(out, ",") < 0 ||
	    json_text(out, "expected", expected_of(b, a)) < 0 || buf_puts(out, ",") < 0 ||
	    json_text(out, "observed", r->observed) < 0)
		return -1;
	return buf_puts(out, "}");
}

int print_json(struct buf *out, const struct battery *b)
{
	const struct attack_group *g;
	uint64_t p95, most;
	struct summary s;
	unsigned i;

	if (buf_printf(out, "{\"ok\":%s,\"level\":\"%s\",\"level_wanted\":\"%s\",",
		       battery_held(b) ? "true" : "false",
		       report_level_name(b->report->level),
		       report_level_name(b->level_wanted)) < 0 ||
	    buf_puts(out, "\"cases\":[") < 0)
		return -1;
	for (i = 0; i < b->count; i++) {
		if ((i && buf_puts(out, ",") < 0) ||
		    json_case(out, b, &b->results[i]) < 0)
			return -1;
	}
	if (buf_puts(out, "],\"groups\":{") < 0)
		return -1;
	for (g = attack_groups; g->name; g++) {
		summarize(b, g, &s);
		if (buf_printf(out, "%s\"%s\":", g == attack_groups ? "" : ",", g->name) <
			    0 ||
		    json_counts(out, &s) < 0)
			return -1;
	}
	summarize(b, NULL, &s);
	(void)invariants_on_time(b, &p95, &most);
	if (buf_puts(out, "},\"all\":") < 0 || json_counts(out, &s) < 0 ||
	    buf_printf(out,
		       ",\"beside\":{\"p95_ms\":%" PRIu64 ",\"most_ms\":%" PRIu64 "},",
		       p95, most) < 0 ||
	    json_text(out, "not_checked", b->not_checked) < 0)
		return -1;
	return buf_puts(out, "}\n");
}

/* an attribute's value; what the cases say is printable ASCII */
static int xml_text(struct buf *out, const char *text)
{
	size_t i;

	for (i = 0; text[i]; i++) {
		const char *entity = text[i] == '<'   ? "&lt;"
				     : text[i] == '>' ? "&gt;"
				     : text[i] == '&' ? "&amp;"
				     : text[i] == '"' ? "&quot;"
						      : NULL;

		if ((entity ? buf_puts(out, entity) : buf_add(out, text + i, 1)) < 0)
			return -1;
	}
	return 0;
}

static int xml_case(struct buf *out, const struct battery *b, const struct case_result *r)
{
	static const char *const element[ATTACK_STATUSES] = {
		[ATTACK_FAILED] = "failure",
		[ATTACK_SKIPPED] = "skipped",
		[ATTACK_PENDING] = "skipped",
	};
	const bool beyond = r->status == ATTACK_FAILED && !r->required;
	const char *what = beyond ? "skipped" : element[r->status];
	const struct attack *a = r->attack;

	if (buf_printf(
		    out,
		    "  <testcase classname=\"selftest.%s\" time=\"%u.%03u\" name=\"%s ",
		    r->group->name, r->ms / 1000, r->ms % 1000, a->id) < 0 ||
	    xml_text(out, a->tried) < 0 || buf_puts(out, "\">") < 0)
		return -1;
	if (what &&
	    (buf_printf(out, "<%s message=\"", what) < 0 ||
	     (r->status == ATTACK_PENDING && buf_puts(out, "pending: ") < 0) ||
	     xml_text(out, r->observed) < 0 ||
	     (r->status == ATTACK_FAILED && (buf_puts(out, "; expected ") < 0 ||
					     xml_text(out, expected_of(b, a)) < 0)) ||
	     buf_puts(out, "\"/>") < 0))
		return -1;
	return buf_puts(out, "</testcase>\n");
}

/* what is no case of its own: the level, the programs beside the cases, and that there
 * was a case at all */
static int xml_rest(struct buf *out, const struct battery *b)
{
	uint64_t p95, most;
	const bool on_time = invariants_on_time(b, &p95, &most);
	const bool level = b->report->level >= b->level_wanted;
	const bool tried = battery_tried(b);

	return buf_printf(
		out,
		" <testsuite name=\"all\" tests=\"3\" failures=\"%u\" errors=\"0\" "
		"skipped=\"0\">\n"
		"  <testcase classname=\"selftest\" name=\"level %s\">%s</testcase>\n"
		"  <testcase classname=\"selftest\" name=\"ordinary programs beside the "
		"cases\">%s</testcase>\n"
		"  <testcase classname=\"selftest\" name=\"something was tried\">%s"
		"</testcase>\n"
		" </testsuite>\n",
		!on_time + !level + !tried, report_level_name(b->level_wanted),
		level ? "" : "<failure message=\"the host gives less\"/>",
		on_time ? "" : "<failure message=\"they took too long\"/>",
		tried ? "" : "<failure message=\"" BATTERY_NOTHING "\"/>");
}

int print_junit(struct buf *out, const struct battery *b)
{
	const struct attack_group *g;
	struct summary s;
	unsigned i;

	if (buf_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n") <
	    0)
		return -1;
	for (g = attack_groups; g->name; g++) {
		summarize(b, g, &s);
		if (buf_printf(out,
			       " <testsuite name=\"%s\" tests=\"%u\" failures=\"%u\" "
			       "errors=\"0\" skipped=\"%u\">\n",
			       g->name,
			       s.by_status[ATTACK_OK] + s.by_status[ATTACK_FAILED] +
				       s.by_status[ATTACK_SKIPPED] +
				       s.by_status[ATTACK_PENDING] + s.beyond,
			       s.by_status[ATTACK_FAILED],
			       s.by_status[ATTACK_SKIPPED] + s.by_status[ATTACK_PENDING] +
				       s.beyond) < 0)
			return -1;
		for (i = 0; i < b->count; i++) {
			if (b->results[i].group == g &&
			    xml_case(out, b, &b->results[i]) < 0)
				return -1;
		}
		if (buf_puts(out, " </testsuite>\n") < 0)
			return -1;
	}
	if (xml_rest(out, b) < 0)
		return -1;
	return buf_puts(out, "</testsuites>\n");
}
