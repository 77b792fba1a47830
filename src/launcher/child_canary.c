/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_canary.c - try what must not work, from inside a finished sandbox
 *
 * Runs in: the program's place, after every step but execve. What it saw goes to stdout
 * as one struct canary_seen; probe.c draws the conclusions.
 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include "base/sys.h"
#include "launcher/child.h"

const char *const child_ns_names[NS_COUNT] = {"user", "mnt", "pid",   "net",
					      "ipc",  "uts", "cgroup"};

#define CANARY_FORKS 64
#define CANARY_MANY 31 /* children */
#define CANARY_CPU_NS 4000000
#define CANARY_MEMORY_BYTES (256u << 20)

static int32_t child_open_err(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

void child_note_namespaces(struct child *c)
{
	char path[16];
	struct stat st;
	int i;

	for (i = 0; i < NS_COUNT; i++) {
		memcpy(path, "self/ns/", 8);
		memcpy(path + 8, child_ns_names[i], strlen(child_ns_names[i]) + 1);
		c->ns[i] = fstatat(c->proc_fd, path, &st, 0) == 0 ? (uint64_t)st.st_ino
								  : 0;
	}
}

struct dirent64_head {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static int32_t child_count_processes(void)
{
	static char bytes[8192] __attribute__((aligned(8)));
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int32_t count = 0;
	long n, at;

	if (fd < 0)
		return -1;
	while ((n = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0) {
		for (at = 0; at < n; at += ((struct dirent64_head *)(bytes + at))->len) {
			char first = ((struct dirent64_head *)(bytes + at))->name[0];

			if (first >= '1' && first <= '9')
				count++;
		}
	}
	close(fd);
	return count ? count : -1; /* an empty directory: no proc is mounted there */
}

/* children that only wait, until the limit says no */
static void child_look_forks(struct canary_seen *s)
{
	pid_t pids[CANARY_FORKS];
	int i, n = 0;

	while (n < CANARY_FORKS) {
		pids[n] = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pids[n] == 0) {
			for (;;)
				pause();
		}
		if (pids[n] < 0) {
			s->fork_err = errno;
			break;
		}
		n++;
	}
	s->forks = n;
	for (i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		wait4(pids[i], NULL, 0, NULL);
	}
}

static void child_look_rights(struct canary_seen *s)
{
	struct __user_cap_data_struct none[2] = {{0}}, now[2];
	int cap;

	s->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	s->seccomp_mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
	s->uid = (int32_t)getuid();
	s->groups = getgroups(0, NULL);
	if (sys_capget(now) < 0 || memcmp(now, none, sizeof(now)) != 0)
		s->caps = 1;
	for (cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > 0)
			s->bounding = 1;
	}
}

/* where the host is in sight: what of it can be touched */
static void child_look_neighbours(const struct child *c, struct canary_seen *s)
{
	struct rlimit now;
	unsigned long cpus[16];
	char path[SETUP_PATH + 16];
	const size_t len = strlen(c->place);

	memcpy(path, c->place, len);
	memcpy(path + len, "/../../canary", 14);
	s->outside_err = child_open_err(path, O_RDONLY);
	s->proc_err = child_open_err("/proc/self/status", O_RDONLY);
	s->signal_err = kill(c->init, 0) < 0 ? errno : 0;
	s->launcher_err = kill(c->launcher, 0) < 0 ? errno : 0;
	s->supervisor_err = kill(c->supervisor, 0) < 0 ? errno : 0;
	s->prlimit_err = prlimit(c->launcher, RLIMIT_NOFILE, NULL, &now) < 0 ? errno : 0;
	/* as it is now, should it work */
	if (syscall(SYS_sched_getaffinity, c->launcher, sizeof(cpus), cpus) > 0)
		s->affinity_err = syscall(SYS_sched_setaffinity, c->launcher,
					  sizeof(cpus), cpus) < 0
					  ? errno
					  : 0;
	s->unix_err = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) < 0 ? errno : 0;
}

/* More than the limit, until somebody ends it. Others may have the same uid, and use up
 * what it may have for a moment. */
static _Noreturn void child_eat_processes(void)
{
	const struct timespec pause_10ms = {0, 10000000};
	int i = 0;
	long pid;

	while (i < CANARY_MANY) {
		pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid == 0)
			break;
		if (pid > 0)
			i++;
		else
			nanosleep(&pause_10ms, NULL);
	}
	for (;;)
		pause();
}

static _Noreturn void child_look(const struct child *c)
{
	struct canary_seen s = {.pid = (int32_t)getpid()};
	struct utsname names;
	int fd;

	memcpy(s.ns, c->ns, sizeof(s.ns));
	child_look_rights(&s);
	s.processes = child_count_processes();
	s.shadow_err = child_open_err("/etc/shadow", O_RDONLY);
	s.write_err = child_open_err("/usr/.canary", O_WRONLY | O_CREAT | O_EXCL);
	s.comm_err = child_open_err("/proc/self/comm", O_WRONLY);
	s.signal_err = kill(1, 0) < 0 ? errno : 0;
	if (child_shares(c))
		child_look_neighbours(c, &s);
	s.unshare_err = unshare(CLONE_NEWUSER) < 0 ? errno : 0;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	s.inet_err = fd < 0 ? errno : 0;
	if (uname(&names) == 0)
		memcpy(s.hostname, names.nodename, sizeof(s.hostname) - 1);
	child_look_forks(&s);
	_exit(write(1, &s, sizeof(s)) == (ssize_t)sizeof(s) ? 0 : 1);
}

static _Noreturn void child_eat_memory(void)
{
	char *bytes = mmap(NULL, CANARY_MEMORY_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (bytes == MAP_FAILED)
		_exit(2);
	for (i = 0; i < CANARY_MEMORY_BYTES; i += 4096)
		bytes[i] = 1;
	_exit(0); /* nobody stopped us */
}

/* more CPU time than the quota gives in a period; on a busy host that may take several,
 * and no throttling: then probe.c tries again */
static _Noreturn void child_eat_cpu(void)
{
	struct timespec used;

	do {
		if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) < 0)
			_exit(2);
	} while (used.tv_sec == 0 && used.tv_nsec < CANARY_CPU_NS);
	_exit(0);
}

_Noreturn void child_canary(const struct child *c)
{
	switch (c->plan.errand) {
	case ERRAND_MEMORY:
		child_eat_memory();
	case ERRAND_CPU:
		child_eat_cpu();
	case ERRAND_FORKS:
		child_eat_processes();
	default:
		child_look(c);
	}
}
