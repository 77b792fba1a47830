/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_server_rows.c - what the launcher takes for which row: packages, sessions, brokers
 */
#include "server_fixture.h"

/* rows: 0 runs, 1 has packages, 2 installs them, 3 is a session's */
static void start_with_all(void)
{
	start();
	setup.rows = 4;
	for (unsigned i = 1; i < setup.rows; i++)
		setup.row[i].ceiling = setup.row[0].ceiling;
	for (unsigned i = 1; i < 3; i++)
		snprintf(setup.row[i].layer, sizeof(setup.row[i].layer), "packages");
	setup.row[2].installs = 1;
	setup.row[3].session = 1;
	snprintf(setup.layer_dir, sizeof(setup.layer_dir), "/nowhere");
	snprintf(setup.session_dir, sizeof(setup.session_dir), "/nowhere");
	setup.network = setup.install_network = NETWORK_NONE;
	l.sessions.dir_fd = -1; /* what is let in is answered there */
}

TEST(packages_and_sessions_are_for_their_rows)
{
	static const struct {
		uint32_t row, has_layer, session, network;
		bool taken;
	} rows[] = {
		{0, 0, 0, 0, true},
		{0, 1, 0, 0, false},
		{1, 0, 0, 0, true},
		{1, 1, 0, 0, true},
		{1, 2, 0, 0, false},
		{2, 0, 0, 0, false}, /* an install of nothing that has a name */
		{2, 1, 0, 0, true},
		{1, 0, SESSION_EXEC, 0, false},
		{3, 0, SESSION_NOT, 0, false},
		{3, 0, SESSION_OPEN, 0, true},
		{3, 0, SESSION_EXEC, 0, true},
		{3, 0, SESSION_CLOSE, 0, true},
		{3, 0, SESSION_KINDS, 0, false},
		{3, 1, SESSION_EXEC, 0, false},
		{3, 0, SESSION_EXEC, NETWORK_POD, false},
	};

	start_with_all();
	setup.network = NETWORK_POD;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const uint64_t refused = counted();
		struct message m = good(i + 1);

		m.plan.row = rows[i].row;
		m.plan.has_layer = rows[i].has_layer;
		m.plan.session = rows[i].session;
		m.plan.network = rows[i].network;
		l.waiting_count = 0;
		say(&m, input(64));
		CHECK(counted() == refused + !rows[i].taken);
		CHECK(l.waiting_count == (rows[i].taken && !rows[i].session));
		CHECK(message_receive(server_fd, &m, (int[MESSAGE_FDS]){0}) ==
		      (l.waiting_count ? -1 : 1));
	}
	setup.session_dir[0] = '\0'; /* sessions are off */
	struct message m = good(100);
	m.plan.row = 3;
	m.plan.session = SESSION_OPEN;
	say(&m, input(64));
	CHECK(answered(100) == MSG_FAILED);
}

TEST(what_is_kept_is_for_commands_without_a_session)
{
	static const struct {
		uint32_t row, kept, session, network, has_layer;
		bool taken;
	} rows[] = {
		{3, 1, SESSION_NOT, 0, 0, true},
		{3, 2, SESSION_NOT, 0, 0, false},
		{3, 1, SESSION_EXEC, 0, 0, false},
		{3, 1, SESSION_OPEN, 0, 0, false},
		{3, 1, SESSION_NOT, NETWORK_POD, 0, false},
		{3, 1, SESSION_NOT, 0, 1, false},
		{0, 1, SESSION_NOT, 0, 0, false},
		{1, 1, SESSION_NOT, 0, 1, false},
	};

	start_with_all();
	setup.network = NETWORK_POD;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const uint64_t refused = counted();
		struct message m = good(i + 1);

		m.plan.row = rows[i].row;
		m.plan.kept = rows[i].kept;
		m.plan.session = rows[i].session;
		m.plan.network = rows[i].network;
		m.plan.has_layer = rows[i].has_layer;
		l.waiting_count = 0;
		say(&m, input(64));
		CHECK(counted() == refused + !rows[i].taken);
		CHECK(l.waiting_count == rows[i].taken);
		CHECK(answered(i + 1) == (rows[i].taken ? 0 : MSG_FAILED));
	}
}

TEST(nothing_is_kept_where_that_is_not_its_own)
{
	static const struct {
		int level, fd;
	} rows[] = {{LEVEL_FULL, 0},
		    {LEVEL_NAMESPACES, 0},
		    {LEVEL_PROCESS, 0},
		    {LEVEL_LANDLOCK, -1}};

	start_with_all();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct message m = good(i + 1);

		l.abilities.level = rows[i].level;
		l.kept_fd = rows[i].fd;
		l.slots[0].launcher = &l;
		l.slots[0].state = SLOT_FREE;
		m.plan.row = 3;
		m.plan.kept = 1;
		say(&m, input(64));
		CHECK(message_receive(server_fd, &m, (int[MESSAGE_FDS]){0}) == 1);
		CHECK(m.type == MSG_FAILED && strcmp(m.failure.step, "kept") == 0);
		CHECK(l.slots[0].state == SLOT_FREE);
	}
	l.slots[0].state = SLOT_EMPTY;
}

