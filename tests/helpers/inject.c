/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * inject.c - make one system call of one process of the sandbox fail
 *
 * usage: inject [-1] [-u UID] [ORDER]... -- COMMAND [ARGUMENT]...
 *
 * Traces COMMAND and everything it starts, up to the execve of programs that are not
 * ours, and obeys orders, first those given and then lines of standard input:
 *
 *	log               say every call:  call ROLE N NR
 *	quiet             no longer, and nothing is to fail
 *	fail ROLE N NUM   the Nth call, from now on, of a process in that role fails with
 *	                  errno NUM; once. Says:  hit ROLE N NR
 *
 * Roles: main is COMMAND; starterK its Kth child; launcher is whoever takes that name;
 * worker and collector are its children, child is process 1 of a sandbox, program what
 * becomes the program. Each process counts for itself, from its birth or the last order.
 * A call that fails is not made, but for close, which closes whatever it says. It says
 * its pid first (main PID), and at the end who outlives COMMAND by LINGER_MS (left ROLE),
 * whom it kills. Ends with the status of COMMAND.
 *
 * -1: there will be no order but that one; whom it does not concern, any more or at all,
 * is not stopped at its calls.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef __x86_64__
int main(void)
{
	fputs("inject: only x86-64\n", stderr);
	return 125;
}
#else

#define TRACEES 256
#define LINGER_MS 3000
#define OPTIONS                                                             \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | \
	 PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL)

enum role { ROLE_NONE, MAIN, STARTER, LAUNCHER, COLLECTOR, WORKER, CHILD, PROGRAM };

static const char *const role_names[] = {
	[ROLE_NONE] = "nobody",  [MAIN] = "main",           [STARTER] = "starter",
	[LAUNCHER] = "launcher", [COLLECTOR] = "collector", [WORKER] = "worker",
	[CHILD] = "child",       [PROGRAM] = "program",
};

struct tracee {
	pid_t pid;
	enum role role;
	unsigned which; /* of the starters */
	unsigned calls, forks;
	bool stopped; /* it came before the news of its birth */
	bool born;    /* its first SIGSTOP is over */
	long failing; /* errno for the call that it is in */
};

static struct tracee tracees[TRACEES];
static bool logging;
static struct {
	char role[32];
	unsigned n;
	long num; /* 0: nothing ordered */
} order;
static bool one_order; /* -1 */
static char own_binary[4096];

static void say(const char *fmt, ...)
{
	char line[200];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (write(STDOUT_FILENO, line, (size_t)len) != len)
		exit(125);
}

static struct tracee *find(pid_t pid)
{
	struct tracee *unused = NULL;

	for (unsigned i = 0; i < TRACEES; i++) {
		if (tracees[i].pid == pid)
			return &tracees[i];
		if (!tracees[i].pid && !unused)
			unused = &tracees[i];
	}
	if (!unused)
		exit(125);
	*unused = (struct tracee){.pid = pid};
	return unused;
}

static void role_text(const struct tracee *t, char out[32])
{
	if (t->role == STARTER)
		snprintf(out, 32, "starter%u", t->which);
	else
		snprintf(out, 32, "%s", role_names[t->role]);
}

/* must we look at its calls? Starters and collectors may take another name. */
static bool concerns(const struct tracee *t)
{
	char role[32];

	if (!one_order || logging || t->failing)
		return true;
	if (!order.num)
		return false;
	role_text(t, role);
	return t->role == STARTER || t->role == COLLECTOR ||
	       strcmp(role, order.role) == 0;
}

static void go_on(struct tracee *t, int signo)
{
	ptrace(concerns(t) ? PTRACE_SYSCALL : PTRACE_CONT, t->pid, 0, signo);
}

static void obey_fail(const char *line)
{
	const char *role = line + strlen("fail "), *at = strchr(role, ' ');
	char *end;

	if (strncmp(line, "fail ", 5) != 0 || !at || at - role >= (int)sizeof(order.role))
		exit(125);
	memcpy(order.role, role, (size_t)(at - role));
	order.role[at - role] = 0;
	order.n = (unsigned)strtoul(at, &end, 10);
	order.num = strtol(end, &end, 10);
	if (*end || !order.n || !order.num)
		exit(125);
}

