/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_mounts.c - what a run must have of its own: /proc, and one tmpfs for all it
 * writes
 *
 * Runs in: process 1 of the sandbox, with every capability over its own mount namespace.
 * Before: "/" is the slot's root, read-only; its mounts are locked: they came from a more
 *         privileged namespace and can be neither removed nor made writable here.
 * After:  a private /proc with the dangerous parts covered; /work, /tmp and /dev/shm are
 *         directories of one tmpfs, so that one quota holds for all three.
 */
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include "base/sys.h"
#include "launcher/child.h"

#define PLAIN (MS_NOSUID | MS_NODEV)

int child_proc(struct child *c)
{
	if (!c->abilities.private_proc)
		return 0; /* then there is no /proc at all: never the host's */
	return mount("proc", "/proc", "proc", PLAIN | MS_NOEXEC, NULL);
}

/* A second lock besides seccomp: in this user namespace no further one can be made. */
int child_namespace_limits(struct child *c)
{
	static const char *const names[] = {"user", "mnt", "pid",    "net",
					    "ipc",  "uts", "cgroup", "time"};
	char path[48];
	unsigned i;

	if (!c->abilities.private_proc)
		return 0;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t len = strlen(names[i]);

		memcpy(path, "/proc/sys/user/max_", 19);
		memcpy(path + 19, names[i], len);
		memcpy(path + 19 + len, "_namespaces", 12);
		if (child_write_at(AT_FDCWD, path, "0") < 0)
			return -1;
	}
	return 0;
}

static int child_cover(const char *what, const char *path, unsigned long flags)
{
	if (mount(what, path, NULL, MS_BIND, NULL) == 0)
		return flags ? mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | flags, NULL)
			     : 0;
	return errno == ENOENT ? 0
			       : -1; /* what this kernel does not have needs no cover */
}

int child_proc_masks(struct child *c)
{
	static const char *const read_only[] = {"/proc/sys", "/proc/sysrq-trigger",
						"/proc/irq", "/proc/bus", "/proc/fs"};
	static const char *const empty_files[] = {
		"/proc/kcore",         "/proc/keys",
		"/proc/key-users",     "/proc/timer_list",
		"/proc/kallsyms",      "/proc/modules",
		"/proc/kpagecount",    "/proc/kpageflags",
		"/proc/kpagecgroup",   "/proc/config.gz",
		"/proc/cmdline",       "/proc/sched_debug",
		"/proc/latency_stats", "/proc/iomem",
		"/proc/ioports",       "/proc/vmallocinfo",
		"/proc/slabinfo",      "/proc/interrupts",
		"/proc/diskstats",     "/proc/partitions",
		"/proc/swaps",         "/proc/version_signature",
	};
	static const char *const empty_dirs[] = {"/proc/acpi", "/proc/scsi"};
	struct stat st;
	unsigned i;

	if (!c->abilities.private_proc)
		return 0;
	/* the cover itself must be what it says */
	if (stat("/dev/null", &st) < 0)
		return -1;
	if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3)) {
		errno = ENODEV;
		return -1;
	}
	for (i = 0; i < sizeof(read_only) / sizeof(read_only[0]); i++) {
		if (child_cover(read_only[i], read_only[i],
				MS_RDONLY | PLAIN | MS_NOEXEC) < 0)
			return -1;
	}
	for (i = 0; i < sizeof(empty_files) / sizeof(empty_files[0]); i++) {
		if (child_cover("/dev/null", empty_files[i], 0) < 0)
			return -1;
	}
	for (i = 0; i < sizeof(empty_dirs) / sizeof(empty_dirs[0]); i++) {
		if (child_cover("/run", empty_dirs[i], 0) < 0)
			return -1;
	}
	return 0;
}

