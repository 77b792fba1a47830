/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * server_fixture.h - the launcher and a server that is not ours any longer
 */
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/fs.h"
#include "launcher/launcher.h"
#include "raw_send.h"
#include "tap.h"

#define SLOTS 4

static struct launcher l;
static struct setup setup;
static struct slot slots[SLOTS]; /* none is ever free: what is taken waits */
static struct waiting waiting[SLOTS];
static int server_fd; /* the other end */

static inline void start(void)
{
	int pair[2];

	if (l.loop)
		loop_free(l.loop); /* of the one before */
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	server_fd = pair[1];
	setup.rows = 2;
	setup.row[0].ceiling = (struct limits){.wall_ms = 5000,
					       .cpu_ms = 4000,
					       .memory_mb = 64,
					       .pids = 8,
					       .disk_mb = 4};
	setup.row[1].ceiling = (struct limits){.wall_ms = 9000,
					       .cpu_ms = 9000,
					       .memory_mb = 96,
					       .pids = 9,
					       .disk_mb = 9};
	l = (struct launcher){.setup = &setup,
			      .server_fd = pair[0],
			      .ledger_fd = ledger_make(),
			      .report = {.level = LEVEL_FULL},
			      .slots = slots,
			      .slot_count = SLOTS,
			      .waiting = waiting,
			      .loop = loop_new()};
	CHECK(l.loop && l.ledger_fd >= 0);
	CHECK(loop_add(l.loop, pair[0], EPOLLIN, launcher_on_server, &l) == 0);
}

static inline int input(size_t len)
{
	static const char bytes[256];

	return fs_sealed("input", bytes, len);
}

static inline struct message good(uint64_t run)
{
	struct message m = {.type = MSG_RUN, .fds = 1, .run = run};

	m.plan.limits = setup.row[0].ceiling;
	m.plan.input_bytes = 64;
	return m;
}

static inline void say(const struct message *m, int fd)
{
	CHECK(raw_send(server_fd, m, sizeof(*m), &fd, fd >= 0) == (ssize_t)sizeof(*m));
	if (fd >= 0)
		close(fd);
	launcher_on_server(&l, EPOLLIN);
}

/* what it answered; 0: nothing */
static inline uint32_t answered(uint64_t run)
{
	int fds[MESSAGE_FDS];
	struct message m;

	if (message_receive(server_fd, &m, fds) != 1)
		return 0;
	CHECK(m.run == run && m.type == MSG_FAILED && !m.failure.busy);
	CHECK(strcmp(m.failure.step, "plan") == 0 && m.failure.num == EINVAL);
	return m.type;
}

static inline uint64_t counted(void)
{
	struct ledger kept;

	CHECK(ledger_read(l.ledger_fd, &kept) == 0);
	CHECK(kept.refused == l.ledger.refused);
	return kept.refused;
}

static inline int lowest_free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}
