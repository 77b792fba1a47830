/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_work.c - what takes long with a session's files, in processes of their own
 *
 * Runs in: the launcher; diff_main() and flatten_main() in what it forks. The first has
 * the right to read and no other before it looks at anything; the second needs all that
 * the launcher has, and touches nothing but layers that nobody writes to.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/caps.h"
#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "launcher/session_parts.h"
#include "launcher/session_view.h"

#define WORKS_MOST 16
#define DIFF_SEC 60 /* of CPU */
#define DIFF_TRIES 4
#define DIFF_CHANGED 4 /* the exit status: the session's layers did, all the time */

struct session_work {
	struct session_work *next;
	struct launcher *launcher;
	pid_t pid;
	int pid_fd;
	int mem_fd;   /* of a diff: what it said; else -1 */
	uint64_t run; /* who asked for it; 0: nobody */
	uint8_t key[SESSION_KEY];
	struct session_flat *flat; /* of a flattening; else NULL */
};

/* ---- the processes ---- */

static int open_image(const struct launcher *l, const char *name)
{
	auto_fd int store_fd = open(l->setup->image_dir,
				    O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[SESSION_IMAGE + 16];

	snprintf(path, sizeof(path), "%s/rootfs", name);
	return store_fd < 0 ? -1
			    : fs_open_beneath(store_fd, path, O_RDONLY | O_DIRECTORY, 0);
}

/* other: the stack that it is compared with; NULL: its image */
static int open_view(const struct launcher *l, const struct session_stack *s,
		     const struct session_stack *other, struct view *out)
{
	unsigned i;

	*out = (struct view){0};
	for (i = 0; s && i < s->depth; i++) {
		out->own[i] = !other || !stack_has(other, s->layer[i]);
		out->fd[i] = stack_open_layer(l->sessions.pool_fd, s->layer[i]);
		if (out->fd[i] < 0)
			return -1;
		out->count++;
	}
	return 0;
}

static int add_image(const struct launcher *l, const char *image, struct view *v)
{
	if (!image[0])
		return 0;
	v->fd[v->count] = open_image(l, image);
	if (v->fd[v->count] < 0)
		return -1;
	v->count++;
	return 0;
}

/* it reads below these and nowhere else */
static int confine(const struct view *one, const struct view *two)
{
	const int abi = sys_landlock_abi();
	const struct sys_landlock_ruleset_attr all = sys_landlock_everything(abi);
	const struct view *views[] = {one, two};
	auto_fd int rules_fd = -1;
	unsigned i, k;

	if (abi <= 0)
		return 0; /* it has no right to write in any case */
	rules_fd = sys_landlock_create_ruleset(&all, sys_landlock_attr_size(abi), 0);
	if (rules_fd < 0)
		return -1;
	for (k = 0; k < 2; k++) {
		for (i = 0; i < views[k]->count; i++) {
			struct landlock_path_beneath_attr rule = {
				.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE |
						  LANDLOCK_ACCESS_FS_READ_DIR,
				.parent_fd = views[k]->fd[i]};

			if (sys_landlock_add_rule(rules_fd, LANDLOCK_RULE_PATH_BENEATH,
						  &rule, 0) < 0)
				return -1;
		}
	}
	return sys_landlock_restrict_self(rules_fd, 0);
}

struct diff_ask {
	struct session_stack now, then;
	const uint8_t *key, *then_key; /* the latter NULL: since its image */
	uid_t uid;
	int mem_fd;
};

static int read_stacks(const struct launcher *l, struct diff_ask *ask)
{
	auto_fd int fd = session_dir_read(l, ask->key, NULL, &ask->now, &ask->uid);
	auto_fd int then_fd = -1;

	if (fd < 0 || !ask->then_key)
		return fd < 0 ? -1 : 0;
	then_fd = session_dir_read(l, ask->key, ask->then_key, &ask->then, &ask->uid);
	return then_fd < 0 ? -1 : 0;
}

/* of both stacks; beside their views, which close a layer's own directory on their way
 * down */
struct layer_locks {
	int fd[2 * VIEW_LAYERS];
	unsigned count;
};

static int lock_layers(struct layer_locks *locks, const struct view *v)
{
	for (unsigned i = 0; i < v->count; i++) {
		const int fd = fcntl(v->fd[i], F_DUPFD_CLOEXEC, 0);

		if (fd < 0)
			return -1;
		locks->fd[locks->count++] = fd;
		if (flock(fd, LOCK_SH | LOCK_NB) < 0)
			return -1;
	}
	return 0;
}

static void close_all(int *fd, unsigned *count)
{
	while (*count)
		close(fd[--*count]);
}

static bool same_layers(const struct session_stack *a, const struct session_stack *b)
{
	return a->depth == b->depth && memcmp(a->layer, b->layer, sizeof(a->layer)) == 0;
}

/* Nobody removes what is locked, and nothing of a layer that somebody has was removed
 * before: so they are whole if the session has the same layers when all are. EBUSY: it
 * has others each time, or was closed. */
static int open_views(const struct launcher *l, struct diff_ask *ask, struct view *a,
		      struct view *b)
{
	static struct layer_locks locks; /* for as long as this process lives */
	const struct session_stack *then = ask->then_key ? &ask->then : NULL;
	struct session_stack had;
	int tries, rc;

	for (tries = 0; tries < DIFF_TRIES; tries++) {
		had = ask->now;
		rc = open_view(l, &ask->now, then, a) < 0 ||
				     open_view(l, then, &ask->now, b) < 0 ||
				     lock_layers(&locks, a) < 0 ||
				     lock_layers(&locks, b) < 0
			     ? -1
			     : 0;
		if (read_stacks(l, ask) < 0) {
			errno = errno == ENOENT ? EBUSY : errno;
			return -1;
		}
		if (same_layers(&had, &ask->now))
			return rc;
		close_all(locks.fd, &locks.count);
		close_all(a->fd, &a->count);
		close_all(b->fd, &b->count);
	}
	errno = EBUSY;
	return -1;
}

static _Noreturn void diff_main(const struct launcher *l, struct diff_ask *ask)
{
	/* the launcher's others are many, and a stack's layers are open all at once */
	const int fds[] = {l->sessions.dir_fd, l->sessions.pool_fd, ask->mem_fd};
	const struct rlimit cpu = {DIFF_SEC, DIFF_SEC};
	struct view a = {0}, b = {0};
	struct buf text;

	if (sys_keep_fds(fds, 3) < 0 || setrlimit(RLIMIT_CPU, &cpu) < 0)
		_exit(1);
	if (open_views(l, ask, &a, &b) < 0)
		_exit(errno == EBUSY ? DIFF_CHANGED : 1);
	session_test_hold(l, "session_diff");
	if (add_image(l, ask->now.image, &a) < 0 || add_image(l, ask->now.image, &b) < 0)
		_exit(1);
	if (caps_become_reader(ask->uid, ask->uid == getuid() ? getgid() : ask->uid) <
		    0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || confine(&a, &b) < 0)
		_exit(2);
	if (session_diff_write(&a, &b, !ask->now.image[0], ask->now.root ? ask->uid : 0,
			       &text) < 0 ||
	    session_diff_send(ask->mem_fd, &text) < 0)
		_exit(3);
	_exit(0);
}

static _Noreturn void flatten_main(const struct launcher *l,
				   const struct session_flat *flat)
{
	auto_fd int to_fd = stack_open_layer(l->sessions.pool_fd, flat->made);
	const int fds[] = {l->sessions.pool_fd, to_fd};
	struct view v;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || to_fd < 0 ||
	    sys_keep_fds(fds, 2) < 0 || open_view(l, &flat->frozen, NULL, &v) < 0 ||
	    session_merge(&v, to_fd) < 0)
		_exit(errno ? errno : EIO); /* which fits in a status */
	_exit(0);
}

