/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_fs.c - files: what can be written, read, executed, and how much of it
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/defer.h"
#include "base/sys.h"
#include "config/settings.h"

#define GIB (1ull << 30)
#define DELETED_LIMIT_MB 16

static void fs01(struct tries *t)
{
	static const char *const places[] = {"/",    "/usr", "/etc", "/bin", "/usr/bin",
					     "/dev", "/run", "/var", "/lib"};
	static const char *const files[] = {"/etc/passwd", "/bin/sh",
					    "/proc/sys/kernel/hostname"};
	const char *wanted = tries_shared(t) ? "EACCES|ENOENT|EROFS" : "EROFS";
	char path[32];
	unsigned i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/attack", places[i]);
		expect_tried(t, path, try_open(path, O_WRONLY | O_CREAT), wanted);
		expect_call(t, path, mkdir(path, 0700), wanted);
	}
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		expect_tried(t, files[i], try_open(files[i], O_WRONLY),
			     "EROFS|EACCES|ENOENT|ETXTBSY");
	expect_call(t, "unlink", unlink("/etc/passwd"), "EROFS|EACCES|EPERM");
	expect_call(t, "chmod", chmod("/etc/passwd", 0777), "EROFS|EACCES|EPERM");
	expect_call(t, "rename", rename("/usr", "/usr2"), "EROFS|EACCES|EXDEV|EBUSY");
	expect_call(t, "link", link("/bin/sh", "sh"), "EXDEV|EPERM|EACCES");
	/* the mount allows it, Landlock does not */
	if (tries_layer(t, LAYER_LANDLOCK) && tries_layer(t, LAYER_PROC))
		expect_tried(t, "/proc/self/comm", try_open("/proc/self/comm", O_WRONLY),
			     "EACCES");
}

/* what can be read is brought home, as an attacker would: there G5 looks at it */
static struct tried try_read(const char *path)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	const struct tried r = tried(fd);
	char bytes[64];
	ssize_t n;

	n = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
	if (n > 0)
		(void)!write(STDERR_FILENO, bytes, (size_t)n); /* or it stays here */
	return r;
}

static void fs02(struct tries *t)
{
	static const char *const paths[] = {
		"/etc/shadow",  "/etc/gshadow",  "/etc/sudoers",
		"/var/log",     "/var/lib",      "/var/lib/sandbox-server",
		"/run/secrets", "/run/lock",     "/var/run/secrets/kubernetes.io",
		"/root/.ssh",   "/root/.bashrc", "/etc/ssl/private",
		"/boot",        "/etc/ssh",      "/etc/sandbox-server"};
	unsigned i;
	int n;

	for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		expect_tried(t, paths[i], try_open(paths[i], O_RDONLY), tries_hidden(t));
	for (n = 0; n < t->word_count; n++)
		expect_tried(t, "a path of the host's", try_read(tries_word(t, n)),
			     tries_hidden(t));
}

/* the secret's file, our own state and policies, and where we were started */
static void fs02_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "FS02"};
	unsigned n = 0;

	if (b->canary_file[0])
		r.words[n++] = b->canary_file;
	if (b->settings->state_dir && b->settings->state_dir[0] == '/')
		r.words[n++] = b->settings->state_dir;
	if (b->settings->policy_dir && b->settings->policy_dir[0] == '/')
		r.words[n++] = b->settings->policy_dir;
	run_inside(b, t, &r);
	run_done(&r);
}

static void fs04(struct tries *t)
{
	static const char *const places[] = {"/work", "/tmp", "/dev/shm"};
	char path[300], out[16];
	const char *const argv[] = {path, NULL};
	unsigned i;
	int status;

	for (i = 0; !tries_shared(t) && i < 3; i++) {
		snprintf(path, sizeof(path), "%s/copy", places[i]);
		expect_tried(t, path, copy_program(path), "ok");
		status = run_program(argv, out, sizeof(out));
		expect_tried(t, path, tried(status), i < 2 ? "ok" : "EACCES");
	}
	if (!tries_shared(t))
		return;
	snprintf(path, sizeof(path), "%.250s/copy",
		 getenv("TMPDIR") ? getenv("TMPDIR") : ".");
	expect_tried(t, "a copy", copy_program(path), "ok");
	expect_tried(t, "it", tried(run_program(argv, out, sizeof(out))), "ok");
	expect_tried(t, "/dev/shm", try_open("/dev/shm/copy", O_WRONLY | O_CREAT),
		     "EACCES");
	expect_tried(t, "/tmp", try_open("/tmp/copy", O_WRONLY | O_CREAT), "EACCES");
}

static long fill_by_write(void *path)
{
	static char block[1 << 20];
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	uint64_t done = 0;
	ssize_t n = 0;

	while (fd >= 0 && done < GIB && (n = write(fd, block, sizeof(block))) > 0)
		done += (uint64_t)n;
	return fd < 0 || n < 0 ? -1 : 0;
}

static long fill_by_fallocate(void *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : fallocate(fd, 0, 0, (off_t)GIB);
}

