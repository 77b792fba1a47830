/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_fixture.h - a file of settings that an installer's variable names
 */
#ifndef UNIT_INDEX_FIXTURE_H
#define UNIT_INDEX_FIXTURE_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/settings.h"
#include "tap.h"

static struct settings s;
static const char fresh[] = "/tmp/test-index-XXXXXX";
static char path[sizeof(fresh)];

/* this file comes before whatever the host has in /etc */
static void say(const char *variable, const char *text)
{
	const int fd = mkstemp(memcpy(path, fresh, sizeof(path)));

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	CHECK(clearenv() == 0 && setenv(variable, path, 1) == 0);
	CHECK(setenv("HOME", "/nonexistent", 1) == 0);
}

#endif