/* ---- their ends ---- */

static void tell_diff(struct session_work *w, int status)
{
	struct message m = {.type = MSG_DONE, .fds = 1, .run = w->run};

	if (WIFEXITED(status) && WEXITSTATUS(status) == DIFF_CHANGED) {
		session_tell_failed(w->launcher, w->run, "session_end", EBUSY);
		return;
	}
	if (status != 0 || fs_seal(w->mem_fd) < 0) {
		log_error("session.diff", "status=%d", status);
		session_tell_failed(w->launcher, w->run, "session_diff", EIO);
		return;
	}
	m.outcome.verdict = VERDICT_OK;
	m.outcome.violations = VIOLATIONS_ALL;
	m.outcome.files = OUTCOME_FILES;
	launcher_send(w->launcher, &m, &w->mem_fd);
}

/* the session's stack; -1: what was merged is not in it any more */
static int open_frozen(struct launcher *l, const uint8_t key[SESSION_KEY],
		       const struct session_flat *flat, struct session_stack *out)
{
	uid_t uid;
	auto_fd int fd = session_dir_read(l, key, NULL, out, &uid);

	return fd >= 0 && stack_is_below(out, &flat->frozen) ? take_fd(&fd) : -1;
}

static void drop_flat(struct launcher *l, const uint8_t key[SESSION_KEY],
		      const struct session_flat *flat)
{
	struct session_stack made = {.depth = 1};

	memcpy(made.layer[0], flat->made, STACK_NAME);
	(void)session_dir_discard(l, key, &made); /* the next start finds it */
}

