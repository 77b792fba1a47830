/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * layers.c - layers of packages: given to runs, made of what an install left
 *
 * Runs in: the launcher; keeper() and tidier() in processes it forks, since both may take
 * their time. A keeper has the launcher's rights over the store and never looks into the
 * tree of an install itself: that is done by a process without any, which it waits for.
 * So nothing that an installer wrote meets anybody who could be fooled by it, and a layer
 * has its name only when it is whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/sys.h"
#include "launcher/collect.h"
#include "launcher/launcher.h"
#include "launcher/layer.h"

#define MS 1000000ull
#define KEEP_MS 120000 /* for the copy; then it is killed */
#define DEPTH 40
#define ENTRIES 200000
#define LIST_MOST 65536
#define COPIER_FILES 256 /* three for each level, and some */
#define TIDY_MS 3600000  /* between looks for what is too old */

enum { FROM_FD = 3, TO_FD };

/* what a process of ours tells at its end, in a memory file */
struct kept {
	uint32_t result; /* enum layer_result */
	struct layers_state totals;
};

struct keeping {
	const struct setup *setup;
	const struct setup_row *row;
	char name[LAYER_NAME];
	int store_fd, work_fd, told_fd;
	uid_t uid; /* of layers */
	gid_t gid;
	pid_t launcher;
	bool no_modes; /* the installer could set none */
};

static void tell(struct launcher *l)
{
	struct message m = {.type = MSG_LAYERS};

	m.layers.count = l->layers.totals.count;
	m.layers.bytes = l->layers.totals.bytes;
	launcher_send(l, &m, NULL);
}

static void die_with(pid_t parent)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(LAYER_FAULT);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* and the standard ones; neither may land on the other's place */
static bool keep_two(int from_fd, int to_fd)
{
	const int from = fcntl(from_fd, F_DUPFD_CLOEXEC, TO_FD + 1);
	const int to = fcntl(to_fd, F_DUPFD_CLOEXEC, TO_FD + 1);

	return from >= 0 && to >= 0 && dup2(from, FROM_FD) == FROM_FD &&
	       dup2(to, TO_FD) == TO_FD && sys_close_range(TO_FD + 1, ~0u, 0) == 0;
}

static _Noreturn void copier(const struct keeping *k, int from_fd, int to_fd,
			     uint64_t *bytes, pid_t keeper)
{
	const struct rlimit files = {COPIER_FILES, COPIER_FILES}, core = {0, 0};
	struct layer_copy c = {
		.bytes = (uint64_t)k->row->ceiling.disk_mb << 20,
		.entries = ENTRIES,
		.depth = DEPTH,
		.until_ns = now_ns() + KEEP_MS * MS,
		.by_content = k->no_modes,
	};
	enum layer_result r;

	if (!keep_two(from_fd, to_fd) || setrlimit(RLIMIT_NOFILE, &files) < 0 ||
	    setrlimit(RLIMIT_CORE, &core) < 0)
		_exit(LAYER_FAULT);
	if (geteuid() == k->uid && getegid() == k->gid
		    ? caps_drop_all() < 0
		    : caps_become_nobody(k->uid, k->gid) < 0)
		_exit(LAYER_FAULT);
	die_with(keeper);
	r = layer_copy(FROM_FD, TO_FD, &c);
	*bytes = c.disk_bytes;
	_exit((int)r);
}

