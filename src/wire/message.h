/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * message.h - what server and launcher say to each other
 *
 * One SEQPACKET socket, messages of one fixed size, at most MESSAGE_FDS descriptors each.
 * A message of another size, an unknown type or a wrong number of descriptors is an error
 * of the peer (errno EPROTO) and received descriptors are closed.
 *
 *	server -> launcher
 *		MSG_RUN      a plan; fds: input memfd, sealed; where its listening socket
 *		             is to go, when plan.network is NETWORK_BROKER; of a session:
 *		             that of its process 1, if this starts it
 *		MSG_KILL     the client went away
 *	launcher -> server
 *		MSG_REPORT   isolation found; at start and whenever it changes
 *		MSG_STREAMS  fds: stdin (write), stdout (read), stderr (read)
 *		MSG_STARTED  the program runs; setup_us is known
 *		MSG_VIOLATION  calls that were refused; before MSG_DONE, any number
 *		MSG_DONE     an outcome; fd: files, when outcome.files is 1
 *		MSG_FAILED   no user code ran: step and errno
 *		MSG_LAYERS   how many layers of packages there are, when that has changed
 *		MSG_WARM     how many sandboxes wait, soon after that has changed
 *		MSG_SESSION  nothing of this session is alive any more
 */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include <stdint.h>

#include "wire/plan.h"
#include "wire/report.h"

enum message_type {
	MSG_RUN = 1,
	MSG_KILL,
	MSG_REPORT,
	MSG_STREAMS,
	MSG_STARTED,
	MSG_VIOLATION,
	MSG_DONE,
	MSG_FAILED,
	MSG_WARM,
	MSG_LAYERS,
	MSG_SESSION,
	MSG_TYPE_END
};

#define MESSAGE_FDS 3

struct failure {
	int32_t num;   /* errno */
	uint32_t busy; /* 1: no free slot; not a fault */
	/* 1 + enum layer_id: that layer is gone, or: 503 */
	uint32_t lost_layer;
#define FAILURE_BELOW_MINIMUM (LAYER_COUNT + 1u)
	uint32_t no_layer; /* 1: its layer is not there: to be made first */
	char step[32];
};

struct message {
	uint32_t type;
	uint32_t fds; /* how many descriptors come along */
	uint64_t run; /* the server's number for it, each higher; 0 in MSG_REPORT,
			 MSG_WARM, MSG_LAYERS and MSG_SESSION */
	union {
		struct plan plan;
		struct outcome outcome;
		struct failure failure;
		struct violation violation;
		struct warm_state warm;
		struct layers_state layers;
		uint8_t session_key[SESSION_KEY];
		uint64_t setup_us;
	};
};

/* Neither waits, whatever the socket says of itself. */
/* 0, or -1 with errno; EAGAIN when the socket is full. The descriptors stay the caller's
 */
int message_send(int socket_fd, const struct message *m, const int *fds);
/* 1, 0 at end of file, -1 with errno (EAGAIN, EPROTO). fds[] is filled, -1 behind the
 * last. EMFILE: *out_m has come, but there was no room for its descriptors */
int message_receive(int socket_fd, struct message *out_m, int out_fds[MESSAGE_FDS]);
/* the same for the launcher, which does not trust its peer: what is refused stays open,
 * since closing it may wait; after EPROTO and EMFILE the process must end */
int message_receive_or_end(int socket_fd, struct message *out_m,
			   int out_fds[MESSAGE_FDS]);

/* a report is too large to be one of many in a socket: it goes as a sealed memfd */
int message_make_report(const struct report *r); /* -1 with errno */
/* the report of a MSG_REPORT's descriptor; -1 with errno EPROTO when it is not one */
int message_read_report(int fd, struct report *out_r);

#endif
