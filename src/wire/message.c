/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * message.c - send and receive one message, with its descriptors
 *
 * Runs in: server and launcher. What arrives is checked as far as one message can be
 * checked alone: size, type, descriptors, enums in range, strings that end. Whether it
 * fits the moment, and a plan its ceilings, is the receiver's business.
 */
#include "wire/message.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fdpass.h"
#include "base/fs.h"

#define SIGNAL_MAX 64

/* how many descriptors a message of this type brings, -1 for an unknown one */
static int expected_fds(const struct message *m)
{
	switch (m->type) {
	case MSG_RUN:
	case MSG_REPORT:
		return 1;
	case MSG_STREAMS:
		return 3;
	case MSG_DONE:
		return m->outcome.files ? 1 : 0;
	case MSG_KILL:
	case MSG_STARTED:
	case MSG_FAILED:
		return 0;
	default:
		return -1;
	}
}

static bool ends(const char *text, size_t room)
{
	return memchr(text, 0, room) != NULL;
}

static bool report_ok(const struct report *r)
{
	if (r->level >= LEVEL_COUNT || !ends(r->summary, sizeof(r->summary)))
		return false;
	for (int i = 0; i < LAYER_COUNT; i++) {
		const struct layer *l = &r->layer[i];

		if (!ends(l->evidence, sizeof(l->evidence)) ||
		    !ends(l->reason, sizeof(l->reason)) || !ends(l->fix, sizeof(l->fix)))
			return false;
	}
	return true;
}

static bool outcome_ok(const struct outcome *o)
{
	if (o->signal == 0 && (o->exit_code < 0 || o->exit_code > 255))
		return false;
	return o->verdict < VERDICT_COUNT && o->files <= 1 && o->signal >= 0 &&
	       o->signal <= SIGNAL_MAX &&
	       ends(o->memory_reason, sizeof(o->memory_reason)) &&
	       ends(o->pids_reason, sizeof(o->pids_reason));
}

static bool content_ok(const struct message *m)
{
	switch (m->type) {
	case MSG_DONE:
		return outcome_ok(&m->outcome);
	case MSG_FAILED:
		return ends(m->failure.step, sizeof(m->failure.step));
	default:
		return true;
	}
}

int message_send(int socket_fd, const struct message *m, const int *fds)
{
	assert(expected_fds(m) >= 0 && m->fds == (uint32_t)expected_fds(m));
	return fdpass_send(socket_fd, m, sizeof(*m), fds, m->fds);
}

int message_receive(int socket_fd, struct message *out_m, int out_fds[MESSAGE_FDS])
{
	int fds[FDPASS_MAX], rc;
	struct message m = {0};
	size_t count, i;

	rc = fdpass_receive(socket_fd, &m, sizeof(m), fds, &count, false);
	if (rc < 0)
		return -1;
	if (rc == 1 &&
	    (expected_fds(&m) != (int)count || m.fds != count || !content_ok(&m))) {
		for (i = 0; i < count; i++)
			close(fds[i]);
		errno = EPROTO;
		return -1;
	}
	memcpy(out_fds, fds, sizeof(int) * MESSAGE_FDS);
	if (rc == 1)
		*out_m = m;
	return rc;
}

int message_send_report(int socket_fd, const struct report *r)
{
	const struct message m = {.type = MSG_REPORT, .fds = 1};
	auto_fd int fd = fs_sealed("report", r, sizeof(*r));

	return fd < 0 ? -1 : message_send(socket_fd, &m, &fd);
}

int message_read_report(int fd, struct report *out_r)
{
	struct report r;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_size != (off_t)sizeof(r) ||
	    pread(fd, &r, sizeof(r), 0) != (ssize_t)sizeof(r) || !report_ok(&r)) {
		errno = EPROTO;
		return -1;
	}
	*out_r = r;
	return 0;
}
