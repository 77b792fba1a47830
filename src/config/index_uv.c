/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * index_uv.c - what the host's own uv is told of indexes
 *
 * Runs in: the supervisor, once, at start. A file that cannot be understood is an error:
 * an index that was left out, or taken for one beside the public one, is a package that
 * a stranger can name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "config/index.h"
#include "config/index_add.h"
#include "config/toml.h"

/* the files of uv's, as far as they were read. Of all of them together the table of
 * indexes comes first, then what is for uv pip, then what is for all */
struct uv_file {
	struct index *x;
	const char *path;
	char *main[2];       /* index-url: for uv pip, for all; the first file's */
	struct buf extra[2]; /* extra-index-url */
	char *name, *url;    /* of the index that is being read */
	bool is_default, is_explicit, is_flat;
	enum asks asks;
};

static void set_text(char **to, const char *value)
{
	free(*to);
	*to = mem_copy(value);
}

/* an explicit one is for packages that a project names: for none of ours. If it is the
 * default too, then uv has no other, not even its own */
static void add_index(struct uv_file *f)
{
	if (f->is_explicit && f->is_default && f->x->url_count == 0) {
		f->x->odd = "a default index that is explicit";
	} else if (f->is_explicit) {
		return;
	} else if (f->is_flat && (f->is_default || index_is_url(f->url))) {
		f->x->odd = "an index that is a list of links";
	} else if (f->is_flat) {
		index_add_directory(f->x, f->url, f->path);
	} else {
		f->x->asks = f->asks;
		index_add(f->x, f->is_default, f->name, f->url);
		f->x->asks = ASKS_AUTO;
	}
}

static void end_index(struct uv_file *f)
{
	if (f->url && !(f->name && index_is_second(f->x, f->name)))
		add_index(f);
	free(take_ptr(&f->name));
	free(take_ptr(&f->url));
	f->is_default = f->is_explicit = f->is_flat = false;
	f->asks = ASKS_AUTO;
}

static int place_of(const char *word, const char *const words[], int count)
{
	int at = 0;

	while (at < count && strcmp(word, words[at]) != 0)
		at++;
	return at;
}

static void take_of_index(struct uv_file *f, const char *key, const char *value)
{
	static const char *const asks[] = {"auto", "always", "never"};
	static const char *const formats[] = {"simple", "flat"};
	/* by the first an index that refuses is one that has nothing: here it ends the
	 * install */
	static const char *const others[] = {"ignore-error-codes", "publish-url",
					     "cache-control.api", "cache-control.files"};
	const bool asked = strcmp(key, "authenticate") == 0;
	const bool format = strcmp(key, "format") == 0;

	if (strcmp(key, "name") == 0)
		set_text(&f->name, value);
	else if (strcmp(key, "url") == 0)
		set_text(&f->url, value);
	else if (strcmp(key, "default") == 0)
		f->is_default = strcmp(value, "true") == 0;
	else if (strcmp(key, "explicit") == 0)
		f->is_explicit = strcmp(value, "true") == 0;
	else if (asked && place_of(value, asks, 3) < 3)
		f->asks = (enum asks)place_of(value, asks, 3);
	else if (format && place_of(value, formats, 2) < 2)
		f->is_flat = place_of(value, formats, 2) == 1;
	else if (place_of(key, others, 4) == 4)
		f->x->odd = "an index of which something is said that is not known";
}

static void take_key(struct uv_file *f, bool of_pip, const char *key, const char *value)
{
	if (strcmp(key, "index-url") == 0 && !f->main[!of_pip])
		set_text(&f->main[!of_pip], value);
	else if (strcmp(key, "extra-index-url") == 0)
		(void)buf_printf(&f->extra[!of_pip], "%s ", value);
	else if (strcmp(key, "find-links") == 0)
		index_add_directory(f->x, value, f->path);
	else if (strcmp(key, "no-index") == 0)
		index_set_alone(f->x, value);
	else if (strcmp(key, "keyring-provider") == 0)
		index_set_keyring(f->x, value);
	else if (strcmp(key, "index-url") != 0 && strcmp(key, "index-strategy") != 0 &&
		 (strstr(key, "index") || strstr(key, "links")))
		f->x->odd = "a file of uv's that says something of an index that is not "
			    "known";
}

