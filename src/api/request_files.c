/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * request_files.c - `files` of a request: names, contents, and whether they fit
 *
 * The names become paths below the working directory inside the sandbox. They are checked
 * here so that a bad one is a 400 that says why; the sandbox checks them again.
 */
#include "api/request.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/defer.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/mode.h"
#include "config/settings.h"

#define NAME_BYTES 4095 /* with its NUL what the kernel takes for a path */
#define PAGE_BYTES 4096

static const char *const scripts[] = {
	[MODE_PYTHON] = "script.py",
	[MODE_GOLANG] = "script.go",
	[MODE_NODE] = "script.js",
	[MODE_SHELL] = "script.sh",
};
static_assert(sizeof(scripts) / sizeof(*scripts) == MODE_COUNT,
	      "a mode lacks its script");

static const char *script_name(const struct run_request *r)
{
	if (r->mode->typescript_row >= 0 && r->row == (unsigned)r->mode->typescript_row)
		return "script.ts";
	return scripts[r->mode->id];
}

static int bad_name(struct err *e, const char *name, const char *why)
{
	return err_client(e, 400, "bad_file_name", "file name \"%.200s\" %s", name, why);
}

/* the path itself or something below it */
static bool at_or_below(const char *name, const char *path)
{
	size_t len = strlen(path);

	return strncmp(name, path, len) == 0 && (name[len] == 0 || name[len] == '/');
}

static int check_name(const char *name, const struct run_request *r,
		      const struct settings *s, struct err *e)
{
	if (!name[0])
		return bad_name(e, name, "is empty");
	if (name[0] == '/')
		return bad_name(e, name, "must be a relative path");
	if (strlen(name) > NAME_BYTES)
		return bad_name(e, name, "is too long");
	if (!fs_name_ok(name, strlen(name), NAME_BYTES))
		return bad_name(e, name,
				"must consist of parts of 1 to 255 bytes, none of them "
				"\".\" or \"..\", without control characters");
	if (at_or_below(name, script_name(r)))
		return bad_name(e, name, "is the script's own");
	if (at_or_below(name, s->output_dir))
		return bad_name(e, name, "is the output directory's");
	return 0;
}

static int decode(struct run_file *f, const struct json *value, bool plain, struct err *e)
{
	size_t len;
	const char *text = json_text(value, &len);
	ssize_t n;

	if (!text)
		return err_bad(e, "files: \"%.200s\" must be a %sstring", f->name,
			       plain ? "" : "base64 ");
	if (plain)
		return request_copy(&f->data, text, len, e);
	buf_init(&f->data, len);
	if (buf_reserve(&f->data, len / 4 * 3) < 0)
		return err_errno(e, "copy a request");
	n = base64_decode(text, len, f->data.bytes);
	if (n < 0)
		return err_client(e, 400, "bad_base64",
				  "failed to decode file \"%.200s\"", f->name);
	f->data.len = (size_t)n;
	return 0;
}

/* By bytes, but a slash before all others: a directory is then next to what is in it. */
static int by_path(const void *left, const void *right)
{
	const unsigned char *a = *(const unsigned char *const *)left;
	const unsigned char *b = *(const unsigned char *const *)right;

	while (*a && *a == *b)
		a++, b++;
	return (*a == '/' ? 1 : *a) - (*b == '/' ? 1 : *b);
}

/* directories that `name` needs and its neighbour before it has not made */
static size_t new_directories(const char *name, const char *before)
{
	size_t same = 0, count = 0;

	while (before[same] && before[same] == name[same])
		same++;
	for (size_t i = same; name[i]; i++)
		count += name[i] == '/';
	return count;
}

/* no file that is also a directory; all of them within the disk limit */
static int check_together(const struct run_request *r, struct err *e)
{
	const uint64_t room = (uint64_t)r->limits.disk_mb * 1024 * 1024 / PAGE_BYTES;
	auto_free const char **names = mem_array(r->file_count + 1, sizeof(*names));
	uint64_t pages = r->code.len / PAGE_BYTES + 1;

	for (size_t i = 0; i < r->file_count; i++) {
		names[i] = r->files[i].name;
		pages += r->files[i].data.len / PAGE_BYTES + 1;
	}
	qsort(names, r->file_count, sizeof(*names), by_path);
	for (size_t i = 0; i < r->file_count; i++) {
		const char *before = i ? names[i - 1] : "";

		if (i && at_or_below(names[i], before))
			return bad_name(e, before,
					"is also the directory of another file");
		pages += new_directories(names[i], before);
	}
	if (pages > room)
		return err_client(e, 400, "files_too_large",
				  "files do not fit into the disk limit of %u MB",
				  r->limits.disk_mb);
	return 0;
}

int request_files(const struct json *body, bool plain, const struct settings *s,
		  struct run_request *out, struct err *e)
{
	const struct json *files = NULL;
	size_t count;

	if (json_get_object(body, "files", &files, e) < 0)
		return -1;
	count = json_count(files);
	out->files = mem_array(count + 1, sizeof(*out->files));
	for (size_t i = 0; i < count; i++) {
		const char *name = json_key(files, i);

		if (check_name(name, out, s, e) < 0)
			return -1;
		out->files[i].name = mem_copy(name);
		out->file_count = i + 1;
		if (decode(&out->files[i], json_value(files, i), plain, e) < 0)
			return -1;
	}
	return check_together(out, e);
}
