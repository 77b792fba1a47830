/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_xs.c - one run against another, and against us
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/num.h"
#include "base/sys.h"

#define SENT_AT_ONCE 250 /* descriptors; the kernel takes 253 */

static bool is_victim(const struct tries *t)
{
	return strcmp(tries_word(t, 0), "victim") == 0;
}

/* a victim that is at its place, and says so */
static void start_victim(struct battery *b, struct tries *t, struct attack_run *r)
{
	r->words[0] = "victim";
	run_start(b, r);
	expect(t, run_said(b, r, "here"), "the other run did not start: %.60s",
	       r->failed ? r->error.text : r->said);
}

static void end_victim(struct battery *b, struct tries *t, struct attack_run *r)
{
	expect(t, !r->over, "the other run was ended: %s", r->message);
	run_cancel(b, r);
	run_done(r);
}

/* ---- XS01: files ---- */

static void xs01(struct tries *t)
{
	static const char *const places[] = {"/work", "/tmp", "/dev/shm", "."};
	static const char *const ways[] = {"cwd", "root/work", "root/tmp"};
	const char *name = tries_word(t, 1);
	char path[600];
	unsigned i, pid;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%.64s", places[i], name);
		if (is_victim(t)) {
			int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);

			if (fd >= 0)
				close(fd);
		} else {
			expect_tried(t, places[i], try_open(path, O_RDWR),
				     tries_hidden(t));
		}
	}
	if (is_victim(t)) {
		say("here %s end\n", getcwd(path, sizeof(path)) ? path : "");
		wait_forever();
	}
	for (pid = 1; pid < 200; pid++) {
		for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
			snprintf(path, sizeof(path), "/proc/%u/%s/%.64s", pid, ways[i],
				 name);
			expect(t, try_open(path, O_RDONLY).num != 0, "%s", path);
		}
	}
	if (tries_word(t, 2)[0]) /* where the other one really is */
		expect_tried(t, "its directory", try_open(tries_word(t, 2), O_RDONLY),
			     tries_hidden(t));
}

static void xs01_outside(struct battery *b, struct tries *t)
{
	struct attack_run victim = {.attack = "XS01", .words = {NULL, "attack-victim"}};
	struct attack_run attacker = {.attack = "XS01",
				      .words = {"attacker", "attack-victim"}};
	char where[600] = "", *end;

	start_victim(b, t, &victim);
	snprintf(where, sizeof(where), "%s", victim.said + strcspn(victim.said, " "));
	end = strstr(where, " end");
	if (tries_shared(t) && where[0] && end) {
		snprintf(end, sizeof(where) - (size_t)(end - where), "/attack-victim");
		attacker.words[2] = where + 1;
	}
	run_inside(b, t, &attacker);
	run_done(&attacker);
	end_victim(b, t, &victim);
}

/* ---- XS02: processes ---- */

static void attack_process(struct tries *t, pid_t pid)
{
	const char *gone = tries_shared(t) ? "EPERM|ESRCH" : "ESRCH";
	struct rlimit none = {0, 0};
	struct iovec io = {&none, sizeof(none)};
	unsigned long mask = 1;
	long fd;

	expect_call(t, "kill", kill(pid, SIGKILL), gone);
	expect_call(t, "sigqueue", syscall(SYS_rt_sigqueueinfo, pid, SIGTERM, &none),
		    tries_shared(t) ? "EPERM|ESRCH" : "ESRCH|EPERM");
	expect_call(t, "ptrace", ptrace(PTRACE_SEIZE, pid, 0, 0), "EPERM|ESRCH");
	expect_call(t, "prlimit", syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, &none, NULL),
		    "EPERM|ESRCH");
	expect_call(t, "affinity",
		    syscall(SYS_sched_setaffinity, pid, sizeof(mask), &mask),
		    "EPERM|ESRCH");
	expect_call(t, "priority", setpriority(PRIO_PROCESS, (id_t)pid, 19),
		    "EPERM|ESRCH");
	expect_call(t, "readv", process_vm_readv(pid, &io, 1, &io, 1, 0), "EPERM|ESRCH");
	fd = sys_pidfd_open(pid, 0);
	expect_call(t, "pidfd_open", fd, "ESRCH|EPERM|ENOSYS");
	if (fd >= 0)
		expect_call(t, "pidfd_send_signal",
			    sys_pidfd_send_signal((int)fd, SIGKILL), "EPERM|ESRCH");
}

