/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * template.c - the root that a slot's runs start from
 *
 * Runs in: a slot's worker, once, with the launcher's rights, before it gives them up.
 * After:   "/" is a small read-only tmpfs: the runtime bound read-only at its own paths,
 * five devices, a few files of our own. The host's tree has no name any more. Runs
 * inherit these mounts locked.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/defer.h"
#include "base/fs.h"
#include "base/sys.h"
#include "launcher/child.h"
#include "launcher/template.h"

#define CLOSED_LEVELS 2 /* of directories that only their owner can enter */

static int make_namespaces(struct building *t)
{
	/* runs have others of their own; an interpreter keeps what it saw of these */
	return unshare(CLONE_NEWNS | (t->abilities->pod ? 0 : CLONE_NEWNET) |
		       (t->forks ? CLONE_NEWUTS | CLONE_NEWIPC : 0));
}

/* as child_hostname() */
static int make_hostname(struct building *t)
{
	if (!t->forks || !t->abilities->hostname)
		return 0;
	return sethostname("sandbox", 7);
}

static int make_private(struct building *t)
{
	(void)t;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

int template_tmpfs(const char *size, const char *inodes)
{
	auto_fd int fs_fd = sys_fsopen("tmpfs", FSOPEN_CLOEXEC);

	if (fs_fd < 0)
		return -1;
	if (sys_fsconfig(fs_fd, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
	    sys_fsconfig(fs_fd, FSCONFIG_SET_STRING, "nr_inodes", inodes, 0) < 0 ||
	    sys_fsconfig(fs_fd, FSCONFIG_SET_STRING, "mode", "755", 0) < 0 ||
	    sys_fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return sys_fsmount(fs_fd, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/*
 * Mounted on top of "/": absolute paths still lead through the old root, since lookups
 * start below the cover, and the new one is reached through its descriptor. No directory
 * of the host is needed to build in.
 */
static int make_root(struct building *t)
{
	t->root_fd = template_tmpfs("1m", "1k");
	if (t->root_fd < 0)
		return -1;
	if (sys_move_mount(t->root_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -1;
	return fchdir(t->root_fd);
}

/* the place for a mount at this absolute path, directory or file as its source is */
static int make_place(const struct building *t, const char *path, bool directory)
{
	char name[SETUP_PATH];
	auto_fd int fd = -1;
	char *slash;

	if (t->on_session)
		return 0; /* it was made below the session's layers */
	if (strlen(path) >= sizeof(name)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(name, path + 1, strlen(path)); /* with its NUL */
	for (slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(name, 0755) < 0 && errno != EEXIST)
			return -1;
		*slash = '/';
	}
	if (directory)
		return mkdir(name, 0755) < 0 && errno != EEXIST ? -1 : 0;
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	return fd < 0 ? -1 : 0;
}

int template_bind(const struct building *t, const char *from, const char *to,
		  uint64_t attributes)
{
	const unsigned how = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE;
	struct mount_attr attr = {.attr_set = attributes, .propagation = MS_PRIVATE};
	auto_fd int tree_fd = -1;
	struct stat st;

	tree_fd = sys_open_tree(AT_FDCWD, from, how);
	if (tree_fd < 0 || fstat(tree_fd, &st) < 0)
		return -1;
	if (make_place(t, to, S_ISDIR(st.st_mode)) < 0)
		return -1;
	if (t->places_only)
		return 0;
	if (sys_mount_setattr(tree_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) < 0)
		return -1;
	if (t->on_session)
		return template_move_safely(t, tree_fd, to + 1);
	return sys_move_mount(tree_fd, "", AT_FDCWD, to + 1, MOVE_MOUNT_F_EMPTY_PATH);
}

#define PLAIN (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static int bind_runtime(const struct building *t, const char *path, unsigned depth);

/* what is in a directory, each at its own place */
static int bind_entries(const struct building *t, const char *path, unsigned depth)
{
	char child[SETUP_PATH], target[PATH_MAX];
	struct dirent *d;
	DIR *dir = opendir(path);
	ssize_t len;
	int r = 0;

	if (!dir)
		return -1;
	while (r == 0 && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (snprintf(child, sizeof(child), "%s/%s", path, d->d_name) >=
		    (int)sizeof(child))
			continue; /* nothing of a runtime has such a name */
		len = readlink(child, target, sizeof(target) - 1);
		if (len < 0) {
			r = bind_runtime(t, child, depth + 1);
			continue;
		}
		target[len] = '\0';
		r = t->on_session ? 0 : symlink(target, child + 1);
	}
	closedir(dir);
	return r;
}

/*
 * A directory that only its owner can enter would be closed to the run too. Its place is
 * then a directory of our own, and what is in it is bound; at most a few levels deep,
 * since beyond that it was closed on purpose.
 */
static int bind_runtime(const struct building *t, const char *path, unsigned depth)
{
	const mode_t open_to_all = S_IROTH | S_IXOTH;
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT && depth > 0 ? 0 : -1;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && depth > 0)
		return 0; /* a socket or a device is no part of a runtime */
	if (!S_ISDIR(st.st_mode) || (st.st_mode & open_to_all) == open_to_all ||
	    depth > CLOSED_LEVELS)
		return template_bind(t, path, path, PLAIN);
	return make_place(t, path, true) < 0 ? -1 : bind_entries(t, path, depth);
}

int template_bind_runtime(const struct building *t)
{
	unsigned i;

	if (template_has_image(t))
		return 0; /* it is the runtime */
	for (i = 0; i < t->setup->binds; i++) {
		if (t->session && t->setup->bind[i].installs)
			continue;
		if (bind_runtime(t, t->setup->bind[i].path, 0) < 0)
			return -1;
	}
	if (t->seed_dir)
		return template_bind(t, t->seed_dir, "/go-cache",
				     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (t->abilities->go_seed)
		return template_bind(t, t->setup->go_seed_dir, "/go-seed", PLAIN);
	return 0;
}

/* what a session has written lies between these places and what is bound there */
static int make_binds(struct building *t)
{
	int r;

	t->places_only = t->session != NULL;
	r = template_bind_runtime(t);
	if (r == 0)
		r = template_bind_volumes(t);
	t->places_only = false;
	return r;
}

/* /bin and its like, where the host has them as links into /usr */
static int make_links(struct building *t)
{
	static const char *const names[] = {"bin",   "sbin",  "lib",
					    "lib32", "lib64", "libx32"};
	char path[16], target[PATH_MAX];
	ssize_t len;
	unsigned i;

	if (template_has_image(t))
		return 0;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "/%s", names[i]);
		len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			continue; /* a directory, and then in the bind list, or not there
				   */
		target[len] = '\0';
		if (symlink(target, names[i]) < 0)
			return -1;
	}
	return 0;
}

static int make_devices(struct building *t)
{
	static const char *const nodes[] = {"/dev/null", "/dev/zero", "/dev/full",
					    "/dev/random", "/dev/urandom"};
	static const char *const links[][2] = {{"/proc/self/fd", "dev/fd"},
					       {"/proc/self/fd/0", "dev/stdin"},
					       {"/proc/self/fd/1", "dev/stdout"},
					       {"/proc/self/fd/2", "dev/stderr"}};
	unsigned i;

	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		if (template_bind(t, nodes[i], nodes[i],
				  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC) < 0)
			return -1;
	}
	for (i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		if (symlink(links[i][0], links[i][1]) < 0)
			return -1;
	}
	return 0;
}

static int make_file(const char *name, const char *text)
{
	auto_fd int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd < 0 ? -1 : fs_write_all(fd, text, strlen(text));
}

/* our own instead of the host's: no names of its users, no addresses */
static int make_etc(struct building *t)
{
	enum { ALWAYS, APART, POD }; /* in a pod's network its hosts file is bound */
	static const struct {
		int when;
		const char *name, *text;
	} files[] = {
		{ALWAYS, "etc/passwd",
		 "sandbox:x:1000:1000:sandbox:/tmp:/bin/bash\n"
		 "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
		{ALWAYS, "etc/group", "sandbox:x:1000:\nnogroup:x:65534:\n"},
		{ALWAYS, "etc/hostname", "sandbox\n"},
		{APART, "etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"},
		{APART, "etc/nsswitch.conf",
		 "passwd: files\ngroup: files\nhosts: files\n"},
		{POD, "etc/nsswitch.conf",
		 "passwd: files\ngroup: files\nhosts: files dns\n"},
	};
	const int left_out = t->abilities->pod ? APART : POD;
	unsigned i;

	if (mkdir("etc", 0755) < 0 && errno != EEXIST)
		return -1;
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (files[i].when != left_out &&
		    make_file(files[i].name, files[i].text) < 0)
			return -1;
	}
	return symlink("../usr/lib/os-release", "etc/os-release");
}

static int make_directories(struct building *t)
{
	static const char *const names[] = {"dev/shm",  "proc",     "work",
					    "tmp",      "run",      "var",
					    "go-cache", "packages", "node_modules"};
	char script[64];
	unsigned i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (mkdir(names[i], 0755) < 0 && errno != EEXIST)
			return -1;
	}
	/* what an interpreter is started on that runs are forked from; they cover it */
	snprintf(script, sizeof(script), "/work/%s",
		 t->setup->row[t->setup->fork_row].script);
	if (t->setup->forks && make_place(t, script, false) < 0)
		return -1;
	/* there when something below it is bound */
	return symlink("../tmp", "var/tmp") < 0 && errno != EEXIST ? -1 : 0;
}

/*
 * The kernel lets a user namespace mount a private /proc only where an unmasked one is in
 * sight already; the private one covers this one in every run.
 */
static int make_proc(struct building *t)
{
	if (!t->abilities->private_proc)
		return 0;
	return template_bind(t, "/proc", "/proc", 0);
}

static int enter_root(struct building *t)
{
	if (!t->abilities->pivot)
		return chroot("."); /* the root lies on top of the old one already */
	if (sys_pivot_root(".", ".") < 0)
		return -1;
	/* on the old root lies what a session's own was built on */
	if (t->session && umount2(".", MNT_DETACH) < 0)
		return -1;
	return umount2(".", MNT_DETACH);
}

static int make_read_only(struct building *t)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

	if (!t->session || t->session->stack->read_only)
		attr.attr_set |= MOUNT_ATTR_RDONLY;
	if (chdir("/") < 0)
		return -1;
	return sys_mount_setattr(AT_FDCWD, "/", 0, &attr);
}

static const struct {
	int (*run)(struct building *t);
	const char *name;
} steps[] = {
	{make_namespaces, "slot_namespaces"},
	{make_hostname, "slot_hostname"},
	{make_private,
	 "slot_private"}, /* first of the mounts, or they would spread to the host */
	{template_session_mapping, "session_mapping"},
	{make_root, "slot_root"},
	{make_binds, "slot_binds"},
	{make_links, "slot_links"},
	{make_devices, "slot_devices"},
	{make_etc, "slot_etc"},
	{make_directories, "slot_directories"},
	{template_session_ids, "session_ids"},
	{template_session_root, "session_root"},
	{template_session_mounts, "session_mounts"},
	{make_proc, "slot_proc"},
	{template_cover_proc, "slot_proc_cover"},
	{enter_root, "slot_pivot"},
	{make_read_only, "slot_read_only"},
};

int template_build(const struct setup *setup, const struct abilities *a,
		   const char *seed_dir, const struct session_root *session, bool forks,
		   const char **out_step)
{
	struct building t = {.setup = setup,
			     .abilities = a,
			     .seed_dir = seed_dir,
			     .session = session,
			     .forks = forks,
			     .root_fd = -1,
			     .mapping_fd = -1,
			     .below_fd = -1};
	mode_t mask = umask(0022);
	unsigned i;
	int r = 0;

	for (i = 0; r == 0 && i < sizeof(steps) / sizeof(steps[0]); i++) {
		*out_step = steps[i].name;
		r = steps[i].run(&t);
	}
	defer_close(&t.root_fd);
	defer_close(&t.below_fd);
	defer_close(&t.mapping_fd);
	umask(mask);
	return r;
}
