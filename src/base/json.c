/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * json.c - the only file that knows parson; checks text before it parses
 *
 * struct json is parson's JSON_Value under another name. The limit on members is also
 * what keeps parson's hash, which has no seed, from being flooded.
 */
#include "base/json.h"

#include <errno.h>
#include <parson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/json_check.h"

const struct json_limits json_request_limits = {
	.depth = 32, .members = 1024, .values = 65536};

static const JSON_Value *val(const struct json *v)
{
	return (const JSON_Value *)v;
}

static const struct json *ours(const JSON_Value *v)
{
	return (const struct json *)v;
}

static bool is(const struct json *v, JSON_Value_Type type)
{
	return v && json_value_get_type(val(v)) == type;
}

static struct json *invalid(struct err *e, const char *why)
{
	err_client(e, 400, "invalid_json", "invalid JSON: %s", why);
	return NULL;
}

struct json *json_parse(const char *text, size_t len, const struct json_limits *limits,
			struct err *e)
{
	auto_free char *copy = len < SIZE_MAX ? malloc(len + 1) : NULL;
	JSON_Value *root;
	const char *why;

	if (!copy) {
		errno = ENOMEM;
		err_errno(e, "copy JSON text");
		return NULL;
	}
	if (len)
		memcpy(copy, text, len);
	copy[len] = 0;
	why = json_check(copy, len, limits);
	if (why)
		return invalid(e, why);
	errno = 0;
	root = json_parse_string(copy);
	if (root)
		return (struct json *)root;
	if (errno == ENOMEM) {
		err_errno(e, "parse JSON text");
		return NULL;
	}
	/* the one thing the check leaves to parson */
	return invalid(e, "a member name occurs twice");
}

void json_free(struct json *doc)
{
	if (doc)
		json_value_free((JSON_Value *)doc);
}

bool json_is_object(const struct json *v)
{
	return is(v, JSONObject);
}

bool json_is_array(const struct json *v)
{
	return is(v, JSONArray);
}

bool json_is_string(const struct json *v)
{
	return is(v, JSONString);
}

bool json_is_number(const struct json *v)
{
	return is(v, JSONNumber);
}

bool json_is_bool(const struct json *v)
{
	return is(v, JSONBoolean);
}

bool json_is_null(const struct json *v)
{
	return is(v, JSONNull);
}

const struct json *json_member(const struct json *object, const char *name)
{
	if (!json_is_object(object))
		return NULL;
	return ours(json_object_get_value(json_value_get_object(val(object)), name));
}

/* the member, when it is there, not null and of this type */
static int get(const struct json *object, const char *name, JSON_Value_Type type,
	       const struct json **out_v, struct err *e)
{
	static const char *const types[] = {
		[JSONString] = "a string",       [JSONNumber] = "a number",
		[JSONObject] = "an object",      [JSONArray] = "an array",
		[JSONBoolean] = "true or false",
	};
	const struct json *v = json_member(object, name);

	if (!v || json_is_null(v))
		return JSON_ABSENT;
	if (!is(v, type))
		return err_bad(e, "%s must be %s", name, types[type]);
	*out_v = v;
	return JSON_THERE;
}

int json_get_string(const struct json *object, const char *name, const char **out_text,
		    size_t *out_len, struct err *e)
{
	const struct json *v = NULL;
	int there = get(object, name, JSONString, &v, e);

	if (there == JSON_THERE)
		*out_text = json_text(v, out_len);
	return there;
}

int json_get_number(const struct json *object, const char *name, double *out_n,
		    struct err *e)
{
	const struct json *v = NULL;
	int there = get(object, name, JSONNumber, &v, e);

	if (there == JSON_THERE)
		*out_n = json_double(v);
	return there;
}

int json_get_bool(const struct json *object, const char *name, bool *out_flag,
		  struct err *e)
{
	const struct json *v = NULL;
	int there = get(object, name, JSONBoolean, &v, e);

	if (there == JSON_THERE)
		*out_flag = json_bool(v);
	return there;
}

int json_get_object(const struct json *object, const char *name,
		    const struct json **out_v, struct err *e)
{
	return get(object, name, JSONObject, out_v, e);
}

int json_get_array(const struct json *object, const char *name, const struct json **out_v,
		   struct err *e)
{
	return get(object, name, JSONArray, out_v, e);
}

size_t json_count(const struct json *v)
{
	if (json_is_object(v))
		return json_object_get_count(json_value_get_object(val(v)));
	if (json_is_array(v))
		return json_array_get_count(json_value_get_array(val(v)));
	return 0;
}

const struct json *json_item(const struct json *array, size_t i)
{
	if (!json_is_array(array))
		return NULL;
	return ours(json_array_get_value(json_value_get_array(val(array)), i));
}

const char *json_key(const struct json *object, size_t i)
{
	if (!json_is_object(object))
		return NULL;
	return json_object_get_name(json_value_get_object(val(object)), i);
}

const struct json *json_value(const struct json *object, size_t i)
{
	if (!json_is_object(object))
		return NULL;
	return ours(json_object_get_value_at(json_value_get_object(val(object)), i));
}

const char *json_text(const struct json *string, size_t *out_len)
{
	if (!json_is_string(string))
		return NULL;
	if (out_len)
		*out_len = json_value_get_string_len(val(string));
	return json_value_get_string(val(string));
}

double json_double(const struct json *number)
{
	return json_is_number(number) ? json_value_get_number(val(number)) : 0;
}

bool json_bool(const struct json *flag)
{
	return json_is_bool(flag) && json_value_get_boolean(val(flag)) == 1;
}
