/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * runs.c - programs of cases: started, waited for, read
 *
 * Runs in: `selftest`. Cases are written one step after the other; the loop turns only
 * while one of them waits.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "attack/battery.h"
#include "base/caps.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/mem.h"
#include "config/settings.h"
#include "egress/rules.h"

#define CONTROL_AFTER_MS 30 /* into the case, when its program is at work */
#define JSON_CAP (64u << 20)
#define ANSWER_MS 20000 /* beyond the deadline: then nobody answers any more */
#define WARM_MS 20000   /* until a sandbox waits, with the time that others leave */

static const struct limits usual = {
	.wall_ms = 15000, .memory_mb = 128, .pids = 32, .disk_mb = 16, .output_kb = 1024};

static struct attack_run **place(struct battery *b, uint64_t who)
{
	unsigned i;

	for (i = 0; i < sizeof(b->runs) / sizeof(b->runs[0]); i++) {
		if ((b->runs[i] ? b->runs[i]->who : 0) == who)
			return &b->runs[i];
	}
	return NULL;
}

static void over(struct battery *b, struct attack_run *r)
{
	struct attack_run **at = place(b, r->who);

	if (at)
		*at = NULL;
	r->over = true;
	r->over_ms = now_ms();
	loop_stop(b->loop);
}

static void keep(const struct buf *from, char **out, size_t *out_len)
{
	*out = mem_copy_n(from->bytes ? from->bytes : "", from->len);
	*out_len = from->len;
}

static bool holds(const char *bytes, size_t len, const char *word)
{
	return word[0] && len && memmem(bytes, len, word, strlen(word));
}

void battery_on_output(void *arg, uint64_t who, enum job_stream s, const char *text,
		       size_t len)
{
	struct battery *b = arg;
	struct attack_run **at = place(b, who);
	size_t have;

	if (!at || !*at || s != JOB_STDOUT)
		return;
	have = strlen((*at)->said);
	if (have + 1 < sizeof((*at)->said))
		snprintf((*at)->said + have, sizeof((*at)->said) - have, "%.*s", (int)len,
			 text);
	loop_stop(b->loop); /* somebody may wait for it */
}

void battery_on_done(void *arg, uint64_t who, const struct result *res)
{
	struct battery *b = arg;
	struct attack_run **at = place(b, who), *r;
	struct buf json;
	size_t i;

	if (!at || !*at)
		return;
	r = *at;
	r->outcome = res->outcome;
	r->in_force = res->limits;
	r->exit_code = res->exit_code;
	r->truncated = res->out.truncated || res->err.truncated;
	snprintf(r->message, sizeof(r->message), "%s", res->message);
	keep(&res->out.kept, &r->out, &r->out_len);
	keep(&res->err.kept, &r->err, &r->err_len);
	b->leaked |= holds(r->out, r->out_len, b->canary) ||
		     holds(r->err, r->err_len, b->canary);
	for (i = 0; i < res->file_count; i++)
		b->leaked |= holds(res->files[i].bytes, res->files[i].len, b->canary);
	buf_init(&json, JSON_CAP);
	if (reply_result(&json, res) == 0)
		keep(&json, &r->json, &r->json_len);
	buf_done(&json);
	over(b, r);
}

void battery_on_failed(void *arg, uint64_t who, const struct err *e)
{
	struct battery *b = arg;
	struct attack_run **at = place(b, who);

	if (!at || !*at)
		return;
	/* its socket closes before its pidfd tells */
	b->launcher_lost |= strcmp(e->code, "launcher_lost") == 0;
	(*at)->failed = true;
	(*at)->error = *e;
	over(b, *at);
}

static char **copy_words(const char *const *words, char **first, unsigned count)
{
	char **all;
	unsigned n = 0, i;

	while (words[n])
		n++;
	all = mem_array(count + n + 1, sizeof(*all));
	if (count)
		memcpy(all, first, count * sizeof(*all));
	for (i = 0; i < n; i++)
		all[count + i] = mem_copy(words[i]);
	return all;
}

#define OR(a, b) ((a) ? (a) : (b))

static void fill_limits(const struct battery *b, const struct attack_run *r,
			struct limits *out)
{
	const struct mode *m = r->mode           ? r->mode
			       : run_forks(b, r) ? battery_mode(b, MODE_PYTHON)
						 : &b->self;
	const struct limits *w = &r->limits;
	struct limits wanted = {
		.wall_ms = OR(w->wall_ms, usual.wall_ms),
		.cpu_ms = w->cpu_ms,
		.memory_mb = OR(w->memory_mb, r->mode ? 0 : usual.memory_mb),
		.pids = OR(w->pids, r->mode ? 0 : usual.pids),
		.disk_mb = OR(w->disk_mb, r->mode ? 0 : usual.disk_mb),
		.output_kb = OR(w->output_kb, usual.output_kb),
	};

