/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * image.c - names of images, and of their directories
 */
#include "image/image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define PLAIN LOWER UPPER DIGITS "._-" /* as it is in a directory's name */
#define HEX DIGITS "abcdef"

static bool is_of(const char *set, char c)
{
	return c && strchr(set, c);
}

bool image_name_ok(const char *name)
{
	const size_t len = strlen(name);
	bool first = true;

	if (len == 0 || len >= IMAGE_NAME || strcmp(name, IMAGE_HOST) == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (first ? !is_of(LOWER UPPER DIGITS, name[i])
			  : !is_of(PLAIN "/:@+", name[i]))
			return false;
		first = is_of("/:@", name[i]);
	}
	return !first; /* nothing behind a separator */
}

static int wrong(void)
{
	errno = EINVAL;
	return -1;
}

int image_encode(const char *name, char out[IMAGE_FILE])
{
	char file[IMAGE_FILE];
	size_t len = 0;

	if (!image_name_ok(name))
		return wrong();
	for (const char *p = name; *p; p++) {
		if (len + 4 > sizeof(file))
			return wrong();
		if (is_of(PLAIN, *p))
			file[len++] = *p;
		else
			len += (size_t)snprintf(file + len, sizeof(file) - len, "%%%02x",
						(unsigned char)*p);
	}
	file[len] = '\0';
	memcpy(out, file, len + 1);
	return 0;
}

int image_decode(const char *file, char out[IMAGE_NAME])
{
	char name[IMAGE_NAME], again[IMAGE_FILE];
	size_t len = 0;

	for (const char *p = file; *p; p++) {
		if (len == sizeof(name) - 1)
			return wrong();
		name[len] = *p;
		if (*p == '%') {
			if (!is_of(HEX, p[1]) || !is_of(HEX, p[2]))
				return wrong();
			name[len] = (char)((strchr(HEX, p[1]) - HEX) << 4 |
					   (strchr(HEX, p[2]) - HEX));
			p += 2;
		}
		if (!name[len++])
			return wrong();
	}
	name[len] = '\0';
	/* one name, one directory: no other spelling of it is an image */
	if (image_encode(name, again) < 0 || strcmp(again, file) != 0)
		return wrong();
	memcpy(out, name, len + 1);
	return 0;
}