static void xs02(struct tries *t)
{
	uint64_t pid;
	int n, aimed = 0;

	if (is_victim(t)) {
		say("here\n");
		wait_forever();
	}
	for (n = 1; n < t->word_count; n++) {
		if (num_u64(tries_word(t, n), &pid) < 0 || (pid_t)pid == getpid() ||
		    (pid_t)pid == getppid() || (pid == 1 && !tries_shared(t)))
			continue;
		attack_process(t, (pid_t)pid);
		aimed++;
	}
	expect(t, aimed > 1, "there was nobody to aim at");
	observe(t, "%d processes", aimed);
}

static void xs02_outside(struct battery *b, struct tries *t)
{
	struct attack_run victim = {.attack = "XS02"};
	struct attack_run attacker = {.attack = "XS02", .words = {"attacker"}};
	char word[RUN_WORDS][16];
	pid_t pids[32];
	unsigned n, i, at = 1;

	start_victim(b, t, &victim);
	n = find_descendants(pids, 32);
	snprintf(word[0], sizeof(word[0]), "%d", (int)getpid());
	attacker.words[at++] = word[0];
	/* the last ones are the victim's own */
	for (i = n < 32 ? n : 32; i > 0 && at + 1 < RUN_WORDS; i--, at++) {
		snprintf(word[at], sizeof(word[at]), "%d", (int)pids[i - 1]);
		attacker.words[at] = word[at];
	}
	run_inside(b, t, &attacker);
	run_done(&attacker);
	end_victim(b, t, &victim);
}

/* ---- XS03: names ---- */

#define SHARED_FILE "/bin/sh" /* the same file in every run */

static uint32_t *map_shared(void)
{
	int fd = open(SHARED_FILE, O_RDONLY | O_CLOEXEC);
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

	return map == MAP_FAILED ? NULL : map;
}

static void xs03(struct tries *t)
{
	uint32_t *word = map_shared();
	const struct timespec longer = {30, 0};
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/%.40s", tries_word(t, 1));
	if (is_victim(t)) {
		fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
		if (fd >= 0)
			close(fd);
		say("here\n");
		if (word &&
		    syscall(SYS_futex, word, FUTEX_WAIT, *word, &longer, 0, 0) == 0)
			say("woken\n");
		wait_forever();
	}
	expect_tried(t, "posix", try_open(path, O_RDWR), tries_hidden(t));
	expect_call(t, "shmget", syscall(SYS_shmget, 4711, 4096, 0666), "ENOSYS");
	expect_call(t, "semget", syscall(SYS_semget, 4711, 1, 0666), "ENOSYS");
	expect_call(t, "msgget", syscall(SYS_msgget, 4711, 0666), "ENOSYS");
	expect_call(t, "mq_open", syscall(SYS_mq_open, "attack", O_RDWR, 0, 0), "ENOSYS");
	sleep_ms(50); /* it waits by now */
	/* of the same file, so of the same word; nothing can be read or changed by it */
	if (word && syscall(SYS_futex, word, FUTEX_WAKE, 10, 0, 0, 0) > 0)
		observe(t, "a futex in a shared file is a channel");
}