	job_limits(b->settings, m, &wanted, out);
}

static int fill_request(const struct battery *b, const struct attack_run *r,
			struct run_request *q)
{
	const uint32_t layers = battery_layers(b);
	const bool one_uid = b->report->level < LEVEL_NAMESPACES && battery_one_uid(b);
	char *first[7];
	unsigned count = 0;

	q->mode = r->mode ? r->mode : &b->self;
	q->row = r->mode ? r->row : b->self_row;
	fill_limits(b, r, &q->limits);
	buf_init(&q->code, 1 << 20);
	buf_init(&q->stdin_text, 1);
	if (r->code) /* of a case it is no more than text */
		(void)buf_printf(&q->code, r->attack ? "# %s\n" : "%s", r->code);
	if (r->attack) {
		first[count++] = mem_copy(strcmp(r->attack, "control") == 0 && one_uid
						  ? "patient"
						  : r->attack);
		first[count++] = mem_printf("%u", b->report->level);
		first[count++] = mem_printf("%u", layers);
		first[count++] = mem_printf("%u", q->limits.pids);
		first[count++] = mem_printf("%u", q->limits.memory_mb);
		first[count++] = mem_printf("%u", q->limits.disk_mb);
		first[count++] = mem_printf("%u", q->limits.wall_ms);
	}
	q->args = copy_words(r->words, first, count);
	q->env = copy_words(r->env, NULL, 0);
	if (r->network) {
		q->network = mem_zero(sizeof(*q->network));
		*q->network = *r->network;
	}
	return run_forks(b, r) ? run_fork(b, q) : 0;
}

bool launcher_lives(const struct battery *b)
{
	struct pollfd p = {.fd = b->launcher_fd, .events = POLLIN};

	return !b->launcher_lost && poll(&p, 1, 0) == 0;
}

void run_start(struct battery *b, struct attack_run *r)
{
	struct attack_run **at = place(b, 0);
	struct run_request q = {0};

	r->who = ++b->last_who;
	r->started_ms = now_ms();
	r->over = r->failed = false;
	if (run_forks(b, r))
		battery_wait_forks(b, 1);
	if (!at) {
		(void)err_ours(&r->error, "too many runs at once");
	} else if (!launcher_lives(b)) {
		(void)err_ours(&r->error, "the launcher is dead");
	} else if (fill_request(b, r, &q) < 0) {
		(void)err_errno(&r->error, "make a request");
		request_done(&q);
	} else {
		r->in_force = q.limits;
		*at = r;
		if (jobs_submit(b->jobs, r->who, &q, true, &r->error) == 0)
			return;
	}
	r->failed = true;
	over(b, r);
}

static void on_turn(void *arg)
{
	loop_stop(arg);
}

/* lets the loop turn until something happens, or for that long */
static void turn(struct battery *b, uint64_t most_ms)
{
	struct loop_timer t = {.fn = on_turn, .arg = b->loop};

	loop_timer_at(b->loop, &t, loop_now_ns() + most_ms * 1000000);
	if (loop_run(b->loop) < 0)
		b->stopped = true;
	loop_timer_stop(b->loop, &t);
}

static void start_control(struct battery *b, const struct attack_run *r)
{
	if (b->control.attack && !b->control.who && r != &b->control &&
	    now_ms() - r->started_ms >= CONTROL_AFTER_MS)
		run_start(b, &b->control);
}

void run_wait(struct battery *b, struct attack_run *r)
{
	const uint64_t end = r->started_ms + r->in_force.wall_ms + ANSWER_MS;

	while (!r->over && !b->stopped && now_ms() < end) {
		turn(b, CONTROL_AFTER_MS);
		start_control(b, r);
	}
	if (r->over)
		return;
	run_cancel(b, r);
	r->failed = true;
	(void)err_ours(&r->error, "no answer");
}

void run_cancel(struct battery *b, struct attack_run *r)
{
	if (r->over)
		return;
	jobs_cancel(b->jobs, r->who);
	over(b, r);
}

bool run_said(struct battery *b, const struct attack_run *r, const char *text)
{
	const uint64_t end = now_ms() + 10000;

	while (!strstr(r->said, text) && !r->over && !b->stopped && now_ms() < end)
		turn(b, CONTROL_AFTER_MS);
	return strstr(r->said, text) != NULL;
}

