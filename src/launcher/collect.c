/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * collect.c - start the collector, and take over what it wrote
 *
 * Runs in: the launcher; collector() in the process it forks, which is outside the slot's
 * cgroup and has the run's uid. Rights go before the first look at the tree: a link or a
 * mode the program made must find nobody who could be fooled by it. Only whether there is
 * anything at all the launcher sees by itself, as most runs leave nothing: it opens one
 * directory through no link and no mount, and reads names once.
 */
#include "launcher/collect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/sys.h"
#include "wire/files.h"

#define FD_WORK 3
#define FD_MEM 4

/* a bound for what no other rule bounds; the soft way out is in collect_walk */
static bool limit_self(const struct collect_job *job)
{
	const struct rlimit cpu = {job->wall_ms / 1000 + 2, job->wall_ms / 1000 + 2};
	const struct rlimit files = {128, 128}, core = {0, 0};
	/* records: names, heads and padding of at most max_files + FILES_SKIPPED_MAX */
	uint64_t bytes = job->max_bytes +
			 (uint64_t)(FILES_NAME_MAX + 64) *
				 (job->max_files + FILES_SKIPPED_MAX + 2);
	const struct rlimit size = {bytes, bytes};

	return setrlimit(RLIMIT_CPU, &cpu) == 0 &&
	       setrlimit(RLIMIT_NOFILE, &files) == 0 &&
	       setrlimit(RLIMIT_CORE, &core) == 0 && setrlimit(RLIMIT_FSIZE, &size) == 0;
}

/* two descriptors and the standard ones stay; neither may land on the other's place */
static bool keep_two(int work_fd, int mem_fd)
{
	int high_work = fcntl(work_fd, F_DUPFD_CLOEXEC, FD_MEM + 1);
	int high_mem = fcntl(mem_fd, F_DUPFD_CLOEXEC, FD_MEM + 1);

	return high_work >= 0 && high_mem >= 0 && dup2(high_work, FD_WORK) == FD_WORK &&
	       dup2(high_mem, FD_MEM) == FD_MEM &&
	       sys_close_range(FD_MEM + 1, ~0u, 0) == 0;
}

static _Noreturn void collector(struct collect_job job, int mem_fd, pid_t launcher)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t none;

	sigaction(SIGXFSZ, &ignore, NULL); /* the write fails instead */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (!keep_two(job.work_fd, mem_fd) || !limit_self(&job))
		_exit(1);
	job.work_fd = FD_WORK;
	/* as a plain user the ids are right already; the capabilities over them still go
	 */
	if (geteuid() == job.uid && getegid() == job.gid
		    ? caps_drop_all() < 0
		    : caps_become_nobody(job.uid, job.gid) < 0)
		_exit(2);
	/* after the change of ids, which clears it; then look whether it came too late */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != launcher)
		_exit(3);
	_exit(collect_walk(&job, FD_MEM) < 0 ? 4 : 0);
}

static int memory_file(void)
{
	int fd = memfd_create("files", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before 6.3 */
		fd = memfd_create("files", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

bool collect_nothing(int work_fd, const char *output_dir)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	auto_fd int fd = sys_openat2(work_fd, output_dir, &how);
	/* room for "." and "..", and for a third */
	_Alignas(struct dirent64) char names[4 * sizeof(struct dirent64)];
	const struct dirent64 *d;
	struct stat st;
	long at, n;

	/* one that the run's uid may not read is told as such, by who has that uid */
	if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & 0500) != 0500)
		return false;
	n = syscall(SYS_getdents64, fd, names, sizeof(names));
	for (at = 0; at < n; at += d->d_reclen) {
		d = (const struct dirent64 *)(names + at);
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			return false;
	}
	return n > 0 && syscall(SYS_getdents64, fd, names, sizeof(names)) == 0;
}

int collect_start(const struct collect_job *job, pid_t *out_pid, int *out_pid_fd,
		  int *out_mem_fd, struct err *e)
{
	auto_fd int mem_fd = memory_file();
	auto_fd int pid_fd = -1;
	struct collect_job own = *job;
	pid_t launcher = getpid(), pid;

	if (mem_fd < 0)
		return err_errno(e, "make a memory file for output files");
	own.max_depth = own.max_depth ? own.max_depth : 16;
	own.max_entries = own.max_entries ? own.max_entries : 10000;
	own.wall_ms = own.wall_ms ? own.wall_ms : 1000;
	pid = fork();
	if (pid == 0)
		collector(own, mem_fd, launcher);
	if (pid < 0)
		return err_errno(e, "fork the collector");
	pid_fd = sys_pidfd_open(pid, 0);
	if (pid_fd < 0) {
		(void)err_errno(e, "watch the collector");
		kill(pid, SIGKILL); /* not reaped yet: the number is still its own */
		(void)sys_reap(pid, NULL, NULL);
		return -1;
	}
	*out_pid = pid;
	*out_pid_fd = take_fd(&pid_fd);
	*out_mem_fd = take_fd(&mem_fd);
	return 0;
}

void collect_kill(int pid_fd)
{
	(void)sys_pidfd_send_signal(pid_fd, SIGKILL); /* gone already: as well */
}

int collect_finish(pid_t pid, int mem_fd, struct err *e)
{
	int status = 0;

	if (sys_reap(pid, &status, NULL) < 0)
		return err_errno(e, "wait for the collector");
	if (WIFSIGNALED(status))
		return err_ours(e, "collector killed by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		return err_ours(e, "collector failed at step %d", WEXITSTATUS(status));
	if (fs_seal(mem_fd) < 0)
		return err_errno(e, "seal the output files");
	return 0;
}
