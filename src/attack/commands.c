/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * commands.c - our own binary started again, in surroundings that refuse something
 *
 * Runs in: `selftest`, while no case is under way. What a container's seccomp profile or
 * an AppArmor profile refuses is refused by a filter of our own, which the process gets
 * before it is executed: only so can a host without such profiles be asked what would
 * come of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/sys.h"

#define COMMAND_MS 30000
#define RULES 64
#define WORDS_MOST 128

static const char *const *settings_words;

void binary_settings(const char *const *words)
{
	settings_words = words;
}

struct file_rules {
	struct sock_filter code[RULES];
	unsigned len;
};

static void add(struct file_rules *r, struct sock_filter what)
{
	if (r->len < RULES)
		r->code[r->len++] = what;
}

#define LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

static void refuse(struct file_rules *r, unsigned nr, int num)
{
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1));
	add(r, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
					    SECCOMP_RET_ERRNO | (unsigned)num));
}

/* with any of these bits in the low half of its first argument */
static void refuse_bits(struct file_rules *r, unsigned nr, unsigned bits, int num)
{
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4));
	add(r, (struct sock_filter)LOAD(args[0]));
	add(r, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
	add(r, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
					    SECCOMP_RET_ERRNO | (unsigned)num));
	add(r, (struct sock_filter)LOAD(nr));
}

static int load(enum refusal what)
{
	const unsigned kinds = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
			       CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP;
	static const unsigned mounts[] = {
		SYS_mount,  SYS_umount2, SYS_pivot_root, SYS_open_tree,    SYS_move_mount,
		SYS_fsopen, SYS_fsmount, SYS_fsconfig,   SYS_mount_setattr};
	struct file_rules r = {.len = 0};
	struct sock_fprog program;
	unsigned i;

	if (what == REFUSE_NOTHING)
		return 0;
	add(&r, (struct sock_filter)LOAD(nr));
	if (what & REFUSE_NAMESPACES) {
		refuse(&r, SYS_clone3, ENOSYS); /* its flags cannot be seen */
		refuse(&r, SYS_setns, EPERM);
		refuse_bits(&r, SYS_clone, kinds, EPERM);
		refuse_bits(&r, SYS_unshare, kinds, EPERM);
	}
	for (i = 0; i < sizeof(mounts) / sizeof(mounts[0]) &&
		    what & (REFUSE_NAMESPACES | REFUSE_MOUNTS);
	     i++)
		refuse(&r, mounts[i], what & REFUSE_MOUNTS ? EACCES : EPERM);
	if (what & REFUSE_LANDLOCK)
		refuse(&r, SYS_landlock_create_ruleset, EOPNOTSUPP);
	add(&r, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	program = (struct sock_fprog){(unsigned short)r.len, r.code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program);
}

static _Noreturn void become(enum refusal what, const char *const *words,
			     const char *const *env, int out_fd)
{
	const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const char *argv[WORDS_MOST + 1] = {"sandbox-server", words[0]};
	sigset_t none;
	unsigned i, n = 2;

	/* those of the case come last, and win */
	for (i = 0; settings_words && settings_words[i] && n < WORDS_MOST; i++)
		argv[n++] = settings_words[i];
	for (i = 1; words[i] && n < WORDS_MOST; i++)
		argv[n++] = words[i];
	for (i = 0; env && env[i]; i++)
		putenv((char *)(uintptr_t)env[i]);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	dup2(null_fd, STDIN_FILENO);
	dup2(out_fd, STDOUT_FILENO);
	dup2(out_fd, STDERR_FILENO);
	if (load(what) == 0)
		execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	dprintf(STDERR_FILENO, "cannot be started: %s\n", strerror(errno));
	_exit(99);
}

static void read_all(int fd, char *out, size_t room)
{
	const uint64_t end = now_ms() + COMMAND_MS;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	size_t len = 0;
	char rest[512];
	ssize_t n;

	for (;;) {
		const uint64_t now = now_ms();

		if (now >= end || poll(&p, 1, (int)(end - now)) != 1)
			break;
		n = len + 1 < room ? read(fd, out + len, room - 1 - len)
				   : read(fd, rest, sizeof(rest));
		if (n <= 0)
			break;
		if (len + 1 < room)
			len += (size_t)n;
	}
	out[len] = '\0';
}

void binary_run(enum refusal refuse_what, const char *const *words,
		const char *const *env, struct binary_said *out)
{
	int pipe_fd[2], status = 0;
	pid_t pid;

	out->status = -1;
	out->text[0] = '\0';
	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0)
		become(refuse_what, words, env, pipe_fd[1]);
	close(pipe_fd[1]);
	if (pid > 0) {
		read_all(pipe_fd[0], out->text, sizeof(out->text));
		kill(pid, SIGKILL); /* it has ended, or had its time */
		waitpid(pid, &status, 0);
		out->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
						  : WEXITSTATUS(status);
	}
	close(pipe_fd[0]);
}
