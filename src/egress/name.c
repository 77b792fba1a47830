/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * name.c - one spelling of a host, or none
 */
#include "egress/name.h"

#include <stdint.h>
#include <string.h>

#define LABEL_MOST 63

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* decimal, octal or hexadecimal for some reader: all digits, or 0x and what may follow */
static bool is_number(const char *label, size_t len)
{
	size_t i = 0;

	if (len >= 2 && label[0] == '0' && label[1] == 'x') {
		for (i = 2; i < len && is_hex(label[i]);)
			i++;
		return i == len;
	}
	while (i < len && is_digit(label[i]))
		i++;
	return i == len;
}

static bool label_ok(const char *label, size_t len)
{
	return len > 0 && len <= LABEL_MOST && label[0] != '-' && label[len - 1] != '-';
}

/* letters, digits, '-', '_' in labels; the last one not a number */
static bool labels_ok(const char *text, size_t len)
{
	size_t start = 0, i;

	for (i = 0; i < len; i++) {
		const char c = text[i];

		if (c == '.') {
			if (!label_ok(text + start, i - start))
				return false;
			start = i + 1;
		} else if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' &&
			   c != '_') {
			return false;
		}
	}
	return label_ok(text + start, len - start) &&
	       !is_number(text + start, len - start);
}

static int take_address(const char *bytes, size_t len, struct name *out)
{
	struct name n = {.is_address = true};
	char room[ADDRESS_TEXT];

	if (address_parse(bytes, len, &n.address) < 0 || !address_text(&n.address, room))
		return -1;
	memcpy(n.text, room, strlen(room) + 1);
	*out = n;
	return 0;
}

int name_parse(const char *bytes, size_t len, struct name *out)
{
	struct name n = {.is_address = false};
	size_t i;

	if (len >= 2 && bytes[0] == '[' && bytes[len - 1] == ']')
		return memchr(bytes, ':', len) ? take_address(bytes + 1, len - 2, out)
					       : -1;
	if (len > 1 && bytes[len - 1] == '.')
		len--;
	if (len == 0 || len >= NAME_ROOM)
		return -1;
	if (take_address(bytes, len, out) == 0)
		return 0;
	for (i = 0; i < len; i++)
		n.text[i] = bytes[i] >= 'A' && bytes[i] <= 'Z' ? (char)(bytes[i] | 0x20)
							       : bytes[i];
	if (!labels_ok(n.text, len))
		return -1;
	*out = n;
	return 0;
}