static void obey(const char *line)
{
	if (strcmp(line, "log") == 0 || strcmp(line, "quiet") == 0)
		logging = line[0] == 'l', order.num = 0;
	else
		obey_fail(line);
	for (unsigned i = 0; i < TRACEES; i++)
		tracees[i].calls = 0;
	say("ready\n");
}

static bool takes_name(pid_t pid, const struct __ptrace_syscall_info *info,
		       const char *name)
{
	long word;

	if (info->entry.nr != SYS_prctl || info->entry.args[0] != PR_SET_NAME)
		return false;
	word = ptrace(PTRACE_PEEKDATA, pid, info->entry.args[1] + 8, 0);
	return memcmp(&word, name, strlen(name)) == 0; /* behind "sandbox-" */
}

static void on_entry(struct tracee *t, const struct __ptrace_syscall_info *info)
{
	struct user_regs_struct regs;
	const long nr = (long)info->entry.nr;
	char role[32];

	if (t->role == STARTER && takes_name(t->pid, info, "launch"))
		t->role = LAUNCHER, t->calls = 0;
	if (t->role == COLLECTOR && takes_name(t->pid, info, "worker"))
		t->role = WORKER, t->calls = 0;
	if (nr == SYS_exit || nr == SYS_exit_group || nr == SYS_rt_sigreturn)
		return; /* they do not return, so they do not fail */
	t->calls++;
	role_text(t, role);
	if (logging)
		say("call %s %u %ld\n", role, t->calls, nr);
	if (!order.num || t->calls != order.n || strcmp(role, order.role) != 0)
		return;
	t->failing = order.num;
	order.num = 0;
	say("hit %s %u %ld\n", role, t->calls, nr);
	if (nr == SYS_close)
		return;
	ptrace(PTRACE_GETREGS, t->pid, 0, &regs);
	regs.orig_rax = (unsigned long long)-1;
	ptrace(PTRACE_SETREGS, t->pid, 0, &regs);
}

static void on_exit_of_call(struct tracee *t)
{
	struct user_regs_struct regs;

	if (!t->failing)
		return;
	ptrace(PTRACE_GETREGS, t->pid, 0, &regs);
	regs.rax = (unsigned long long)-t->failing;
	ptrace(PTRACE_SETREGS, t->pid, 0, &regs);
	t->failing = 0;
}

static void on_call(struct tracee *t)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(info), &info) > 0) {
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
			on_entry(t, &info);
		else if (info.op == PTRACE_SYSCALL_INFO_EXIT)
			on_exit_of_call(t);
	}
	go_on(t, 0);
}

static void on_birth(struct tracee *parent)
{
	static const enum role next[] = {
		[MAIN] = STARTER,       [STARTER] = STARTER, [LAUNCHER] = COLLECTOR,
		[WORKER] = CHILD,       [CHILD] = PROGRAM,   [PROGRAM] = PROGRAM,
		[COLLECTOR] = COLLECTOR};
	unsigned long pid = 0;
	struct tracee *t;

	ptrace(PTRACE_GETEVENTMSG, parent->pid, 0, &pid);
	t = find((pid_t)pid);
	t->role = next[parent->role];
	t->which = parent->role == MAIN ? ++parent->forks : parent->which;
	if (t->stopped) {
		t->stopped = false;
		go_on(t, 0);
	}
	go_on(parent, 0);
}

/* what is not ours is not looked at */
static void on_exec(struct tracee *t)
{
	char path[64], target[4096];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/exe", t->pid);
	len = readlink(path, target, sizeof(target) - 1);
	target[len > 0 ? len : 0] = 0;
	if (t->role != PROGRAM && strcmp(target, own_binary) == 0) {
		go_on(t, 0);
		return;
	}
	ptrace(PTRACE_DETACH, t->pid, 0, 0);
	t->pid = 0;
}

