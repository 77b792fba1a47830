/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * nameless.c - files of a run that no directory has any more
 *
 * Runs in: a short-lived child of the launcher with the run's uid, since only that one
 * may look at descriptors of the run's processes. A file without a name lives as long as
 * somebody has it open, and where a run has no tmpfs of its own it takes room on the
 * host's disk. Whoever keeps one where its size cannot be found out (in a mapping alone,
 * on its way through a socket, in a process that may not be looked into) is said to hide
 * something.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/defer.h"
#include "base/fs.h"
#include "base/sys.h"
#include "launcher/child.h"
#include "launcher/sample.h"

#define FILES_MOST 256 /* each is compared with all others */

struct nameless {
	const struct sample_run *run;
	struct disk_use *use;
	char memory[32]; /* the device that memory files are on */
	unsigned looked, files;
	struct {
		dev_t dev;
		ino_t ino;
	} file[FILES_MOST];
};

/* false: no more is looked at */
static bool may_look(struct nameless *n)
{
	if (++n->looked > n->run->most)
		n->use->unseen = true;
	return !n->use->unseen;
}

static bool known(const struct nameless *n, dev_t dev, ino_t ino)
{
	unsigned i;

	for (i = 0; i < n->files; i++) {
		if (n->file[i].dev == dev && n->file[i].ino == ino)
			return true;
	}
	return false;
}

/* Memory files are no disk's: a cgroup counts them, and without one there are none. A
 * run's place may be in memory too, and counts; a session's files never are, but may have
 * any name. */
static bool is_memory(const struct nameless *n, int dir_fd, const char *name)
{
	static const char prefix[] = "/memfd:";
	char path[sizeof(prefix) - 1];
	auto_fd int fd = -1;
	struct statfs fs;

	if (n->run->place)
		return readlinkat(dir_fd, name, path, sizeof(path)) == sizeof(path) &&
		       memcmp(path, prefix, sizeof(path)) == 0;
	fd = openat(dir_fd, name, O_PATH | O_CLOEXEC);
	return fd >= 0 && fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC);
}

static void add_file(struct nameless *n, int dir_fd, const char *name,
		     const struct stat *st)
{
	if (st->st_nlink != 0 || st->st_uid - n->run->uid >= n->run->uids ||
	    known(n, st->st_dev, st->st_ino) || is_memory(n, dir_fd, name))
		return;
	if (n->files == FILES_MOST) {
		n->use->unseen = true;
		return;
	}
	n->file[n->files].dev = st->st_dev;
	n->file[n->files++].ino = st->st_ino;
	n->use->bytes += (uint64_t)st->st_blocks * 512;
}

/* descriptors that were sent and not received are in nobody's table */
static bool holds_sent(int task_fd, const char *tid, const char *number)
{
	char name[600], text[1024];
	const char *at;

	snprintf(name, sizeof(name), "%s/fdinfo/%s", tid, number);
	if (fs_read_at(task_fd, name, text, sizeof(text)) < 0)
		return false; /* closed meanwhile */
	at = strstr(text, "scm_fds:");
	return at && strtoul(at + strlen("scm_fds:"), NULL, 10) > 0;
}

