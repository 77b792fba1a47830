/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * volumes.c - directories of the host that sessions may ask for
 *
 * "NAME=/PATH[:rw]", separated by spaces or commas. Each is at /volumes/NAME.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/mem.h"
#include "config/settings.h"
#include "wire/setup.h"

#define BETWEEN " ,"

static bool name_ok(const char *name, size_t room)
{
	static const char fit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				  "0123456789._-";

	return name[0] && name[0] != '.' && strlen(name) < room &&
	       strspn(name, fit) == strlen(name);
}

/* NULL, or what is wrong with it */
static const char *take_one(char *word, struct setup_volume *out)
{
	char *path = strchr(word, '='), *rw;
	size_t len;

	if (!path)
		return "must be NAME=/PATH or NAME=/PATH:rw, separated by commas";
	*path++ = '\0';
	rw = strrchr(path, ':');
	out->writable = rw && strcmp(rw, ":rw") == 0;
	if (out->writable)
		*rw = '\0';
	len = strlen(path);
	if (!name_ok(word, sizeof(out->name)))
		return "must have names of letters, digits, dots, dashes and underscores";
	if (path[0] != '/' || len < 2 || len >= sizeof(out->path))
		return "must have absolute paths, and not the root";
	memcpy(out->name, word, strlen(word) + 1);
	memcpy(out->path, path, len + 1);
	return NULL;
}

const char *volumes_take(const char *text, struct setup_volume *out, uint32_t *out_count)
{
	auto_free char *copy = mem_copy(text ? text : "");
	char *at = copy, *word;
	const char *wrong = NULL;
	uint32_t n = 0, i;

	while (!wrong && (word = strsep(&at, BETWEEN))) {
		if (!*word)
			continue;
		if (n == SETUP_VOLUMES)
			return "has more than 16 volumes";
		wrong = take_one(word, &out[n]);
		for (i = 0; !wrong && i < n; i++)
			if (strcmp(out[i].name, out[n].name) == 0)
				wrong = "names a volume twice";
		n++;
	}
	*out_count = n;
	return wrong;
}

const char *volumes_ok(const char *text)
{
	auto_free struct setup_volume *all = mem_array(SETUP_VOLUMES, sizeof(*all));
	uint32_t count;

	return volumes_take(text, all, &count);
}
