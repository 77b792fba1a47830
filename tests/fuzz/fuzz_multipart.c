/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_multipart.c - forms: what is found lies inside the body, and its end is a boundary
 *
 * The input: a Content-Type, a NUL, a body.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/multipart.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
	struct multipart_text type = {(const char *)data,
				      nul ? (size_t)(nul - data) : size};
	struct multipart_text body = {nul ? (const char *)nul + 1 : NULL,
				      nul ? size - type.len - 1 : 0};
	struct multipart_file f;
	struct err e = {0};

	if (multipart_find(type, body, "file", &f, &e) < 0) {
		assert(err_status(&e) == 400 || err_status(&e) == 415);
		return 0;
	}
	assert(f.name_len > 0 && f.name_len <= sizeof(f.name));
	assert(f.bytes >= body.p && f.bytes + f.len + 4 <= body.p + body.len);
	assert(memcmp(f.bytes + f.len, "\r\n--", 4) == 0);
	return 0;
}