/* "size=268435456,nr_inodes=32768,mode=755" */
static char *child_number(char *at, uint64_t n)
{
	char digits[24];
	size_t len = 0;

	do {
		digits[len++] = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	while (len)
		*at++ = digits[--len];
	return at;
}

int child_scratch(struct child *c)
{
	static const char *const dirs[] = {"/work/work", "/work/tmp", "/work/shm",
					   "/work/cache", "/work/cache-work"};
	static const mode_t modes[] = {0755, 01777, 01777, 0755, 0755};
	const unsigned count = c->row->go_cache ? 5 : 3;
	char options[96], *at = options;
	unsigned i;

	memcpy(at, "mode=755,size=", 14);
	at = child_number(at + 14, (uint64_t)c->plan.limits.disk_mb << 20);
	memcpy(at, ",nr_inodes=", 11);
	at = child_number(at + 11,
			  (uint64_t)c->plan.limits.disk_mb * CHILD_INODES_PER_MB +
				  CHILD_INODES);
	*at = '\0';
	if (mount("scratch", "/work", "tmpfs", PLAIN, options) < 0)
		return -1;
	for (i = 0; i < count; i++) {
		/* child_session() has set the umask that leaves 0755 as it is */
		if (mkdir(dirs[i], 0755) < 0 ||
		    (modes[i] != 0755 && chmod(dirs[i], modes[i]) < 0))
			return -1;
	}
	return 0;
}

/*
 * The compile cache: the seed below, the run's own layer on top. The 256 directories are
 * made in the upper layer beforehand, since those of the seed belong to a uid that is not
 * mapped here and could not be copied up.
 */
int child_go_cache(struct child *c)
{
	static const char hex[] = "0123456789abcdef";
	char path[] = "/work/cache/00";
	int i;

	if (!c->row->go_cache || c->plan.errand == ERRAND_SEED)
		return 0; /* the seeding slot has the seed itself there, writable */
	if (!c->abilities.overlay || !c->abilities.go_seed)
		return mount("/work/cache", "/go-cache", NULL, MS_BIND, NULL);
	for (i = 0; i < 256; i++) {
		path[sizeof(path) - 3] = hex[i >> 4];
		path[sizeof(path) - 2] = hex[i & 15];
		if (mkdir(path, 0755) < 0)
			return -1;
	}
	return mount("overlay", "/go-cache", "overlay", PLAIN,
		     "userxattr,lowerdir=/go-seed,upperdir=/work/cache,"
		     "workdir=/work/cache-work");
}

int child_places(struct child *c)
{
	const unsigned long shm = MS_BIND | MS_REMOUNT | PLAIN | MS_NOEXEC;

	if (mount("/work/tmp", "/tmp", NULL, MS_BIND, NULL) < 0)
		return -1;
	if (mount("/work/shm", "/dev/shm", NULL, MS_BIND, NULL) < 0)
		return -1;
	if (mount(NULL, "/dev/shm", NULL, shm, NULL) < 0)
		return -1;
	if (mount("/work/work", "/work", NULL, MS_BIND, NULL) < 0)
		return -1;
	c->work_fd = open("/work", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return c->work_fd < 0 ? -1 : 0;
}

/* /work and /tmp are the session's directories, bound by its worker; what is shared in
 * memory goes with its processes */
int child_session_places(struct child *c)
{
	char options[96], *at = options;

	memcpy(at, "mode=1777,size=", 15);
	at = child_number(at + 15, (uint64_t)c->plan.limits.memory_mb << 19);
	memcpy(at, ",nr_inodes=", 11);
	at = child_number(at + 11, CHILD_INODES);
	*at = '\0';
	if (mount("shm", "/dev/shm", "tmpfs", PLAIN | MS_NOEXEC, options) < 0)
		return -1;
	if (!c->abilities.poll_memory)
		return 0;
	/* what is in it is nobody's memory else */
	c->work_fd = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return c->work_fd < 0 ? -1 : 0;
}

int child_hostname(struct child *c)
{
	if (!c->abilities.hostname)
		return 0;
	return sethostname("sandbox", 7);
}

/* the root is what the worker made, and there is nothing above it */
int child_root_check(struct child *c)
{
	const bool session = child_keeps_session(c) || child_enters(c);
	struct stat root, above;
	struct statfs fs;

	if (statfs("/", &fs) < 0 || stat("/", &root) < 0 || stat("/..", &above) < 0)
		return -1;
	if (fs.f_type != (session ? OVERLAYFS_SUPER_MAGIC : TMPFS_MAGIC) ||
	    (!session && !(fs.f_flags & ST_RDONLY)) || !(fs.f_flags & ST_NOSUID) ||
	    root.st_ino != above.st_ino || root.st_dev != above.st_dev) {
		errno = EXDEV;
		return -1;
	}
	return 0;
}

/* Who lets go of the mounts last waits until nobody looks at them any more: not the run's
 * end, for which others wait, but its slot's worker when the answer is out. */
static bool child_gives_mounts(const struct child *c)
{
	return c->waits != WAITS_NOT || (!child_shares(c) && !c->abilities.poll_memory &&
					 !c->fork && c->plan.errand == ERRAND_NONE);
}

int child_hand_over(struct child *c)
{
	struct child_news n = {.type = NEWS_PLACES, .step = -1};
	int fds[2] = {c->work_fd, -1};
	int count = 1, r;

	if (child_keeps_session(c) && !c->abilities.poll_memory)
		return 0; /* its cgroup tells */
	/* where something waits there is a cgroup, and no memory to be looked for */
	if (child_gives_mounts(c) || child_shares(c) ||
	    (c->abilities.poll_memory && c->abilities.private_proc)) {
		fds[1] = child_gives_mounts(c)
				 ? openat(c->proc_fd, "self/ns/mnt", O_RDONLY | O_CLOEXEC)
				 : open(child_shares(c) ? c->place : "/proc",
					O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fds[1] < 0)
			return -1;
		count = 2;
	}
	r = child_send(c, &n, fds, count);
	if (fds[1] >= 0)
		close(fds[1]);
	return r;
}

/* commands enter by these: their worker may not look into a process that is shut */
int child_tell_namespaces(struct child *c)
{
	char path[32] = "self/ns/";
	int i, fd, r;

	for (i = 0; i < NS_COUNT; i++) {
		const struct child_news n = {
			.type = NEWS_NAMESPACE, .step = -1, .status = i};

		memcpy(path + 8, child_ns_names[i], strlen(child_ns_names[i]) + 1);
		fd = openat(c->proc_fd, path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -1;
		r = child_send(c, &n, &fd, 1);
		close(fd);
		if (r < 0)
			return -1;
	}
	return 0;
}