/* sparse, then pages in the middle of nowhere */
static long fill_by_truncate(void *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	uint64_t at;

	if (fd < 0 || ftruncate(fd, (off_t)GIB) < 0)
		return -1;
	for (at = 0; at < GIB; at += 4096) {
		if (pwrite(fd, "x", 1, (off_t)at) < 0)
			return -1;
	}
	return 0;
}

static long fill_by_mmap(void *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	volatile char *bytes;
	uint64_t at;

	if (fd < 0 || ftruncate(fd, (off_t)GIB) < 0)
		return -1;
	bytes = mmap(NULL, GIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return -1;
	for (at = 0; at < GIB; at += 4096)
		bytes[at] = 1;
	return 0;
}

/* more than the limit in files that are open and have no name, each alone below it */
static void fill_deleted(struct tries *t)
{
	static char block[1 << 20];
	ssize_t n = 1;
	unsigned mb;
	int fd = -1;

	for (mb = 0; n > 0 && mb < 8 * DELETED_LIMIT_MB; mb++) {
		if (mb % (DELETED_LIMIT_MB / 2) == 0) { /* the one before stays open */
			fd = open("deleted", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
			(void)unlink("deleted"); /* of one that is not there: seen next */
		}
		n = write(fd, block, sizeof(block));
	}
	if (n > 0 && tries_shared(t))
		sleep_ms(3000); /* until somebody has looked */
	expect_call(t, "deleted files", n, "ENOSPC");
}

static void fs05(struct tries *t)
{
	static const struct {
		const char *name;
		long (*fill)(void *path);
	} ways[] = {{"write", fill_by_write},
		    {"fallocate", fill_by_fallocate},
		    {"truncate", fill_by_truncate},
		    {"mmap", fill_by_mmap}};
	static char places[][16] = {"/work/fill", "/tmp/fill", "/dev/shm/fill"};
	static char here[] = "fill";
	unsigned i, w;

	if (strcmp(tries_word(t, 0), "deleted") == 0) {
		fill_deleted(t);
		return;
	}
	for (w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
		for (i = 0; i < (tries_shared(t) ? 1u : 3u); i++) {
			char *path = tries_shared(t) ? here : places[i];

			expect_tried(t, ways[w].name, tried_apart(ways[w].fill, path),
				     "ENOSPC|EFBIG|SIGBUS|SIGXFSZ");
			(void)unlink(path); /* it may not have been made */
		}
	}
}

static void fs05_outside(struct battery *b, struct tries *t)
{
	struct attack_run runs[] = {{.attack = "FS05"},
				    {.attack = "FS05",
				     .words = {"deleted"},
				     .limits = {.disk_mb = DELETED_LIMIT_MB}}};
	struct statvfs before = {0}, after = {0};
	unsigned i;

	(void)statvfs("/", &before); /* then the difference is nothing */
	for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		run_whole(b, &runs[i]);
		/* where no file system of its own counts, the run is ended for it */
		if (tries_shared(t) && runs[i].outcome.verdict == VERDICT_DISK_FULL)
			expect(t, true, "ended");
		else
			(void)run_tell(&runs[i], t);
		run_done(&runs[i]);
	}
	(void)statvfs("/", &after);
	expect(t,
	       before.f_bavail <
		       after.f_bavail + before.f_blocks / 100 + (64u << 20) / 4096,
	       "the host's disk has less free space than before");
}

static void make_files(struct tries *t, bool directories, unsigned most)
{
	char name[256];
	unsigned n;
	long r = 0;

	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	for (n = 0; n < most && r >= 0; n++) {
		snprintf(name, 9, "%08x", n);
		name[8] = 'n'; /* the longest name there can be */
		r = directories ? mkdir(name, 0700)
				: open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (!directories && r >= 0)
			close((int)r);
	}
	expect_call(t, directories ? "directories" : "files", r, "ENOSPC|EDQUOT");
	observe(t, "%u %s", n - 1, directories ? "directories" : "files");
	while (n-- > 0) {
		snprintf(name, 9, "%08x", n);
		name[8] = 'n';
		(void)remove(name); /* the last one was not made */
	}
}

static void fs06(struct tries *t)
{
	unsigned depth;

	make_files(t, false, 1000000);
	make_files(t, true, 100000);
	for (depth = 0; depth < 4096; depth++) {
		if (mkdir("d", 0700) < 0 || chdir("d") < 0)
			break;
	}
	observe(t, "%u deep", depth);
	expect(t, depth == 4096, "only %u deep", depth);
}

static void fs06_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "FS06",
			       .limits = {.disk_mb = 64, .wall_ms = 40000}};
	uint64_t rest_ms;

	run_whole(b, &r);
	(void)run_tell(&r, t);
	rest_ms = r.over_ms - r.started_ms -
		  (r.outcome.wall_us + r.outcome.setup_us) / 1000;
	expect(t, rest_ms < 1000 + battery_slack_ms(b), "cleaning up took %llu ms",
	       (unsigned long long)rest_ms);
	run_done(&r);
}