static void on_stop(struct tracee *t, int status)
{
	const int signo = WSTOPSIG(status), event = status >> 16;

	if (event == PTRACE_EVENT_EXEC)
		on_exec(t);
	else if (event)
		on_birth(t);
	else if (signo == (SIGTRAP | 0x80))
		on_call(t);
	else if (!t->born && signo == SIGSTOP) {
		t->born = true;
		ptrace(PTRACE_SETOPTIONS, t->pid, 0, OPTIONS);
		t->stopped = t->role == ROLE_NONE;
		if (!t->stopped)
			go_on(t, 0);
	} else
		go_on(t, signo);
}

/* in the child, when we trace it: by our right, not its own, which may be too little */
static _Noreturn void become_command(char **argv, uid_t uid, int go_fd)
{
	sigset_t none;
	char byte;

	if (uid && (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
		    setresuid(uid, uid, uid) < 0))
		_exit(125);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (close(STDIN_FILENO) < 0 || open("/dev/null", O_RDONLY) != STDIN_FILENO)
		_exit(125);
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) /* ours is for what we say */
		_exit(125);
	if (read(go_fd, &byte, 1) != 1)
		_exit(125);
	execv(argv[0], argv);
	_exit(125);
}

static pid_t start(char **argv, uid_t uid)
{
	int go[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		exit(125);
	pid = fork();
	if (pid == 0)
		become_command(argv, uid, go[0]);
	if (pid < 0 || ptrace(PTRACE_ATTACH, pid, 0, 0) < 0 || write(go[1], "g", 1) != 1)
		exit(125);
	close(go[0]);
	close(go[1]);
	return pid;
}

static void read_orders(void)
{
	static char text[256];
	static size_t len;
	ssize_t n = read(STDIN_FILENO, text + len, sizeof(text) - 1 - len);
	char *end;

	if (n <= 0)
		exit(125); /* EXITKILL ends the rest */
	len += (size_t)n;
	text[len] = 0;
	while ((end = strchr(text, '\n'))) {
		*end = 0;
		obey(text);
		len -= (size_t)(end + 1 - text);
		memmove(text, end + 1, len + 1);
	}
}

static int first_status = -1; /* of COMMAND; -1: it goes on */

/* false: nobody is left */
static bool reap(pid_t first)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
		if (WIFSTOPPED(status)) {
			on_stop(find(pid), status);
			continue;
		}
		find(pid)->pid = 0;
		if (pid == first)
			first_status = WIFEXITED(status) ? WEXITSTATUS(status)
							 : 128 + WTERMSIG(status);
	}
	return pid == 0;
}

/* EXITKILL ends those whom we trace, and they take the others along */
static _Noreturn void give_up_on_rest(void)
{
	for (unsigned i = 0; i < TRACEES; i++)
		if (tracees[i].pid)
			say("left %s\n", role_names[tracees[i].role]);
	say("left somebody\n");
	exit(first_status);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* obeys and traces until nobody is left */
static int follow(pid_t first, int signal_fd)
{
	struct pollfd wake[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
				 {.fd = signal_fd, .events = POLLIN}};
	struct signalfd_siginfo news;
	uint64_t end_ms = 0;

	while (reap(first)) {
		if (first_status >= 0 && !end_ms)
			end_ms = now_ms() + LINGER_MS;
		if (end_ms && now_ms() >= end_ms)
			give_up_on_rest();
		if (poll(wake, 2, end_ms ? 50 : -1) < 0)
			continue;
		if (wake[1].revents)
			(void)!read(wake[1].fd, &news, sizeof(news));
		if (wake[0].revents && !end_ms)
			read_orders();
	}
	return first_status;
}

int main(int argc, char **argv)
{
	uid_t uid = 0;
	sigset_t chld;
	pid_t first;
	int at = 1;

	if (at < argc && strcmp(argv[at], "-1") == 0) {
		one_order = true;
		at++;
	}
	if (at + 1 < argc && strcmp(argv[at], "-u") == 0) {
		uid = (uid_t)strtoul(argv[at + 1], NULL, 10);
		at += 2;
	}
	for (; at < argc && strcmp(argv[at], "--") != 0; at++)
		obey(argv[at]);
	if (at + 1 >= argc || !realpath(argv[at + 1], own_binary))
		return 125;
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	first = start(argv + at + 1, uid);
	find(first)->role = MAIN;
	say("main %d\n", first);
	return follow(first, signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK));
}
#endif
