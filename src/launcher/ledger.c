/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ledger.c - what a launcher leaves for the one after it
 *
 * Runs in: the supervisor, which makes it, and the launchers, one after the other. Read
 * and written, not mapped: workers inherit mappings, and their copy of this descriptor
 * is closed.
 */
#include "launcher/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"

int ledger_make(void)
{
	auto_fd int fd = memfd_create("ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, sizeof(struct ledger)) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return -1;
	return take_fd(&fd);
}

int ledger_read(int fd, struct ledger *out)
{
	struct ledger l = {0};
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_size != (off_t)sizeof(l) ||
			pread(fd, &l, sizeof(l), 0) != (ssize_t)sizeof(l))) {
		errno = EPROTO;
		return -1;
	}
	*out = l;
	return 0;
}

int ledger_write(int fd, const struct ledger *in)
{
	if (fd < 0)
		return 0;
	return pwrite(fd, in, sizeof(*in), 0) == (ssize_t)sizeof(*in) ? 0 : -1;
}