/* the tree of the install into an empty directory of the layers' uid */
static enum layer_result copy_tree(const struct keeping *k, int staged_fd,
				   uint64_t *out_bytes)
{
	auto_fd int from_fd = fs_open_beneath(k->work_fd, k->row->layer,
					      O_RDONLY | O_DIRECTORY, 0);
	auto_fd int to_fd = -1;
	const pid_t self = getpid();
	uint64_t *bytes;
	int status = -1;
	pid_t pid;

	if (mkdirat(staged_fd, k->row->layer, 0700) < 0)
		return errno == ENOSPC ? LAYER_NO_ROOM : LAYER_FAULT;
	to_fd = openat(staged_fd, k->row->layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to_fd < 0 || (k->uid != geteuid() && fchown(to_fd, k->uid, k->gid) < 0))
		return LAYER_FAULT;
	/* an install of nothing leaves nothing; a link or a file there is no tree */
	if (from_fd < 0)
		return errno == ENOENT ? LAYER_MADE : LAYER_SPECIAL;
	bytes = mmap(NULL, sizeof(*bytes), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return LAYER_FAULT;
	pid = fork();
	if (pid == 0)
		copier(k, from_fd, to_fd, bytes, self);
	if (pid < 0 || sys_reap(pid, &status, NULL) < 0 || !WIFEXITED(status) ||
	    WEXITSTATUS(status) >= LAYER_RESULTS)
		return LAYER_FAULT;
	*out_bytes = *bytes;
	return (enum layer_result)WEXITSTATUS(status);
}

static int write_file(int dir_fd, const char *name, const char *text, size_t len)
{
	auto_fd int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
				0644);

	return fd < 0 || fchmod(fd, 0444) < 0 ? -1 : fs_write_all(fd, text, len);
}

