/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * image.c - images that sessions start from: which there are, and changing that
 *
 * Works on the store, with or without a server that uses it: locks, and what is kept of
 * sessions, tell which images are in use.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cmd/cmd.h"
#include "image/image.h"
#include "session/session.h"

#define WANTED "want list, add, pull or remove (try image --help)"
#define MAX_MB 8192
#define MAX_MB_MOST (1u << 24)
#define SESSION_TEXT (16 << 20) /* session/store.c writes no more */

static const char usage[] =
	"usage: sandbox-server image list [--json] [SETTINGS]\n"
	"       sandbox-server image add NAME PATH [--max-mb N] [SETTINGS]\n"
	"       sandbox-server image pull REFERENCE [--max-mb N] [SETTINGS]\n"
	"       sandbox-server image remove NAME... [SETTINGS]\n\n"
	"Root file systems that sessions start from. PATH is a directory, an OCI\n"
	"archive or layout, what docker save wrote, or a tar of a root file system,\n"
	"compressed by gzip or not; - is standard input. It is unpacked by a process\n"
	"without rights, to --max-mb at most (8192). pull gets REFERENCE by skopeo,\n"
	"podman or docker, whichever is on PATH; containers-storage:REFERENCE and\n"
	"docker-daemon:REFERENCE are what podman or docker has on this host. remove\n"
	"refuses an image that a session uses.\n";

struct options {
	bool json;
	uint64_t max_mb;
};

/* the store; -1 and no error: it is not there, and not to be made */
static int open_store(const struct settings *s, bool create, struct err *e)
{
	auto_free char *state = state_path(s);
	auto_free char *path = image_path(s);
	auto_fd int fd = -1;

	if (!path)
		return err_bad(e, "no state directory: set SANDBOX_STATE_DIR");
	if (state_format(state, false, e) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && create) {
		fd = fs_make_path(AT_FDCWD, path, 0755);
		/* what may be written in an image, such as its /tmp, is not for everybody
		 * on this host: the server may pass, who else has to be let in */
		if (fd >= 0 && (fchmod(fd, s->uid_base ? 0750 : 0700) < 0 ||
				(s->uid_base &&
				 fchown(fd, 0, (gid_t)s->uid_base - RIGHTS_SERVER) < 0)))
			return err_errno(e, "make '%s'", path);
		if (fd >= 0 && state_format(state, true, e) < 0)
			return -1;
	}
	if (fd < 0 && (errno != ENOENT || create))
		return err_errno(e, "open '%s'", path);
	return take_fd(&fd);
}

static void print_json(const struct image_info *i, struct buf *out, bool first)
{
	(void)buf_puts(out, first ? "" : ",\n "); /* its end tells whether it is whole */
	(void)buf_puts(out, "{\"name\":");
	(void)buf_json_string(out, i->name, strlen(i->name));
	(void)buf_printf(out,
			 ",\"source\":\"%s\",\"digest\":\"%s\",\"architecture\":\"%s\","
			 "\"added\":\"%s\",\"bytes\":%llu,\"env\":[",
			 i->source, i->digest, i->architecture, i->added,
			 (unsigned long long)i->bytes);
	for (size_t k = 0; i->env[k]; k++) {
		(void)buf_puts(out, k ? "," : "");
		(void)buf_json_string(out, i->env[k], strlen(i->env[k]));
	}
	(void)buf_puts(out, "]}");
}