/* nothing of the session is alive: none of its layers is mounted. Whoever has them in
 * another file, a checkpoint for one, keeps them. */
static void put_flat(struct launcher *l, const uint8_t key[SESSION_KEY],
		     const struct session_flat *flat)
{
	const unsigned had = flat->frozen.depth;
	struct session_stack now;
	auto_fd int fd = open_frozen(l, key, flat, &now);

	if (fd < 0) {
		drop_flat(l, key, flat);
		return;
	}
	now.depth -= had - 1;
	memcpy(now.layer[now.depth - 1], flat->made, STACK_NAME);
	if (session_dir_replace(l, key, fd, &now, &flat->frozen) < 0)
		drop_flat(l, key, flat);
	else
		log_info("session.flat", "layers=%u", had);
}

void session_flat_put(struct session *s)
{
	auto_free struct session_flat *flat = take_ptr(&s->flat);

	if (flat)
		put_flat(s->launcher, s->key, flat);
}

/* what is mounted stays: one that is used has it when it ends */
static void take_flat(struct session_work *w, int status)
{
	struct session *s = session_find(w->launcher, w->key);
	struct session_stack now;
	auto_fd int fd = status ? open_frozen(w->launcher, w->key, w->flat, &now) : -1;

	if (status != 0) {
		const int num = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;

		if (fd >= 0) { /* its layers have not gone meanwhile */
			log_error("session.flatten", "status=%d error=\"%s\"", status,
				  strerror(num));
			session_not_merged(w->launcher, w->key, num);
		}
		drop_flat(w->launcher, w->key, w->flat);
	} else if (s) {
		s->flat = take_ptr(&w->flat);
	} else {
		put_flat(w->launcher, w->key, w->flat);
	}
}

static void work_free(struct session_work *w)
{
	struct session_work **at = &w->launcher->sessions.works;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	loop_remove(w->launcher->loop, w->pid_fd);
	close(w->pid_fd);
	defer_close(&w->mem_fd);
	free(w->flat);
	free(w);
}

static void on_over(void *arg, uint32_t events)
{
	struct session_work *w = arg;
	struct launcher *l = w->launcher;
	const bool reads = w->run;
	int status = 0;

	(void)events;
	(void)sys_reap(w->pid, &status, NULL);
	if (reads)
		tell_diff(w, status);
	else
		take_flat(w, status);
	work_free(w);
	if (reads)
		session_read_over(l);
}

void session_works_done(struct launcher *l)
{
	while (l->sessions.works) {
		struct session_work *w = l->sessions.works;

		(void)sys_pidfd_send_signal(w->pid_fd, SIGKILL);
		(void)sys_reap(w->pid, NULL, NULL);
		work_free(w);
	}
}

