/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_launcher.c - what a server that is not ours any longer could tell the launcher
 *
 * An input is a conversation. Of each message the first byte chooses what it starts from
 * (a run, a kill, nothing, another size), the second the descriptors, the third how many
 * patches of offset and value follow. The launcher's own loop takes it; no slot is free,
 * so that what it accepts waits. It must be just what a second formulation of the rules
 * accepts, everything else is counted, and nothing stays open.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/sys.h"
#include "launcher/launcher.h"
#include "raw_send.h"

#define INPUT_BYTES 64
#define MESSAGES_MOST 64

enum {
	FDS_NONE,
	FDS_GOOD,
	FDS_SHORT,
	FDS_OPEN,
	FDS_NULL,
	FDS_SOCKET,
	FDS_TWO, /* as for a run with a broker */
	FDS_KINDS
};

enum { ROW_LAYERS = 1, ROW_SESSIONS, ROWS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct launcher l;
static struct setup setup;
static struct slot slots[2];
static struct waiting waiting[2];
static int server_fd, kinds[FDS_KINDS];

struct bytes {
	const uint8_t *at;
	size_t left;
};

static uint8_t next(struct bytes *b)
{
	if (b->left == 0)
		return 0;
	b->left--;
	return *b->at++;
}

static void begin(void)
{
	static const char bytes[INPUT_BYTES];
	int pair[2];

	if (l.loop)
		return;
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	server_fd = pair[1];
	setup.rows = ROWS;
	setup.row[0].ceiling = (struct limits){200, 200, 64, 8, 4, 0};
	setup.row[ROW_LAYERS].ceiling = (struct limits){100, 250, 96, 9, 9, 0};
	setup.row[ROW_LAYERS].layer[0] = setup.layer_dir[0] = 'l';
	setup.row[ROW_SESSIONS].ceiling = setup.row[0].ceiling;
	setup.row[ROW_SESSIONS].session = 1;
	setup.session_dir[0] = setup.image_dir[0] = 's';
	setup.volumes = 2;
	setup.root_ranges = 1;
	setup.network = NETWORK_BROKER;
	kinds[FDS_GOOD] = kinds[FDS_TWO] = fs_sealed("input", bytes, INPUT_BYTES);
	kinds[FDS_SHORT] = fs_sealed("input", bytes, INPUT_BYTES - 1);
	kinds[FDS_OPEN] = memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert(write(kinds[FDS_OPEN], bytes, INPUT_BYTES) == INPUT_BYTES);
	kinds[FDS_NULL] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	kinds[FDS_SOCKET] = server_fd;
	l = (struct launcher){.setup = &setup,
			      .server_fd = pair[0],
			      .ledger_fd = -1,
			      .report = {.level = LEVEL_FULL},
			      .slots = slots,
			      .slot_count = 2,
			      .waiting = waiting,
			      .loop = loop_new()};
	assert(l.loop);
	for (int i = 0; i < LOST_LIMITS; i++)
		l.limit_fd[i] = -1;
	l.sessions.dir_fd = -1; /* what it is asked for there is answered at once */
}

static int lowest_free_fd(void)
{
	int fd = fcntl(kinds[FDS_NULL], F_DUPFD_CLOEXEC, 0);

	assert(fd >= 0);
	close(fd);
	return fd;
}

/* the rules again, in other words */
static bool within(const struct limits *have, const struct limits *most)
{
	return have->wall_ms - 1 < most->wall_ms && have->cpu_ms - 1 < most->cpu_ms &&
	       have->memory_mb >= MEMORY_MB_LEAST && have->memory_mb <= most->memory_mb &&
	       have->pids - 1 < most->pids && have->disk_mb - 1 < most->disk_mb;
}

static bool framed(const struct message *m, size_t len, int kind, unsigned count)
{
	if (len != sizeof(*m) || m->fds != count)
		return false;
	if (m->type == MSG_KILL)
		return count == 0;
	return m->type == MSG_RUN && (m->plan.network == NETWORK_BROKER
					      ? kind == FDS_TWO
					      : kind == FDS_GOOD || kind == FDS_SHORT);
}

static bool all_zero(const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len && !*at) {
		at++;
		len--;
	}
	return len == 0;
}

/* the name of one directory, not hidden, and without what a path or a mount minds */
static bool image_fits(const char *name, size_t room)
{
	size_t i = 0;

	for (; i < room && name[i]; i++)
		if (strchr("/:,\\ \n", name[i]) || name[i] < '!' || name[i] > '~' ||
		    strchr("!\"#$&'()*;<>?[]^`{|}~", name[i]))
			return false;
	return i < room && name[0] != '.';
}