void battery_pause(struct battery *b, unsigned ms)
{
	const uint64_t end = now_ms() + ms;

	while (!b->stopped && now_ms() < end)
		turn(b, end - now_ms());
}

void run_whole(struct battery *b, struct attack_run *r)
{
	run_start(b, r);
	run_wait(b, r);
}

void run_done(struct attack_run *r)
{
	free(r->out);
	free(r->err);
	free(r->json);
	r->out = r->err = r->json = NULL;
}

/* the rest of the line behind this word; into `room` */
static const char *line_of(const char *text, const char *word, char *room, size_t size)
{
	const char *at = strstr(text, word);

	room[0] = '\0';
	if (at)
		snprintf(room, size, "%.*s", (int)strcspn(at + strlen(word), "\n"),
			 at + strlen(word));
	return room;
}

bool run_tell(const struct attack_run *r, struct tries *t)
{
	char room[TRIES_TEXT], *end;
	unsigned long count, wrong;

	if (r->failed || !r->out || !strstr(r->out, "\ntold\n")) {
		expect(t, false, "the program did not end as it should: %s",
		       r->failed       ? r->error.text
		       : r->message[0] ? r->message
				       : "it said nothing");
		return false;
	}
	count = strtoul(line_of(r->out, "\ntried: ", room, sizeof(room)), &end, 10);
	wrong = strtoul(end, NULL, 10);
	t->count += (unsigned)count;
	t->wrong_count += (unsigned)wrong;
	if (*line_of(r->out, "\nseen: ", room, sizeof(room)))
		observe(t, "%s", room);
	if (*line_of(r->out, "\nskipped: ", room, sizeof(room)))
		skip(t, "%s", room);
	if (*line_of(r->out, "\nuntested: ", room, sizeof(room)))
		untested(t, "%s", room);
	if (*line_of(r->out, "\nwrong: ", room, sizeof(room)))
		wrong_too(t, room);
	return true;
}

void run_inside(struct battery *b, struct tries *t, struct attack_run *r)
{
	run_whole(b, r);
	expect(t, r->outcome.warm || !run_forks(b, r), "it was not forked");
	(void)run_tell(r, t);
}

bool battery_warm(const struct battery *b)
{
	return b->settings->warm && b->report->level >= LEVEL_NAMESPACES &&
	       b->report->layer[LAYER_MEMORY_LIMIT].active;
}

bool battery_wait_many(struct battery *b, unsigned row, unsigned count)
{
	const uint64_t end = now_ms() + WARM_MS;

	while (jobs_warm(b->jobs)->ready[row] < count && now_ms() < end && !b->stopped)
		battery_pause(b, 5);
	return jobs_warm(b->jobs)->ready[row] >= count;
}

bool battery_wait_warm(struct battery *b, unsigned row)
{
	return battery_wait_many(b, row, 1);
}

const struct mode *battery_mode(const struct battery *b, enum mode_id id)
{
	size_t i;

	for (i = 0; i < b->modes->count; i++) {
		if (b->modes->mode[i].id == id)
			return &b->modes->mode[i];
	}
	return NULL;
}

unsigned battery_slack_ms(const struct battery *b)
{
	return (unsigned)(100 + 3 * b->baseline_ms);
}

void expect_deadline(struct battery *b, struct tries *t, const struct attack_run *r,
		     const char *what, unsigned late_ms)
{
	const uint64_t took = r->over_ms - r->started_ms - r->outcome.setup_us / 1000;
	const uint64_t most = r->in_force.wall_ms + late_ms + battery_slack_ms(b);

	expect(t, !r->failed && r->outcome.verdict == VERDICT_TIMEOUT,
	       "%s was not ended at its deadline: %s", what,
	       r->failed ? r->error.text : verdict_name(r->outcome.verdict));
	expect(t, took <= most, "%s: the answer came after %llu ms, not %llu", what,
	       (unsigned long long)took, (unsigned long long)most);
}

bool battery_one_uid(const struct battery *b)
{
	if (!b->settings->uid_base)
		return true;
	if (b->report->level >= LEVEL_NAMESPACES)
		return !caps_have("cap_sys_admin");
	return !caps_have("cap_setuid") || !caps_have("cap_setgid");
}

uint32_t battery_layers(const struct battery *b)
{
	uint32_t bits = 0;
	unsigned i;

	for (i = 0; i < LAYER_COUNT; i++)
		bits |= b->report->layer[i].active ? 1u << i : 0;
	return bits;
}
