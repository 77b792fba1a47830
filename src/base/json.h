/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * json.h - the only file that knows parson; checks text before it parses
 *
 * One linear pass refuses what parson lets through (trailing data, invalid UTF-8, a BOM,
 * trailing commas, numbers such as "1.") and what makes it slow (depth, members, values).
 * Getters tell missing or null (JSON_ABSENT) from a wrong type (-1, e names the field).
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json; /* any value, borrowed from its document */

struct json_limits {
	unsigned depth;
	unsigned members; /* object members in the whole text */
	unsigned values;  /* array elements and members together */
};
/* depth 32, 1024 members, 65536 values */
extern const struct json_limits json_request_limits;

/* text need not be NUL-terminated; NULL and *e (ERR_THEIRS "invalid_json") on failure */
struct json *json_parse(const char *text, size_t len, const struct json_limits *limits,
			struct err *e);
void json_free(struct json *doc); /* the document's root only */

enum { JSON_ABSENT = 0, JSON_THERE = 1 };

bool json_is_object(const struct json *v);
bool json_is_array(const struct json *v);
bool json_is_string(const struct json *v);
bool json_is_number(const struct json *v);
bool json_is_bool(const struct json *v);
bool json_is_null(const struct json *v);
/* NULL: none */
const struct json *json_member(const struct json *object, const char *name);
/* each: JSON_THERE, JSON_ABSENT, or -1 and ERR_THEIRS "<name> must be a string" */
int json_get_string(const struct json *object, const char *name, const char **out_text,
		    size_t *out_len, struct err *e);
int json_get_number(const struct json *object, const char *name, double *out_n,
		    struct err *e);
int json_get_bool(const struct json *object, const char *name, bool *out_flag,
		  struct err *e);
int json_get_object(const struct json *object, const char *name,
		    const struct json **out_v, struct err *e);
int json_get_array(const struct json *object, const char *name, const struct json **out_v,
		   struct err *e);
size_t json_count(const struct json *v); /* of an object or array; else 0 */
const struct json *json_item(const struct json *array, size_t i);
const char *json_key(const struct json *object, size_t i);
const struct json *json_value(const struct json *object, size_t i);
/* NULL: not a string; out_len may be NULL. The text may hold NUL: trust the length. */
const char *json_text(const struct json *string, size_t *out_len);
double json_double(const struct json *number);
bool json_bool(const struct json *flag);

#endif