static bool order_fits(const struct plan *p)
{
	switch (p->session) {
	case SESSION_FORK:
		return p->count > 0 && p->count <= 64 && p->force < 2 &&
		       p->other_key[15] == 0;
	case SESSION_CHECKPOINT:
	case SESSION_RESTORE:
		return p->count == 0 && p->force < 2;
	case SESSION_DIFF:
		return p->count == 0 && p->force == 0;
	default:
		return p->count == 0 && p->force == 0 &&
		       all_zero(p->other_key, sizeof(p->other_key));
	}
}

static bool kept_fits(const struct plan *p)
{
	return p->kept == 1 && p->session == 0 && p->network == 0 &&
	       all_zero(&p->open, sizeof(p->open)) && order_fits(p);
}

static bool session_fits(const struct plan *p)
{
	if (p->kept)
		return kept_fits(p);
	if (p->session == 0 || p->session > 7 || (p->network && p->session > 2) ||
	    !order_fits(p))
		return false;
	if (p->session != SESSION_OPEN)
		return all_zero(&p->open, sizeof(p->open));
	return image_fits(p->open.image, sizeof(p->open.image)) &&
	       p->open.read_only < 2 && p->open.volumes < 4 && p->open.root < 2;
}

static bool accepted(const struct message *m, int kind)
{
	const struct plan *p = &m->plan;

	if (m->type != MSG_RUN || m->run <= l.last_run || p->row >= ROWS ||
	    p->errand != 0 || p->port != 0 || p->network > 1 || p->cold > 2 ||
	    p->ahead > 1 || p->root || p->has_layer > (p->row == ROW_LAYERS))
		return false;
	if (p->row == ROW_SESSIONS
		    ? !session_fits(p)
		    : p->session || p->kept || !all_zero(&p->open, sizeof(p->open)) ||
			      !order_fits(p))
		return false;
	return p->input_bytes == INPUT_BYTES - (kind == FDS_SHORT) &&
	       within(&p->limits, &setup.row[p->row].ceiling);
}

static void hear(void)
{
	int fds[MESSAGE_FDS];
	struct message m;

	while (message_receive(server_fd, &m, fds) == 1) {
		assert(m.type == MSG_FAILED);
		assert(strcmp(m.failure.step, "plan") == 0 ||
		       strcmp(m.failure.step, "session_unavailable") == 0);
	}
	assert(errno == EAGAIN);
}

static void tell(const struct message *m, size_t len, int kind)
{
	const unsigned count = kind == FDS_NONE ? 0 : kind == FDS_TWO ? 2 : 1;
	const int fds[2] = {kinds[kind], server_fd}, before = lowest_free_fd();
	const bool frame = framed(m, len, kind, count), good = frame && accepted(m, kind);
	const bool run = good && !m->plan.session;
	const bool kill = frame && m->type == MSG_KILL && m->run - 1 < l.last_run;
	const uint64_t refused = l.ledger.refused;

	assert(raw_send(server_fd, m, len, fds, count) == (ssize_t)len);
	launcher_on_server(&l, EPOLLIN);
	assert(l.waiting_count == (run ? 1 : 0));
	assert(l.ledger.refused == refused + (good || kill ? 0 : 1));
	if (run) {
		assert(l.last_run == m->run && waiting[0].message.run == m->run);
		close(waiting[0].fds[RUN_INPUT]);
		if (count == 2)
			close(waiting[0].fds[RUN_EGRESS]);
		l.waiting_count = 0;
	}
	hear();
	if (!frame) /* the launcher would have ended, and closed nothing before */
		sys_close_range((unsigned)before, ~0U, 0);
	assert(lowest_free_fd() == before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static _Alignas(struct message) char bytes[sizeof(struct message) + 1];
	struct bytes b = {data, size};

	begin();
	l.last_run = 0;
	for (int n = 0; b.left && n < MESSAGES_MOST; n++) {
		struct message m = {.type = MSG_RUN, .run = l.last_run + 1};
		const uint8_t what = next(&b) % 4;
		const int kind = next(&b) % FDS_KINDS;
		size_t len = sizeof(m);

		m.fds = kind == FDS_NONE ? 0 : kind == FDS_TWO ? 2 : 1;
		m.plan.limits = (struct limits){100, 100, 32, 4, 2, 0};
		m.plan.input_bytes = INPUT_BYTES;
		if (what == 1)
			m.type = MSG_KILL;
		else if (what == 2)
			memset(&m, 0, sizeof(m));
		for (uint8_t left = next(&b) % 8; left; left--) {
			size_t at = next(&b) % (offsetof(struct message, plan) +
						sizeof(struct plan));

			((uint8_t *)&m)[at] = next(&b);
		}
		memcpy(bytes, &m, sizeof(m));
		if (what == 3)
			len = 1 + next(&b) * (sizeof(bytes) - 1) / 255;
		tell((const struct message *)(const void *)bytes, len, kind);
	}
	return 0;
}
