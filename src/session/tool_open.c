/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tool_open.c - sandbox_open: a session by its scope, or one of its own
 *
 * Runs in: the server.
 */
#include "session/store.h"

#include <stdio.h>
#include <string.h>

#include "api/request.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/settings.h"

#define FILE_BYTES (10u << 20)
#define FILES 100

/* a number above 0, cut to what there may be at most, which is also the usual one */
static int get_limit(const struct json *limits, const char *name, double most,
		     double *out, struct err *e)
{
	const struct json *v = limits ? json_member(limits, name) : NULL;

	*out = most;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_number(v))
		return err_bad(e, "limits.%s must be a number", name);
	if (!(json_double(v) > 0))
		return err_bad(e, "limits.%s must be above 0", name);
	if (json_double(v) < most)
		*out = json_double(v);
	return 0;
}

static int get_count(const struct json *limits, const char *name, uint64_t most,
		     uint64_t *out, struct err *e)
{
	double n;

	if (get_limit(limits, name, (double)most, &n, e) < 0)
		return -1;
	*out = (uint64_t)n;
	return n == (double)*out ? 0
				 : err_bad(e, "limits.%s must be a whole number", name);
}

int session_limits(const struct sessions *s, const struct session_request *q,
		   struct session *one, struct err *e)
{
	const struct json *limits = NULL;
	double seconds;

	if (q->args && json_get_object(q->args, "limits", &limits, e) < 0)
		return -1;
	if (get_limit(limits, "timeout_seconds", (double)s->settings->max_timeout_sec,
		      &seconds, e) < 0 ||
	    get_count(limits, "max_file_size_bytes", FILE_BYTES, &one->max_file_bytes,
		      e) < 0 ||
	    get_count(limits, "max_files", FILES, &one->max_files, e) < 0)
		return -1;
	one->timeout_ms = seconds < 0.001 ? 1 : (uint32_t)(seconds * 1000);
	return 0;
}

static int get_flag(const struct session_request *q, const char *name, bool *out,
		    struct err *e)
{
	*out = false;
	return q->args && json_get_bool(q->args, name, out, e) < 0 ? -1 : 0;
}

static int get_volumes(const struct sessions *s, const struct session_request *q,
		       struct session *one, struct err *e)
{
	const struct json *list = NULL;
	uint32_t v;

	if (q->args && json_get_array(q->args, "volumes", &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_count(list); i++) {
		const char *name = json_text(json_item(list, i), NULL);

		if (!name)
			return err_bad(e, "volumes must be an array of strings");
		for (v = 0; v < s->volume_count && strcmp(s->volume[v], name) != 0; v++)
			;
		if (v == s->volume_count)
			return err_client(e, 400, "no_such_volume",
					  "there is no volume '%.64s'; SANDBOX_VOLUMES "
					  "names those that there are",
					  name);
		one->volumes |= 1U << v;
	}
	return 0;
}

static int get_image(const struct sessions *s, const struct session_request *q,
		     struct session *one, struct err *e)
{
	struct session_text image;
	char asked[IMAGE_NAME + 1];

	if (session_arg(q, "image", NULL, &image, e) < 0)
		return -1;
	if (image.p && (image.len > IMAGE_NAME || memchr(image.p, 0, image.len)))
		return err_client(e, 400, "image_not_found",
				  "image is not the name of one");
	snprintf(asked, sizeof(asked), "%.*s", (int)image.len, image.p ? image.p : "");
	return image_find_among(&s->images, image.p ? asked : NULL, one->image, e);
}

/* what is asked for that there is not; nothing is left out in silence */
static int get_wishes(const struct sessions *s, const struct session_request *q,
		      struct session *one, struct err *e)
{
	struct session_text user;
	const struct json *network = q->args ? json_member(q->args, "allow_network")
					     : NULL;

	if (session_arg(q, "user", NULL, &user, e) < 0 ||
	    session_network_take(s, network, one, e) < 0 ||
	    get_flag(q, "read_only", &one->read_only, e) < 0 ||
	    get_image(s, q, one, e) < 0 || get_volumes(s, q, one, e) < 0)
		return -1;
	one->root = session_text_is(user, "root");
	if (user.p && !one->root && !session_text_is(user, "sandbox"))
		return err_bad(e, "user must be sandbox or root");
	if (one->root && s->root_why[0])
		return err_client(e, 400, "root_not_available",
				  "this server cannot map a range of ids: %s",
				  s->root_why);
	return 0;
}

/* those of its image, then its own */
static void set_env(const struct sessions *s, struct session *one, char **own)
{
	const char *const image = session_image_env(s, one->image);
	size_t n = 0, i = 0;

	for (const char *at = image; *at; at += strlen(at) + 1)
		n++;
	for (char **w = own; w && *w; w++)
		n++;
	one->env = mem_array(n + 1, sizeof(*one->env));
	for (const char *at = image; *at; at += strlen(at) + 1)
		one->env[i++] = mem_copy(at);
	for (char **w = own; w && *w; w++)
		one->env[i++] = mem_copy(*w);
}

static struct session *make(struct sessions *s, const struct session_request *q,
			    const char *id, struct err *e)
{
	struct session *one = store_add(s, q->owner, id);
	struct run_request words = {0};
	struct session_text type, scope;

	if (session_scope(q, &type, &scope, e) > 0) {
		snprintf(one->scope_type, sizeof(one->scope_type), "%.*s", (int)type.len,
			 type.p);
		snprintf(one->scope_id, sizeof(one->scope_id), "%.*s", (int)scope.len,
			 scope.p);
	}
	if (session_limits(s, q, one, e) < 0 || get_wishes(s, q, one, e) < 0 ||
	    (q->args && request_words(q->args, &words, e) < 0)) {
		request_done(&words);
		store_remove(s, one);
		return NULL;
	}
	set_env(s, one, words.env);
	request_done(&words);
	if (store_save(s, one, e) == 0)
		return one;
	store_remove(s, one);
	return NULL;
}

int tool_open(struct sessions *s, const struct session_request *q, struct err *e)
{
	const struct limits usual = {0};
	struct session_text type, scope;
	struct session_call *c;
	struct run_request r;
	struct session *one;
	char id[SESSION_ID];
	bool created;

	if (session_scope(q, &type, &scope, e) < 0)
		return -1;
	if (!type.p && s->own[0])
		memcpy(id, s->own, sizeof(id));
	else
		session_name(type, scope, id);
	one = store_find(s, q->owner, id, strlen(id));
	if (one && one->closing)
		return err_client(e, 409, "session_busy",
				  "this session is being closed; try again");
	created = !one;
	if (!one && (store_room(s, q, 1, e) < 0 || !(one = make(s, q, id, e))))
		return -1;
	one->used_sec = store_now_sec();
	c = session_call_new(s, TOOL_OPEN, one, q->who);
	c->created = created;
	session_job(s, one, SESSION_OPEN, &usual, &r);
	if (strcmp(one->image, IMAGE_HOST) != 0)
		(void)image_encode(one->image, r.session.open.image);
	r.session.open.read_only = one->read_only;
	r.session.open.volumes = one->volumes;
	r.session.open.root = one->root;
	session_ids(q, &r);
	if (session_submit(s, c, &r, false, e) > 0)
		return 1;
	if (created)
		store_remove(s, one);
	return -1;
}
