/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * layers.c - the packages that were installed for requests: what is kept, and removing it
 *
 * Works on the state directory, with or without a server that uses it: locks tell which
 * layers are in use.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "launcher/layer.h"

#define LIST_MOST 65536
#define WANTED "want list, show, remove or prefetch (try layers --help)"
#define KEY_LEAST 6 /* digits that tell layers apart, for people */

static const char usage[] =
	"usage: sandbox-server layers list [SETTINGS]\n"
	"       sandbox-server layers show|remove KEY... [SETTINGS]\n"
	"       sandbox-server layers prefetch FILE [SETTINGS]\n\n"
	"Packages that were installed for requests, as layers in the state directory.\n"
	"list prints key, MB, last use and the first requirements of each; show prints\n"
	"all requirements; remove removes layers that no run uses. A KEY may be cut to\n"
	"its first 6 digits or more. prefetch installs ahead: each line of FILE (or of\n"
	"-, standard input) is a list as a request has it, [\"six\", \"numpy>=2\"],\n"
	"for the first mode or the one named before it, node [\"chalk\"]; exit status\n"
	"1 when one failed. It wants the settings and the environment of the server:\n"
	"PATH, HOME and variables of pip, uv and npm tell which packages those are.\n";

static int open_store(const struct settings *s, struct err *e)
{
	auto_free char *state = state_path(s);
	auto_free char *path = state ? mem_printf("%s/layers", state) : NULL;
	int fd;

	if (!path)
		return err_bad(e, "no state directory: set SANDBOX_STATE_DIR");
	if (state_format(state, false, e) < 0)
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(e, "open '%s'", path) : fd;
}

/* its requirements, one a line; "" where they are not known */
static void read_list(int store_fd, const char *name, char out[LIST_MOST])
{
	auto_fd int fd = openat(store_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fs_read_at(fd, LAYER_LIST, out, LIST_MOST) < 0)
		out[0] = '\0';
	/* code of a package may have written it (SANDBOX_ALLOW_BUILD), for a terminal */
	for (char *c = out; *c; c++)
		if (*c != '\n' && (*c < 0x20 || *c == 0x7f))
			*c = '?';
}

static int list(int store_fd, struct err *e)
{
	static char text[LIST_MOST];
	struct layer_seen *seen;
	size_t count;

	if (layers_list(store_fd, &seen, &count) < 0)
		return err_errno(e, "read the layers");
	for (size_t i = 0; i < count; i++) {
		char used[32] = "";
		struct tm t;

		if (gmtime_r(&seen[i].used.tv_sec, &t))
			strftime(used, sizeof(used), "%Y-%m-%dT%H:%M:%SZ", &t);
		read_list(store_fd, seen[i].name, text);
		for (char *c = text; *c; c++)
			if (*c == '\n')
				*c = c[1] ? ' ' : '\0';
		printf("%.12s %8.1f MB  %s  %.60s\n", seen[i].name,
		       (double)seen[i].bytes / (1 << 20), used, text);
	}
	free(seen);
	return 0;
}

/* the one layer whose key begins so */
static int find(int store_fd, const char *begin, char out[LAYER_NAME], struct err *e)
{
	struct layer_seen *seen;
	size_t count, found = 0;

	if (strlen(begin) < KEY_LEAST)
		return err_bad(e, "'%s': want %d digits of a key at least", begin,
			       KEY_LEAST);
	if (layers_list(store_fd, &seen, &count) < 0)
		return err_errno(e, "read the layers");
	for (size_t i = 0; i < count; i++)
		if (strncmp(seen[i].name, begin, strlen(begin)) == 0) {
			snprintf(out, LAYER_NAME, "%s", seen[i].name);
			found++;
		}
	free(seen);
	if (found == 1)
		return 0;
	return err_bad(e, "'%.80s': %s", begin,
		       found ? "more than one layer begins so"
			     : "there is no such layer");
}

static int show(int store_fd, const char *name, struct err *e)
{
	static char text[LIST_MOST];

	(void)e;
	read_list(store_fd, name, text);
	printf("%s\n%s", name, text);
	return 0;
}

static int remove_one(int store_fd, const char *name, struct err *e)
{
	if (layer_remove(store_fd, name) == 0)
		return 0;
	return errno == EBUSY ? err_bad(e, "'%s' is in use", name)
			      : err_errno(e, "remove '%s'", name);
}

static int each(int store_fd, int argc, char **argv,
		int (*what)(int store_fd, const char *name, struct err *e), struct err *e)
{
	char name[LAYER_NAME];

	if (argc == 0)
		return err_bad(e, "no KEY given (try layers --help)");
	for (int i = 0; i < argc; i++)
		if (find(store_fd, argv[i], name, e) < 0 || what(store_fd, name, e) < 0)
			return -1;
	return 0;
}

static int run(int argc, char **argv, struct err *e)
{
	const char *what = argc > 0 ? argv[0] : "";
	struct settings s = {0};
	int keys = 0, rc = -1;
	auto_fd int fd = -1;

	for (argc--, argv++; keys < argc && argv[keys][0] != '-'; keys++)
		;
	if (settings_load(&s, argc - keys, argv + keys, NULL, e) < 0 ||
	    identity_decide(&s, e) < 0 || (fd = open_store(&s, e)) < 0)
		rc = -1;
	else if (strcmp(what, "list") == 0 && keys == 0)
		rc = list(fd, e);
	else if (strcmp(what, "show") == 0)
		rc = each(fd, keys, argv, show, e);
	else if (strcmp(what, "remove") == 0)
		rc = each(fd, keys, argv, remove_one, e);
	else
		rc = err_bad(e, WANTED);
	settings_done(&s);
	return rc;
}

int cmd_layers(int argc, char **argv)
{
	struct err e = {0};
	int status = -1;

	if (argc > 0 && strcmp(argv[0], "--help") == 0) {
		print_usage(usage);
		return 0;
	}
	if (argc > 1 && strcmp(argv[0], "prefetch") == 0)
		status = layers_prefetch(argv[1], argc - 2, argv + 2, &e);
	else if (argc > 0 && strcmp(argv[0], "prefetch") == 0)
		status = err_bad(&e, "no FILE given (try layers --help)");
	else if (argc > 0)
		status = run(argc, argv, &e);
	if (status >= 0)
		return status;
	fprintf(stderr, "sandbox-server: %s\n", e.text[0] ? e.text : WANTED);
	return 1;
}
