/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * session_dir.c - the directories that the files of sessions are in
 *
 * Runs in: the launcher; removing, which may take its time, in a process that it forks
 * (session_remove.c). A directory's owner is its session's uid: so the file system itself
 * remembers which uids are taken. It gets its name when it is whole, and loses it in one
 * step.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/sys.h"
#include "launcher/launcher.h"
#include "launcher/session_parts.h"

#define GONE_AT_ONCE 1000 /* of one name */

static void name_of(const uint8_t key[SESSION_KEY], char out[SESSION_NAME])
{
	unsigned i;

	for (i = 0; i < SESSION_KEY; i++)
		snprintf(out + 2 * i, 3, "%02x", key[i]);
}

int session_dir_open(const struct launcher *l)
{
	return open(l->setup->session_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* what the session writes to, and that it does, or neither */
static int push_written(const struct launcher *l, int dir_fd, struct session_stack *stack,
			uid_t uid)
{
	if (stack_push(stack, l->sessions.pool_fd, uid) < 0)
		return -1;
	if (stack_write(l->setup, dir_fd, STACK_FILE, stack) == 0)
		return 0;
	stack_undo_push(stack, l->sessions.pool_fd);
	return -1;
}

static int make_whole(const struct launcher *l, const char *name, uid_t uid,
		      struct session_stack *stack)
{
	const int all_fd = l->sessions.dir_fd;
	char temporary[sizeof(SESSION_NEW) + SESSION_NAME];
	auto_fd int fd = -1;

	snprintf(temporary, sizeof(temporary), SESSION_NEW "%s", name);
	if (fs_remove_tree(all_fd, temporary) < 0 ||
	    mkdirat(all_fd, temporary, 0700) < 0 ||
	    (uid != getuid() &&
	     fchownat(all_fd, temporary, uid, uid, AT_SYMLINK_NOFOLLOW) < 0))
		return -1;
	fd = openat(all_fd, temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || push_written(l, fd, stack, uid) < 0 ||
	    renameat(all_fd, temporary, all_fd, name) < 0) {
		const int saved = errno;

		(void)fs_remove_tree(all_fd, temporary); /* its uid is free again */
		errno = saved;
		return -1;
	}
	return fsync(all_fd);
}

static int make_new(const struct launcher *l, const char *name,
		    const struct plan_open *open, struct session_stack *out_stack,
		    uid_t *out_uid)
{
	struct session_stack stack = {.read_only = open->read_only,
				      .volumes = open->volumes,
				      .root = open->root};
	uid_t uid;

	snprintf(stack.image, sizeof(stack.image), "%s", open->image);
	if (l->abilities.one_uid)
		uid = getuid();
	else if (session_ids_free(l, open->root, &uid) < 0)
		return -1;
	if (make_whole(l, name, uid, &stack) < 0)
		return -1;
	*out_stack = stack;
	*out_uid = uid;
	return 1;
}

static void checkpoint_name(const uint8_t key[SESSION_KEY], char out[SESSION_NAME + 3])
{
	memcpy(out, "at-", 3);
	name_of(key, out + 3);
}

int session_dir_read(const struct launcher *l, const uint8_t key[SESSION_KEY],
		     const uint8_t *checkpoint, struct session_stack *out, uid_t *out_uid)
{
	char name[SESSION_NAME], file[SESSION_NAME + 3] = STACK_FILE;
	auto_fd int fd = -1;
	struct stat st;
	bool root;

	name_of(key, name);
	if (checkpoint)
		checkpoint_name(checkpoint, file);
	fd = openat(l->sessions.dir_fd, name,
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	/* files that came back from elsewhere may be anybody's, root's even */
	if (!session_ids_ours(l, st.st_uid, &root)) {
		errno = EPERM;
		return -1;
	}
	if (stack_read(l->setup, fd, file, out) < 0)
		return -1;
	if (out->root != root) {
		errno = EPERM;
		return -1;
	}
	*out_uid = st.st_uid;
	return take_fd(&fd);
}

int session_dir_take(const struct launcher *l, const uint8_t key[SESSION_KEY],
		     const struct plan_open *open, struct session_stack *out_stack,
		     uid_t *out_uid)
{
	auto_fd int fd = session_dir_read(l, key, NULL, out_stack, out_uid);
	char name[SESSION_NAME];

	name_of(key, name);
	if (fd < 0 && errno == ENOENT && open)
		return make_new(l, name, open, out_stack, out_uid);
	return fd < 0 ? -1 : 0;
}

unsigned session_dir_depth(const struct launcher *l, const uint8_t key[SESSION_KEY])
{
	struct session_stack stack = {0};
	uid_t uid;
	auto_fd int fd = session_dir_read(l, key, NULL, &stack, &uid);

	return fd < 0 ? 0 : stack.depth;
}

/* what it has written is written to no more; its directory's descriptor, or -1 */
static int freeze(const struct launcher *l, const uint8_t key[SESSION_KEY],
		  struct session_stack *out, uid_t *out_uid)
{
	auto_fd int fd = session_dir_read(l, key, NULL, out, out_uid);
	auto_fd int top_fd = -1;

	if (fd < 0)
		return -1;
	if (stack_top_empty(out, l->sessions.pool_fd))
		return take_fd(&fd);
	top_fd = stack_open_top(out, l->sessions.pool_fd);
	if (top_fd < 0)
		return -1;
	if (session_disk_full(l, key, top_fd)) {
		errno = EFBIG;
		return -1;
	}
	return push_written(l, fd, out, *out_uid) < 0 ? -1 : take_fd(&fd);
}

/* all of them, or none */
int session_dir_fork(struct launcher *l, const uint8_t key[SESSION_KEY],
		     const uint8_t others[SESSION_KEY], unsigned count)
{
	struct session_stack stack, below;
	uint8_t other[SESSION_KEY];
	char name[SESSION_NAME];
	uid_t uid;
	auto_fd int fd = freeze(l, key, &stack, &uid);
	unsigned i;
	int saved;

	if (fd < 0)
		return -1;
	memcpy(other, others, sizeof(other));
	for (i = 0; i < count; i++) {
		other[SESSION_KEY - 1] = (uint8_t)i;
		name_of(other, name);
		below = stack;
		stack_pop(&below);
		if (make_whole(l, name, uid, &below) < 0)
			break;
	}
	if (i == count)
		return 0;
	saved = errno;
	while (i-- > 0) {
		other[SESSION_KEY - 1] = (uint8_t)i;
		(void)session_dir_drop(l, other); /* the next start does else */
	}
	errno = saved;
	return -1;
}

int session_dir_checkpoint(const struct launcher *l, const uint8_t key[SESSION_KEY],
			   const uint8_t name[SESSION_KEY])
{
	struct session_stack stack;
	char file[SESSION_NAME + 3];
	uid_t uid;
	auto_fd int fd = freeze(l, key, &stack, &uid);

	if (fd < 0)
		return -1;
	checkpoint_name(name, file);
	stack_pop(&stack);
	return stack_write(l->setup, fd, file, &stack);
}

/* half-made ones of a launcher that died, with nothing in them: before any of ours */
int session_dir_begin(struct launcher *l)
{
	l->sessions.pool_fd = fs_make_path(l->sessions.dir_fd, STACK_POOL, 0700);
	if (l->sessions.pool_fd < 0 ||
	    session_remove_named(l->sessions.dir_fd, SESSION_NEW) < 0)
		return -1;
	return session_remove_begin(l);
}

static void on_removed(void *arg, uint32_t events)
{
	struct launcher *l = arg;
	int status = 0;

	(void)events;
	loop_remove(l->loop, l->sessions.remover_fd);
	(void)sys_reap(l->sessions.remover, &status, NULL);
	close(take_fd(&l->sessions.remover_fd));
	session_removed(l, status);
	if (l->sessions.remove_again)
		session_dir_sweep(l);
}

void session_dir_sweep(struct launcher *l)
{
	struct sessions *s = &l->sessions;
	const pid_t parent = getpid();

	s->remove_again = s->remover_fd >= 0;
	if (s->remove_again)
		return;
	s->read_over = false;
	s->remover = fork();
	if (s->remover == 0)
		session_remove_all(l, parent);
	s->remover_fd = s->remover < 0 ? -1 : sys_pidfd_open(s->remover, 0);
	if (s->remover_fd >= 0 &&
	    loop_add(l->loop, s->remover_fd, EPOLLIN, on_removed, l) == 0)
		return;
	/* the next one, or the next start, removes it */
	log_error("session.remove", "error=\"%s\"", strerror(errno));
	session_dir_done(l);
}

void session_dir_done(struct launcher *l)
{
	struct sessions *s = &l->sessions;

	if (s->remover > 0 && s->remover_fd >= 0) {
		loop_remove(l->loop, s->remover_fd);
		sys_pidfd_send_signal(s->remover_fd, SIGKILL);
		(void)sys_reap(s->remover, NULL, NULL);
		close(take_fd(&s->remover_fd));
	}
}

/* a directory is what the remover finds next; one of the same name may be on its way */
static int give_up(struct launcher *l, const uint8_t key[SESSION_KEY], const char *name)
{
	const int all_fd = l->sessions.dir_fd;
	char of[SESSION_NAME], gone[SESSION_GONE_NAME];
	unsigned i;

	name_of(key, of);
	for (i = 0; i < GONE_AT_ONCE; i++) {
		snprintf(gone, sizeof(gone), SESSION_GONE "%s.%u", of, i);
		if (renameat2(all_fd, name, all_fd, gone, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

/* says which layers go, so that only names have to change when they do; what said so and
 * could not be given up is not forgotten (session_remove.c) */
static int discard_prepare(struct launcher *l, const uint8_t key[SESSION_KEY],
			   const struct session_stack *layers)
{
	const int all_fd = l->sessions.dir_fd;
	auto_fd int fd = -1;
	int saved;

	if (mkdirat(all_fd, SESSION_HALF, 0700) < 0 &&
	    (errno != EEXIST || give_up(l, key, SESSION_HALF) < 0 ||
	     mkdirat(all_fd, SESSION_HALF, 0700) < 0))
		return -1;
	fd = openat(all_fd, SESSION_HALF,
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && stack_write(l->setup, fd, STACK_FILE, layers) == 0)
		return 0;
	saved = errno;
	(void)fs_remove_tree(all_fd, SESSION_HALF); /* the next start does else */
	errno = saved;
	return -1;
}

static int discard_prepared(struct launcher *l, const uint8_t key[SESSION_KEY])
{
	if (give_up(l, key, SESSION_HALF) < 0)
		return -1;
	session_dir_sweep(l);
	return 0;
}

int session_dir_discard(struct launcher *l, const uint8_t key[SESSION_KEY],
			const struct session_stack *layers)
{
	return discard_prepare(l, key, layers) < 0 ? -1 : discard_prepared(l, key);
}

int session_dir_replace(struct launcher *l, const uint8_t key[SESSION_KEY], int dir_fd,
			const struct session_stack *instead,
			const struct session_stack *gone)
{
	if (discard_prepare(l, key, gone) < 0)
		return -1;
	if (stack_write(l->setup, dir_fd, STACK_FILE, instead) < 0) {
		const int saved = errno;

		(void)fs_remove_tree(l->sessions.dir_fd, SESSION_HALF);
		errno = saved;
		return -1;
	}
	(void)discard_prepared(l, key); /* the next one, or the next start, does */
	return 0;
}

/* as it was then, or as it is: where there is no room to say what goes, nothing does */
int session_dir_restore(struct launcher *l, const uint8_t key[SESSION_KEY],
			const uint8_t name[SESSION_KEY])
{
	struct session_stack now, then;
	uid_t uid;
	auto_fd int fd = session_dir_read(l, key, name, &then, &uid);
	auto_fd int same_fd = fd < 0 ? -1 : session_dir_read(l, key, NULL, &now, &uid);

	if (same_fd < 0 || stack_push(&then, l->sessions.pool_fd, uid) < 0)
		return -1;
	if (session_dir_replace(l, key, fd, &then, &now) == 0)
		return 0;
	stack_undo_push(&then, l->sessions.pool_fd);
	return -1;
}

int session_dir_drop(struct launcher *l, const uint8_t key[SESSION_KEY])
{
	char name[SESSION_NAME];

	name_of(key, name);
	if (give_up(l, key, name) < 0)
		return errno == ENOENT ? 0 : -1;
	if (fsync(l->sessions.dir_fd) < 0)
		return -1;
	session_dir_sweep(l);
	return 0;
}
