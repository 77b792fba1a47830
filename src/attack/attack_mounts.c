/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_mounts.c - out of the root: mounts, knobs, devices
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "attack/attack.h"
#include "base/sys.h"

#define WALK_DEPTH 12

/* everything below a directory; false ends it */
static void walk(const char *top, unsigned depth,
		 void (*see)(struct tries *t, const char *path, const struct dirent *d),
		 struct tries *t)
{
	char path[1024];
	struct dirent *d;
	DIR *dir = depth < WALK_DEPTH ? opendir(top) : NULL;

	if (!dir)
		return;
	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
		    snprintf(path, sizeof(path), "%s/%s", top, d->d_name) >=
			    (int)sizeof(path))
			continue;
		see(t, path, d);
		if (d->d_type == DT_DIR)
			walk(path, depth + 1, see, t);
	}
	closedir(dir);
}

void ns11(struct tries *t)
{
	struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};

	expect_call(t, "chroot", chroot("."), "EPERM");
	expect_call(t, "pivot_root", sys_pivot_root("/work", "/tmp"), "EPERM");
	expect_call(t, "mount tmpfs", mount("x", "/tmp", "tmpfs", 0, NULL), "EPERM");
	expect_call(t, "bind", mount("/", "/tmp", NULL, MS_BIND, NULL), "EPERM");
	expect_call(t, "move", mount("/tmp", "/work", NULL, MS_MOVE, NULL), "EPERM");
	expect_call(t, "remount", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL),
		    "EPERM");
	expect_call(t, "umount /", umount2("/", MNT_DETACH), "EPERM");
	expect_call(t, "umount /tmp", umount2("/tmp", MNT_DETACH), "EPERM");
	expect_call(t, "mount_setattr",
		    sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &writable), "EPERM");
	expect_call(t, "open_tree", sys_open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE),
		    "EPERM");
	expect_call(t, "move_mount",
		    sys_move_mount(AT_FDCWD, "/work", AT_FDCWD, "/tmp", 0), "EPERM");
	expect_call(t, "fsopen", sys_fsopen("tmpfs", 0), "EPERM");
	expect_call(t, "fsmount", sys_fsmount(0, 0, 0), "EPERM");
	expect_call(t, "fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0), "EPERM");
}

/* "shocker": inode 2 is the root of many a file system */
void ns13(struct tries *t)
{
	struct {
		struct file_handle head;
		unsigned char bytes[128];
	} h = {.head = {.handle_bytes = 128}};
	int mount_id, fd = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	expect_call(t, "name_to_handle_at",
		    syscall(SYS_name_to_handle_at, AT_FDCWD, "/usr", &h, &mount_id, 0),
		    "EPERM");
	h.head.handle_bytes = 8;
	h.head.handle_type = 1;
	h.bytes[0] = 2;
	expect_call(t, "open_by_handle_at",
		    syscall(SYS_open_by_handle_at, fd, &h, O_RDONLY), "EPERM");
	if (fd >= 0)
		close(fd);
}

static void see_cgroup_file(struct tries *t, const char *path, const struct dirent *d)
{
	static const char *const names[] = {"release_agent", "notify_on_release",
					    "cgroup.procs", "devices.allow"};
	unsigned i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect(t, strcmp(d->d_name, names[i]) != 0, "%.100s is there", path);
}

void ns15(struct tries *t)
{
	static const char *const tops[] = {"/proc", "/dev", "/run", "/etc", "/var"};
	unsigned i;

	for (i = 0; i < sizeof(tops) / sizeof(tops[0]); i++)
		walk(tops[i], 0, see_cgroup_file, t);
	expect_tried(t, "/sys", try_open("/sys", O_RDONLY), tries_hidden(t));
	expect_tried(t, "/sys/fs/cgroup", try_open("/sys/fs/cgroup", O_RDONLY),
		     tries_hidden(t));
	expect_call(t, "mount cgroup",
		    mount("x", "/tmp", "cgroup", 0, "none,name=attack"), "EPERM");
	expect_call(t, "mount cgroup2", mount("x", "/tmp", "cgroup2", 0, NULL), "EPERM");
}

static void see_knob(struct tries *t, const char *path, const struct dirent *d)
{
	if (d->d_type == DT_REG)
		expect(t, try_open(path, O_WRONLY).num != 0, "%.100s can be written",
		       path);
}

void ns16(struct tries *t)
{
	static const char *const knobs[] = {
		"/proc/sys/fs/binfmt_misc/register",
		"/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/hostname",
		"/proc/sys/vm/drop_caches",
		"/proc/sys/vm/overcommit_memory",
		"/proc/sysrq-trigger",
		"/sys/kernel/uevent_helper",
		"/proc/irq/default_smp_affinity",
		"/sys/kernel/mm/ksm/run",
	};
	const unsigned before = t->count;
	unsigned i;

	for (i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++)
		expect_tried(t, knobs[i], try_open(knobs[i], O_WRONLY),
			     "EROFS|EACCES|ENOENT");
	walk("/proc/sys", 0, see_knob, t);
	observe(t, "%u files", t->count - before);
}

static bool is_in(const char *const *list, const char *name)
{
	while (*list && strcmp(*list, name) != 0)
		list++;
	return *list;
}

