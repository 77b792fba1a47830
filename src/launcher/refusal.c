/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * refusal.c - what the launcher does not take from the server
 *
 * Runs in: the launcher. The server reads hostile bytes, so it may have become somebody
 * else's: each value of its messages is compared with what the supervisor said at the
 * start.
 */
#include "launcher/refusal.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "wire/message.h"
#include "wire/setup.h"

#define INPUT_MOST_BYTES (64ull << 20)

/* each from its least value to the row's ceiling; output_kb is the server's own */
static const struct {
	size_t at;
	uint32_t least;
} bounded[] = {
	{offsetof(struct limits, wall_ms), 1},
	{offsetof(struct limits, cpu_ms), 1},
	{offsetof(struct limits, memory_mb), MEMORY_MB_LEAST},
	{offsetof(struct limits, pids), 1},
	{offsetof(struct limits, disk_mb), 1},
};

static uint32_t limit(const struct limits *l, size_t at)
{
	return *(const uint32_t *)(const void *)((const char *)l + at);
}

static bool limits_ok(const struct limits *l, const struct limits *most)
{
	for (size_t i = 0; i < sizeof(bounded) / sizeof(bounded[0]); i++) {
		const size_t at = bounded[i].at;

		if (limit(l, at) < bounded[i].least || limit(l, at) > limit(most, at))
			return false;
	}
	return true;
}

static bool input_ok(uint64_t bytes, int fd)
{
	struct stat st;

	return bytes > 0 && bytes <= INPUT_MOST_BYTES && fstat(fd, &st) == 0 &&
	       S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
}

static enum refusal of_run(const struct setup *setup, const struct message *m,
			   int input_fd, uint64_t last_run)
{
	const struct plan *p = &m->plan;

	if (m->run <= last_run)
		return REFUSAL_NUMBER;
	if (p->row >= setup->rows)
		return REFUSAL_ROW;
	if (p->errand != ERRAND_NONE)
		return REFUSAL_ERRAND;
	if (!limits_ok(&p->limits, &setup->row[p->row].ceiling))
		return REFUSAL_LIMITS;
	return input_ok(p->input_bytes, input_fd) ? REFUSAL_NONE : REFUSAL_INPUT;
}

enum refusal refusal_of(const struct setup *setup, const struct message *m,
			const int *fds, uint64_t last_run)
{
	switch (m->type) {
	case MSG_RUN:
		return of_run(setup, m, fds[0], last_run);
	case MSG_KILL: /* of one that is over: it ended while this was on its way */
		return m->run == 0 || m->run > last_run ? REFUSAL_UNKNOWN : REFUSAL_NONE;
	default:
		return REFUSAL_DIRECTION;
	}
}

const char *refusal_name(enum refusal why)
{
	static const char *const names[] = {
		[REFUSAL_NONE] = "none",
		[REFUSAL_FRAME] = "frame",
		[REFUSAL_DIRECTION] = "type",
		[REFUSAL_NUMBER] = "run_number",
		[REFUSAL_ROW] = "row",
		[REFUSAL_ERRAND] = "errand",
		[REFUSAL_LIMITS] = "limits",
		[REFUSAL_INPUT] = "input",
		[REFUSAL_UNKNOWN] = "unknown_run",
	};

	static_assert(sizeof(names) / sizeof(names[0]) == REFUSAL_COUNT,
		      "a refusal lacks its name");
	return names[why];
}
