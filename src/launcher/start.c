/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * start.c - rights and namespaces of the launcher itself
 *
 * Runs in: the launcher, at its start. With CAP_SYS_ADMIN it stays where it is and gives
 * every slot a uid of its own. Without, it makes a user namespace for itself, in which
 * the slots' namespaces are made, with its own uid as the only one; root without
 * CAP_SYS_ADMIN (an ordinary container) becomes the first slot's uid before that, since
 * code never has host root's. Root of a user namespace without uids to give comes here
 * as a plain user: cmd/identity.c looked who that is outside. Where that namespace is
 * refused the launcher stays who it is, and the probe goes on with the levels that need
 * none.
 */
#include <errno.h>
#include <grp.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/caps.h"
#include "base/defer.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/sys.h"
#include "launcher/launcher.h"

static int write_map(const char *file, unsigned id)
{
	char line[40];

	snprintf(line, sizeof(line), "%u %u 1", id, id);
	return fs_write_at(AT_FDCWD, file, line);
}

static int leave_root(uid_t uid)
{
	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return -1;
	if (setresuid(0, 0, 0) == 0) {
		errno = EPERM;
		return -1;
	}
	/* the change of ids made /proc/self root's */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static int own_user_namespace(const struct setup *setup)
{
	uid_t uid;
	gid_t gid;

	if (setup->uid_base && leave_root(setup->uid_base) < 0)
		return -1;
	uid = geteuid();
	gid = getegid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -1;
	if (fs_write_at(AT_FDCWD, "/proc/self/setgroups", "deny") < 0)
		return -1;
	return write_map("/proc/self/gid_map", gid) < 0 ||
			       write_map("/proc/self/uid_map", uid) < 0
		       ? -1
		       : 0;
}

/* The same in a process of its own: half-way through there is no way back, and root
 * would be lost. 0, or errno. */
static int try_user_namespace(const struct setup *setup)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(own_user_namespace(setup) < 0 ? errno : 0);
	if (pid < 0 || sys_reap(pid, &status, NULL) < 0)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

/* Exactly 1, for us and whatever we start: at 0 a core_pattern that names a helper still
 * has it run, as root. A hard limit of 0 that is there already cannot be raised. */
static int forbid_core(void)
{
	struct rlimit core;

	if (getrlimit(RLIMIT_CORE, &core) < 0)
		return -1;
	if (core.rlim_max > 1)
		core.rlim_max = 1;
	core.rlim_cur = core.rlim_max;
	return setrlimit(RLIMIT_CORE, &core);
}

/* 0, or -1 with errno and the step's name */
static int take_place(struct launcher *l, const char **out_step)
{
	*out_step = "user_namespace";
	if (!l->setup->uid_base || !caps_have("cap_sys_admin")) {
		l->no_user_ns = try_user_namespace(l->setup);
		l->own_user_ns = l->no_user_ns == 0;
	}
	if (l->own_user_ns && own_user_namespace(l->setup) < 0)
		return -1;
	l->abilities.one_uid = l->own_user_ns || !l->setup->uid_base ||
			       !caps_have("cap_setuid") || !caps_have("cap_setgid");
	*out_step = "launcher_rights";
	if (!l->abilities.one_uid && setgroups(0, NULL) < 0)
		return -1;
	if (caps_keep_for_launcher() < 0)
		return -1;
	if (forbid_core() < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	umask(0077);
	return 0;
}

enum {
	OWN_FDS = 40,  /* and what a worker opens while it builds */
	SLOT_FDS = 31, /* cgroup files are most of them; the run's, and one that waits */
	COLLECTOR_FDS = 128, /* what collect.c gives itself */
};

unsigned launcher_descriptors(unsigned slots)
{
	const unsigned all = OWN_FDS + SLOT_FDS * slots;

	return all > COLLECTOR_FDS ? all : COLLECTOR_FDS;
}

/* the host's; a directory of that name alone is not one */
static int open_proc(void)
{
	auto_fd int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return -1;
	if (fs.f_type != PROC_SUPER_MAGIC) {
		errno = ENOENT;
		return -1;
	}
	return take_fd(&fd);
}

/*
 * A copy of our own binary for rows that run it: sealed, and not on any file system that
 * Landlock could refuse or whose path would tell something.
 */
static int open_self(const struct setup *setup, int *out_fd)
{
	auto_fd int from = -1;
	auto_fd int to = -1;
	struct stat st;
	unsigned i;

	for (i = 0; i < setup->rows && setup->row[i].self != SELF_BINARY; i++)
		;
	if (i == setup->rows)
		return 0;
	from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (from < 0 || fstat(from, &st) < 0)
		return -1;
	to = memfd_create("self", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (to < 0 && errno == EINVAL) /* before 6.3: always */
		to = memfd_create("self", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (to < 0)
		return -1;
	while (lseek(to, 0, SEEK_CUR) < st.st_size) {
		if (sendfile(to, from, NULL, (size_t)st.st_size) <= 0)
			return -1;
	}
	if (fs_seal(to) < 0)
		return -1;
	*out_fd = take_fd(&to);
	return 0;
}

/* the object of wire/ahead.h with the names behind it, for whoever starts python */
static int make_object(const struct setup *setup, bool forks, int *out_fd)
{
	struct ahead_tail tail = {.forks = forks};
	struct buf b;

	memcpy(tail.names, setup->preload, sizeof(tail.names));
	buf_init(&b, ahead_object_len + sizeof(tail));
	if (buf_add(&b, ahead_object, ahead_object_len) == 0 &&
	    buf_add(&b, &tail, sizeof(tail)) == 0)
		*out_fd = fs_sealed("ahead", b.bytes, b.len);
	buf_done(&b);
	return *out_fd < 0 ? -1 : 0;
}

static int make_objects(struct launcher *l)
{
	unsigned i;

	for (i = 0; i < l->setup->rows && !l->setup->row[i].ahead; i++)
		;
	if (i < l->setup->rows && make_object(l->setup, false, &l->object_fd) < 0)
		return -1;
	if (!l->setup->forks)
		return 0;
	l->setup_fd = fs_sealed("setup", l->setup, sizeof(*l->setup));
	return l->setup_fd < 0 ? -1 : make_object(l->setup, true, &l->template_fd);
}

/* everything in them killed and reaped */
static void slots_done(struct launcher *l)
{
	unsigned i;

	for (i = 0; i < l->slot_count; i++) {
		struct slot *s = &l->slots[i];

		run_end(&s->run);
		if (s->state != SLOT_EMPTY)
			slot_unbuild(s);
	}
	if (l->seeder) {
		run_end(&l->seeder->run);
		slot_unbuild(l->seeder);
	}
	if (launcher_shares(l))
		orphan_end_all(l);
}

int launcher_main(const struct launcher_start *start, int server_fd, int ledger_fd,
		  int (*inside)(int argc, char **argv))
{
	static struct launcher l; /* large; and workers are forked from here */
	const char *step;
	int num = 0;

	prctl(PR_SET_NAME, "sandbox-launch", 0, 0, 0);
	l.start = start;
	l.setup = &start->setup;
	l.cgroups = start->cgroups;
	l.server_fd = server_fd;
	l.ledger_fd = ledger_fd;
	l.inside = inside;
	if (ledger_read(ledger_fd, &l.ledger) < 0)
		return 1;
	l.self_fd = l.place_fd = l.kept_fd = l.object_fd = l.template_fd = l.setup_fd =
		-1;
	l.layers.dir_fd = l.layers.tidier_fd = -1;
	l.sessions.dir_fd = l.sessions.pool_fd = l.sessions.remover_fd =
		l.sessions.looker.pid_fd = -1;
	l.supervisor = getppid();
	l.loop = loop_new();
	lost_open_limits(&l);
	if (take_place(&l, &step) < 0)
		num = errno;
	/* after the change of ids, which clears it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != l.supervisor)
		return 1;
	l.proc_fd = open_proc();
	if (!l.loop || fcntl(server_fd, F_SETFL, O_NONBLOCK) < 0 ||
	    loop_add(l.loop, server_fd, EPOLLIN, launcher_on_server, &l) < 0)
		return 1;
	if (num == 0 && l.proc_fd < 0) {
		num = errno;
		step = "host_proc";
	}
	if (num == 0 && open_self(l.setup, &l.self_fd) < 0) {
		num = errno;
		step = "own_binary";
	}
	if (num == 0 && make_objects(&l) < 0) {
		num = errno;
		step = "modules_ahead";
	}
	if (num == 0 && slots_make(&l) < 0) {
		num = errno;
		step = "slot_identity";
	}
	if (num)
		probe_refused(&l, step, num);
	else {
		cgroup_sweep(&l.cgroups);
		probe_start(&l);
	}
	if (loop_run(l.loop) < 0)
		l.status = 1;
	sessions_done(&l);
	slots_done(&l);
	layers_done(&l);
	place_close(&l);
	return l.status;
}