static void xs03_outside(struct battery *b, struct tries *t)
{
	struct attack_run victim = {.attack = "XS03", .words = {NULL, "attack-name"}};
	struct attack_run attacker = {.attack = "XS03",
				      .words = {"attacker", "attack-name"}};

	start_victim(b, t, &victim);
	run_inside(b, t, &attacker);
	run_done(&attacker);
	end_victim(b, t, &victim);
}

/* ---- XS06: all at once ---- */

static void xs06(struct tries *t)
{
	static char block[1 << 20];
	int fd = open("fill", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	/* where that ends the run it would be of no use as an attacker */
	while (!tries_shared(t) && fd >= 0 && write(fd, block, sizeof(block)) > 0)
		;
	say("here\n");
	for (;;) {
		const pid_t pid = fork(); /* each of them spins, and forks */

		if (pid < 0)
			(void)getpid();
	}
}

static void xs06_outside(struct battery *b, struct tries *t)
{
	struct attack_run greedy = {.attack = "XS06", .limits = {.wall_ms = 8000}};
	uint64_t most = 0;
	unsigned i;

	run_start(b, &greedy);
	expect(t, run_said(b, &greedy, "here"), "the greedy one did not start");
	for (i = 0; i < 3; i++) {
		struct attack_run other = {.attack = "control"};
		uint64_t took;

		run_whole(b, &other);
		took = other.over_ms - other.started_ms;
		most = took > most ? took : most;
		expect(t, !other.failed && other.exit_code == 0, "another run failed: %s",
		       other.failed ? other.error.text : other.message);
		run_done(&other);
	}
	expect(t, most < 1000 + 3 * b->baseline_ms, "another run took %llu ms",
	       (unsigned long long)most);
	observe(t, "others within %llu ms", (unsigned long long)most);
	run_cancel(b, &greedy);
	run_done(&greedy);
}

/* ---- XS09: what is counted by user ---- */

static unsigned fork_all(unsigned most)
{
	unsigned n = 0;
	pid_t pid;

	while (n < most && (pid = fork()) >= 0) {
		if (pid == 0)
			wait_forever();
		n++;
	}
	return n;
}

/* Descriptors that are sent and that nobody takes, until there are too many for this
 * user. The pairs stay open. */
static unsigned send_all(void)
{
	union {
		char bytes[CMSG_SPACE(SENT_AT_ONCE * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec io = {(void *)"x", 1};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *h = &control.align;
	int pair[2], i;
	unsigned n = 0;

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(SENT_AT_ONCE * sizeof(int));
	for (i = 0; i < SENT_AT_ONCE; i++)
		memcpy(CMSG_DATA(h) + (size_t)i * sizeof(int), &(int){STDOUT_FILENO},
		       sizeof(int));
	while (n < 100000 &&
	       socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
		while (sendmsg(pair[0], &m, MSG_DONTWAIT) == 1)
			n += SENT_AT_ONCE;
		if (errno == ETOOMANYREFS)
			break;
	}
	return n;
}

/* Signals that are sent and that nobody takes, until there are too many for this user. */
static unsigned queue_all(void)
{
	const union sigval none = {0};
	sigset_t all;
	unsigned n = 0;

	sigfillset(&all);
	if (sigprocmask(SIG_BLOCK, &all, NULL) < 0)
		return 0;
	while (n < 100000 && sigqueue(getpid(), SIGRTMIN, none) == 0)
		n++;
	return n;
}

/* the same for each of the group, by signals that the kernel queues beyond every limit;
 * they were born with all of them blocked */
static void signal_all(void)
{
	int signo;

	for (signo = 1; signo <= SIGSYS; signo++)
		if (signo != SIGKILL && signo != SIGSTOP)
			(void)kill(0, signo);
}

/* sampled: nothing keeps the counts of two runs apart, which the manual says */
static void attack_signals(struct tries *t, bool sampled)
{
	const unsigned mine = queue_all();
	struct rlimit most = {0, 0};

	(void)getrlimit(RLIMIT_SIGPENDING, &most);
	expect(t, mine <= most.rlim_cur, "%u queued signals of %llu", mine,
	       (unsigned long long)most.rlim_cur);
	expect(t, sampled || mine + 16 >= most.rlim_cur, "only %u queued signals of %llu",
	       mine, (unsigned long long)most.rlim_cur);
	observe(t, "%u queued signals%s", mine,
		sampled ? ", which all runs of this uid have in common" : "");
}

static void xs09(struct tries *t)
{
	/* where too many end a run: as many as it may have, beside the other's */
	const bool sampled = strcmp(tries_word(t, 1), "sampled") == 0;
	const unsigned most = sampled ? t->limits.pids * 3 / 4 : 10000;
	unsigned n;

	if (is_victim(t)) {
		(void)send_all(); /* the attacker starts all the same */
		(void)queue_all();
		n = fork_all(most);
		signal_all();
		say("here %u\n", n);
		wait_forever();
	}
	/* ENOSYS: a container's own filter was first */
	expect_call(t, "add_key", syscall(SYS_add_key, "user", "k", "v", 1, -3),
		    "EPERM|ENOSYS");
	expect_call(t, "keyctl", syscall(SYS_keyctl, 0, -3, 1), "EPERM|ENOSYS");
	expect_call(t, "keyctl read", syscall(SYS_keyctl, 11, -4, NULL, 0),
		    "EPERM|ENOSYS");
	attack_signals(t, sampled);
	n = fork_all(most);
	/* without a namespace of its own the user's other processes count as well */
	expect(t, n + (tries_shared(t) ? t->limits.pids / 2 : 4) >= t->limits.pids,
	       "only %u processes of %u", n, t->limits.pids);
	expect(t, n < t->limits.pids, "%u processes of %u", n, t->limits.pids);
	observe(t, "%u processes beside another run's", n);
}

static void xs09_outside(struct battery *b, struct tries *t)
{
	const char *how = tries_shared(t) && battery_one_uid(b) ? "sampled" : "counted";
	struct attack_run victim = {.attack = "XS09", .words = {NULL, how}};
	struct attack_run attacker = {.attack = "XS09", .words = {"attacker", how}};

	start_victim(b, t, &victim);
	run_inside(b, t, &attacker);
	run_done(&attacker);
	end_victim(b, t, &victim);
}

const struct attack attacks_xs[] = {
	{"XS01", "read another run's /work, /tmp, /dev/shm, by name and by /proc",
	 "ENOENT or EACCES", LEVEL_LANDLOCK, xs01, xs01_outside, NULL, NULL},
	{"XS02", "signals, ptrace, limits, affinity, priority of another run and of us",
	 "ESRCH or EPERM", LEVEL_LANDLOCK, xs02, xs02_outside, NULL, NULL},
	{"XS03", "names of shared memory, semaphores, queues; a futex in a file",
	 "its own, or ENOSYS; the futex is a documented channel", LEVEL_LANDLOCK, xs03,
	 xs03_outside, NULL, NULL},
	{"XS05", "one session used twice; guessed session ids", "409; 404",
	 LEVEL_LANDLOCK, NULL, NULL, "tests/attack tries it, by HTTP", NULL},
	{"XS06", "one run takes all it can get", "others do not notice", LEVEL_PROCESS,
	 xs06, xs06_outside, NULL, NULL},
	{"XS09",
	 "keyrings; the user's processes, passed descriptors and queued signals, used up "
	 "by another run",
	 "EPERM; every run has its own count", LEVEL_LANDLOCK, xs09, xs09_outside, NULL,
	 "EPERM; every run has its own count, but of signals where runs have one uid"},
	{"XS10",
	 "what the run before left: files, variables, descriptors, addresses, seeds",
	 "nothing, whether the sandbox was waiting or not", LEVEL_LANDLOCK, xs10,
	 xs10_outside, NULL, NULL},
	{.id = NULL},
};
