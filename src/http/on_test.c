/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * on_test.c - POST /test/call: any system call, made by the server itself
 *
 * Only in test builds. It stands for code that somebody got into the server: tests ask
 * what such code could do, from where it would stand.
 *
 *	{"call":"openat","args":[-100,"/etc/shadow",0]}    {"result":-1,"errno":"EPERM"}
 *
 * A text is passed as the address of its bytes. "abort" is the C library's.
 */
#ifdef SANDBOX_TEST_HOOKS

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "config/filter.h"
#include "http/conn.h"

enum { CALL_ARGS = 6 };

static int read_args(const struct json *body, long args[CALL_ARGS], struct err *e)
{
	const struct json *list = NULL;

	if (json_get_array(body, "args", &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_count(list) && i < CALL_ARGS; i++) {
		const struct json *v = json_item(list, i);

		args[i] = json_is_number(v) ? (long)json_double(v)
					    : (long)(uintptr_t)json_text(v, NULL);
	}
	return 0;
}

static int make_call(const struct json *body, struct buf *out, struct err *e)
{
	long a[CALL_ARGS] = {0}, result;
	const char *name = "";
	size_t len = 0;
	int number;

	if (json_get_string(body, "call", &name, &len, e) < 0 ||
	    read_args(body, a, e) < 0)
		return -1;
	if (strcmp(name, "abort") == 0)
		abort(); /* as mem_zero() would, or an assert */
	number = filter_number(FILTER_ARCH, name);
	if (number < 0)
		return err_client(e, 400, "bad_call", "there is no call '%s' here", name);
	errno = 0;
	result = syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return buf_printf(out, "{\"result\":%ld,\"errno\":\"%s\"}", result,
			  result < 0 ? strerrorname_np(errno) : "");
}

void on_test_call(struct conn *k)
{
	struct err e = {0};
	struct json *body = json_parse(k->body.bytes, k->body.len, &json_request_limits,
				       &e);
	struct buf out;

	buf_init(&out, 4096);
	if (body && make_call(body, &out, &e) == 0)
		answer_json(k, 200, NULL, &out);
	else
		answer_error(k, &e);
	buf_done(&out);
	json_free(body);
}

#endif