static DIR *open_dir(int at_fd, const char *name)
{
	const int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

/* ENOENT, ESRCH: it ended meanwhile */
static void missed(struct nameless *n)
{
	if (errno != ENOENT && errno != ESRCH)
		n->use->unseen = true;
}

/* it is kept as long as the program runs, mapped or not */
static void look_program(struct nameless *n, int task_fd, const char *tid)
{
	char name[300];
	struct stat st;

	snprintf(name, sizeof(name), "%s/exe", tid);
	if (fstatat(task_fd, name, &st, 0) < 0)
		missed(n);
	else
		add_file(n, task_fd, name, &st);
}

static void look_descriptors(struct nameless *n, int task_fd, const char *tid)
{
	char name[300];
	struct dirent *d;
	struct stat st;
	DIR *dir;

	snprintf(name, sizeof(name), "%s/fd", tid);
	dir = open_dir(task_fd, name);
	if (!dir)
		missed(n);
	while (dir && (d = readdir(dir)) && may_look(n)) {
		if (d->d_name[0] == '.')
			continue;
		if (fstatat(dirfd(dir), d->d_name, &st, 0) < 0)
			missed(n);
		else if (S_ISREG(st.st_mode))
			add_file(n, dirfd(dir), d->d_name, &st);
		else if (S_ISSOCK(st.st_mode) && holds_sent(task_fd, tid, d->d_name))
			n->use->unseen = true;
	}
	if (dir)
		closedir(dir);
}

/* "FROM-TO rwxp OFFSET MAJOR:MINOR": the field, and where the next one is */
static const char *device_of(const char *line, char out[32])
{
	unsigned i;

	for (i = 0; i < 3; i++)
		line += strcspn(line, " ") + 1;
	snprintf(out, 32, "%.*s", (int)strcspn(line, " "), line);
	return line + strcspn(line, " ");
}

static bool begins(const char *path, const char *with)
{
	return strncmp(path, with, strlen(with)) == 0;
}

/* it may be on the disk that is measured */
static bool is_placed(const struct nameless *n, const char *device, const char *path)
{
	if (n->run->place)
		return begins(path, n->run->place);
	return strcmp(device, n->memory) != 0 && !begins(path, "/dev/shm/") &&
	       !(n->run->host_usr && begins(path, "/usr/"));
}

/* "FROM-TO rwxp OFFSET MAJOR:MINOR INODE PATH (deleted)". The inode's number is enough to
 * know a file that is open too: device numbers are not always those of stat. */
static void look_mapping(struct nameless *n, const char *line)
{
	static const char mark[] = " (deleted)\n";
	const size_t len = strlen(line);
	unsigned long ino;
	unsigned i;
	char *path, device[32];

	if (len < sizeof(mark) || strcmp(line + len - sizeof(mark) + 1, mark) != 0)
		return;
	ino = strtoul(device_of(line, device), &path, 10);
	path += strspn(path, " ");
	if (!is_placed(n, device, path))
		return;
	for (i = 0; i < n->files && n->file[i].ino != ino; i++)
		;
	if (i == n->files)
		n->use->unseen = true;
}

static void look_mappings(struct nameless *n, int task_fd, const char *tid)
{
	auto_free char *line = NULL;
	size_t room = 0;
	char name[300];
	FILE *f;
	int fd;

	snprintf(name, sizeof(name), "%s/maps", tid);
	fd = openat(task_fd, name, O_RDONLY | O_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f) {
		missed(n);
		defer_close(&fd);
		return;
	}
	while (getline(&line, &room, f) > 0 && may_look(n))
		look_mapping(n, line);
	fclose(f);
}

/* each may have descriptors of its own; memory they have together, but whoever is on the
 * way out shows none */
static void look_threads(struct nameless *n, int task_fd)
{
	DIR *dir = open_dir(task_fd, ".");
	bool mapped = false;
	struct process p;
	struct dirent *d;

	if (!dir)
		missed(n);
	while (dir && (d = readdir(dir)) && may_look(n)) {
		if (d->d_name[0] == '.' ||
		    child_process(task_fd, (pid_t)strtol(d->d_name, NULL, 10), &p) < 0 ||
		    p.exiting)
			continue;
		look_descriptors(n, task_fd, d->d_name);
		if (!mapped) {
			look_program(n, task_fd, d->d_name);
			look_mappings(n, task_fd, d->d_name);
		}
		mapped = true;
	}
	if (dir)
		closedir(dir);
}

static bool is_below(const struct sample_run *r, int proc_fd, pid_t pid)
{
	bool below = false;
	size_t i;

	for (i = 0; i < r->top_count; i++) {
		if (pid == r->tops[i])
			return false; /* it has nothing of it */
		below = below || child_below(proc_fd, pid, r->tops[i]) != 0;
	}
	return below;
}

/* who started a program that he cannot read may not even be asked where he is */
static bool is_of(const struct sample_run *r, int proc_fd, pid_t pid)
{
	char name[32];
	struct stat st;

	if (!r->pid_ns)
		return is_below(r, proc_fd, pid);
	snprintf(name, sizeof(name), "%d/ns/pid", (int)pid);
	if (fstatat(proc_fd, name, &st, 0) == 0)
		return st.st_ino == r->pid_ns;
	return errno == EACCES && is_below(r, proc_fd, pid);
}

static void look_process(int proc_fd, pid_t pid, void *arg)
{
	struct nameless *n = arg;
	auto_fd int task_fd = -1;
	char name[32];

	if (!is_of(n->run, proc_fd, pid))
		return;
	snprintf(name, sizeof(name), "%d/task", (int)pid);
	task_fd = openat(proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (task_fd < 0)
		missed(n);
	else
		look_threads(n, task_fd);
}

/* all of the kernel's own are on one device, with names that anybody can give a file */
static int find_memory(char out[32])
{
	auto_fd int fd = memfd_create("looker", MFD_CLOEXEC);
	auto_free char *line = NULL;
	size_t room = 0;
	FILE *f;

	if (fd < 0 || mmap(NULL, 1, PROT_NONE, MAP_SHARED, fd, 0) == MAP_FAILED)
		return -1;
	f = fopen("/proc/self/maps", "re");
	if (!f)
		return -1;
	while (!out[0] && getline(&line, &room, f) > 0)
		if (strstr(line, " /memfd:looker (deleted)"))
			(void)device_of(line, out);
	fclose(f);
	return out[0] ? 0 : -1;
}

static _Noreturn void look(int proc_fd, int out_fd, struct nameless *n)
{
	const struct sample_run *r = n->run;
	const bool same = geteuid() == r->owner && getegid() == r->gid;

	if (!r->place && find_memory(n->memory) < 0)
		_exit(1);
	if ((same ? caps_drop_all() : caps_become_nobody(r->owner, r->gid)) < 0)
		_exit(1);
	if (child_each_process(proc_fd, look_process, n) < 0)
		_exit(2);
	_exit(write(out_fd, n->use, sizeof(*n->use)) == sizeof(*n->use) ? 0 : 3);
}

void sample_nameless(int proc_fd, const struct sample_run *r, struct disk_use *use)
{
	struct disk_use seen = *use;
	struct nameless n = {.run = r, .use = &seen};
	struct pollfd answer = {.events = POLLIN};
	auto_fd int ours = -1;
	int pair[2];
	pid_t pid;

	use->unseen = true; /* unless somebody who looked says otherwise */
	if (pipe2(pair, O_CLOEXEC) < 0)
		return;
	ours = pair[0];
	pid = fork();
	if (pid == 0)
		look(proc_fd, pair[1], &n);
	close(pair[1]);
	if (pid < 0)
		return;
	answer.fd = ours;
	if (poll(&answer, 1, (int)r->ms) == 1 &&
	    read(ours, &seen, sizeof(seen)) == sizeof(seen))
		*use = seen;
	kill(pid, SIGKILL); /* it waits for a process of the run; or is done */
	(void)sys_reap(pid, NULL, NULL);
}