static void take_of_uv(void *self, const char *name, const char *value)
{
	struct uv_file *f = self;
	const bool of_pip = strncmp(name, "pip.", 4) == 0;

	if (strcmp(name, "index") == 0 && !value)
		end_index(f);
	else if (value && strncmp(name, "index.", 6) == 0)
		take_of_index(f, name + 6, value);
	else if (value)
		take_key(f, of_pip, of_pip ? name + 4 : name, value);
}

/* paths in it are where the file is */
static char *absolute(const char *path)
{
	auto_free char *here = *path == '/' ? NULL : realpath(".", NULL);

	return here ? mem_printf("%s/%s", here, path) : mem_copy(path);
}

/* 1: read; 0: there is none, or as uv has it none that may be read */
static int from_uv_file(struct uv_file *f, const char *path, struct err *e)
{
	auto_free char *text = mem_zero(INDEX_FILE_MOST);
	auto_free char *full = absolute(path);
	struct err why = {0};
	int rc = index_read(path, text, e);

	if (rc == 0 && errno != ENOENT && errno != ENOTDIR && errno != EACCES)
		return err_bad(e, "cannot read %s: %s", path, strerror(errno));
	if (rc <= 0)
		return rc;
	f->path = full;
	if (toml_read(text, take_of_uv, f, &why) < 0)
		rc = err_bad(e, "%s: %s", path, why.text);
	end_index(f);
	return rc;
}

static int from_uv_below(struct uv_file *f, const char *top, struct err *e)
{
	auto_free char *path = mem_printf("%s/uv/uv.toml", top);

	return from_uv_file(f, path, e);
}

/* the user's and the host's, of which the first counts; a file that is named alone */
static int from_uv_files(struct uv_file *f, const char *own, const char *dirs,
			 struct err *e)
{
	const char *named = getenv("UV_CONFIG_FILE"), *none = getenv("UV_NO_CONFIG");
	auto_free char *all = mem_copy(dirs);
	char *rest = all, *dir;
	bool off = false;
	int rc = 0;

	if (named && *named) {
		rc = from_uv_file(f, named, e);
		return rc ? rc : err_bad(e, "cannot read UV_CONFIG_FILE %s", named);
	}
	if (none && num_bool(none, &off) == 0 && off)
		return 0;
	if (own && from_uv_below(f, own, e) < 0)
		return -1;
	while (rc == 0 && (dir = strsep(&rest, ":")))
		rc = *dir ? from_uv_below(f, dir, e) : 0;
	return rc == 0 ? from_uv_below(f, "/etc", e) : rc;
}

static int from_uv(struct index *x, const char *own, const char *dirs, struct err *e)
{
	struct uv_file f = {.x = x};
	int rc;

	for (size_t i = 0; i < 2; i++)
		buf_init(&f.extra[i], INDEX_FILE_MOST);
	rc = from_uv_files(&f, own, dirs, e) < 0 ? -1 : 0;
	for (size_t i = 0; i < 2; i++) {
		if (f.main[i])
			index_set_main(x, f.main[i]);
		if (f.extra[i].len && buf_text(&f.extra[i]) == 0)
			index_set_extra(x, f.extra[i].bytes);
		free(f.main[i]);
		buf_done(&f.extra[i]);
	}
	return rc;
}

int index_of_uv(struct index *x, const char *own, const char *dirs, struct err *e)
{
	static const struct {
		const char *variable;
		void (*take)(struct index *x, const char *text);
	} rows[] = {
		{"UV_DEFAULT_INDEX", index_set_main},
		{"UV_INDEX_URL", index_set_main},
		{"UV_INDEX", index_set_extra},
		{"UV_EXTRA_INDEX_URL", index_set_extra},
		{"UV_FIND_LINKS", index_add_uv_links},
		{"UV_NO_INDEX", index_set_alone},
		{"UV_KEYRING_PROVIDER", index_set_keyring},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *value = getenv(rows[i].variable);

		if (value && *value)
			rows[i].take(x, value);
	}
	return from_uv(x, own, dirs, e);
}
