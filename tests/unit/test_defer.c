/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_defer.c - things that end with their scope, and things handed on
 */
#include "base/defer.h"

#include <fcntl.h>

#include "../tap.h"

static int is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

TEST(descriptors_close_with_their_scope_and_errno_survives)
{
	int number;

	{
		auto_fd int fd = dup(2);

		number = fd;
		CHECK(is_open(number));
		errno = EXDEV;
	}
	CHECK(errno == EXDEV && !is_open(number));
	{
		auto_fd int wrong = number; /* not open: close fails */

		(void)wrong;
		errno = EXDEV;
	}
	CHECK(errno == EXDEV);
	{
		auto_fd int none = -1;

		(void)none;
	}
}

TEST(what_was_taken_stays)
{
	int kept;
	char *text;

	{
		auto_fd int fd = dup(2);
		auto_free char *copy = strdup("text");

		kept = take_fd(&fd);
		text = take_ptr(&copy);
		CHECK(fd == -1 && copy == NULL);
	}
	CHECK(is_open(kept) && !strcmp(text, "text"));
	close(kept);
	free(text);
}
