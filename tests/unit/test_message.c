/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_message.c - what goes through the socket, and what does not
 */
#include "wire/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/fs.h"
#include "raw_send.h"
#include "tap.h"

static int pair[2];
static struct message m;
static int fds[MESSAGE_FDS];

static void open_pair(void)
{
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
}

static int lowest_free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

static void send_bytes(const void *bytes, size_t len, unsigned count)
{
	int same[8];

	for (unsigned i = 0; i < count; i++)
		same[i] = pair[0];
	CHECK(raw_send(pair[0], bytes, len, same, count) == (ssize_t)len);
}

static bool refused(void)
{
	int before = lowest_free_fd();

	return message_receive(pair[1], &m, fds) == -1 && errno == EPROTO &&
	       lowest_free_fd() == before && fds[0] == -2;
}

TEST(a_run_arrives_with_its_descriptor_close_on_exec)
{
	struct message sent = {.type = MSG_RUN, .fds = 1, .run = 42};
	int input = fs_sealed("input", "x", 1);

	open_pair();
	sent.plan.limits.wall_ms = 1000;
	CHECK(message_send(pair[0], &sent, &input) == 0);
	CHECK(message_receive(pair[1], &m, fds) == 1);
	CHECK(m.run == 42 && m.plan.limits.wall_ms == 1000);
	CHECK(fds[0] >= 0 && fds[0] != input && fds[1] == -1 && fds[2] == -1);
	CHECK(fcntl(fds[0], F_GETFD) == FD_CLOEXEC);
}

TEST(three_streams_keep_their_order)
{
	struct message sent = {.type = MSG_STREAMS, .fds = 3};
	int a[2], b[2];

	open_pair();
	CHECK(pipe(a) == 0 && pipe(b) == 0);
	CHECK(message_send(pair[0], &sent, (int[]){a[1], b[0], b[1]}) == 0);
	CHECK(message_receive(pair[1], &m, fds) == 1);
	CHECK(write(fds[0], "x", 1) == 1 && read(a[0], &(char){0}, 1) == 1);
	CHECK(write(fds[2], "y", 1) == 1 && read(fds[1], &(char){0}, 1) == 1);
}

TEST(nothing_there_and_the_end_are_told_apart)
{
	open_pair();
	CHECK(message_receive(pair[1], &m, fds) == -1 && errno == EAGAIN);
	close(pair[0]);
	CHECK(message_receive(pair[1], &m, fds) == 0);
	m = (struct message){.type = MSG_KILL};
	CHECK(message_send(pair[1], &m, NULL) == -1 && errno == EPIPE);
}

TEST(a_full_socket_does_not_wait)
{
	struct message sent = {.type = MSG_KILL};
	int n = 0;

	open_pair();
	while (message_send(pair[0], &sent, NULL) == 0)
		n++;
	CHECK(errno == EAGAIN && n > 3);
}

TEST(another_size_is_refused)
{
	static char bytes[sizeof(struct message) + 1];
	struct message *sent = (struct message *)(void *)bytes;

	open_pair();
	sent->type = MSG_KILL;
	fds[0] = -2;
	send_bytes(bytes, sizeof(struct message) - 1, 0);
	CHECK(refused());
	send_bytes(bytes, sizeof(struct message) + 1, 0);
	CHECK(refused());
	send_bytes(bytes, 1, 2);
	CHECK(refused());
	send_bytes(bytes, sizeof(struct message), 0);
	CHECK(message_receive(pair[1], &m, fds) == 1);
}

TEST(a_wrong_number_of_descriptors_is_refused_and_none_stays_open)
{
	static const struct {
		uint32_t type, fds;
		unsigned sent;
	} rows[] = {
		{MSG_RUN, 1, 0},  {MSG_RUN, 1, 2},     {MSG_RUN, 0, 1},
		{MSG_KILL, 0, 1}, {MSG_STREAMS, 3, 2}, {MSG_STREAMS, 3, 4},
		{MSG_DONE, 1, 1}, {MSG_STREAMS, 3, 8}, {MSG_REPORT, 3, 3},
	};

	open_pair();
	fds[0] = -2;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct message sent = {.type = rows[i].type, .fds = rows[i].fds};

		send_bytes(&sent, sizeof(sent), rows[i].sent);
		CHECK(refused());
	}
}

