/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_limits.c - streams, rlimits, signals, cwd, descriptors: an ordinary process's
 * start
 *
 * Runs in: the program, before its filters.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/sys.h"
#include "launcher/child.h"

#define OPEN_FILES 1024

/* pipes only, made by the worker with the run's own uid: /dev/stdout can be opened again
 */
int child_streams(struct child *c)
{
	int i;

	if (setsid() < 0)
		return -1;
	for (i = 0; i < 3; i++) {
		if (dup2(c->stream_fd[i], i) < 0)
			return -1;
	}
	return 0;
}

static int child_rlimit(int what, rlim_t value)
{
	/* a second more of CPU: SIGXCPU can be told from our own SIGKILL */
	struct rlimit now, want = {value, what == RLIMIT_CPU ? value + 1 : value};

	/* without CAP_SYS_RESOURCE a hard limit only sinks; a lower one that is there
	 * already does */
	if (getrlimit((__rlimit_resource_t)what, &now) < 0)
		return -1;
	if (now.rlim_max < want.rlim_max)
		want.rlim_max = now.rlim_max;
	if (want.rlim_cur > want.rlim_max)
		want.rlim_cur = want.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &want);
}

int child_stack(void)
{
	return child_rlimit(RLIMIT_STACK, 8 << 20);
}

/*
 * The kernel counts by uid and user namespace. Process 1 has the run's uid; where the
 * slot's uid is counted in the host's namespace, so has the worker. Where all runs share
 * one uid this is only the most that they can have together; each alone is looked at by
 * the launcher.
 */
static rlim_t child_processes(const struct child *c)
{
	const rlim_t pids = c->plan.limits.pids;

	/* all commands of a session are counted together, each with its init */
	if (child_enters(c))
		return 2 * pids + CHILD_SESSION_INITS;
	if (!child_shares(c))
		return pids + 1;
	if (!c->abilities.one_uid)
		return pids + 2;
	return c->processes +
	       (c->setup->slots - c->setup->warm_slots) * (rlim_t)(pids + 2);
}

static rlim_t child_cpu_sec(const struct child *c)
{
	/* the launcher counts all of the run and is to be first; this stops a process
	 * that it does not get to look at */
	return (c->plan.limits.cpu_ms + 999) / 1000 + 2;
}

const int child_lowered_what[CHILD_LOWERED] = {RLIMIT_CPU, RLIMIT_NPROC};

void child_lowered(const struct child *c, struct rlimit out[CHILD_LOWERED])
{
	const rlim_t cpu_sec = child_cpu_sec(c), processes = child_processes(c);

	out[0] = (struct rlimit){cpu_sec, cpu_sec + 1};
	out[1] = (struct rlimit){processes, processes};
}

static int child_rlimits(const struct child *c)
{
	const struct limits *l = &c->plan.limits;
	const rlim_t cpu_sec = child_cpu_sec(c);
	const struct {
		int what;
		rlim_t value;
	} rows[] = {
		{RLIMIT_CORE, 1}, /* 0 would still run a helper of core_pattern */
		{RLIMIT_CPU, cpu_sec},      {RLIMIT_NPROC, child_processes(c)},
		{RLIMIT_MEMLOCK, 64 << 10}, {RLIMIT_MSGQUEUE, 0},
		{RLIMIT_SIGPENDING, 256},   {RLIMIT_RTPRIO, 0},
		{RLIMIT_NICE, 0},
	};
	unsigned i;

	if (child_stack() < 0)
		return -1;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (child_rlimit(rows[i].what, rows[i].value) < 0)
			return -1;
	}
	/* no tmpfs of its own: each file here, all together by the launcher's look */
	if ((child_shares(c) || child_enters(c)) &&
	    child_rlimit(RLIMIT_FSIZE, (rlim_t)l->disk_mb << 20) < 0)
		return -1;
	/* without a cgroup each process is bounded here and all together by the
	 * launcher's look */
	if (c->abilities.poll_memory)
		return child_rlimit(RLIMIT_DATA, (rlim_t)l->memory_mb << 21);
	return 0;
}

/* Without a quota the processor is kept free for who has to look, and to end it: the more
 * where a run can have more processes than it may, until somebody looks. */
static int child_give_way(const struct child *c)
{
	const int least = child_shares(c) && c->abilities.one_uid ? 19 : 10;
	/* the call itself has no negative answers: 40 to 1 for -20 to 19 */
	const int now = 20 - (int)syscall(SYS_getpriority, PRIO_PROCESS, 0);

	/* who was started with a higher one may not lower it, and need not */
	if (!c->abilities.poll_memory || now >= least)
		return 0;
	return (int)syscall(SYS_setpriority, PRIO_PROCESS, 0, least);
}

