/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * command.h - ask a program something: run it, read what it prints, not for long
 *
 * Runs in: the supervisor, at start, before anything of a client is there.
 */
#ifndef CONFIG_COMMAND_H
#define CONFIG_COMMAND_H

struct buf;

/*
 * Runs argv[0] (an absolute path) in a process group of its own, with our environment and
 * `extra` before it (NULL: nothing), without input. Its standard output goes to out,
 * whose cap bounds it, its complaints go nowhere. 0 when it ended with status 0. Else -1
 * and errno: ETIMEDOUT after deadline_ms, ENOSPC for too much output, EIO for any other
 * end, or why it could not be run. Nothing of its group lives on in any case.
 */
int command_run(const char *const *argv, const char *const *extra, unsigned deadline_ms,
		struct buf *out);

#endif
