/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * state.c - the state directory: what is kept there, and whose it is
 *
 * Runs in: the supervisor, with the rights to make it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "image/image.h"

#define LAYER_AGE_SEC (30 * 86400) /* packages that nobody used for so long go */

char *state_path(const struct settings *s)
{
	const char *base = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (s->state_dir)
		return mem_copy(s->state_dir);
	if (s->uid_base)
		return mem_copy("/var/lib/sandbox-server");
	if (base && base[0] == '/')
		return mem_printf("%s/sandbox-server", base);
	if (home && home[0] == '/')
		return mem_printf("%s/.local/state/sandbox-server", home);
	return NULL;
}

char *image_path(const struct settings *s)
{
	auto_free char *state = state_path(s);

	if (s->image_dir)
		return mem_copy(s->image_dir);
	return state ? mem_printf("%s/images", state) : NULL;
}

/* what `image add` or `image remove` left when it was killed */
static void sweep_images(const struct settings *s)
{
	auto_free char *path = image_path(s);
	auto_fd int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0)
		images_sweep(fd);
}

/* where runs were stored by a server that was another user: they are its successor's */
static int take_stored(int artifacts_fd, uid_t uid)
{
	auto_fd int fd = openat(artifacts_fd, "executions",
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	return fchown(fd, uid, uid);
}

/*
 * Opened here, with the rights to make it. The directory itself stays ours: what the
 * server may write is below it, and a server gone wrong must not be able to put a compile
 * cache there.
 */
static int open_state(struct prepared *p, const char *path)
{
	auto_fd int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int state_fd = -1;
	const uid_t uid = (uid_t)p->settings.uid_base - 1;

	if (root_fd < 0)
		return -1;
	state_fd = fs_make_path(root_fd, path + 1, 0755);
	if (state_fd < 0)
		return -1;
	p->artifacts_fd = fs_make_path(state_fd, "artifacts", 0755);
	if (p->artifacts_fd < 0)
		return -1;
	if (p->settings.uid_base && (fchown(p->artifacts_fd, uid, uid) < 0 ||
				     take_stored(p->artifacts_fd, uid) < 0))
		return -1;
	return faccessat(p->artifacts_fd, ".", W_OK, 0);
}

/* a directory name from "go version go1.25.1 linux/amd64" */
static void name_seed(struct prepared *p, const char *path)
{
	struct setup *setup = &p->start->setup;
	size_t i, at;
	int len;

	for (i = 0; i < p->modes.count && p->modes.mode[i].id != MODE_GOLANG; i++)
		;
	if (i == p->modes.count)
		return;
	len = snprintf(setup->go_seed_dir, sizeof(setup->go_seed_dir), "%s/go-cache/%s",
		       path, p->modes.mode[i].runtime_version);
	if (len < 0 ||
	    (size_t)len >= sizeof(setup->go_seed_dir) - 24) { /* ".12345.new" */
		setup->go_seed_dir[0] = '\0';
		return;
	}
	for (at = strlen(path) + strlen("/go-cache/"); setup->go_seed_dir[at]; at++) {
		if (!strchr("0123456789.abcdefghijklmnopqrstuvwxyz",
			    setup->go_seed_dir[at]))
			setup->go_seed_dir[at] = '-';
	}
}

/* whoever builds compile caches: a launcher that keeps root's rights, or the uid that it
 * takes when it has too few of them */
static int open_seeds(const struct prepared *p, const char *state)
{
	auto_free char *path = mem_printf("%s/go-cache", state);
	auto_fd int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int fd = root_fd < 0 ? -1 : fs_make_path(root_fd, path + 1, 0755);
	const struct setup *setup = &p->start->setup;
	const uid_t uid = leaves_root(setup) ? setup->uid_base : 0;

	if (fd < 0 || (setup->uid_base && fchown(fd, uid, uid) < 0))
		return -1;
	return take_fd(&fd);
}

/* where nothing can be installed, requests for packages are told why */
static void refuse_installs(struct prepared *p, const char *why)
{
	for (size_t i = 0; i < p->modes.count; i++) {
		struct mode *m = &p->modes.mode[i];

		m->install_row = -1;
		m->installer = NULL;
		if (!m->no_installer)
			m->no_installer = mem_copy(why);
	}
}

/* of whoever makes layers; see open_seeds */
static void open_layers(struct prepared *p, const char *state)
{
	struct setup *setup = &p->start->setup;
	auto_free char *path = mem_printf("%s/layers", state);
	auto_fd int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int fd = root_fd < 0 ? -1 : fs_make_path(root_fd, path + 1, 0755);
	const uid_t uid = leaves_root(setup) ? setup->uid_base : 0;

	if (fd < 0 || (setup->uid_base && fchown(fd, uid, uid) < 0) ||
	    strlen(path) >= sizeof(setup->layer_dir)) {
		refuse_installs(p, "installed packages cannot be kept in the state "
				   "directory of this server");
		return;
	}
	snprintf(setup->layer_dir, sizeof(setup->layer_dir), "%s", path);
	setup->layer_bytes = p->settings.layer_cache_mb << 20;
	setup->layer_age_sec = LAYER_AGE_SEC;
}

static bool on_overlay(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* what clients are told when they ask for one */
static void refuse_sessions(struct prepared *p, const char *why)
{
	p->start->setup.session_dir[0] = '\0';
	snprintf(p->sessions_why, sizeof(p->sessions_why), "%s", why);
}

/* the directory that sessions are in; what others left of theirs is removed on the way */
static int open_place(struct prepared *p, const char *state)
{
	auto_fd int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int state_fd = root_fd < 0 ? -1 : fs_make_path(root_fd, state + 1, 0755);

	if (state_fd < 0)
		return -1;
	own_sweep(state_fd);
	if (!p->alone)
		return take_fd(&state_fd);
	if (own_make(&p->own, state_fd) < 0)
		return -1;
	return fcntl(p->own.fd, F_DUPFD_CLOEXEC, 0);
}

/* Two launchers would mount over the same files, and each would remove what the other has
 * just made. Nobody but the server can open this directory, and so lock it. */
static int lock_sessions(struct prepared *p, int index_fd)
{
	auto_fd int fd = openat(index_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (p->settings.docker) /* it has none */
		return 0;
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -1;
	p->sessions_lock_fd = take_fd(&fd);
	return 0;
}

/* the files are the launcher's to give, and what there is the server's to know */
static int make_sessions(struct prepared *p, const char *state, int *out_fd)
{
	struct setup *setup = &p->start->setup;
	auto_fd int place_fd = open_place(p, state);
	auto_fd int files_fd = place_fd < 0 ? -1
					    : fs_make_path(place_fd, "sessions", 0755);
	auto_fd int index_fd = place_fd < 0
				       ? -1
				       : fs_make_path(place_fd, "session-index", 0700);
	const uid_t uid = (uid_t)p->settings.uid_base - 1;
	const uid_t maker = leaves_root(setup) ? setup->uid_base : 0; /* see open_seeds */

	if (files_fd < 0 || index_fd < 0 || lock_sessions(p, index_fd) < 0 ||
	    (setup->uid_base && fchown(files_fd, maker, maker) < 0) ||
	    (p->settings.uid_base && fchown(index_fd, uid, uid) < 0))
		return -1;
	*out_fd = take_fd(&files_fd);
	p->sessions_fd = take_fd(&index_fd);
	if (snprintf(setup->session_dir, sizeof(setup->session_dir), "%s%s%s/sessions",
		     state, p->alone ? "/" : "",
		     p->own.path) < (int)sizeof(setup->session_dir))
		return 0;
	errno = ENAMETOOLONG;
	return -1;
}

/* made here, so that who is to add images finds it */
static int open_images(struct prepared *p, const char *state)
{
	struct setup *setup = &p->start->setup;
	auto_free char *path = p->settings.image_dir ? mem_copy(p->settings.image_dir)
						     : mem_printf("%s/images", state);
	auto_fd int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	p->images_fd = root_fd < 0 ? -1 : fs_make_path(root_fd, path + 1, 0755);
	if (p->images_fd < 0 || strlen(path) >= sizeof(setup->image_dir))
		return -1;
	memcpy(setup->image_dir, path, strlen(path) + 1);
	return 0;
}

static void open_sessions(struct prepared *p, const char *state)
{
	auto_fd int fd = -1;
	const bool wanted = p->settings.sessions && state && state[0] == '/';
	const bool made = wanted && make_sessions(p, state, &fd) == 0;
	const bool taken = wanted && !made && errno == EWOULDBLOCK;

	if (!p->settings.sessions) {
		refuse_sessions(p, "sessions are off; SANDBOX_SESSIONS=on turns them on");
	} else if (!wanted) {
		refuse_sessions(p, "sessions need a state directory: set "
				   "SANDBOX_STATE_DIR to an absolute path");
	} else if (taken) {
		refuse_sessions(p, "another server has the sessions of this state "
				   "directory: give each its own SANDBOX_STATE_DIR");
		log_warn("session.off", "reason=\"%s\"", p->sessions_why);
	} else if (!made) {
		refuse_sessions(p, "the state directory of this server cannot be used");
	} else if (open_images(p, state) < 0) {
		refuse_sessions(p, "the directory of images cannot be used");
	} else if (on_overlay(fd)) {
		refuse_sessions(p, "the state directory is on an overlay file system; "
				   "give it a volume: SANDBOX_STATE_DIR on a disk");
	}
}

/* whoever cannot make it is told by open_state */
static int take_state(const char *path, bool serving, struct err *e)
{
	auto_fd int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (serving && root_fd >= 0) {
		int made_fd = fs_make_path(root_fd, path + 1, 0755);

		defer_close(&made_fd);
	}
	return state_format(path, serving, e);
}

int state_find(struct prepared *p, enum prepare_why why, struct err *e)
{
	const bool serving = why == TO_SERVE || why == TO_PREFETCH;
	auto_free char *path = state_path(&p->settings);
	struct setup *setup = &p->start->setup;
	auto_fd int seeds_fd = -1;

	if (path && path[0] == '/' && take_state(path, serving, e) < 0)
		return -1;
	if (why == TO_SERVE) /* who installs ahead leaves them to a server that runs */
		open_sessions(p, path);
	if (serving)
		sweep_images(&p->settings);
	if (!path || path[0] != '/') {
		refuse_installs(p, "this server has no state directory");
		snprintf(p->state_note, sizeof(p->state_note),
			 "no state directory: set SANDBOX_STATE_DIR to an absolute path");
		return 0;
	}
	name_seed(p, path);
	if (!serving) {
		refuse_installs(p, "packages are installed by a server");
		return 0;
	}
	if (open_state(p, path) < 0) {
		snprintf(p->state_note, sizeof(p->state_note),
			 "the state directory cannot be used: %s", strerror(errno));
		defer_close(&p->artifacts_fd);
		p->artifacts_fd = -1;
		refuse_installs(p, "the state directory of this server cannot be used");
		return 0;
	}
	open_layers(p, path);
	seeds_fd = setup->go_seed_dir[0] ? open_seeds(p, path) : -1;
	setup->go_seed_build = seeds_fd >= 0;
	if (setup->go_seed_dir[0] && seeds_fd < 0)
		log_warn("seed.directory", "path=%s/go-cache error=\"%s\"", path,
			 strerror(errno));
	return 0;
}

/* where runs without a mount namespace may have their directories, the best first */
void state_run_dirs(struct prepared *p)
{
	auto_free char *state = state_path(&p->settings);
	const char *paths[SETUP_RUN_DIRS] = {state, getenv("TMPDIR"), "/tmp"};
	struct setup *setup = &p->start->setup;
	int i, n = 0;

	for (i = 0; i < SETUP_RUN_DIRS; i++) {
		if (paths[i] && paths[i][0] == '/' && strlen(paths[i]) < SETUP_PATH / 2)
			snprintf(setup->run_dir[n++], SETUP_PATH, "%s", paths[i]);
	}
}
