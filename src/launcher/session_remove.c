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
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/quota.h"
#include "launcher/session_parts.h"

#define FAILED 1 /* its exit status, */
#define TEST_HELD_MS 20000
#define HELD 2 /* where somebody reads what is to go */

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

void session_test_hold(const struct launcher *l, const char *where)
{
#ifdef SANDBOX_TEST_HOOKS
	const struct timespec ms = {.tv_nsec = 1000000};
	const int at_fd = l->sessions.dir_fd;
	unsigned tries = TEST_HELD_MS;

	if (strcmp(l->setup->test_fault, where) == 0 &&
	    renameat(at_fd, ".test-hold", at_fd, ".test-held") == 0)
		while (faccessat(at_fd, ".test-held", F_OK, 0) == 0 && tries--)
			nanosleep(&ms, NULL);
#endif
	(void)l;
	(void)where;
}

/* ---- which layers somebody has ---- */

struct session_names {
	const struct launcher *l;
	char (*name)[SESSION_GONE_NAME]; /* of layers, or of sessions that go */
	size_t count, room;
};

static_assert(STACK_NAME <= SESSION_GONE_NAME, "a layer's name has room too");

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool has(const struct session_names *n, const char *name)
{
	return n->count && bsearch(name, n->name, n->count, sizeof(n->name[0]), by_name);
}

static void add(struct session_names *n, const char *name)
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
	struct session_names *n = arg;
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

