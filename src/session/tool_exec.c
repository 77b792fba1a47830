/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tool_exec.c - sandbox_exec: a command in a session
 *
 * Runs in: the server.
 */
#include "session/store.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/request.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#define EXEC_SEC 60
#define COMMAND_BYTES (128 * 1024 - 1) /* of one argument, says the kernel */
#define WORDS 256

static int add_word(char ***list, size_t *n, const char *text, size_t len, struct err *e)
{
	if (memchr(text, 0, len))
		return err_bad(e, "command and cmd must not contain NUL");
	if (len > COMMAND_BYTES)
		return err_bad(e, "command and cmd have items of at most %d bytes",
			       COMMAND_BYTES);
	(*list)[(*n)++] = mem_copy_n(text, len);
	return 0;
}

/* what bash is given behind -c */
static int get_command(const struct session_request *q, struct run_request *r,
		       struct err *e)
{
	/* a name may begin with a dash, and not every sh knows "exec --" */
	static const char exec[] = "case $1 in -*) command -- \"$@\"; exit ;; esac; "
				   "exec \"$@\"";
	const struct json *list = NULL;
	struct session_text line;
	size_t n = 0, count;

	if (session_arg(q, "command", NULL, &line, e) < 0 ||
	    (q->args && json_get_array(q->args, "cmd", &list, e) < 0))
		return -1;
	count = json_count(list);
	if ((line.len > 0) == (count > 0))
		return err_bad(e,
			       "give command, a bash line, or cmd, an array of strings");
	if (count > WORDS - 2)
		return err_bad(e, "cmd has more than %d items", WORDS - 2);
	r->args = mem_array(WORDS + 1, sizeof(*r->args));
	if (line.len)
		return add_word(&r->args, &n, line.p, line.len, e);
	(void)add_word(&r->args, &n, exec, strlen(exec), e);
	(void)add_word(&r->args, &n, "bash", 4, e);
	for (size_t i = 0; i < count; i++) {
		size_t len;
		const char *text = json_text(json_item(list, i), &len);

		if (!text)
			return err_bad(e, "cmd must be an array of strings");
		if (add_word(&r->args, &n, text, len, e) < 0)
			return -1;
	}
	return 0;
}

/* the session's, and the call's own behind them: the last of a name counts for bash */
static int get_env(const struct session_request *q, const struct session *one,
		   struct run_request *r, struct err *e)
{
	struct run_request words = {0};
	size_t n = 0, own = 0, i;

	if (request_words(q->args, &words, e) < 0) {
		request_done(&words);
		return -1;
	}
	while (words.env && words.env[n])
		n++;
	while (one->env && one->env[own])
		own++;
	if (n + own > INPUT_ENV_MAX - INPUT_ENV_OWN) {
		request_done(&words);
		return err_bad(e, "env has more than %d names with the session's",
			       INPUT_ENV_MAX - INPUT_ENV_OWN);
	}
	r->env = mem_array(n + own + 1, sizeof(*r->env));
	for (i = 0, own = 0; one->env && one->env[own]; own++) {
		const size_t len = strcspn(one->env[own], "=") + 1;
		size_t k = 0;

		while (k < n && strncmp(words.env[k], one->env[own], len) != 0)
			k++;
		if (k == n)
			r->env[i++] = mem_copy(one->env[own]);
	}
	for (size_t k = 0; k < n; k++)
		r->env[i++] = mem_copy(words.env[k]);
	request_done(&words);
	return 0;
}

static int get_kept_workdir(struct session_text dir, struct run_request *r, struct err *e)
{
	char path[SESSION_PATH_MAX + 1];
	struct session_path p;

	if (session_path_resolve(dir.p, dir.len, &p, e) < 0 ||
	    kept_path(p.text, path, sizeof(path), e) < 0)
		return -1;
	r->session.cwd = mem_copy(path);
	return 0;
}

static int get_workdir(const struct session_request *q, struct run_request *r,
		       struct err *e)
{
	struct session_text dir;

	if (session_arg(q, "workdir", NULL, &dir, e) < 0)
		return -1;
	if (!dir.p || !dir.len)
		return 0;
	if (dir.len >= SESSION_PATH_MAX || memchr(dir.p, 0, dir.len))
		return err_bad(e, "workdir is not a path");
	if (q->kept)
		return get_kept_workdir(dir, r, e);
	r->session.cwd = mem_printf("%s%.*s", dir.p[0] == '/' ? "" : "/work/",
				    (int)dir.len, dir.p);
	return 0;
}

int tool_exec(struct sessions *s, const struct session_request *q, struct session *one,
	      struct err *e)
{
	struct session_text input;
	struct run_request r;
	double seconds = 0;
	struct limits wanted = {0};

	if (!q->args)
		return err_bad(e, "command is required");
	if (json_get_number(q->args, "timeout_seconds", &seconds, e) < 0 ||
	    session_arg(q, "stdin", NULL, &input, e) < 0)
		return -1;
	if (seconds < 0)
		return err_bad(e, "timeout_seconds must not be negative");
	if (seconds == 0)
		seconds = EXEC_SEC;
	wanted.wall_ms = seconds * 1000 > one->timeout_ms ? one->timeout_ms
			 : seconds < 0.001                ? 1
							  : (uint32_t)(seconds * 1000);
	session_job(s, one, SESSION_EXEC, &wanted, &r);
	if (get_command(q, &r, e) < 0 || get_env(q, one, &r, e) < 0 ||
	    get_workdir(q, &r, e) < 0 ||
	    (input.p && request_copy(&r.stdin_text, input.p, input.len, e) < 0)) {
		request_done(&r);
		return -1;
	}
	session_ids(q, &r);
	return session_submit(s, session_call_new(s, TOOL_EXEC, one, q->who), &r, q->live,
			      e);
}