static int list(int store_fd, const struct options *o, struct err *e)
{
	char(*names)[IMAGE_NAME] = NULL;
	size_t count = 0;
	struct buf out;

	if (images_list(store_fd, &names, &count) < 0)
		return err_errno(e, "read the images");
	buf_init(&out, 1u << 26);
	if (o->json)
		(void)buf_puts(&out, "[");
	else if (count)
		(void)buf_printf(&out, "%-40s %10s  %-20s  %s\n", "NAME", "SIZE", "ADDED",
				 "SOURCE");
	for (size_t i = 0; i < count; i++) {
		struct image_info info;
		struct err why = {0};

		if (image_info_read(store_fd, names[i], &info, &why) < 0)
			fprintf(stderr, "sandbox-server: %s\n", why.text);
		memcpy(info.name, names[i], IMAGE_NAME);
		if (o->json)
			print_json(&info, &out, i == 0);
		else
			(void)buf_printf(&out, "%-40s %7.1f MB  %-20s  %s\n", info.name,
					 (double)info.bytes / (1 << 20), info.added,
					 info.source);
		image_info_done(&info);
	}
	free(names);
	if (o->json && buf_puts(&out, "]\n") < 0)
		return err_errno(e, "list the images");
	if (out.len)
		fwrite(out.bytes, 1, out.len, stdout);
	buf_done(&out);
	return fflush(stdout) == 0 ? 0 : err_errno(e, "write the list");
}

/* the whole one is beside it, if there is one */
static bool is_partial(const char *file)
{
	const size_t len = strlen(file), end = strlen(SESSION_PARTIAL);

	return len > end && strcmp(file + len - end, SESSION_PARTIAL) == 0;
}

