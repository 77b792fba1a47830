/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_request.c - bodies of POST /execute
 *
 * What is let in keeps every bound; what is refused has an error that is valid JSON; and
 * the code, with the environment's values masked, is still valid JSON.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/fs.h"
#include "base/json.h"
#include "config/mode.h"
#include "config/settings.h"
#include "job/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define OWN                                                  \
	{                                                    \
		.memory_mb = 512, .pids = 64, .disk_mb = 256 \
	}
static const struct modes modes = {
	.count = 2,
	.mode = {{.id = MODE_PYTHON,
		  .name = "python",
		  .defaults = OWN,
		  .typescript_row = -1},
		 {.id = MODE_NODE,
		  .name = "node",
		  .defaults = OWN,
		  .row = 1,
		  .typescript_row = 2}},
};

static void must_be_json(const struct buf *b)
{
	const struct json_limits any = {64, 1u << 20, 1u << 20};
	struct json *doc = json_parse(b->bytes, b->len, &any, NULL);

	assert(doc);
	json_free(doc);
}

static void check_words(char *const *words, size_t most, bool env)
{
	size_t count = 0;

	for (; words[count]; count++)
		assert(!env || strchr(words[count], '='));
	assert(count <= most);
}

static void check_accepted(const struct run_request *r)
{
	assert(r->code.len > 0 && !memchr(r->code.bytes, 0, r->code.len));
	assert(r->limits.wall_ms > 0 && r->limits.wall_ms <= 300000);
	assert(r->limits.cpu_ms > 0 && r->limits.cpu_ms <= r->limits.wall_ms);
	assert(r->limits.memory_mb >= 8 && r->limits.memory_mb <= 512);
	assert(r->limits.pids > 0 && r->limits.pids <= 64);
	assert(r->limits.disk_mb > 0 && r->limits.disk_mb <= 256);
	assert(r->limits.output_kb > 0 && r->limits.output_kb <= 1024);
	for (size_t i = 0; i < r->file_count; i++)
		assert(fs_name_ok(r->files[i].name, strlen(r->files[i].name), 4095));
	check_words(r->args, INPUT_ARGS_MAX, false);
	check_words(r->env, INPUT_ENV_MAX - 1, true);
}

static void check_mask(const struct run_request *r)
{
	struct mask *m = mask_new(r->env);
	struct buf plain, masked;

	buf_init(&plain, r->code.len * 6 + 2);
	buf_init(&masked, plain.cap_bytes * 3);
	assert(m && buf_json_string(&plain, r->code.bytes, r->code.len) == 0);
	if (mask_json(m, &masked, plain.bytes, plain.len) == 0)
		must_be_json(&masked);
	buf_done(&plain);
	buf_done(&masked);
	mask_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char output_dir[] = "output";
	static const struct settings settings = {.timeout_sec = 30,
						 .max_timeout_sec = 300,
						 .max_output_kb = 10,
						 .output_ceiling_kb = 1024,
						 .output_dir = output_dir};
	struct run_request r;
	struct err e = {0};

	if (request_parse((const char *)data, size, &settings, &modes, &r, &e) == 0) {
		check_accepted(&r);
		check_mask(&r);
	} else {
		struct buf out;

		/* wrong, not allowed (network) or not there yet; never a fault of ours */
		assert(err_status(&e) == 400 || err_status(&e) == 403 ||
		       err_status(&e) == 501);
		buf_init(&out, 1 << 16);
		assert(reply_error(&out, "error", &e, "id") == 0);
		must_be_json(&out);
		buf_done(&out);
	}
	request_done(&r);
	return 0;
}