static int add_all(int all_fd, const char *name, struct session_names *n)
{
	auto_fd int fd = openat(all_fd, name,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return errno == ENOENT ? 0 : -1; /* it was closed: add_new_gone() */
	/* by name: who lists while it is replaced may miss it */
	if (add_file(fd, STACK_FILE, n) < 0 && errno != ENOENT)
		return -1;
	return session_each_name(fd, add_file, n);
}

static int add_session(int all_fd, const char *name, void *arg)
{
	struct session_names *n = arg;

	session_test_hold(n->l, "session_remove");
	return name[0] == '.' || strcmp(name, STACK_POOL) == 0 ? 0
							       : add_all(all_fd, name, n);
}

static int add_gone(int all_fd, const char *name, void *arg)
{
	(void)all_fd;
	if (begins(name, SESSION_GONE) && strlen(name) < SESSION_GONE_NAME)
		add(arg, name);
	return 0;
}

struct kept {
	const struct session_names *gone; /* sorted */
	struct session_names names;
};

static int add_new_gone(int all_fd, const char *name, void *arg)
{
	struct kept *k = arg;

	return begins(name, SESSION_GONE) && !has(k->gone, name)
		       ? add_all(all_fd, name, &k->names)
		       : 0;
}

static void sort(struct session_names *n)
{
	if (n->count)
		qsort(n->name, n->count, sizeof(n->name[0]), by_name);
}

/*
 * Which layers somebody has, while the launcher goes on. A layer that nobody has stays
 * so, since names are only ever taken over from a file that has them, or are random. So
 * one that somebody has in the end was in a file when we began to look, and either we
 * read it there, or that file lost it before: its session was closed, or got other layers
 * (session_dir_replace). Then a directory that goes says so: under its new name, since
 * who goes was listed before; or, of the latter, not yet under that name, but written
 * before the file lost the layer, and so looked for first.
 */
static int list_kept(const struct launcher *l, struct session_names *gone, struct kept *k)
{
	const int all_fd = l->sessions.dir_fd;

	if (session_each_name(all_fd, add_gone, gone) < 0)
		return -1;
	sort(gone);
	if (session_each_name(all_fd, add_session, &k->names) < 0 ||
	    add_all(all_fd, SESSION_HALF, &k->names) < 0 ||
	    session_each_name(all_fd, add_new_gone, k) < 0)
		return -1;
	sort(&k->names);
	return 0;
}

/* ---- removing ---- */

struct removing {
	const struct launcher *l;
	const struct session_names *kept;
	struct session_names had; /* the one that goes */
	int status;
};

/* somebody compares it: what is half removed would be taken for what it has */
static bool is_read(int pool_fd, const char *name)
{
	auto_fd int fd = stack_open_layer(pool_fd, name);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* the file system would remember its limit for ever */
static int remove_layer(int pool_fd, const char *name)
{
	if (is_read(pool_fd, name)) {
		errno = EWOULDBLOCK;
		return -1;
	}
	if (fs_remove_tree(pool_fd, name) < 0)
		return -1;
	if (strlen(name) == STACK_NAME - 1 && quota_possible(pool_fd))
		(void)quota_limit(pool_fd, stack_project(name),
				  NULL); /* it costs little */
	return 0;
}

static int note(int rc, struct removing *r)
{
	if (rc < 0 && r->status != FAILED)
		r->status = errno == EWOULDBLOCK ? HELD : FAILED;
	return rc;
}

/* what one that goes has had; its directory is the last, so that it is found again */
static void remove_session(int all_fd, const char *name, struct removing *r)
{
	auto_fd int fd = -1;
	bool whole = true;
	size_t i;

	r->had.count = 0;
	fd = openat(all_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		(void)session_each_name(fd, add_file,
					&r->had); /* the next start finds the rest */
	for (i = 0; i < r->had.count; i++)
		if (!has(r->kept, r->had.name[i]) &&
		    note(remove_layer(r->l->sessions.pool_fd, r->had.name[i]), r) < 0)
			whole = false;
	if (whole)
		note(fs_remove_tree(all_fd, name), r);
}

/* Those that no file has: of a launcher that died. Later ones may be new, and stand in a
 * file in a moment. */
static void remove_orphans(const struct session_names *before, struct removing *r)
{
	const int pool_fd = r->l->sessions.pool_fd;
	size_t i;

	for (i = 0; before && i < before->count; i++)
		if (!has(r->kept, before->name[i]) &&
		    faccessat(pool_fd, before->name[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			note(remove_layer(pool_fd, before->name[i]), r);
}

static int remove_all(const struct launcher *l)
{
	struct session_names gone = {.l = l};
	struct kept kept = {.gone = &gone, .names = {.l = l}};
	struct removing r = {.l = l, .kept = &kept.names, .had = {.l = l}};
	size_t i;

	if (list_kept(l, &gone, &kept) < 0)
		return FAILED;
	for (i = 0; i < gone.count; i++)
		remove_session(l->sessions.dir_fd, gone.name[i], &r);
	remove_orphans(l->sessions.before, &r);
	free(gone.name);
	free(kept.names.name);
	free(r.had.name);
	return r.status;
}

_Noreturn void session_remove_all(const struct launcher *l, pid_t parent)
{
	/* the streams of runs are among the others, whose ends somebody waits for */
	const int fds[] = {l->sessions.dir_fd, l->sessions.pool_fd};

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    sys_keep_fds(fds, 2) < 0)
		_exit(FAILED);
	_exit(remove_all(l));
}

/* ---- in the launcher ---- */

/* the server knows nothing of it: nobody was told */
static int forget_unknown(int all_fd, const char *name, void *arg)
{
	const int *index_fd = arg;
	char file[SESSION_NAME + sizeof(".json")], gone[SESSION_GONE_NAME];

	if (strlen(name) != SESSION_NAME - 1 ||
	    strspn(name, "0123456789abcdef") != SESSION_NAME - 1)
		return 0;
	snprintf(file, sizeof(file), "%s.json", name);
	if (faccessat(*index_fd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return 0;
	snprintf(gone, sizeof(gone), SESSION_GONE "%s.-", name);
	return renameat2(all_fd, name, all_fd, gone, RENAME_NOREPLACE);
}

static int add_name(int dir_fd, const char *name, void *arg)
{
	(void)dir_fd;
	if (strlen(name) < SESSION_GONE_NAME)
		add(arg, name);
	return 0;
}

int session_remove_begin(struct launcher *l)
{
	struct sessions *s = &l->sessions;
	auto_fd int index_fd = openat(s->dir_fd, "../session-index",
				      O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (index_fd >= 0)
		(void)session_each_name(s->dir_fd, forget_unknown,
					&index_fd); /* the next start tries */
	session_remove_done(l);
	s->before = mem_zero(sizeof(*s->before));
	return session_each_name(s->pool_fd, add_name, s->before);
}

void session_removed(struct launcher *l, int status)
{
	struct sessions *s = &l->sessions;

	if (status == 0)
		session_remove_done(l);
	else if (WIFEXITED(status) && WEXITSTATUS(status) == HELD)
		*(s->read_over ? &s->remove_again : &s->remove_held) = true;
	else
		log_warn("session.left", "what=files status=%d", status);
}

void session_read_over(struct launcher *l)
{
	struct sessions *s = &l->sessions;

	s->read_over = true;
	if (!s->remove_held)
		return;
	s->remove_held = false;
	session_dir_sweep(l);
}

void session_remove_done(struct launcher *l)
{
	struct session_names *before = take_ptr(&l->sessions.before);

	if (before)
		free(before->name);
	free(before);
}
