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
#include <string.h>
#include <sys/stat.h>

#include "launcher/session_stack.h"
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

static bool layer_ok(const struct setup *setup, const struct plan *p)
{
	const struct setup_row *row = &setup->row[p->row];

	if (!p->has_layer)
		return !row->installs;
	return row->layer[0] && setup->layer_dir[0];
}

/* the rest is for slot_start_run(): what there is at this level */
static bool network_ok(const struct setup *setup, const struct plan *p)
{
	const bool installs = setup->row[p->row].installs;

	switch (p->network) {
	case NETWORK_NONE:
		return p->port == 0;
	case NETWORK_BROKER:
		return p->port == 0 &&
		       NETWORK_BROKER ==
			       (installs ? setup->install_network : setup->network);
	case NETWORK_POD:
		return p->port == 0 && setup->network == NETWORK_POD && !installs;
	case NETWORK_HOST_PORT:
		return p->port > 0 && p->port <= UINT16_MAX &&
		       setup->install_network == NETWORK_BROKER && installs;
	default:
		return false;
	}
}

/* the name of one directory, which may not be there; what is volumes, and no other */
static bool open_ok(const struct setup *setup, const struct plan *p)
{
	const struct plan_open *o = &p->open;
	static const struct plan_open none;

	if (p->session != SESSION_OPEN)
		return memcmp(o, &none, sizeof(none)) == 0;
	return memchr(o->image, 0, sizeof(o->image)) &&
	       (!o->image[0] || (stack_image_ok(o->image) && setup->image_dir[0])) &&
	       o->read_only <= 1 && o->volumes >> setup->volumes == 0 && o->root <= 1 &&
	       (!o->root || setup->root_ranges);
}

/* of what is done with all of its files */
static bool order_ok(const struct plan *p)
{
	static const uint8_t none[SESSION_KEY];
	const bool orders = p->session >= SESSION_FORK && p->session <= SESSION_DIFF;

	if (p->force > 1 || (p->force && (!orders || p->session == SESSION_DIFF)))
		return false;
	if (!orders && memcmp(p->other_key, none, sizeof(none)) != 0)
		return false;
	if (p->session != SESSION_FORK)
		return p->count == 0;
	return p->count >= 1 && p->count <= SESSION_FORKS &&
	       p->other_key[SESSION_KEY - 1] == 0;
}

static bool choices_ok(const struct plan *p)
{
	return p->cold < COLD_KINDS && p->ahead <= 1 && p->has_layer <= 1;
}

/* what may start a session's processes brings what leads to its broker */
static bool broker_fits(const struct plan *p)
{
	return p->network == NETWORK_BROKER &&
	       (p->session == SESSION_OPEN || p->session == SESSION_EXEC);
}

static bool session_ok(const struct setup *setup, const struct plan *p)
{
	if (!open_ok(setup, p) || !order_ok(p) || p->root)
		return false;
	if (p->session >= SESSION_KINDS || (p->session && !setup->session_dir[0]))
		return false;
	if (p->session && p->network && !broker_fits(p))
		return false;
	if (p->kept > 1 || (p->kept && (p->session || p->network || p->has_layer)))
		return false;
	return (p->session != SESSION_NOT || p->kept) ==
	       (setup->row[p->row].session != 0);
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
	if (!choices_ok(p))
		return REFUSAL_CHOICE;
	if (!session_ok(setup, p))
		return REFUSAL_SESSION;
	if (!layer_ok(setup, p))
		return REFUSAL_LAYER;
	if (!limits_ok(&p->limits, &setup->row[p->row].ceiling))
		return REFUSAL_LIMITS;
	if (!network_ok(setup, p))
		return REFUSAL_NETWORK;
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
		[REFUSAL_LAYER] = "layer",
		[REFUSAL_LIMITS] = "limits",
		[REFUSAL_INPUT] = "input",
		[REFUSAL_NETWORK] = "network",
		[REFUSAL_CHOICE] = "choice",
		[REFUSAL_SESSION] = "session",
		[REFUSAL_UNKNOWN] = "unknown_run",
	};

	static_assert(sizeof(names) / sizeof(names[0]) == REFUSAL_COUNT,
		      "a refusal lacks its name");
	return names[why];
}
