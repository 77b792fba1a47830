/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * artifacts.h - stored runs: SANDBOX_STORE_CODE
 *
 * One file a run, <timestamp>_<hash>.json below the artifact directory, written
 * atomically with mode 0600, never holding stdin, file contents, env values, userinfo of
 * URLs or anything of the server's own environment. Bounded: the oldest go first. A
 * failure costs a log line, not the answer.
 */
#ifndef JOB_ARTIFACTS_H
#define JOB_ARTIFACTS_H

#include <stddef.h>
#include <stdint.h>

struct artifacts;
struct err;

/* dir_fd is taken over; NULL when artifacts are off (dir_fd -1 or no room for any); the
 * others take NULL */
struct artifacts *artifacts_new(int dir_fd, uint64_t cap_bytes);
void artifacts_free(struct artifacts *a);

struct artifact {
	const char *code;
	size_t code_len;
	/* "NAME=value", NULL-terminated or NULL; values are masked in code and output */
	char *const *env;
	const char *result_json; /* the answer as it was sent, without files_produced */
	size_t result_len;
	const char *request_id;
};
void artifacts_store(struct artifacts *a, const struct artifact *what);

#endif
