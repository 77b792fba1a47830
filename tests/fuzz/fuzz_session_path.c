/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_session_path.c - paths of sessions: what comes out climbs nowhere, and is read the
 * same when it is read again
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/err.h"
#include "base/fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_again(const struct session_path *p)
{
	struct session_path again;
	char text[SESSION_PATH_MAX + 1];
	struct err e = {0};

	text[0] = '/';
	memcpy(text + 1, p->text, p->len);
	if (p->len + 1 > SESSION_PATH_MAX - 6)
		return; /* a relative one has more room */
	assert(session_path_resolve(text, p->len + 1, &again, &e) == 0);
	assert(again.len == p->len && memcmp(again.text, p->text, p->len) == 0);
}

static void resolve(const char *text, size_t len)
{
	struct session_path p = {.len = 0};
	struct err e = {0};

	if (session_path_resolve(text, len, &p, &e) < 0) {
		assert(err_status(&e) == 400 || err_status(&e) == 403);
		return;
	}
	assert(p.len < SESSION_PATH_MAX && strlen(p.text) == p.len);
	assert(p.len == 0 || fs_name_ok(p.text, p.len, SESSION_PATH_MAX));
	assert(text[0] == '/' || strcmp(p.text, "work") == 0 ||
	       strncmp(p.text, "work/", 5) == 0);
	assert(strcmp(p.text, "root") != 0 && strncmp(p.text, "root/", 5) != 0);
	assert(strncmp(p.text, "proc/", 5) != 0 && strcmp(p.text, "etc/passwd") != 0);
	check_again(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *out = malloc(size ? size
				: 1); /* a sanitizer sees the first byte beyond it */
	struct err e = {0};
	size_t len = 0;

	assert(out);
	if (session_path_decode((const char *)data, size, out, &len, &e) == 0) {
		assert(len <= size);
		resolve(out, len);
	}
	resolve((const char *)data, size);
	memset(&e, 0, sizeof(e));
	if (session_url_check((const char *)data, size, &e) < 0)
		assert(err_status(&e) == 400 || err_status(&e) == 403 ||
		       err_status(&e) == 404);
	free(out);
	return 0;
}