/* 1: of a session that has it, 0: of another; -1 and *e: nobody can tell */
static int file_names(int dir_fd, const char *file, const char *name, struct err *e)
{
	struct stat st;
	const bool there = fstatat(dir_fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0;
	const size_t room = there && st.st_size < SESSION_TEXT ? (size_t)st.st_size + 1
							       : 1;
	auto_free char *text = mem_zero(room);
	const ssize_t len = there ? fs_read_at(dir_fd, file, text, room) : -1;
	const bool closed = len < 0 && errno == ENOENT; /* meanwhile */
	struct json *v = len < 0 ? NULL
				 : json_parse(text, (size_t)len, &json_request_limits,
					      NULL);
	const char *image = v ? json_text(json_member(v, "image"), NULL) : NULL;
	const bool whole = v, is = image && strcmp(image, name) == 0;

	json_free(v);
	if (whole || closed)
		return is;
	return err_bad(e, "'%s' may be in use: session-index/%s cannot be read", name,
		       file);
}

/* Sessions whose files lie over this image, whether a server runs or not: what is kept of
 * each has its "image". -1 and *e: nobody can tell. */
static int sessions_of(const struct settings *s, const char *name, struct err *e)
{
	auto_free char *state = state_path(s);
	auto_free char *path = state ? mem_printf("%s/session-index", state) : NULL;
	DIR *dir = path ? opendir(path) : NULL;
	struct dirent *d;
	int n = 0, is = 0;

	if (path && !dir && errno != ENOENT)
		return err_errno(e, "read '%s'", path);
	while (dir && is >= 0 && (d = readdir(dir))) {
		if (d->d_name[0] == '.' || is_partial(d->d_name))
			continue;
		is = file_names(dirfd(dir), d->d_name, name, e);
		n += is;
	}
	if (dir)
		closedir(dir);
	return is < 0 ? -1 : n;
}

static int remove_one(const struct settings *s, int store_fd, const char *name,
		      struct err *e)
{
	int used;

	if (!image_name_ok(name))
		return err_bad(e, "'%.80s' is no name of an image", name);
	used = sessions_of(s, name, e);
	if (used < 0)
		return -1;
	if (used)
		return err_bad(e, "'%s' is in use by %d session%s: close %s first", name,
			       used, used == 1 ? "" : "s", used == 1 ? "it" : "them");
	if (store_fd >= 0 && image_remove(store_fd, name) == 0)
		return 0;
	if (store_fd < 0 || errno == ENOENT)
		return err_bad(e, "there is no image '%s'", name);
	return errno == EBUSY ? err_bad(e, "'%s' is in use", name)
			      : err_errno(e, "remove '%s'", name);
}

static int add(const struct settings *s, const struct options *o, char **words,
	       bool pulls, struct err *e)
{
	struct image_wish wish = {
		.settings = s,
		.name = pulls ? image_pull_name(words[0]) : words[0],
		.path = words[pulls ? 0 : 1],
		.max_mb = o->max_mb,
	};
	auto_fd int store_fd = -1;
	auto_fd int there_fd = -1;

	if (!image_name_ok(wish.name))
		return err_bad(e,
			       "'%.80s' is no name of an image: letters, digits and "
			       "._-/:@+ are, as in golang:1.22; not host",
			       wish.name);
	store_fd = wish.store_fd = open_store(s, true, e);
	if (store_fd < 0)
		return -1;
	images_sweep(store_fd);
	there_fd = image_open(store_fd, wish.name);
	if (there_fd >= 0)
		return err_bad(e, "'%s' is there already: remove it first", wish.name);
	image_signals();
	return pulls ? image_pull(&wish, e) : image_add(&wish, e);
}

/* our own flags go, wherever they are; what is left has its new count */
static int take_options(struct options *o, int *argc, char **argv, struct err *e)
{
	int n = 0;

	for (int i = 0; i < *argc; i++) {
		const char *value = NULL;

		if (strcmp(argv[i], "--json") == 0) {
			o->json = true;
			continue;
		}
		if (strncmp(argv[i], "--max-mb=", 9) == 0)
			value = argv[i] + 9;
		else if (strcmp(argv[i], "--max-mb") == 0)
			value = i + 1 < *argc ? argv[++i] : "";
		if (!value)
			argv[n++] = argv[i];
		else if (num_range(value, 1, MAX_MB_MOST, &o->max_mb) < 0)
			return err_bad(e, "--max-mb %s: must be a number from 1 to %u",
				       value, MAX_MB_MOST);
	}
	*argc = n;
	return 0;
}

static int change(const struct settings *s, const struct options *o, int words,
		  char **word, struct err *e)
{
	const char *what = word[0];
	auto_fd int fd = -1;
	int rc = 0;

	if (strcmp(what, "add") == 0)
		return words == 3 ? add(s, o, word + 1, false, e)
				  : err_bad(e, "want NAME and PATH (try image --help)");
	if (strcmp(what, "pull") == 0)
		return words == 2 ? add(s, o, word + 1, true, e)
				  : err_bad(e, "want a REFERENCE (try image --help)");
	fd = open_store(s, false, e);
	if (fd < 0 && e->kind != ERR_NONE)
		return -1;
	if (fd >= 0)
		images_sweep(fd);
	if (strcmp(what, "list") == 0 && words == 1)
		return list(fd, o, e);
	if (strcmp(what, "remove") != 0 || words < 2)
		return err_bad(e, WANTED);
	for (int i = 1; rc == 0 && i < words; i++)
		rc = remove_one(s, fd, word[i], e);
	return rc;
}

static int run(int argc, char **argv, struct err *e)
{
	struct options o = {.max_mb = MAX_MB};
	struct settings s = {0};
	int words = 0, rc = -1;

	if (take_options(&o, &argc, argv, e) < 0)
		return -1;
	while (words < argc && (argv[words][0] != '-' || !argv[words][1]))
		words++;
	if (words == 0)
		return err_bad(e, WANTED);
	if (settings_load(&s, argc - words, argv + words, NULL, e) >= 0 &&
	    identity_decide(&s, e) == 0)
		rc = change(&s, &o, words, argv, e);
	settings_done(&s);
	return rc;
}

int cmd_image(int argc, char **argv)
{
	struct err e = {0};
	int status;

	if (argc > 0 && strcmp(argv[0], "--help") == 0) {
		print_usage(usage);
		return 0;
	}
	status = run(argc, argv, &e);
	if (status < 0)
		fprintf(stderr, "sandbox-server: %s\n", e.text);
	return status < 0 ? 1 : status;
}
