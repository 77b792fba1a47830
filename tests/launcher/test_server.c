/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_server.c - the launcher and a server that is not ours any longer
 *
 * Whatever comes through the socket, the launcher must not wait: deadlines are its
 * business. A TCP socket that lingers makes close() wait for as long as its maker likes.
 */
#include "server_fixture.h"

/* connected, with more bytes on their way than its peer will ever read; its close waits
 * for a minute */
static int lingering_socket(void)
{
	static const char bytes[65536];
	const struct linger on = {.l_onoff = 1, .l_linger = 60};
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK(bind(listener, (struct sockaddr *)&at, len) == 0);
	CHECK(listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
	(void)connect(fd, (struct sockaddr *)&at, len); /* in progress */
	CHECK(accept(listener, NULL, NULL) >= 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &on, sizeof(on)) == 0);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
	return fd;
}

/* `count` descriptors beside a message, of which the last is such a socket */
static void send_sockets(const struct message *m, size_t len, unsigned count)
{
	int fds[RAW_SEND_MOST], fd = lingering_socket();

	/* the last one is the one to wait for: what is cut off is the end */
	for (unsigned i = 0; i < count; i++)
		fds[i] = i < count - 1 ? server_fd : fd;
	CHECK(raw_send(server_fd, m, len, fds, count) == (ssize_t)len);
	close(fd); /* from here on the launcher's is the last */
}

/* it stops at once, which the ten seconds of a test are the measure for */
static void ends_the_conversation(void)
{
	CHECK(loop_run(l.loop) == 0);
}

TEST(a_socket_instead_of_an_input_ends_it_without_a_wait)
{
	struct message m = {.type = MSG_RUN, .fds = 1};

	start();
	send_sockets(&m, sizeof(m), 1);
	ends_the_conversation();
}

TEST(sockets_beside_any_message_end_it_without_a_wait)
{
	static const struct {
		uint32_t type, fds;
		unsigned sent;
	} rows[] = {
		{MSG_KILL, 0, 1},    {MSG_KILL, 1, 1}, {MSG_RUN, 1, 2},
		{MSG_STREAMS, 3, 3}, {MSG_RUN, 1, 8},  {99, 1, 1},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct message m = {.type = rows[i].type, .fds = rows[i].fds};

		start();
		send_sockets(&m, sizeof(m), rows[i].sent);
		ends_the_conversation();
		start();
		send_sockets(&m, 1, rows[i].sent); /* too short */
		ends_the_conversation();
	}
}

TEST(as_many_as_fit_a_message_end_it_without_a_wait)
{
	struct message m = {.type = MSG_RUN, .fds = 1};

	start();
	send_sockets(&m, sizeof(m), RAW_SEND_MOST);
	ends_the_conversation();
}

/* ---- well framed, but not what there is */

TEST(a_plan_at_its_ceilings_is_taken)
{
	struct message m;

	start();
	m = good(1);
	say(&m, input(64));
	m = good(2);
	m.plan.row = 1;
	m.plan.limits = setup.row[1].ceiling;
	say(&m, input(64));
	CHECK(l.waiting_count == 2 && counted() == 0 && answered(0) == 0);
}

/* a number to be put into a message: where, which */
struct wrong {
	size_t at;
	unsigned bytes;
	uint64_t value;
};

#define IN_PLAN(field) offsetof(struct message, plan.field), sizeof(good(0).plan.field)

TEST(a_plan_beyond_what_there_is_is_refused_and_counted)
{
	static const struct wrong rows[] = {
		{IN_PLAN(row), 2},
		{IN_PLAN(row), UINT32_MAX},
		{IN_PLAN(errand), ERRAND_LOOK},
		{IN_PLAN(errand), ERRAND_SEED},
		{IN_PLAN(errand), UINT32_MAX},
		{IN_PLAN(limits.wall_ms), 0},
		{IN_PLAN(limits.wall_ms), 5001},
		{IN_PLAN(limits.wall_ms), UINT32_MAX},
		{IN_PLAN(limits.cpu_ms), 0},
		{IN_PLAN(limits.cpu_ms), 4001},
		{IN_PLAN(limits.memory_mb), MEMORY_MB_LEAST - 1},
		{IN_PLAN(limits.memory_mb), 65},
		{IN_PLAN(limits.pids), 0},
		{IN_PLAN(limits.pids), 9},
		{IN_PLAN(limits.disk_mb), 0},
		{IN_PLAN(limits.disk_mb), 5},
		{IN_PLAN(input_bytes), 0},
		{IN_PLAN(input_bytes), 63},
		{IN_PLAN(input_bytes), 65},
		{IN_PLAN(input_bytes), UINT64_MAX},
		{IN_PLAN(network), NETWORK_HOST_PORT},
		{IN_PLAN(network), NETWORK_POD},
		{IN_PLAN(network), NETWORK_COUNT},
		{IN_PLAN(port), 80},
		{IN_PLAN(cold), COLD_KINDS},
		{IN_PLAN(ahead), 2},
		{IN_PLAN(has_layer), 1},
		{IN_PLAN(session), SESSION_OPEN},
		{IN_PLAN(session), SESSION_KINDS},
	};
	int before;

	start();
	before = lowest_free_fd();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct message m = good(i + 1);

		memcpy((char *)&m + rows[i].at, &rows[i].value, rows[i].bytes);
		say(&m, input(64));
		CHECK(answered(i + 1) == MSG_FAILED && counted() == i + 1);
		CHECK(l.waiting_count == 0 && lowest_free_fd() == before);
	}
}

