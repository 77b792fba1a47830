/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fdpass.h - one datagram and its descriptors over a unix socket
 */
#ifndef BASE_FDPASS_H
#define BASE_FDPASS_H

#include <stddef.h>

#define FDPASS_MAX 5

enum fdpass_how {
	FDPASS_NOW,
	FDPASS_WAIT, /* until there is one */
	/* as NOW, from somebody who may mean ill: what is refused is not closed. Close a
	 * socket that lingers and you wait for as long as its maker wanted; end, and you
	 * do not. So who gets EPROTO or EMFILE must end */
	FDPASS_OR_END,
};

/* non-blocking; 0, or -1 with errno. The descriptors stay the caller's */
int fdpass_send(int socket_fd, const void *bytes, size_t len, const int *fds,
		size_t count);
/*
 * A datagram of exactly len bytes: 1, 0 at end of file, -1 with errno (EAGAIN; EPROTO for
 * another size or too many descriptors, which are closed; EMFILE: its bytes are in *out,
 * but there was no room for its descriptors, and they are gone). out_fds[] is filled, -1
 * behind the last; close-on-exec.
 */
int fdpass_receive(int socket_fd, void *out, size_t len, int out_fds[FDPASS_MAX],
		   size_t *out_count, enum fdpass_how how);

#endif
