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
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fdpass.h"
#include "base/fs.h"

#define SIGNAL_MAX 64
#define ERRNO_MAX 4095

/* how many descriptors a message of this type brings, -1 for an unknown one */
static int expected_fds(const struct message *m)
{
	switch (m->type) {
	case MSG_RUN:
		return m->plan.network == NETWORK_BROKER ? 2 : 1;
	case MSG_REPORT:
		return 1;
	case MSG_STREAMS:
		return 3;
	case MSG_DONE:
		return m->outcome.files == OUTCOME_FILES ? 1 : 0;
	case MSG_KILL:
	case MSG_STARTED:
	case MSG_VIOLATION:
	case MSG_FAILED:
	case MSG_WARM:
	case MSG_LAYERS:
	case MSG_SESSION:
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
	if (r->level >= LEVEL_COUNT || r->lost > LAYER_COUNT ||
	    r->network >= NETWORK_COUNT || r->install_network >= NETWORK_COUNT ||
	    !ends(r->summary, sizeof(r->summary)))
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
	return o->verdict < VERDICT_COUNT && o->layer < LAYER_RESULTS &&
	       o->files < OUTCOME_FILES_END && o->violations < VIOLATIONS_KNOWN_COUNT &&
	       o->signal >= 0 && o->signal <= SIGNAL_MAX &&
	       ends(o->memory_reason, sizeof(o->memory_reason)) &&
	       ends(o->pids_reason, sizeof(o->pids_reason));
}

/* closing one of these never waits, and nobody changes it under its reader's hands */
static bool sealed(int fd)
{
	const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	const int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & all) == all;
}

/* closing one of these does not wait either */
static bool unix_socket(int fd)
{
	socklen_t len = sizeof(int);
	int domain;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	       domain == AF_UNIX;
}

static bool violation_ok(const struct violation *v)
{
	return v->count > 0 && v->errno_ret > 0 && v->errno_ret <= ERRNO_MAX;
}

static bool content_ok(const struct message *m, const int *fds)
{
	switch (m->type) {
	case MSG_RUN:
		return sealed(fds[0]) &&
		       (m->plan.network != NETWORK_BROKER || unix_socket(fds[1]));
	case MSG_DONE:
		return outcome_ok(&m->outcome);
	case MSG_VIOLATION:
		return violation_ok(&m->violation);
	case MSG_WARM:
		return m->warm.rows <= SETUP_ROWS &&
		       ends(m->warm.fork_failed, sizeof(m->warm.fork_failed));
	case MSG_FAILED:
		return m->failure.lost_layer <= FAILURE_BELOW_MINIMUM &&
		       ends(m->failure.step, sizeof(m->failure.step));
	default:
		return true;
	}
}

int message_send(int socket_fd, const struct message *m, const int *fds)
{
	assert(expected_fds(m) >= 0 && m->fds == (uint32_t)expected_fds(m));
	return fdpass_send(socket_fd, m, sizeof(*m), fds, m->fds);
}

static int receive(int socket_fd, struct message *out_m, int out_fds[MESSAGE_FDS],
		   enum fdpass_how how)
{
	int fds[FDPASS_MAX], rc;
	struct message m = {0};
	size_t count, i;

	rc = fdpass_receive(socket_fd, &m, sizeof(m), fds, &count, how);
	if (rc < 0 && errno == EMFILE) {
		if (expected_fds(&m) != (int)m.fds || !content_ok(&m, fds)) {
			errno = EPROTO;
			return -1;
		}
		memcpy(out_fds, fds, sizeof(int) * MESSAGE_FDS);
		*out_m = m;
		errno = EMFILE;
	}
	if (rc < 0)
		return -1;
	if (rc == 1 &&
	    (expected_fds(&m) != (int)count || m.fds != count || !content_ok(&m, fds))) {
		for (i = 0; i < count && how != FDPASS_OR_END; i++)
			close(fds[i]);
		errno = EPROTO;
		return -1;
	}
	memcpy(out_fds, fds, sizeof(int) * MESSAGE_FDS);
	if (rc == 1)
		*out_m = m;
	return rc;
}

int message_receive(int socket_fd, struct message *out_m, int out_fds[MESSAGE_FDS])
{
	return receive(socket_fd, out_m, out_fds, FDPASS_NOW);
}

int message_receive_or_end(int socket_fd, struct message *out_m, int out_fds[MESSAGE_FDS])
{
	return receive(socket_fd, out_m, out_fds, FDPASS_OR_END);
}

int message_make_report(const struct report *r)
{
	return fs_sealed("report", r, sizeof(*r));
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