bool session_works_know(const struct launcher *l, pid_t pid)
{
	const struct session_work *w = l->sessions.works;

	while (w && w->pid != pid)
		w = w->next;
	return w;
}

/* ---- and their beginnings ---- */

static struct session_work *work_new(struct launcher *l, const uint8_t *key)
{
	struct session_work *w = l->sessions.works;
	unsigned count = 0;

	for (; w; w = w->next)
		count++;
	if (count >= WORKS_MOST) {
		errno = EBUSY;
		return NULL;
	}
	w = mem_zero(sizeof(*w));
	w->launcher = l;
	w->mem_fd = w->pid_fd = -1;
	memcpy(w->key, key, SESSION_KEY);
	return w;
}

static int work_watch(struct session_work *w)
{
	struct launcher *l = w->launcher;

	if (w->pid < 0)
		return -1;
	w->pid_fd = sys_pidfd_open(w->pid, 0);
	if (w->pid_fd >= 0 && loop_add(l->loop, w->pid_fd, EPOLLIN, on_over, w) == 0) {
		w->next = l->sessions.works;
		l->sessions.works = w;
		return 0;
	}
	kill(w->pid, SIGKILL); /* not reaped yet: the number is still its own */
	(void)sys_reap(w->pid, NULL, NULL);
	return -1;
}

static void work_drop(struct session_work *w)
{
	int saved = errno;

	if (w) {
		defer_close(&w->pid_fd);
		defer_close(&w->mem_fd);
		free(w->flat);
		free(w);
	}
	errno = saved;
}

void session_diff(struct launcher *l, const struct message *m)
{
	static const uint8_t image[SESSION_KEY];
	static struct diff_ask ask; /* large; what is forked has its own */
	const struct plan *p = &m->plan;
	struct session_work *w = work_new(l, p->session_key);
	const char *step = w ? "session_files" : "session_room";

	ask = (struct diff_ask){.key = p->session_key, .mem_fd = -1};
	if (w && read_stacks(l, &ask) == 0) {
		step = "session_restore";
		if (memcmp(p->other_key, image, sizeof(image)) != 0)
			ask.then_key = p->other_key;
		if (read_stacks(l, &ask) == 0) {
			step = "session_files";
			w->run = m->run;
			w->mem_fd = ask.mem_fd = memfd_create(
				"diff", MFD_CLOEXEC | MFD_ALLOW_SEALING);
			w->pid = w->mem_fd < 0 ? -1 : fork();
			if (w->pid == 0)
				diff_main(l, &ask);
			if (work_watch(w) == 0)
				return;
		}
	}
	session_tell_failed(l, m->run, step, errno);
	work_drop(w);
}

/* or it has been, and waits for the end of its session; or just now it could not be */
static bool is_flattened(const struct launcher *l, const uint8_t key[SESSION_KEY])
{
	const struct session_work *w = l->sessions.works;
	const struct session *s = session_find(l, key);

	while (w && (!w->flat || memcmp(w->key, key, SESSION_KEY) != 0))
		w = w->next;
	return w || (s && s->flat) || session_unmerged(l, key);
}

void session_flatten(struct launcher *l, const uint8_t key[SESSION_KEY])
{
	struct session_work *w = is_flattened(l, key) ? NULL : work_new(l, key);
	struct session_stack made = {0}, now;
	uid_t uid;
	auto_fd int fd = w ? session_dir_read(l, key, NULL, &now, &uid) : -1;

	if (fd < 0 || now.depth < 3 || stack_push_empty(&made, l->sessions.pool_fd) < 0) {
		work_drop(w); /* it stays as deep as it is */
		return;
	}
	stack_pop(&now);
	w->flat = mem_zero(sizeof(*w->flat));
	w->flat->frozen = now;
	memcpy(w->flat->made, made.layer[0], STACK_NAME);
	w->pid = fork();
	if (w->pid == 0)
		flatten_main(l, w->flat);
	if (work_watch(w) < 0) {
		(void)session_dir_discard(l, key, &made);
		work_drop(w);
	}
}