static void see_device(struct tries *t, const char *path, const struct dirent *d)
{
	static const char *const nodes[] = {"null",   "zero",    "full",
					    "random", "urandom", NULL};
	struct stat st;

	if (lstat(path, &st) < 0 || S_ISLNK(st.st_mode) || is_in(nodes, d->d_name))
		return;
	if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		expect(t, tries_shared(t) && try_open(path, O_RDONLY).num != 0,
		       "%.60s is there", path);
	else
		expect(t, tries_shared(t) || strncmp(path, "/dev/shm", 8) == 0,
		       "%.60s is there", path);
}

void ns17(struct tries *t)
{
	static const char *const wanted[] = {"/dev/null", "/dev/zero", "/dev/full",
					     "/dev/random", "/dev/urandom"};
	static const char *const others[] = {
		"mem",     "kmem",  "port",    "kmsg",      "kvm",          "fuse",
		"net/tun", "ptmx",  "console", "tty",       "loop-control", "sda",
		"vda",     "loop0", "vsock",   "vhost-net", "userfaultfd",  "hpet"};
	char path[40];
	unsigned i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		expect_tried(t, wanted[i], try_open(wanted[i], O_RDONLY), "ok");
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(path, sizeof(path), "/dev/%s", others[i]);
		expect_tried(t, path, try_open(path, O_RDWR), tries_hidden(t));
	}
	walk("/dev", 0, see_device, t);
	expect_call(t, "mknod of memory", mknod("mem", S_IFCHR | 0600, makedev(1, 1)),
		    "EPERM");
	expect_call(t, "mknod of a disk", mknod("disk", S_IFBLK | 0600, makedev(254, 0)),
		    "EPERM");
	expect_call(t, "mkdir /dev/x", mkdir("/dev/x", 0700), "EROFS|EACCES");
}

struct mount_line {
	char root[512], place[512], options[128], type[64];
};

static bool has_option(const char *options, const char *name)
{
	const size_t len = strlen(name);

	while (options) {
		if (strncmp(options, name, len) == 0 &&
		    (options[len] == ',' || options[len] == '\0'))
			return true;
		options = strchr(options, ',');
		options = options ? options + 1 : NULL;
	}
	return false;
}

/* "36 35 98:0 /root /place rw,nosuid shared:1 - ext3 ..." */
static bool read_mount(char *line, struct mount_line *out)
{
	char *field[6], *rest = line, *dash;
	unsigned i;

	dash = strstr(line, " - ");
	if (!dash)
		return false;
	*dash = '\0';
	snprintf(out->type, sizeof(out->type), "%.*s", (int)strcspn(dash + 3, " "),
		 dash + 3);
	for (i = 0; i < 6; i++) {
		field[i] = strsep(&rest, " ");
		if (!field[i])
			return false;
	}
	snprintf(out->root, sizeof(out->root), "%s", field[3]);
	snprintf(out->place, sizeof(out->place), "%s", field[4]);
	snprintf(out->options, sizeof(out->options), "%s", field[5]);
	return true;
}

static bool ends_in(const char *text, const char *end)
{
	const size_t len = strlen(text), n = strlen(end);

	return len >= n && strcmp(text + len - n, end) == 0;
}

static void judge_mount(struct tries *t, const struct mount_line *m, bool *seen_root)
{
	static const char *const places[] = {"/work", "/tmp", "/dev/shm", "/go-cache",
					     NULL};
	static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
					      "/dev/random", "/dev/urandom", NULL};
	const bool root = strcmp(m->place, "/") == 0;
	const bool device = is_in(devices, m->place);
	const bool mask = strncmp(m->place, "/proc", 5) == 0;
	const bool write = has_option(m->options, "rw");

	if (root) {
		expect(t, strcmp(m->type, "tmpfs") == 0 && !write, "the root is %s, %s",
		       m->type, m->options);
		*seen_root = true;
	}
	expect(t, has_option(m->options, "nosuid"), "%.80s is not nosuid", m->place);
	expect(t, device || mask || has_option(m->options, "nodev"), "%.80s is not nodev",
	       m->place);
	expect(t, !write || device || mask || is_in(places, m->place),
	       "%.80s can be written", m->place);
	/* what is bound lies at its own path, in a container that is a directory of the
	 * host below that: nothing of the host's layout besides */
	expect(t,
	       device || mask || is_in(places, m->place) ||
		       strcmp(m->place, "/go-seed") == 0 || strcmp(m->root, "/") == 0 ||
		       strncmp(m->root, "/usr/", 5) == 0 || ends_in(m->place, m->root) ||
		       ends_in(m->root, m->place),
	       "%.80s comes from %.80s", m->place, m->root);
}

/* the same place again further down: that one lies on top */
static bool is_covered(const char *rest, const char *place)
{
	char word[600];

	snprintf(word, sizeof(word), " %s r", place); /* "rw" or "ro" follow a place */
	return rest && strstr(rest, word);
}

void ns20(struct tries *t)
{
	static char text[65536];
	char *rest = text, *line;
	bool seen_root = false;
	struct mount_line m;
	unsigned n = 0;

	if (!tries_layer(t, LAYER_PROC)) {
		skip(t, "there is no /proc inside to look in");
		return;
	}
	if (read_text("/proc/self/mountinfo", text, sizeof(text)) < 0) {
		expect(t, false, "mountinfo cannot be read");
		return;
	}
	while ((line = strsep(&rest, "\n")) && *line) {
		const bool is_mount = read_mount(line, &m);

		expect(t, is_mount, "a mount cannot be read");
		if (is_mount && !is_covered(rest, m.place))
			judge_mount(t, &m, &seen_root);
		n++;
	}
	expect(t, seen_root, "there is no root");
	observe(t, "%u mounts", n);
}
