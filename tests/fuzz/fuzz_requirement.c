/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_requirement.c - elements of `requirements`: what comes out is no option, address,
 * path or shell, and is read as itself again
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/requirement.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef int (*reader)(const char *text, size_t len, char *out, struct err *e);

static void check(reader read, const uint8_t *data, size_t size, const char *never)
{
	char out[REQUIREMENT_ROOM], again[REQUIREMENT_ROOM];
	struct err e = {0};
	size_t len;

	if (read((const char *)data, size, out, &e) < 0) {
		assert(err_status(&e) == 400 && strcmp(e.code, "bad_requirement") == 0);
		return;
	}
	len = strlen(out);
	assert(len > 0 && out[0] != '-' && out[0] != '.' && out[0] != '/');
	assert(strcspn(out, never) == len && !strstr(out, "/."));
	for (size_t i = 0; i < len; i++)
		assert(out[i] >= 0x20 && out[i] < 0x7f);
	if (len > REQUIREMENT_MOST)
		return;
	assert(read(out, len, again, &e) == 0 && strcmp(out, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check(requirement_python, data, size, "@/\\:$`&%#{}'\n?");
	check(requirement_npm, data, size, "\\:$`&;%#{}()[]\"'\n?!");
	return 0;
}