TEST(an_input_has_a_size)
{
	const uint64_t most = 64u << 20;

	start();
	for (unsigned i = 0; i < 2; i++) {
		struct message m = good(i + 1);
		int fd = memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING);

		m.plan.input_bytes = most + i;
		CHECK(ftruncate(fd, (off_t)m.plan.input_bytes) == 0);
		CHECK(fcntl(fd, F_ADD_SEALS,
			    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
		say(&m, fd);
		CHECK(answered(i + 1) == (i ? MSG_FAILED : 0) && counted() == i);
	}
}

/* without namespaces: one port, that of its broker */
TEST(only_an_install_may_have_a_port)
{
	static const struct {
		uint32_t row, port;
		bool taken;
	} rows[] = {{0, 4000, false}, {1, 0, false}, {1, 65536, false}, {1, 4000, true}};

	start();
	setup.install_network = NETWORK_BROKER;
	setup.row[1].installs = 1;
	snprintf(setup.row[1].layer, sizeof(setup.row[1].layer), "packages");
	snprintf(setup.layer_dir, sizeof(setup.layer_dir), "/nowhere");
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct message m = good(i + 1);

		m.plan.row = rows[i].row;
		m.plan.has_layer = rows[i].row == 1;
		m.plan.network = NETWORK_HOST_PORT;
		m.plan.port = rows[i].port;
		say(&m, input(64));
		CHECK(answered(i + 1) == (rows[i].taken ? 0 : MSG_FAILED));
		CHECK(l.waiting_count == (rows[i].taken ? 1 : 0));
	}
}

TEST(a_number_that_was_used_is_refused_without_an_answer)
{
	static const uint64_t numbers[] = {7, 6, 1, 0};
	struct message m;
	int before;

	start();
	m = good(7);
	say(&m, input(64));
	before = lowest_free_fd();
	for (unsigned i = 0; i < 4; i++) {
		m = good(numbers[i]);
		say(&m, input(64));
		CHECK(counted() == i + 1 && answered(0) == 0);
	}
	CHECK(l.waiting_count == 1 && lowest_free_fd() == before);
	m = good(8);
	say(&m, input(64));
	CHECK(l.waiting_count == 2);
}

TEST(killing_what_was_never_asked_for_is_refused)
{
	static const uint64_t numbers[] = {0, 4, UINT64_MAX};
	struct message m = {.type = MSG_KILL};

	start();
	m = good(3);
	say(&m, input(64));
	for (unsigned i = 0; i < 3; i++) {
		m = (struct message){.type = MSG_KILL, .run = numbers[i]};
		say(&m, -1);
		CHECK(counted() == i + 1 && l.waiting_count == 1);
	}
	m.run = 2; /* over, as far as anybody knows */
	say(&m, -1);
	CHECK(counted() == 3);
	m.run = 3;
	say(&m, -1);
	CHECK(counted() == 3 && l.waiting_count == 0);
}

TEST(what_ends_the_conversation_is_counted_too)
{
	const struct message done = {.type = MSG_DONE};
	struct message m;

	start();
	say(&done, -1);
	CHECK(counted() == 1);
	start();
	m = good(1);
	say(&m, open("/dev/null", O_RDONLY | O_CLOEXEC));
	CHECK(counted() == 1);
	start();
	CHECK(raw_send(server_fd, "x", 1, NULL, 0) == 1);
	launcher_on_server(&l, EPOLLIN);
	CHECK(counted() == 1 && l.waiting_count == 0);
	ends_the_conversation();
}

/* told within a second or so, all at once */
TEST(the_server_is_told_how_many)
{
	struct report r;
	int fds[MESSAGE_FDS];
	struct message m;

	start();
	for (unsigned i = 0; i < 100; i++) {
		m = (struct message){.type = MSG_KILL, .run = 1000};
		say(&m, -1);
	}
	CHECK(message_receive(server_fd, &m, fds) == -1 && l.tell.place);
	l.tell.fn(l.tell.arg);
	CHECK(message_receive(server_fd, &m, fds) == 1 && m.type == MSG_REPORT);
	CHECK(message_read_report(fds[0], &r) == 0 && r.refused == 100);
	CHECK(message_receive(server_fd, &m, fds) == -1);
}
