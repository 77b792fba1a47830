/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * launcher.c - what the supervisor executes as the launcher
 *
 * Not for people: it wants its start on descriptor 3, its socket on 4 and its ledger on
 * 5.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "launcher/engine.h"
#include "session/session.h"

#define ALL_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static const struct launcher_start *map_start(int fd)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	const struct launcher_start *start;
	struct stat st;

	if (seals < 0 || (seals & ALL_SEALS) != ALL_SEALS || fstat(fd, &st) < 0 ||
	    st.st_size != (off_t)sizeof(*start))
		return NULL;
	start = mmap(NULL, sizeof(*start), PROT_READ, MAP_PRIVATE, fd, 0);
	if (start == MAP_FAILED || start->setup.magic != SETUP_MAGIC ||
	    start->setup.size != sizeof(*start))
		return NULL;
	return start;
}

int cmd_launcher(int argc, char **argv)
{
	const struct launcher_start *start;

	(void)argv;
	start = argc == 0 ? map_start(3) : NULL;
	if (!start) {
		fprintf(stderr,
			"sandbox-server: 'launcher' is not for people: use 'serve'\n");
		return 2;
	}
	close(3);
	fcntl(4, F_SETFD, FD_CLOEXEC);
	fcntl(5, F_SETFD, FD_CLOEXEC);
	log_setup((enum log_level)start->setup.log_level,
		  (enum log_format)start->setup.log_format, "launcher");
	return start->setup.engine.on ? engine_main(start, 4)
				      : launcher_main(start, 4, 5, session_inside_main);
}
