/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * binds.c - what of the host a run sees: the list of paths in struct setup
 *
 * The rule for trees: a runtime lives in a directory of its own, wherever that is. Where
 * its prefix is a directory that people keep other things in, it is not bound as a whole.
 */
#include "config/binds.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/mem.h"
#include "wire/setup.h"

#define FIRST_PERSON 1000 /* uids from here on are people's, as login.defs has it */
#define NOBODY 65534
#define HOPS_MAX 40 /* as the kernel */

/* `path` is `top` or below it */
static bool within(const char *path, const char *top)
{
	size_t len = strlen(top);

	if (strcmp(top, "/") == 0)
		return path[0] == '/';
	return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == 0);
}

bool binds_cover(const struct setup *s, const char *path)
{
	for (uint32_t i = 0; i < s->binds; i++)
		if (within(path, s->bind[i].path))
			return true;
	return false;
}

int binds_add(struct setup *s, const char *path, struct err *e)
{
	uint32_t kept = 0;
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_errno(e, "look at '%s'", path);
	for (uint32_t i = 0; i < s->binds; i++) {
		if (!within(path, s->bind[i].path))
			continue;
		/* seen by all, the packages would be, too */
		if (s->bind[i].installs && strcmp(path, s->bind[i].path) != 0)
			return err_bad(e,
				       "'%s' is in '%s', which is for installs alone: "
				       "move the packages into a directory of their own",
				       path, s->bind[i].path);
		s->bind[i].installs = 0;
		return 0;
	}
	if (strlen(path) >= SETUP_PATH)
		return err_ours(e, "path too long: '%.80s...'", path);
	for (uint32_t i = 0; i < s->binds; i++)
		if (!within(s->bind[i].path, path))
			s->bind[kept++] = s->bind[i];
	s->binds = kept;
	if (kept == SETUP_BINDS)
		return err_ours(e, "more than %u paths to bind", SETUP_BINDS);
	snprintf(s->bind[kept].path, SETUP_PATH, "%s", path);
	s->bind[kept].installs = 0;
	s->binds++;
	return 0;
}

/* a run has these of its own, so nothing of the host's can be seen there */
static const char *covered_by_run(const char *path)
{
	static const char *const own[] = {"/tmp",  "/work", "/dev",
					  "/proc", "/sys",  "/go-cache"};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (within(path, own[i]))
			return own[i];
	return NULL;
}

/* the directory is somebody's home, holds one, or is where a home keeps private things */
static bool holds_home(const char *path, const char *home)
{
	static const char *const private[] = {".local", ".config", ".cache",
					      ".local/share"};

	if (!home || home[0] != '/' || strcmp(home, "/") == 0)
		return false;
	if (within(home, path))
		return true;
	for (size_t i = 0; i < sizeof(private) / sizeof(private[0]); i++) {
		auto_free char *below = mem_printf("%s/%s", home, private[i]);

		if (strcmp(path, below) == 0)
			return true;
	}
	return false;
}

static bool is_private(const char *path)
{
	static const char *const tops[] = {"/home", "/root", "/tmp",   "/etc", "/var",
					   "/run",  "/boot", "/media", "/mnt", "/srv"};
	struct passwd *user;
	bool found;
	FILE *f;

	for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
		if (within(tops[i], path))
			return true;
	/* /home/NAME, whoever that is */
	if (within(path, "/home") && !strchr(path + strlen("/home/"), '/'))
		return true;
	found = holds_home(path, getenv("HOME")) || holds_home(path, "/root");
	/* the file itself: a name service may take its time, and knows more than homes
	 * here */
	f = found ? NULL : fopen("/etc/passwd", "re");
	while (f && !found && (user = fgetpwent(f)))
		found = user->pw_uid >= FIRST_PERSON && user->pw_uid < NOBODY &&
			holds_home(path, user->pw_dir);
	if (f)
		fclose(f);
	return found;
}

/* /bin, /lib and their kin are links into /usr on most systems; a slot has the same links
 */
static bool below_top_link(const char *path)
{
	size_t len = strcspn(path + 1, "/") + 1;
	auto_free char *top = mem_copy_n(path, len);
	struct stat st;

	return lstat(top, &st) == 0 && S_ISLNK(st.st_mode);
}

static bool is_clean(const char *path)
{
	size_t len = strlen(path);

	return path[0] == '/' && len > 1 && path[len - 1] != '/' && !strstr(path, "//") &&
	       !strstr(path, "/./") && !strstr(path, "/../") &&
	       (len < 3 || strcmp(path + len - 3, "/..") != 0) &&
	       strcmp(path + len - 2, "/.") != 0;
}

