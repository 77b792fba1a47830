/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_remove.c - what sessions left behind: their files, and layers nobody has
 *
 * Runs in: a process that the launcher forks, since it may take its time. The processes
 * of what is removed are dead, so nobody is there to change anything meanwhile; a link is
 * never followed in any case. Layers go that no session has any more: those of the
 * sessions that go, and those that a launcher which died had just made.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/quota.h"
#include "launcher/session_parts.h"

#define TICK_NS 10000000

int session_each_name(int dir_fd, int (*fn)(int dir_fd, const char *name, void *arg),
		      void *arg)
{
	auto_fd int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	int rc = 0;

	if (!dir)
		return -1;
	(void)take_fd(&fd);
	while ((d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
		    fn(dir_fd, d->d_name, arg) < 0)
			rc = -1;
	closedir(dir);
	return rc;
}

static bool begins(const char *name, const char *begin)
{
	return strncmp(name, begin, strlen(begin)) == 0;
}

static int remove_one(int dir_fd, const char *name, void *begin)
{
	return begins(name, begin) ? fs_remove_tree(dir_fd, name) : 0;
}

int session_remove_named(int all_fd, const char *begin)
{
	return session_each_name(all_fd, remove_one, (void *)(uintptr_t)begin);
}

/* ---- which layers somebody has ---- */

struct named {
	const struct launcher *l;
	char (*name)[SESSION_GONE_NAME]; /* of layers, or of sessions that go */
	size_t count, room;
};

static_assert(STACK_NAME <= SESSION_GONE_NAME, "a layer's name has room too");

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool has(const struct named *n, const char *name)
{
	return n->count && bsearch(name, n->name, n->count, sizeof(n->name[0]), by_name);
}

static void add(struct named *n, const char *name)
{
	if (n->count == n->room) {
		n->room = n->room ? 2 * n->room : 256;
		n->name = realloc(n->name, n->room * sizeof(n->name[0]));
		if (!n->name)
			abort();
	}
	snprintf(n->name[n->count++], sizeof(n->name[0]), "%s", name);
}

/* every file of a session's directory tells of layers; one that cannot be read may tell
 * of any: then none is removed */
static int add_file(int dir_fd, const char *name, void *arg)
{
	struct named *n = arg;
	struct session_stack s = {0};
	unsigned i;

	if (begins(name, ".tmp-"))
		return 0;
	if (stack_read(n->l->setup, dir_fd, name, &s) < 0 && errno != ENODEV)
		return -1;
	for (i = 0; i < s.depth; i++)
		add(n, s.layer[i]);
	return 0;
}

static int add_session(int all_fd, const char *name, void *arg)
{
	auto_fd int fd = -1;

	if (name[0] == '.' || strcmp(name, STACK_POOL) == 0)
		return 0;
	fd = openat(all_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	return session_each_name(fd, add_file, arg);
}

/* ---- removing ---- */

struct removing {
	const struct launcher *l;
	const struct named *kept;
	struct named had; /* the one that goes */
	int index_fd;     /* what the server knows of */
};

/* the file system would remember its limit for ever */
static int remove_layer(int pool_fd, const char *name)
{
	if (fs_remove_tree(pool_fd, name) < 0)
		return -1;
	if (strlen(name) == STACK_NAME - 1 && quota_possible(pool_fd))
		(void)quota_limit(pool_fd, stack_project(name),
				  NULL); /* it costs little */
	return 0;
}

/* what one that goes has had; its directory is the last, so that it is found again */
static int remove_session(int all_fd, const char *name, struct removing *r)
{
	auto_fd int fd = -1;
	size_t i;
	int rc = 0;

	r->had.count = 0;
	fd = openat(all_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		(void)session_each_name(fd, add_file,
					&r->had); /* the next start finds the rest */
	for (i = 0; i < r->had.count; i++)
		if (!has(r->kept, r->had.name[i]) &&
		    remove_layer(r->l->sessions.pool_fd, r->had.name[i]) < 0)
			rc = -1;
	return rc < 0 || fs_remove_tree(all_fd, name) < 0 ? -1 : 0;
}

/* made before we were here; files have the time of the last tick, which is behind */
static bool is_older(const struct stat *st, const struct launcher *l)
{
	const struct timespec *since = &l->sessions.since;
	const int64_t ns = (int64_t)(since->tv_sec - st->st_mtim.tv_sec) * 1000000000 +
			   since->tv_nsec - st->st_mtim.tv_nsec;

	return ns > TICK_NS;
}

/* made before we were here, and in no file: of a launcher that died then */
static int remove_orphan(int pool_fd, const char *name, void *arg)
{
	const struct removing *r = arg;
	struct stat st;

	if (has(r->kept, name) || fstatat(pool_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !is_older(&st, r->l))
		return 0;
	return remove_layer(pool_fd, name);
}

/* made before we were here, and the server knows nothing of it: nobody was told */
static int forget_unknown(int all_fd, const char *name, void *arg)
{
	const struct removing *r = arg;
	char file[SESSION_NAME + sizeof(".json")], gone[SESSION_GONE_NAME];
	struct stat st;

	if (strlen(name) != SESSION_NAME - 1 ||
	    strspn(name, "0123456789abcdef") != SESSION_NAME - 1 ||
	    fstatat(all_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_older(&st, r->l))
		return 0;
	snprintf(file, sizeof(file), "%s.json", name);
	if (faccessat(r->index_fd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    errno != ENOENT)
		return 0;
	snprintf(gone, sizeof(gone), SESSION_GONE "%s.-", name);
	return renameat2(all_fd, name, all_fd, gone, RENAME_NOREPLACE);
}

static int add_gone(int all_fd, const char *name, void *arg)
{
	(void)all_fd;
	if (begins(name, SESSION_GONE) && strlen(name) < SESSION_GONE_NAME)
		add(arg, name);
	return 0;
}

/* Who goes is listed before who stays: one that is closed meanwhile is in neither list,
 * and is for the next time. */
static int remove_all(const struct launcher *l)
{
	const struct sessions *s = &l->sessions;
	auto_fd int index_fd = openat(s->dir_fd, "../session-index",
				      O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct named gone = {.l = l}, kept = {.l = l};
	struct removing r = {
		.l = l, .kept = &kept, .had = {.l = l}, .index_fd = index_fd};
	size_t i;
	int rc = 0;

	if (index_fd >= 0)
		(void)session_each_name(s->dir_fd, forget_unknown,
					&r); /* the next start tries */
	if (session_each_name(s->dir_fd, add_gone, &gone) < 0 ||
	    session_each_name(s->dir_fd, add_session, &kept) < 0)
		return -1;
	if (kept.count)
		qsort(kept.name, kept.count, sizeof(kept.name[0]), by_name);
	for (i = 0; i < gone.count; i++)
		if (remove_session(s->dir_fd, gone.name[i], &r) < 0)
			rc = -1;
	if (session_each_name(s->pool_fd, remove_orphan, &r) < 0)
		rc = -1;
	free(gone.name);
	free(kept.name);
	free(r.had.name);
	return rc;
}

_Noreturn void session_remove_all(const struct launcher *l, pid_t parent)
{
	/* the streams of runs are among the others, whose ends somebody waits for */
	const int fds[] = {l->sessions.dir_fd, l->sessions.pool_fd};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    sys_keep_fds(fds, 2) < 0)
		_exit(1);
	_exit(remove_all(l) < 0);
}