TEST(an_input_that_is_not_sealed_is_refused)
{
	struct message sent = {.type = MSG_RUN, .fds = 1};
	int file = memfd_create("input", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	open_pair();
	fds[0] = -2;
	CHECK(message_send(pair[0], &sent, &pair[0]) == 0 && refused());
	CHECK(message_send(pair[0], &sent, &file) == 0 && refused());
	CHECK(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	CHECK(message_send(pair[0], &sent, &file) == 0 && refused());
	CHECK(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == 0);
	CHECK(message_send(pair[0], &sent, &file) == 0);
	CHECK(message_receive(pair[1], &m, fds) == 1);
}

TEST(an_unknown_type_is_refused)
{
	static const uint32_t types[] = {0, MSG_TYPE_END, UINT32_MAX};

	open_pair();
	fds[0] = -2;
	for (int i = 0; i < 3; i++) {
		struct message sent = {.type = types[i]};

		send_bytes(&sent, sizeof(sent), 0);
		CHECK(refused());
	}
}

/* a text that does not end, or a number */
#define OF(type, field) (type), offsetof(struct message, field), sizeof(m.field)
#define NO_END UINT64_MAX

TEST(contents_out_of_range_are_refused)
{
	static const struct {
		uint32_t type;
		size_t at, bytes;
		uint64_t value;
	} rows[] = {
		{OF(MSG_DONE, outcome.verdict), VERDICT_COUNT},
		{OF(MSG_DONE, outcome.exit_code), 256},
		{OF(MSG_DONE, outcome.exit_code), (uint32_t)-1},
		{OF(MSG_DONE, outcome.signal), (uint32_t)-1},
		{OF(MSG_DONE, outcome.signal), 65},
		{OF(MSG_DONE, outcome.layer), LAYER_RESULTS},
		{OF(MSG_DONE, outcome.files), OUTCOME_FILES_END},
		{OF(MSG_DONE, outcome.violations), VIOLATIONS_KNOWN_COUNT},
		{OF(MSG_DONE, outcome.memory_reason), NO_END},
		{OF(MSG_DONE, outcome.pids_reason), NO_END},
		{OF(MSG_WARM, warm.rows), SETUP_ROWS + 1},
		{OF(MSG_WARM, warm.fork_failed), NO_END},
		{OF(MSG_FAILED, failure.lost_layer), FAILURE_BELOW_MINIMUM + 1},
		{OF(MSG_FAILED, failure.step), NO_END},
	};

	open_pair();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct message sent = {.type = rows[i].type};
		char *at = (char *)&sent + rows[i].at;

		send_bytes(&sent, sizeof(sent), 0);
		CHECK(message_receive(pair[1], &m, fds) == 1);
		if (rows[i].value == NO_END)
			memset(at, 'x', rows[i].bytes);
		else
			memcpy(at, &rows[i].value, rows[i].bytes);
		fds[0] = -2;
		send_bytes(&sent, sizeof(sent), 0);
		CHECK(refused());
	}
}

/* or whoever closes it might wait */
TEST(what_leads_to_a_broker_is_a_unix_socket)
{
	struct message sent = {.type = MSG_RUN, .fds = 2};
	int input = fs_sealed("input", "x", 1), inet = socket(AF_INET, SOCK_STREAM, 0);

	open_pair();
	sent.plan.network = NETWORK_BROKER;
	fds[0] = -2;
	CHECK(inet >= 0 && message_send(pair[0], &sent, (int[]){input, inet}) == 0);
	CHECK(refused());
	CHECK(message_send(pair[0], &sent, (int[]){input, input}) == 0 && refused());
	CHECK(message_send(pair[0], &sent, (int[]){input, pair[0]}) == 0);
	CHECK(message_receive(pair[1], &m, fds) == 1);
}

TEST(what_a_message_says_of_its_descriptors_is_so)
{
	struct message sent = {.type = MSG_RUN, .fds = 2};
	int input = fs_sealed("input", "x", 1);

	open_pair();
	fds[0] = -2;
	CHECK(raw_send(pair[0], &sent, sizeof(sent), &input, 1) == (ssize_t)sizeof(sent));
	CHECK(refused());
	sent.fds = 0;
	CHECK(raw_send(pair[0], &sent, sizeof(sent), &input, 1) == (ssize_t)sizeof(sent));
	CHECK(refused());
}

TEST(a_violation_happened_and_was_refused_with_an_errno)
{
	struct message sent = {.type = MSG_VIOLATION, .run = 3};

	open_pair();
	sent.violation = (struct violation){.nr = 101, .errno_ret = 1, .count = 2};
	sent.violation.args[5] = UINT64_MAX;
	CHECK(message_send(pair[0], &sent, NULL) == 0);
	CHECK(message_receive(pair[1], &m, fds) == 1);
	CHECK(memcmp(&m.violation, &sent.violation, sizeof(m.violation)) == 0);
	fds[0] = -2;
	sent.violation.count = 0;
	send_bytes(&sent, sizeof(sent), 0);
	CHECK(refused());
	sent.violation.count = 1;
	sent.violation.errno_ret = 0;
	send_bytes(&sent, sizeof(sent), 0);
	CHECK(refused());
	sent.violation.errno_ret = 4096;
	send_bytes(&sent, sizeof(sent), 0);
	CHECK(refused());
}

static bool report_refused(const struct report *r, size_t len)
{
	struct report out = {.slots = 7};
	int fd = fs_sealed("report", r, len);
	bool no = message_read_report(fd, &out) == -1 && errno == EPROTO &&
		  out.slots == 7;

	close(fd);
	return no;
}

TEST(a_report_travels_in_a_memfd_and_is_checked_there)
{
	struct report r = {.level = LEVEL_FULL, .slots = 3}, out;
	const struct message sent = {.type = MSG_REPORT, .fds = 1};
	int fd = message_make_report(&r);

	open_pair();
	CHECK(fd >= 0 && message_send(pair[0], &sent, &fd) == 0);
	close(fd);
	CHECK(message_receive(pair[1], &m, fds) == 1 && m.type == MSG_REPORT);
	CHECK(message_read_report(fds[0], &out) == 0);
	CHECK(memcmp(&r, &out, sizeof(r)) == 0);
	CHECK(report_refused(&r, sizeof(r) - 1));
	r.level = LEVEL_COUNT;
	CHECK(report_refused(&r, sizeof(r)));
	r.level = LEVEL_FULL;
	r.lost = LAYER_COUNT + 1;
	CHECK(report_refused(&r, sizeof(r)));
	r.lost = LAYER_COUNT;
	r.network = NETWORK_COUNT;
	CHECK(report_refused(&r, sizeof(r)));
	r.network = NETWORK_NONE;
	r.install_network = NETWORK_COUNT;
	CHECK(report_refused(&r, sizeof(r)));
	r.install_network = NETWORK_NONE;
	CHECK(!report_refused(&r, sizeof(r)));
	for (int i = 0; i < 4; i++) { /* a text that does not end */
		struct report bad = r;
		struct layer *last = &bad.layer[LAYER_COUNT - 1];
		char *const text[] = {bad.summary, last->evidence, last->reason,
				      last->fix};

		memset(text[i], 'x', i ? sizeof(last->fix) : sizeof(bad.summary));
		CHECK(report_refused(&bad, sizeof(bad)));
	}
}

TEST(many_messages_fit_a_socket_that_nobody_reads)
{
	struct message sent = {.type = MSG_STARTED};
	int n = 0;

	open_pair();
	while (n < 1000 && message_send(pair[0], &sent, NULL) == 0)
		n++;
	CHECK(n >= 100);
}

TEST(levels_and_layers_have_names_both_ways)
{
	for (uint32_t i = 0; i < LEVEL_COUNT; i++)
		CHECK(report_level_parse(report_level_name(i)) == (int)i);
	CHECK(report_level_parse("paper") == -1 && report_level_parse("") == -1);
	CHECK(strcmp(report_level_name(99), "none") == 0);
	for (int i = 0; i < LAYER_COUNT; i++)
		CHECK(report_layer_name((enum layer_id)i)[0]);
}
