/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup_claim.c - a directory of our own, and its end
 *
 * Runs in: the supervisor, before it forks anything and after everything it forked is
 * dead. A refusal undoes what was done up to it, so that a smaller level of isolation
 * starts clean.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fs.h"
#include "launcher/cgroup_kernel.h"

#define RELEASE_NS 2000000000ull

/* What a host says to a plain user, and what to type instead. */
static const char fix_delegate[] =
	"systemd-run --user --scope -p Delegate=yes sandbox-server serve";
static const char fix_scope[] =
	"systemd-run --scope -p Delegate=yes sandbox-server serve";
static const char fix_root[] =
	"run as root, or where cgroup v2 is mounted and delegated to this user";

/* v2 controllers; the bit in struct cgroup_base.enabled is the place here */
static const char *const wanted[] = {"memory", "pids", "cpu"};
#define WANTED (sizeof(wanted) / sizeof(wanted[0]))

/* As long as these are open the directories are somebody's, also for whoever cannot see
 * our process number, or sees another's in its place. */
static int lock_fds[CGROUP_CONTROLLERS];
static int locks;

static void lock_dirs(const struct cgroup_base *base)
{
	for (int c = 0; base->kind != CGROUP_NONE && c < CGROUP_CONTROLLERS; c++) {
		auto_fd int fd = -1;

		if (!cgroup_first_of_mount(base, c))
			continue;
		fd = cgroup_open_dir(AT_FDCWD, base->dir[c]);
		if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0)
			lock_fds[locks++] = take_fd(&fd);
	}
}

void cgroup_unlock(void)
{
	while (locks > 0)
		close(lock_fds[--locks]);
}

/* home becomes home/name, for all places; names that do not fit are dropped */
static int append_name(struct cgroup_base *base)
{
	char owner[64], dir[640];
	int len;

	if (cgroup_owner_name(getpid(), owner, sizeof(owner)) < 0)
		return -1;
	for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
		if (!base->dir[c][0])
			continue;
		len = snprintf(dir, sizeof(dir), "%s/sandbox-server.%s", base->dir[c],
			       owner);
		if (len < 0 || (size_t)len >= sizeof(base->dir[c])) {
			errno = ENAMETOOLONG;
			return -1;
		}
		memcpy(base->dir[c], dir, (size_t)len + 1);
	}
	return 0;
}

static void remove_dirs(struct cgroup_base *base, uint64_t deadline_ns)
{
	for (int c = 0; c < CGROUP_CONTROLLERS; c++)
		if (cgroup_first_of_mount(base, c))
			/* what stays is swept by the next start */
			(void)cgroup_tree_remove(AT_FDCWD, base->dir[c], deadline_ns);
}

/* one v1 hierarchy: the directory, and the proof that its limits can be written */
static int make_v1(const char *dir, enum cgroup_controller c)
{
	static const struct {
		const char *file, *value;
	} proof[CGROUP_CONTROLLERS] = {
		[CGROUP_MEMORY] = {"memory.limit_in_bytes", "-1"},
		[CGROUP_PIDS] = {"pids.max", "max"},
		/* half the weight of one process of ours, whatever number of runs */
		[CGROUP_CPU] = {"cpu.shares", "512"},
	};
	auto_fd int dir_fd = -1;

	if (mkdir(dir, 0755) < 0 && errno != EEXIST) /* two controllers, one mount */
		return -1;
	dir_fd = cgroup_open_dir(AT_FDCWD, dir);
	if (dir_fd < 0)
		return -1;
	return proof[c].file ? fs_write_at(dir_fd, proof[c].file, proof[c].value) : 0;
}

static void claim_v1(struct cgroup_base *base)
{
	for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
		int num;

		if (!base->dir[c][0] || make_v1(base->dir[c], c) == 0)
			continue;
		num = errno;
		if (c >= CGROUP_CPUACCT) {
			base->dir[c][0] = 0;
			continue;
		}
		remove_dirs(base, 0);
		/* without the path: /isolation shows this to anybody */
		cgroup_refuse(base, fix_root,
			      "making a directory in our own cgroup refused: %s",
			      strerror(num));
		return;
	}
}

/* write +controller or -controller for each bit; the bits that were written come back */
static unsigned control(int dir_fd, char sign, unsigned bits)
{
	unsigned done = 0;
	char word[16];

	for (unsigned i = 0; i < WANTED; i++) {
		(void)snprintf(word, sizeof(word), "%c%s", sign, wanted[i]);
		if ((bits & 1u << i) &&
		    fs_write_at(dir_fd, "cgroup.subtree_control", word) == 0)
			done |= 1u << i;
	}
	return done;
}

static unsigned listed_in(int dir_fd, const char *file)
{
	char text[512] = " ", *word, *rest = text;
	unsigned bits = 0;

	if (fs_read_at(dir_fd, file, text, sizeof(text)) < 0)
		return 0;
	while ((word = strsep(&rest, " \n")))
		for (unsigned i = 0; i < WANTED; i++)
			if (strcmp(word, wanted[i]) == 0)
				bits |= 1u << i;
	return bits;
}