/* the list that the install was given, for people; without it the layer is as good */
static void copy_list(const struct keeping *k, int staged_fd)
{
	static char text[LIST_MOST];
	auto_fd int fd = -1;
	struct stat st;
	ssize_t n;

	if (fstatat(k->work_fd, LAYER_LIST, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return;
	fd = fs_open_beneath(k->work_fd, LAYER_LIST, O_RDONLY | O_NONBLOCK | O_NOFOLLOW,
			     0);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (n > 0)
		(void)write_file(staged_fd, LAYER_LIST, text, (size_t)n);
}

static enum layer_result keep(const struct keeping *k)
{
	char staged[LAYER_NAME + 32], size[32];
	auto_fd int fd = layer_stage(k->store_fd, k->name, staged);
	enum layer_result r;
	uint64_t bytes = 0;

	if (fd < 0)
		return errno == ENOSPC ? LAYER_NO_ROOM : LAYER_FAULT;
	r = copy_tree(k, fd, &bytes);
	snprintf(size, sizeof(size), "%llu\n", (unsigned long long)bytes);
	if (r == LAYER_MADE) {
		copy_list(k, fd);
		if (write_file(fd, LAYER_SIZE, size, strlen(size)) < 0 ||
		    (k->row->no_scripts && layer_has_scripts(fd, k->row->layer) &&
		     write_file(fd, LAYER_UNBUILT, "", 0) < 0) ||
		    fchmodat(fd, k->row->layer, 0555, 0) < 0 ||
		    layer_publish(k->store_fd, staged, fd, k->name) < 0)
			r = errno == ENOSPC ? LAYER_NO_ROOM : LAYER_FAULT;
	}
	if (r != LAYER_MADE)
		(void)fs_remove_tree(k->store_fd, staged); /* else the next one tidies */
	return r;
}

/* the half of all layers that was not used for longest goes; false: nothing went */
static bool make_room(const struct keeping *k)
{
	struct layer_bounds most = {k->setup->layer_bytes, k->setup->layer_age_sec};
	struct layers_state before, after;

	if (layers_tidy(k->store_fd, &most, NULL, &before) < 0)
		return false;
	most.bytes = before.bytes / 2;
	return layers_tidy(k->store_fd, &most, NULL, &after) == 0 &&
	       after.bytes < before.bytes;
}

/* a disk may be smaller than what the operator allows layers to take */
static enum layer_result keep_in_room(const struct keeping *k)
{
	enum layer_result r = keep(k);

	while (r == LAYER_NO_ROOM && make_room(k))
		r = keep(k);
	return r;
}

/* keeper, or only tidier when there is nothing to keep */
static _Noreturn void work(struct keeping *k, bool keeps)
{
	const struct layer_bounds most = {k->setup->layer_bytes, k->setup->layer_age_sec};
	/* mounts and streams of runs are among the others, whose ends are waited for */
	const int fds[] = {k->store_fd, k->told_fd, k->work_fd};
	struct kept out = {.result = LAYER_MADE};

	if (sys_keep_fds(fds, keeps ? 3 : 2) < 0)
		_exit(1);
	prctl(PR_SET_NAME, "sandbox-layers", 0, 0, 0);
	die_with(k->launcher);
	umask(0022);
	if (keeps)
		out.result = keep_in_room(k);
	if (layers_tidy(k->store_fd, &most, keeps ? k->name : NULL, &out.totals) < 0)
		_exit(1);
	_exit(fs_write_all(k->told_fd, &out, sizeof(out)) < 0);
}

/* 0, or -1 with errno */
static int start_work(struct launcher *l, struct keeping *k, bool keeps, pid_t *out_pid,
		      int *out_pid_fd, int *out_told_fd)
{
	auto_fd int told_fd = memfd_create("layers", MFD_CLOEXEC);
	auto_fd int pid_fd = -1;
	pid_t pid;

	if (told_fd < 0)
		return -1;
	k->setup = l->setup;
	k->store_fd = l->layers.dir_fd;
	k->told_fd = told_fd;
	k->uid = l->abilities.one_uid ? geteuid() : l->setup->uid_base - 2;
	k->gid = l->abilities.one_uid ? getegid() : l->setup->uid_base - 2;
	k->launcher = getpid();
	pid = fork();
	if (pid == 0)
		work(k, keeps);
	if (pid < 0)
		return -1;
	pid_fd = sys_pidfd_open(pid, 0);
	if (pid_fd < 0) {
		kill(pid, SIGKILL); /* not reaped yet: the number is still its own */
		(void)sys_reap(pid, NULL, NULL);
		return -1;
	}
	*out_pid = pid;
	*out_pid_fd = take_fd(&pid_fd);
	*out_told_fd = take_fd(&told_fd);
	return 0;
}

/* its end, and what it told; totals are the server's to know */
static enum layer_result end_work(struct launcher *l, pid_t pid, int told_fd)
{
	struct kept k = {0};
	int status = -1;

	if (sys_reap(pid, &status, NULL) < 0 || status != 0 ||
	    pread(told_fd, &k, sizeof(k), 0) != (ssize_t)sizeof(k) ||
	    k.result >= LAYER_RESULTS) {
		log_error("layers.failed", "status=%d", status);
		return LAYER_FAULT;
	}
	l->layers.totals = k.totals;
	tell(l);
	return (enum layer_result)k.result;
}

static uint64_t next_tidy_ns(const struct launcher *l)
{
	uint64_t ms = TIDY_MS;

#ifdef SANDBOX_TEST_HOOKS
	if (strcmp(l->setup->test_fault, "tidy") == 0)
		ms = 200;
#else
	(void)l;
#endif
	return loop_now_ns() + ms * MS;
}

/* with what it counts, the time until the next one begins */
static void on_tidied(void *arg, uint32_t events)
{
	struct launcher *l = arg;

	(void)events;
	loop_remove(l->loop, l->layers.tidier_fd);
	(void)end_work(l, l->layers.tidier, l->layers.told_fd);
	close(take_fd(&l->layers.told_fd));
	close(take_fd(&l->layers.tidier_fd));
	loop_timer_at(l->loop, &l->layers.next, next_tidy_ns(l));
}

static void tidy(void *arg)
{
	struct launcher *l = arg;
	struct keeping k = {0};

	if (start_work(l, &k, false, &l->layers.tidier, &l->layers.tidier_fd,
		       &l->layers.told_fd) < 0) {
		log_warn("layers.tidy", "error=\"%s\"", strerror(errno));
		loop_timer_at(l->loop, &l->layers.next, next_tidy_ns(l));
	} else if (loop_add(l->loop, l->layers.tidier_fd, EPOLLIN, on_tidied, l) < 0) {
		on_tidied(l, 0);
	}
}

void layers_start(struct launcher *l)
{
	if (!l->setup->layer_dir[0] || l->layers.dir_fd >= 0)
		return;
	l->layers.dir_fd = open(l->setup->layer_dir,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l->layers.dir_fd < 0) {
		log_warn("layers.none", "error=\"%s\"", strerror(errno));
		return;
	}
	l->layers.next = (struct loop_timer){.fn = tidy, .arg = l};
	tidy(l);
}

void layers_done(struct launcher *l)
{
	if (l->layers.tidier_fd < 0)
		return;
	collect_kill(l->layers.tidier_fd);
	(void)sys_reap(l->layers.tidier, NULL, NULL);
}

static void on_kept(void *arg, uint32_t events)
{
	struct run *r = arg;

	(void)events;
	loop_remove(r->slot->launcher->loop, r->collector_fd);
	r->layer_result = end_work(r->slot->launcher, r->collector, r->files_fd);
	if (r->layer_result == LAYER_FAULT)
		log_error("layer.failed", "slot=%u", r->slot->n);
	close(take_fd(&r->collector_fd));
	close(take_fd(&r->files_fd)); /* not the server's */
	run_finish(r);
}

void layers_keep(struct run *r)
{
	struct launcher *l = r->slot->launcher;
	struct keeping k = {.row = &l->setup->row[r->plan.row], .work_fd = r->work_fd};

	k.no_modes = launcher_shares(l) && l->abilities.one_uid;
	r->layer_result = LAYER_NOT_MADE;
	if (r->killed || !r->exited || r->wait_status != 0 || r->timed_out ||
	    r->memory_out || r->cpu_out || r->disk_out || r->pids_out || r->work_fd < 0) {
		run_finish(r);
		return;
	}
	layer_name(r->plan.layer, k.name);
	if (start_work(l, &k, true, &r->collector, &r->collector_fd, &r->files_fd) < 0) {
		log_error("layer.failed", "slot=%u error=\"%s\"", r->slot->n,
			  strerror(errno));
		r->layer_result = LAYER_FAULT;
		run_finish(r);
		return;
	}
	loop_timer_at(l->loop, &r->timer, loop_now_ns() + KEEP_MS * MS);
	if (loop_add(l->loop, r->collector_fd, EPOLLIN, on_kept, r) < 0) {
		collect_kill(r->collector_fd);
		on_kept(r, 0);
	}
}

int layers_open(const struct launcher *l, const struct plan *p)
{
	char name[LAYER_NAME];

	layer_name(p->layer, name);
	return layer_open(l->layers.dir_fd, name);
}

int layers_take(struct run *r)
{
	struct launcher *l = r->slot->launcher;

	if (!r->plan.has_layer || l->setup->row[r->plan.row].installs)
		return 0;
	r->layer_fd = layers_open(l, &r->plan);
	return r->layer_fd < 0 ? -1 : 0;
}

bool layers_unbuilt(const struct run *r)
{
	return r->layer_fd >= 0 && faccessat(r->layer_fd, LAYER_UNBUILT, F_OK, 0) == 0;
}

int layers_tree(const struct run *r)
{
	const struct setup_row *row = &r->slot->launcher->setup->row[r->plan.row];
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					      MOUNT_ATTR_NODEV,
				  .propagation = MS_PRIVATE};
	auto_fd int fd = sys_open_tree(r->layer_fd, row->layer,
				       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (fd < 0 || sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr) < 0)
		return -1;
	return take_fd(&fd);
}

/* a test wants to see that it cannot be */
static bool test_cannot_move(const struct run *r)
{
#ifdef SANDBOX_TEST_HOOKS
	return strcmp(r->slot->launcher->setup->test_fault, "layer_move") == 0;
#else
	(void)r;
	return false;
#endif
}

/*
 * By a process of its own, since there is no way back from a namespace of less rights.
 * Of the sandbox it sees a root that is ours and read-only, in which nobody's code has
 * run yet; and nobody in there sees it.
 */
int layers_move(const struct run *r)
{
	const struct setup_row *row = &r->slot->launcher->setup->row[r->plan.row];
	auto_fd int tree_fd = layers_tree(r);
	char place[sizeof(row->layer) + 1];
	int status = -1;
	pid_t pid;

	if (tree_fd < 0)
		return -1;
	snprintf(place, sizeof(place), "/%s", row->layer);
	pid = fork();
	if (pid == 0)
		_exit(setns(r->mounts_fd, CLONE_NEWNS) < 0 || test_cannot_move(r) ||
				      sys_move_mount(tree_fd, "", AT_FDCWD, place,
						     MOVE_MOUNT_F_EMPTY_PATH) < 0
			      ? (errno ? errno : EIO)
			      : 0);
	if (pid < 0 || sys_reap(pid, &status, NULL) < 0)
		return -1;
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
	return status == 0 ? 0 : -1;
}