TEST(root_is_asked_for_at_an_opening_and_where_there_are_ids)
{
	static const struct {
		uint32_t row, session, open_root, root, ranges;
		bool taken;
	} rows[] = {
		{3, SESSION_OPEN, 1, 0, 1, true},  {3, SESSION_OPEN, 0, 0, 0, true},
		{3, SESSION_OPEN, 1, 0, 0, false}, {3, SESSION_OPEN, 2, 0, 1, false},
		{3, SESSION_EXEC, 1, 0, 1, false}, {0, SESSION_NOT, 1, 0, 1, false},
		{3, SESSION_EXEC, 0, 1, 1, false}, /* this is the launcher's to say */
		{3, SESSION_OPEN, 0, 1, 1, false}, {0, SESSION_NOT, 0, 1, 1, false},
	};

	start_with_all();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const uint64_t refused = counted();
		struct message m = good(i + 1);

		setup.root_ranges = rows[i].ranges;
		m.plan.row = rows[i].row;
		m.plan.session = rows[i].session;
		m.plan.open.root = rows[i].open_root;
		m.plan.root = rows[i].root;
		say(&m, input(64));
		CHECK(counted() == refused + !rows[i].taken);
	}
}

TEST(a_broker_is_for_who_has_one)
{
	static const struct {
		uint32_t network, install_network, row;
		bool taken;
	} rows[] = {
		{NETWORK_NONE, NETWORK_NONE, 0, false},
		{NETWORK_POD, NETWORK_BROKER, 0, false},
		{NETWORK_BROKER, NETWORK_NONE, 0, true},
		{NETWORK_BROKER, NETWORK_NONE, 2, false},
		{NETWORK_NONE, NETWORK_BROKER, 2, true},
	};
	int fds[2];

	start_with_all();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct message m = good(i + 1);

		setup.network = rows[i].network;
		setup.install_network = rows[i].install_network;
		m.fds = 2;
		m.plan.row = rows[i].row;
		m.plan.has_layer = rows[i].row == 2;
		m.plan.session = rows[i].row == 3 ? SESSION_EXEC : SESSION_NOT;
		m.plan.network = NETWORK_BROKER;
		l.waiting_count = 0;
		fds[0] = input(64);
		fds[1] = dup(server_fd);
		CHECK(raw_send(server_fd, &m, sizeof(m), fds, 2) == (ssize_t)sizeof(m));
		close(fds[0]);
		close(fds[1]);
		launcher_on_server(&l, EPOLLIN);
		CHECK(answered(i + 1) == (rows[i].taken ? 0 : MSG_FAILED));
		CHECK(l.waiting_count == rows[i].taken);
	}
}

/* with what may start a session's processes, and nothing else that is done with one */
TEST(a_session_has_its_broker_from_who_may_start_it)
{
	static const struct {
		uint32_t network, session;
		bool taken;
	} rows[] = {
		{NETWORK_BROKER, SESSION_OPEN, true},
		{NETWORK_BROKER, SESSION_EXEC, true},
		{NETWORK_BROKER, SESSION_CLOSE, false},
		{NETWORK_BROKER, SESSION_DIFF, false},
		{NETWORK_BROKER, SESSION_RESTORE, false},
		{NETWORK_NONE, SESSION_OPEN, false},
		{NETWORK_POD, SESSION_EXEC, false},
	};
	int fds[2], before;

	start_with_all();
	before = lowest_free_fd();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const uint64_t refused = counted();
		struct message m = good(i + 1);

		setup.network = rows[i].network;
		setup.install_network = NETWORK_BROKER; /* which is not for them */
		m.fds = 2;
		m.plan.row = 3;
		m.plan.session = rows[i].session;
		m.plan.network = NETWORK_BROKER;
		fds[0] = input(64);
		fds[1] = dup(server_fd);
		CHECK(raw_send(server_fd, &m, sizeof(m), fds, 2) == (ssize_t)sizeof(m));
		close(fds[0]);
		close(fds[1]);
		launcher_on_server(&l, EPOLLIN);
		CHECK(message_receive(server_fd, &m, (int[MESSAGE_FDS]){0}) == 1);
		CHECK(m.type == MSG_FAILED && m.run == i + 1);
		CHECK(strcmp(m.failure.step,
			     rows[i].taken ? "session_unavailable" : "plan") == 0);
		CHECK(counted() == refused + !rows[i].taken);
		CHECK(lowest_free_fd() == before);
	}
}