static void fs08(struct tries *t)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	const char *dir = getenv("OUTPUT_DIR");
	char path[300];
	int fd;

	sigaction(SIGXFSZ, &ignore, NULL);
	snprintf(path, sizeof(path), "%.280s/big", dir ? dir : "output");
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	expect_call(t, "open", fd, "ok");
	expect_tried(t, "1 TiB", tried(ftruncate(fd, (off_t)1 << 40)),
		     tries_shared(t) ? "ok|EFBIG" : "ok");
	expect_tried(t, "1 EiB", tried(ftruncate(fd, (off_t)1 << 60)), "ok|EFBIG");
}

static void fs08_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "FS08"};

	run_inside(b, t, &r);
	expect(t,
	       tries_shared(t) ||
		       (r.json && strstr(r.json, "{\"name\":\"big\",\"reason\":"
						 "\"too_large\"}")),
	       "it is not listed as too large");
	expect(t, r.json && r.json_len < 4096, "its bytes are in the answer");
	observe(t, "left out as too_large");
	run_done(&r);
}

static void fs11(struct tries *t)
{
	static const char *const types[] = {
		"overlay", "fuse",   "proc",   "sysfs", "ext4",       "bpf", "debugfs",
		"tracefs", "mqueue", "devpts", "ramfs", "securityfs", "nfs", "squashfs"};
	static const char *const devices[] = {"/dev/fuse", "/dev/loop-control",
					      "/dev/loop0", "/dev/cuse"};
	unsigned i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		expect_call(t, types[i], mount("x", "/tmp", types[i], 0, NULL), "EPERM");
	for (i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		expect_tried(t, devices[i], try_open(devices[i], O_RDWR),
			     tries_hidden(t));
}

static void fs12(struct tries *t)
{
	unsigned instances, watches;
	int fd = inotify_init1(IN_CLOEXEC);
	char name[32];
	long r = 0;

	expect_call(t, "the first", fd, "ok");
	expect_call(t, "its watch", inotify_add_watch(fd, ".", IN_CREATE), "ok");
	if (strcmp(tries_word(t, 0), "greedy") != 0)
		return;
	for (watches = 0; watches < 100000 && r >= 0; watches++) {
		snprintf(name, sizeof(name), "f%u", watches % 2000);
		(void)close(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		r = inotify_add_watch(fd, name, IN_CREATE);
	}
	for (instances = 1, r = 0; instances < 100000 && r >= 0; instances++)
		r = inotify_init1(IN_CLOEXEC);
	expect_call(t, "the last", r, "EMFILE|ENOSPC");
	observe(t, "%u instances", instances);
	say("held\n");
	sleep_ms(10000);
}

static void fs12_outside(struct battery *b, struct tries *t)
{
	struct attack_run greedy = {.attack = "FS12", .words = {"greedy"}};
	struct attack_run other = {.attack = "FS12"};

	if (battery_one_uid(b)) {
		skip(t, "all runs have one uid here, and its quota");
		return;
	}
	run_start(b, &greedy);
	expect(t, run_said(b, &greedy, "held"), "the greedy one did not get that far");
	run_inside(b, t, &other);
	run_cancel(b, &greedy);
	observe(t, "EMFILE; another run gets its own");
	run_done(&other);
}

const struct attack attacks_fs[] = {
	{"FS01", "write to /, /usr, /etc, /bin, /dev, /proc/sys", "EROFS", LEVEL_LANDLOCK,
	 fs01, NULL, NULL, "EACCES"},
	{"FS02", "read what is the host's: homes, shadow, state, keys, secrets", "ENOENT",
	 LEVEL_LANDLOCK, fs02, fs02_outside, NULL, "EACCES"},
	{"FS04", "execute from /work, /tmp and /dev/shm", "ok, ok, EACCES",
	 LEVEL_LANDLOCK, fs04, NULL, NULL, "only below the run's own directory"},
	{"FS05", "a gigabyte by write, fallocate, truncate and mmap; deleted files",
	 "ENOSPC or EFBIG at the limit; the host's disk unchanged", LEVEL_LANDLOCK, fs05,
	 fs05_outside, NULL, "EFBIG, or the run is ended"},
	{"FS06", "a million files, 10^5 directories, 4096 deep, names of 255 bytes",
	 "ENOSPC; cleaned up within a second", LEVEL_NAMESPACES, fs06, fs06_outside, NULL,
	 NULL},
	{"FS08", "a sparse file of 1 EiB in the output directory",
	 "EFBIG, or left out of the answer unread", LEVEL_LANDLOCK, fs08, fs08_outside,
	 NULL, NULL},
	{"FS11", "mounts of overlay, fuse and other file systems; loop devices",
	 "EPERM; ENOENT", LEVEL_LANDLOCK, fs11, NULL, NULL, "EPERM; EACCES"},
	{"FS12", "all the inotify instances and watches there are",
	 "EMFILE; another run gets its own", LEVEL_NAMESPACES, fs12, fs12_outside, NULL,
	 NULL},
	{.id = NULL},
};
