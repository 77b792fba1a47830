/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * request.c - JSON to struct run_request, every field checked against its bounds
 *
 * Unknown fields are ignored, null is as good as missing, and a wrong type names its
 * field.
 */
#include "api/request.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "api/api.h"
#include "base/json.h"
#include "config/mode.h"
#include "config/settings.h"

int request_copy(struct buf *to, const char *text, size_t len, struct err *e)
{
	buf_init(to, len);
	if (buf_add(to, text, len) < 0)
		return err_errno(e, "copy a request");
	return 0;
}

static int get_code(const struct json *body, struct run_request *out, struct err *e)
{
	const char *text;
	size_t len;
	int there = json_get_string(body, "code", &text, &len, e);

	if (there < 0)
		return -1;
	if (there == JSON_ABSENT || len == 0)
		return err_client(e, 400, "code_required", "code is required");
	if (memchr(text, 0, len))
		return err_bad(e, "code must not contain NUL");
	return request_copy(&out->code, text, len, e);
}

static int get_stdin(const struct json *body, struct run_request *out, struct err *e)
{
	const char *text;
	size_t len;
	int there = json_get_string(body, "stdin", &text, &len, e);

	if (there != JSON_THERE)
		return there;
	return request_copy(&out->stdin_text, text, len, e);
}

static int get_language(const struct json *body, const struct request_form *form,
			const struct modes *m, struct run_request *out, struct err *e)
{
	const char *text = form->only_language;
	size_t len = 0;

	if (!text && json_get_string(body, form->language, &text, &len, e) < 0)
		return -1;
	if (text && memchr(text, 0, len)) /* it is compared as a C string from here on */
		return err_client(e, 400, "unsupported_language",
				  "%s must not contain NUL", form->language);
	out->mode = modes_for_language(m, text, &out->row, e);
	return out->mode ? 0 : -1;
}

/* to a whole number that fits; n is finite and not negative */
static uint32_t round_up(double n)
{
	uint32_t whole;

	if (n >= UINT32_MAX)
		return UINT32_MAX;
	whole = (uint32_t)n;
	return whole + (whole < n);
}

static bool positive_whole(double n)
{
	/* from 2^53 on a double has no fraction */
	return isfinite(n) && n >= 1 && (n >= 0x1p53 || (double)(uint64_t)n == n);
}

static int get_timeout(const struct json *body, const char *name, struct limits *wanted,
		       struct err *e)
{
	double sec = 0;

	if (json_get_number(body, name, &sec, e) < 0)
		return -1;
	if (!isfinite(sec) || sec < 0)
		return err_bad(e, "%s must be a finite number of at least 0", name);
	wanted->wall_ms = round_up(sec * 1000);
	return 0;
}

static const struct {
	const char *name;
	size_t at; /* in struct limits */
	uint32_t factor;
	uint32_t least;
} limit_rows[] = {
	{"memory_mb", offsetof(struct limits, memory_mb), 1, MEMORY_MB_LEAST},
	{"cpu_seconds", offsetof(struct limits, cpu_ms), 1000, 1},
	{"pids", offsetof(struct limits, pids), 1, 1},
	{"disk_mb", offsetof(struct limits, disk_mb), 1, 1},
	{"max_output_kb", offsetof(struct limits, output_kb), 1, 1},
};

static int get_limits(const struct json *body, struct limits *wanted, struct err *e)
{
	const struct json *limits = NULL;

	if (json_get_object(body, "limits", &limits, e) < 0)
		return -1;
	for (size_t i = 0; limits && i < sizeof(limit_rows) / sizeof(*limit_rows); i++) {
		const struct json *v = json_member(limits, limit_rows[i].name);
		uint32_t *field = (uint32_t *)((char *)wanted + limit_rows[i].at);
		double n;

		if (!v || json_is_null(v))
			continue;
		n = json_is_number(v) ? json_double(v) : 0;
		if (!positive_whole(n))
			return err_bad(e, "limits.%s must be a positive whole number",
				       limit_rows[i].name);
		if (n < limit_rows[i].least)
			return err_bad(e, "limits.%s must be at least %u",
				       limit_rows[i].name, limit_rows[i].least);
		*field = round_up(n * limit_rows[i].factor);
	}
	return 0;
}

const struct request_form request_execute = {
	.language = "language",
	.timeout = "timeout_seconds",
	.fields = FIELD_LIMITS | FIELD_STDIN | FIELD_WORDS | FIELD_FILES |
		  FIELD_REQUIREMENTS | FIELD_NETWORK,
};
const struct request_form request_sandbox_run = {
	.language = "runtime",
	.timeout = "timeout_seconds",
	.fields = FIELD_WORDS | FIELD_FILES,
	.plain_files = true,
};
const struct request_form request_python = {
	.only_language = "python",
	.timeout = "timeout",
};

/* where to look for a field: in NULL nothing is there */
static const struct json *within(const struct json *body, const struct request_form *form,
				 enum request_field field)
{
	return form->fields & field ? body : NULL;
}

int request_read(const struct json *body, const struct request_form *form,
		 const struct request_world *w, struct run_request *out, struct err *e)
{
	struct limits wanted = {0};

	memset(out, 0, sizeof(*out));
	if (!json_is_object(body))
		return err_bad(e, "the body must be a JSON object");
	if (get_code(body, out, e) < 0 ||
	    get_language(body, form, w->modes, out, e) < 0 ||
	    get_timeout(body, form->timeout, &wanted, e) < 0 ||
	    get_limits(within(body, form, FIELD_LIMITS), &wanted, e) < 0 ||
	    get_stdin(within(body, form, FIELD_STDIN), out, e) < 0)
		return -1;
	job_limits(w->settings, out->mode, &wanted, &out->limits);
	if (request_words(within(body, form, FIELD_WORDS), out, e) < 0 ||
	    request_files(within(body, form, FIELD_FILES), form->plain_files, w->settings,
			  out, e) < 0 ||
	    request_requirements(within(body, form, FIELD_REQUIREMENTS), out, e) < 0)
		return -1;
	return request_network(within(body, form, FIELD_NETWORK), w->settings, out, e);
}

int request_parse(const char *body, size_t len, const struct settings *s,
		  const struct modes *m, struct run_request *out, struct err *e)
{
	const struct request_world w = {s, m, false};
	struct json *doc;
	int rc;

	memset(out, 0, sizeof(*out));
	doc = json_parse(body, len, &json_request_limits, e);
	if (!doc)
		return -1;
	rc = request_read(doc, &request_execute, &w, out, e);
	json_free(doc);
	return rc;
}
