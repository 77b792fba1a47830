/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_settings.c - files of settings
 *
 * Whatever the text, a name and a value that come out are UTF-8 without control
 * characters, on a line that is there, and a refusal begins with the file's name and such
 * a line.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/utf8.h"
#include "config/settings_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned lines;

static void check_text(const char *text)
{
	assert(utf8_valid(text, strlen(text)));
	for (; *text; text++)
		assert((unsigned char)*text >= ' ' || *text == '\t');
}

static int take(void *arg, unsigned line, const char *key, const char *value,
		struct err *e)
{
	unsigned *last = arg;

	assert(line > *last && line <= lines && key[0] && !strchr(key, '='));
	*last = line;
	check_text(key);
	check_text(value);
	return strcmp(key, "no") == 0 ? err_bad(e, "of the caller") : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = {0};
	unsigned last = 0;
	uint64_t line;
	char *end;

	lines = 1;
	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	if (settings_file_parse("f", (const char *)data, size, take, &last, &e) == 0)
		return 0;
	assert(e.kind == ERR_THEIRS);
	if (strcmp(e.text, "of the caller") == 0)
		return 0;
	assert(strncmp(e.text, "f:", 2) == 0);
	end = strchr(e.text + 2, ':');
	assert(end);
	*end = 0;
	assert(num_range(e.text + 2, 1, lines, &line) == 0);
	return 0;
}