int child_signals(void)
{
	/* the call itself: the C library keeps 32 and 33 to itself, and who started the
	 * server may ignore them all the same */
	static const struct {
		unsigned long handler, flags, restorer;
		uint64_t mask;
	} plain = {.handler = 0};
	sigset_t none;
	int i;

	for (i = 1; i < NSIG; i++) {
		if (i != SIGKILL && i != SIGSTOP &&
		    syscall(SYS_rt_sigaction, i, &plain, NULL, sizeof(plain.mask)) < 0)
			return -1;
	}
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

int child_limits(struct child *c)
{
	if (child_rlimits(c) < 0 || child_give_way(c) < 0 || child_signals() < 0)
		return -1;
	if (personality(PER_LINUX) < 0)
		return -1;
	/* others with its uid are there already: nobody may look into it before execve.
	 * Its worker set the score; where this is the memory of process 1, that did. */
	if (child_enters(c) || child_borrows(c))
		return 0;
	/* what execve is about to do anyway; until then our own /proc/self is root's */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return -1;
	/* the program is the first to go when memory runs out, before process 1 and the
	 * worker */
	if (child_write_at(c->proc_fd, "self/oom_score_adj", "1000") < 0)
		return -1;
	/* our own code has what the worker had in memory, and no execve to come */
	return c->row->self == SELF_INSIDE ? prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) : 0;
}

int child_cwd(struct child *c)
{
	const char *place = c->kept ? c->kept : child_shares(c) ? c->place : "";
	const size_t len = strlen(place);
	char here[SETUP_PATH + 8];

	/* with the command's own rights, in the session's own tree */
	if (child_enters(c))
		return chdir(c->cwd ? c->cwd : "/work");
	if (fchdir(c->work_fd) < 0)
		return -1;
	if (syscall(SYS_getcwd, here, sizeof(here)) < 0)
		return -1;
	if (strncmp(here, place, len) != 0 ||
	    strcmp(here + len, c->kept ? "" : "/work") != 0) {
		errno = EXDEV;
		return -1;
	}
	return c->kept && c->cwd ? chdir(c->cwd) : 0;
}

/*
 * Descriptors on their way through sockets are counted by host user, in all runs that
 * share one, and who sends any when there are more than its RLIMIT_NOFILE is refused. So
 * a program gets less than our own processes have, and gets it after the last of its
 * descriptors was sent: what programs can fill up is never full for us.
 */
static int child_count_files(struct child *c)
{
	struct rlimit now;

	if (getrlimit(RLIMIT_NOFILE, &now) < 0)
		return -1;
	c->open_files = now.rlim_max / 2 < OPEN_FILES ? now.rlim_max / 2 : OPEN_FILES;
	return 0;
}

/* news_fd stays for a failure of the last steps, and is closed by execve; so is what a
 * row of our own executes. That one, and what an interpreter is to load, are above 4:
 * worker.c sees to it. */
int child_descriptors(struct child *c)
{
	const int keep = 3;
	int last = keep;

	if (child_count_files(c) < 0)
		return -1;
	if (c->plan.errand == ERRAND_LOOK)
		child_note_namespaces(c);
	if (c->news_fd != keep) {
		if (dup3(c->news_fd, keep, O_CLOEXEC) < 0)
			return -1;
		c->news_fd = keep;
	}
	if (c->row->self == SELF_BINARY) {
		last = keep + 1;
		if (dup3(c->self_fd, last, O_CLOEXEC) < 0)
			return -1;
		c->self_fd = last;
	}
	if (c->fork) {
		last = keep + 1;
		if (dup3(c->started_fd, last, O_CLOEXEC) < 0)
			return -1;
		c->started_fd = last;
	}
	if (c->ahead) {
		last = AHEAD_FD;
		if (dup2(c->object_fd, last) < 0) /* open for its loader */
			return -1;
	}
	if (sys_close_range((unsigned)last + 1, ~0U, 0) < 0)
		return -1;
	return fcntl(keep, F_SETFD, FD_CLOEXEC);
}

/* behind the filters: the call itself, which every policy allows; the C library takes
 * another */
int child_open_files(struct child *c)
{
	const struct rlimit files = {c->open_files, c->open_files};

	return (int)syscall(SYS_setrlimit, RLIMIT_NOFILE, &files);
}

/*
 * The standard library once, at low priority. Times far ahead keep the go command from
 * touching the files later, which would copy each into the run's own layer.
 */
static const char seed_script[] =
	"nice -n 19 go build std && "
	"find \"$GOCACHE\" -type f -exec touch -d @4102444800 {} +";

/* the variable that the object of wire/ahead.h expects: in the place of another, or last
 */
static void child_load_ahead(struct child *c)
{
	int i;

	for (i = 0; c->envp[i] && strcmp(c->envp[i], AHEAD_HIDES) != 0; i++)
		;
	if (!c->envp[i])
		c->envp[i + 1] = NULL;
	c->envp[i] = AHEAD_LOAD;
}

int child_exec(struct child *c)
{
	static const char *const seed[] = {"/bin/sh", "-c", seed_script, NULL};

	if (c->fork)
		return 0; /* it goes on where it was forked */
	switch (c->plan.errand) {
	case ERRAND_NONE:
		break;
	case ERRAND_SEED:
		return execve(seed[0], (char *const *)seed, (char *const *)c->envp);
	default:
		child_canary(c);
	}
	if (c->ahead)
		child_load_ahead(c);
	if (c->row->self == SELF_BINARY)
		return sys_execveat(c->self_fd, c->argv, c->envp);
	(void)execve(c->argv[0], (char *const *)c->argv, (char *const *)c->envp);
	/* an image without bash has this; the manual says so */
	if (errno != ENOENT || !child_is_command(c))
		return -1;
	c->argv[0] = "/bin/sh";
	return execve(c->argv[0], (char *const *)c->argv, (char *const *)c->envp);
}
