/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * fuzz_input.c - the files of a request on their way into the sandbox
 *
 * The first byte of an input chooses. Either lines of names become the files of a
 * request: what the API lets in, the child can make, and only that. Or the rest is what a
 * server gone wrong puts into the sealed memfd: the child takes it or refuses it, and
 * makes nothing outside its working directory.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "api/api.h"
#include "base/utf8.h"
#include "config/mode.h"
#include "config/settings.h"
#include "job/jobs.h"
#include "launcher/child.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct setup setup = {.output_dir = "output"};
static struct setup_row row = {
	.script = "script.py", .argv = {"/bin/true\0"}, .env = {"A=b\0"}};

/* the working directory as the child left it, or -1 with errno when it refused */
static int unpack(int input_fd, uint64_t len, int work_fd)
{
	static struct child c;
	int rc, saved;

	memset(&c, 0, sizeof(c));
	c.setup = &setup;
	c.row = &row;
	c.plan.input_bytes = len;
	c.input_fd = input_fd;
	c.work_fd = work_fd;
	rc = child_inputs(&c);
	saved = errno;
	if (rc == 0) {
		assert(!strcmp(c.argv[0], "/bin/true") && !strcmp(c.envp[0], "A=b"));
		for (int i = 0; c.argv[i]; i++)
			assert(i < CHILD_WORDS + INPUT_ARGS_MAX);
		for (int i = 0; c.envp[i]; i++)
			assert(i < CHILD_WORDS + INPUT_ENV_MAX);
	}
	if (c.input)
		munmap((void *)(uintptr_t)c.input, len);
	scratch_check();
	errno = saved;
	return rc;
}

static void raw(const uint8_t *data, size_t size)
{
	int work_fd = scratch_work(), fd = fs_sealed("input", data, size);

	assert(fd >= 0);
	(void)unpack(fd, size, work_fd);
	close(fd);
	close(work_fd);
}

/* {"code":"x","files":{NAME:"eA==",...}} for lines of names; 0: one is not for JSON */
static int body_of(const uint8_t *data, size_t size, struct buf *b)
{
	assert(buf_puts(b, "{\"code\":\"x\",\"files\":{") == 0);
	for (size_t at = 0, len, i = 0; at < size; at += len + 1, i++) {
		const char *line = (const char *)data + at;
		const char *end = memchr(line, '\n', size - at);

		len = end ? (size_t)(end - line) : size - at;
		if (!utf8_valid(line, len))
			return 0;
		if ((i && buf_puts(b, ",") < 0) || buf_json_string(b, line, len) < 0 ||
		    buf_puts(b, ":\"eA==\"") < 0)
			return 0;
	}
	return buf_puts(b, "}}") == 0;
}

static void check_made(const struct run_request *r, int work_fd)
{
	struct stat st;

	assert(fstatat(work_fd, "script.py", &st, AT_SYMLINK_NOFOLLOW) == 0);
	assert(S_ISREG(st.st_mode));
	for (size_t i = 0; i < r->file_count; i++) {
		int fd = fs_open_beneath(work_fd, r->files[i].name, O_RDONLY, 0);

		assert(fd >= 0 && fstat(fd, &st) == 0 && st.st_size == 1);
		scratch_beneath(fd);
		close(fd);
	}
}

static void names(const uint8_t *data, size_t size)
{
	static char output_dir[] = "output";
	static const struct settings settings = {.timeout_sec = 30,
						 .max_timeout_sec = 300,
						 .max_output_kb = 10,
						 .output_ceiling_kb = 1024,
						 .output_dir = output_dir};
	static const struct modes modes = {
		.count = 1,
		.mode = {{.id = MODE_PYTHON,
			  .name = "python",
			  .defaults = {.memory_mb = 512, .pids = 64, .disk_mb = 256},
			  .typescript_row = -1}}};
	struct jobs jobs = {.settings = &settings};
	struct job job = {.jobs = &jobs, .input_fd = -1};
	struct run_request copy = {0};
	struct err e = {0};
	struct buf body;
	int work_fd;

	buf_init(&body, size * 8 + 4096);
	if (body_of(data, size, &body) &&
	    request_parse(body.bytes, body.len, &settings, &modes, &copy, &e) == 0) {
		work_fd = scratch_work();
		assert(request_parse(body.bytes, body.len, &settings, &modes,
				     &job.request, &e) == 0);
		assert(prepare_job(&job, &e) == 0);
		assert(unpack(job.input_fd, job.plan.input_bytes, work_fd) == 0);
		check_made(&copy, work_fd);
		request_done(&job.request);
		close(job.input_fd);
		close(work_fd);
	}
	request_done(&copy);
	buf_done(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 0)
		(data[0] & 1 ? raw : names)(data + 1, size - 1);
	return 0;
}
