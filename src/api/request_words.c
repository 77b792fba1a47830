/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * request_words.c - `args` and `env` of a request
 *
 * Everything that would make execve fail is found here, where it is still the client's
 * mistake: NUL, too many, too long. What passes is small enough for mem_...().
 */
#include "api/request.h"

#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* the kernel's bound for one string is 128 KiB with its NUL; for all of them a quarter of
 * the stack limit, of which the fixed environment needs a little */
#define WORD_BYTES (128 * 1024 - 1)
#define WORDS_BYTES (1024 * 1024)

/* the sandbox sets these itself, or they steer the loader */
static const char *const taken[] = {
	"PATH",    "HOME",   "LANG",    "TMPDIR",      "OUTPUT_DIR", "TRACEPARENT",
	"GOCACHE", "GOPATH", "GOPROXY", "GOTOOLCHAIN", "NODE_PATH",  "GLIBC_TUNABLES",
};

static int check_sizes(size_t len, size_t *total, const char *field, struct err *e)
{
	if (len > WORD_BYTES)
		return err_bad(e, "%s has an item of more than %d bytes", field,
			       WORD_BYTES);
	*total += len + 1;
	if (*total > WORDS_BYTES)
		return err_bad(e, "args and env have more than %d bytes together",
			       WORDS_BYTES);
	return 0;
}

static int get_args(const struct json *body, struct run_request *out, size_t *total,
		    struct err *e)
{
	const struct json *list = NULL;
	size_t count, len;

	if (json_get_array(body, "args", &list, e) < 0)
		return -1;
	count = json_count(list);
	if (count > INPUT_ARGS_MAX)
		return err_bad(e, "args has more than %d items", INPUT_ARGS_MAX);
	out->args = mem_array(count + 1, sizeof(*out->args));
	for (size_t i = 0; i < count; i++) {
		const char *text = json_text(json_item(list, i), &len);

		if (!text)
			return err_bad(e, "args must be an array of strings");
		if (memchr(text, 0, len))
			return err_bad(e, "args must not contain NUL");
		if (check_sizes(len, total, "args", e) < 0)
			return -1;
		out->args[i] = mem_copy_n(text, len);
	}
	return 0;
}

static int check_name(const char *name, struct err *e)
{
	const char *p = name;

	while (isalpha((unsigned char)*p) || *p == '_' ||
	       (p > name && isdigit((unsigned char)*p)))
		p++;
	if (p == name || *p)
		return err_bad(e,
			       "env name \"%.100s\" must be letters, digits and "
			       "underscores, not beginning with a digit",
			       name);
	if (strncmp(name, "LD_", 3) == 0)
		return err_bad(e, "env must not set \"%.100s\": it steers the loader",
			       name);
	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
		if (strcmp(name, taken[i]) == 0)
			return err_bad(e, "env must not set \"%s\": it is the sandbox's",
				       name);
	return 0;
}

static int get_env(const struct json *body, struct run_request *out, size_t *total,
		   struct err *e)
{
	const struct json *object = NULL;
	size_t count, len;

	if (json_get_object(body, "env", &object, e) < 0)
		return -1;
	count = json_count(object);
	if (count > INPUT_ENV_MAX - INPUT_ENV_OWN)
		return err_bad(e, "env has more than %d names",
			       INPUT_ENV_MAX - INPUT_ENV_OWN);
	out->env = mem_array(count + 1, sizeof(*out->env));
	for (size_t i = 0; i < count; i++) {
		const char *name = json_key(object, i);
		const char *text = json_text(json_value(object, i), &len);

		if (check_name(name, e) < 0)
			return -1;
		if (!text)
			return err_bad(e, "env value of \"%.100s\" must be a string",
				       name);
		if (memchr(text, 0, len))
			return err_bad(e, "env value of \"%.100s\" must not contain NUL",
				       name);
		if (check_sizes(strlen(name) + 1 + len, total, "env", e) < 0)
			return -1;
		out->env[i] = mem_printf("%s=%s", name, text);
	}
	return 0;
}

int request_words(const struct json *body, struct run_request *out, struct err *e)
{
	size_t total = 0;

	if (get_args(body, out, &total, e) < 0)
		return -1;
	return get_env(body, out, &total, e);
}