int binds_tree(struct setup *s, const char *path, struct err *e)
{
	auto_free char *real = realpath(path, NULL);
	const char *own;
	bool named;

	if (!real)
		return errno == ENOENT ? 1 : err_errno(e, "look at '%s'", path);
	named = is_clean(path) && !below_top_link(path) && strcmp(path, real) != 0;
	if (!binds_cover(s, real)) {
		own = covered_by_run(real);
		if (own)
			return err_bad(e,
				       "'%s' cannot be used: a run has a %s of its own",
				       real, own);
		if (is_private(real))
			return 0;
	}
	if (named && !binds_cover(s, path) && (covered_by_run(path) || is_private(path)))
		return 0;
	if (binds_add(s, real, e) < 0 || (named && binds_add(s, path, e) < 0))
		return -1;
	return 1;
}

int binds_packages(struct setup *s, const char *path, struct err *e)
{
	int rc;

	if (binds_cover(s, path))
		return 1;
	for (uint32_t i = 0; i < s->binds; i++)
		if (within(s->bind[i].path, path))
			return 0;
	rc = binds_tree(s, path, e);
	for (uint32_t i = 0; rc > 0 && i < s->binds; i++)
		if (strcmp(s->bind[i].path, path) == 0)
			s->bind[i].installs = 1;
	return rc;
}

bool binds_drop_packages(struct setup *s)
{
	uint32_t kept = 0;
	bool some;

	for (uint32_t i = 0; i < s->binds; i++)
		if (!s->bind[i].installs)
			s->bind[kept++] = s->bind[i];
	some = kept < s->binds;
	s->binds = kept;
	return some;
}

/* where a link points, absolute but not resolved further; NULL: it is none */
static char *follow(const char *path)
{
	char target[PATH_MAX];
	ssize_t len = readlink(path, target, sizeof(target) - 1);

	if (len < 0)
		return NULL;
	target[len] = 0;
	if (target[0] == '/')
		return mem_copy(target);
	return mem_printf("%.*s/%s", (int)(strrchr(path, '/') - path), path, target);
}

int binds_program(struct setup *s, const char *path, struct err *e)
{
	auto_free char *real = realpath(path, NULL);
	auto_free char *hop = mem_copy(path);
	const char *own;

	if (!real)
		return err_errno(e, "look at '%s'", path);
	for (int i = 0; hop && i < HOPS_MAX; i++) {
		char *next = follow(hop);

		own = binds_cover(s, hop) ? NULL : covered_by_run(hop);
		if (own) {
			free(next);
			return err_bad(e,
				       "'%s' cannot be used: a run has a %s of its own",
				       hop, own);
		}
		/* a name with .. in it is not one to bind; the real one is bound below */
		if (is_clean(hop) && !below_top_link(hop) && binds_add(s, hop, e) < 0) {
			free(next);
			return -1;
		}
		free(hop);
		hop = next;
	}
	return binds_add(s, real, e);
}

static int add_etc_python(struct setup *s, struct err *e)
{
	DIR *dir = opendir("/etc");
	struct dirent *entry;
	int rc = 0;

	while (dir && rc == 0 && (entry = readdir(dir))) {
		auto_free char *path = mem_printf("/etc/%s", entry->d_name);

		if (strncmp(entry->d_name, "python3", 7) == 0)
			rc = binds_add(s, path, e);
	}
	if (dir)
		closedir(dir);
	return rc;
}

/* some systems keep the bundle elsewhere in /etc and link to it */
static int add_certificates(struct setup *s, struct err *e)
{
	static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt",
					      "/etc/ssl/certs/ca-bundle.crt"};

	for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]); i++) {
		auto_free char *real = realpath(bundles[i], NULL);

		if (!real || !within(real, "/etc"))
			continue;
		if (strrchr(real, '/') !=
		    real + strlen("/etc")) /* all of /etc is too much */
			*strrchr(real, '/') = 0;
		if (binds_add(s, real, e) < 0)
			return -1;
	}
	return binds_add(s, "/etc/ssl/certs", e);
}

int binds_names(struct setup *s, struct err *e)
{
	return binds_add(s, "/etc/hosts", e) < 0 ? -1
						 : binds_add(s, "/etc/resolv.conf", e);
}

int binds_system(struct setup *s, struct err *e)
{
	static const char *const tops[] = {"/bin",   "/sbin",  "/lib",
					   "/lib32", "/lib64", "/libx32"};
	/* never passwd, group, hosts, hostname, resolv.conf: a slot writes its own,
	 * or binds_names() has them */
	static const char *const files[] = {
		"/etc/ld.so.cache",  "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/alternatives", "/etc/localtime",  "/etc/ssl/openssl.cnf",
		"/etc/mime.types",   "/etc/protocols",  "/etc/services",
		"/etc/magic",        "/etc/magic.mime",
	};
	struct stat st;

	if (binds_add(s, "/usr", e) < 0)
		return -1;
	for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
		if (lstat(tops[i], &st) == 0 && S_ISDIR(st.st_mode) &&
		    binds_add(s, tops[i], e) < 0)
			return -1;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (binds_add(s, files[i], e) < 0)
			return -1;
	return add_certificates(s, e) < 0 || add_etc_python(s, e) < 0 ? -1 : 0;
}