/* back where we came from; home takes processes only when it controls nothing below */
static void leave_v2(struct cgroup_base *base, int home_fd, int base_fd,
		     uint64_t deadline_ns)
{
	(void)control(base_fd, '-', (1u << WANTED) - 1); /* all or what was on */
	(void)control(home_fd, '-', base->enabled);
	(void)fs_write_at(home_fd, "cgroup.procs",
			  "0"); /* refused: removal fails, swept */
	remove_dirs(base, deadline_ns);
}

static void move_back(void *arg, int dir_fd, const char *name)
{
	uint64_t *deadline_ns = arg;

	if (strcmp(name, "control") != 0)
		(void)cgroup_tree_remove(dir_fd, name, *deadline_ns); /* swept later */
}

/* what failed as a word, errno set; NULL: all is well */
static const char *enter_v2(struct cgroup_base *base, int home_fd, int base_fd)
{
	const unsigned all = (1u << WANTED) - 1;
	auto_fd int probe_fd = -1;
	unsigned missing;

	if (mkdirat(base_fd, "control", 0755) < 0 ||
	    fs_write_at(base_fd, "control/cgroup.procs", "0") < 0)
		return "move into";
	missing = all & ~listed_in(home_fd, "cgroup.subtree_control");
	base->enabled = control(home_fd, '+', missing);
	if (base->enabled != missing)
		return "control what is below";
	if (control(base_fd, '+', all) != all)
		return "limit below";
	if (mkdirat(base_fd, "probe", 0755) < 0)
		return "make a directory in";
	probe_fd = cgroup_open_dir(base_fd, "probe");
	if (probe_fd < 0 || fs_write_at(probe_fd, "memory.max", "max") < 0 ||
	    fs_write_at(probe_fd, "pids.max", "max") < 0 ||
	    fs_write_at(probe_fd, "cpu.max", "max") < 0)
		return "write limits in";
	(void)unlinkat(base_fd, "probe", AT_REMOVEDIR); /* removed with the base else */
	/* we outweigh runs; without it we only wait longer */
	(void)fs_write_at(base_fd, "control/cpu.weight", "10000");
	return NULL;
}

static void claim_v2(struct cgroup_base *base)
{
	auto_fd int home_fd = -1;
	auto_fd int base_fd = -1;
	const char *what;
	unsigned bits;
	int num;

	if (mkdir(base->dir[CGROUP_SLOT], 0755) < 0) {
		num = errno;
		cgroup_refuse(base, geteuid() ? fix_delegate : fix_scope,
			      "cannot make a directory in our cgroup: %s", strerror(num));
		return;
	}
	base_fd = cgroup_open_dir(AT_FDCWD, base->dir[CGROUP_SLOT]);
	home_fd = base_fd < 0 ? -1
			      : openat(base_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bits = home_fd < 0 ? 0 : listed_in(home_fd, "cgroup.controllers");
	if (bits != (1u << WANTED) - 1) {
		remove_dirs(base, 0);
		cgroup_refuse(base, geteuid() ? fix_delegate : fix_scope,
			      "our cgroup may not limit%s%s%s", bits & 1 ? "" : " memory",
			      bits & 2 ? "" : " pids", bits & 4 ? "" : " cpu");
		return;
	}
	what = enter_v2(base, home_fd, base_fd);
	if (!what)
		return;
	num = errno;
	leave_v2(base, home_fd, base_fd, cgroup_now_ns() + RELEASE_NS / 10);
	if (num == EBUSY)
		cgroup_refuse(
			base, geteuid() ? fix_delegate : fix_scope,
			"other processes live in our cgroup too, so it cannot limit");
	else
		cgroup_refuse(base, geteuid() ? fix_delegate : fix_scope,
			      "cannot %s our cgroup: %s", what, strerror(num));
}

enum cgroup_kind cgroup_claim(struct cgroup_base *out)
{
	cgroup_find("/proc/self", out);
	if (out->kind == CGROUP_NONE)
		return CGROUP_NONE;
	if (append_name(out) < 0)
		cgroup_refuse(out, "mount /proc", "cannot name our cgroup: %s",
			      strerror(errno));
	else if (out->kind == CGROUP_V1)
		claim_v1(out);
	else
		claim_v2(out);
	cgroup_unlock();
	lock_dirs(out);
	return out->kind;
}

void cgroup_release(struct cgroup_base *base)
{
	uint64_t deadline_ns = cgroup_now_ns() + RELEASE_NS;
	auto_fd int home_fd = -1;
	auto_fd int base_fd = -1;

	cgroup_unlock();
	if (base->kind == CGROUP_V1)
		remove_dirs(base, deadline_ns);
	if (base->kind == CGROUP_V2) {
		base_fd = cgroup_open_dir(AT_FDCWD, base->dir[CGROUP_SLOT]);
		home_fd = base_fd < 0 ? -1
				      : openat(base_fd, "..",
					       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (home_fd >= 0) {
			cgroup_tree_each(base_fd, move_back, &deadline_ns);
			leave_v2(base, home_fd, base_fd, deadline_ns);
		}
	}
	base->kind = CGROUP_NONE;
}
