/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_frames.c - what the launcher sends: messages, reports, and collected files
 *
 * The first byte of an input chooses; for messages the second says how many descriptors
 * come along, the third the type. None may stay open when a message is refused, and what
 * is accepted holds only values in range and strings that end.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/utf8.h"
#include "raw_send.h"
#include "wire/files.h"
#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int lowest_free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert(fd >= 0);
	close(fd);
	return fd;
}

static void check_accepted(const struct message *m)
{
	switch (m->type) {
	case MSG_DONE:
		assert(m->outcome.verdict < VERDICT_COUNT);
		assert(strnlen(m->outcome.pids_reason, 64) < 64);
		break;
	case MSG_FAILED:
		assert(strnlen(m->failure.step, 32) < 32);
		break;
	default:
		assert(m->type > 0 && m->type < MSG_TYPE_END);
	}
}

static void message(const uint8_t *data, size_t size)
{
	static struct message m;
	int pair[2], fds[MESSAGE_FDS], sent[9], before, rc;
	unsigned count = size > 0 ? data[0] % 9 : 0;
	size_t len = sizeof(m);

	memset(&m, 0, sizeof(m));
	if (size > 2) { /* the rest fills a message, which may be cut short or too long */
		size_t rest = size - 2;

		m.type = data[1] % 10;
		m.fds = count;
		memcpy((char *)&m.run, data + 2,
		       rest < sizeof(m) - 8 ? rest : sizeof(m) - 8);
		len -= data[1] / 128;
	}
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	for (unsigned i = 0; i < count; i++)
		sent[i] = pair[0];
	assert(raw_send(pair[0], &m, len, sent, count) == (ssize_t)len);
	before = lowest_free_fd();
	rc = message_receive(pair[1], &m, fds);
	if (rc == 1) {
		check_accepted(&m);
		for (int i = 0; i < MESSAGE_FDS; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	} else {
		assert(rc == -1 && errno == EPROTO);
	}
	assert(lowest_free_fd() == before);
	close(pair[0]);
	close(pair[1]);
}

static void files(const uint8_t *data, size_t size)
{
	int fd = fs_sealed("files", data, size);
	struct files_record rec;
	struct files_reader r;
	uint8_t sum = 0;
	int rc;

	assert(fd >= 0 && files_open(&r, fd) == 0);
	close(fd);
	while ((rc = files_next(&r, &rec)) == 1) {
		assert(utf8_valid(rec.name, rec.name_len));
		for (size_t i = 0; i < rec.data_len; i++)
			sum ^= (uint8_t)rec.data[i];
	}
	assert(rc == 0 || errno == EBADMSG);
	files_close(&r);
	__asm__ volatile(""
			 :
			 : "r"(sum)); /* the bytes have been read, whatever they are */
}

/* the input, and as many zero bytes as a report still needs */
static void report(const uint8_t *data, size_t size)
{
	static char bytes[sizeof(struct report)];
	static struct report r;
	int fd;

	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
	fd = fs_sealed("report", bytes, sizeof(bytes) - (size % 7 == 6));
	assert(fd >= 0);
	if (message_read_report(fd, &r) == 0) {
		assert(r.level < LEVEL_COUNT && memchr(r.summary, 0, sizeof(r.summary)));
		for (int i = 0; i < LAYER_COUNT; i++)
			assert(memchr(r.layer[i].fix, 0, sizeof(r.layer[i].fix)));
	} else {
		assert(errno == EPROTO);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(const uint8_t *, size_t) = {files, message, report};

	if (size > 0)
		kinds[data[0] % 3](data + 1, size - 1);
	return 0;
}
