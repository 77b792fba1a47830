/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * request_requirements.c - `requirements` of a request: the packages it needs
 *
 * Sorted, each once, in one form: who asks for the same packages asks for the same list.
 */
#include <stdlib.h>
#include <string.h>

#include "api/request.h"
#include "api/requirement.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/mode.h"

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_once(char **list, size_t count)
{
	size_t kept = 0;

	qsort(list, count, sizeof(*list), by_text);
	for (size_t i = 1; i < count; i++) {
		if (strcmp(list[kept], list[i]) == 0)
			free(list[i]);
		else
			list[++kept] = list[i];
	}
	list[kept + 1] = NULL;
}

static int read_all(const struct json *list, struct run_request *out, struct err *e)
{
	const size_t count = json_count(list);
	char form[REQUIREMENT_ROOM];

	if (count > REQUIREMENTS_MOST)
		return err_bad(e, "requirements has more than %d items",
			       REQUIREMENTS_MOST);
	out->requirements = mem_array(count + 1, sizeof(*out->requirements));
	for (size_t i = 0; i < count; i++) {
		size_t len;
		const char *text = json_text(json_item(list, i), &len);
		const int rc = out->mode->id == MODE_PYTHON
				       ? requirement_python(text, len, form, e)
				       : requirement_npm(text, len, form, e);

		if (rc < 0)
			return -1;
		out->requirements[i] = mem_copy(form);
	}
	sort_once(out->requirements, count);
	return 0;
}

int request_requirements(const struct json *body, struct run_request *out, struct err *e)
{
	const struct json *list = NULL;

	if (json_get_array(body, "requirements", &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_count(list); i++) {
		size_t len;

		if (!json_text(json_item(list, i), &len))
			return err_bad(e, "requirements must be an array of strings");
	}
	if (json_count(list) == 0)
		return 0;
	if (out->mode->id != MODE_PYTHON && out->mode->id != MODE_NODE)
		return 0; /* Go and the shell have nothing to install with */
	for (char *const *w = out->env; out->mode->id == MODE_PYTHON && w && *w; w++)
		if (strncmp(*w, "PYTHONPATH=", 11) == 0)
			return err_bad(e, "env must not set \"PYTHONPATH\" beside "
					  "requirements: it is the sandbox's");
	return read_all(list, out, e);
}
