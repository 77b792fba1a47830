/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * defer.h - things that end with their scope
 *
 * auto_fd closes, auto_free frees; errno survives both. take_fd and take_ptr hand the
 * thing on to somebody else, leaving -1 or NULL behind.
 */
#ifndef BASE_DEFER_H
#define BASE_DEFER_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static inline void defer_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void defer_free(void *where)
{
	int saved = errno;

	free(*(void **)where);
	errno = saved;
}

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#define take_ptr(where)                                 \
	({                                              \
		__typeof__(*(where)) taken_ = *(where); \
		*(where) = NULL;                        \
		taken_;                                 \
	})

#define auto_fd __attribute__((cleanup(defer_close)))
#define auto_free __attribute__((cleanup(defer_free)))

#endif
