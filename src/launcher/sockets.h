/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sockets.h - what a run's sockets hold, where no cgroup counts it
 */
#ifndef LAUNCHER_SOCKETS_H
#define LAUNCHER_SOCKETS_H

#include <stdint.h>
#include <sys/types.h>

#define SOCKETS_OF_ALL ((uid_t)-1)

/* A descriptor that asks about the network namespace of the caller, and was seen to tell
 * what a socket holds; -1 with errno. `uid` as below; if not of all, the caller's own. */
int sockets_open(uid_t uid);

/* What all sockets there hold, or those that `uid` made; -1 with errno. Right for stream
 * sockets whose SO_SNDBUF is the kernel's default, and for netlink: all that a program
 * has. */
int sockets_kb(int fd, uid_t uid, uint64_t *out);

/* the same of a whole network namespace, with TCP; fd: a socket of NETLINK_SOCK_DIAG that
 * was made there */
int sockets_tcp_kb(int fd, uint64_t *out);

#endif
