/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_pr.c - privileges: to have them, to get them, to lend them
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "attack/battery.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/sys.h"
#include "config/mode.h"
#include "config/settings.h"

/* "\nCapEff:\t0000000000000000\n" */
static void expect_line(struct tries *t, const char *status, const char *name,
			const char *wanted)
{
	const char *at = strstr(status, name);
	size_t len;

	if (!at) {
		expect(t, false, "status has no %s", name + 1);
		return;
	}
	at += strlen(name);
	at += strspn(at, " \t");
	len = strcspn(at, "\n");
	while (len && (at[len - 1] == ' ' || at[len - 1] == '\t'))
		len--;
	expect(t, len == strlen(wanted) && memcmp(at, wanted, len) == 0, "%s is %.*s",
	       name + 1, (int)(len > 60 ? 60 : len), at);
}

static void look_at_status(struct tries *t)
{
	static const char *const sets[] = {
		"\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:"};
	char status[4096];
	unsigned i;

	if (read_text("/proc/self/status", status, sizeof(status)) < 0) {
		expect(t, false, "there is no status");
		return;
	}
	for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		expect_line(t, status, sets[i], "0000000000000000");
	expect_line(t, status, "\nNoNewPrivs:", "1");
	expect_line(t, status, "\nSeccomp:", "2");
	expect_line(t, status, "\nUid:", "1000\t1000\t1000\t1000");
	expect_line(t, status, "\nGid:", "1000\t1000\t1000\t1000");
	if (strcmp(tries_word(t, 0), "root") == 0)
		expect_line(t, status, "\nGroups:", "");
}

static void pr01(struct tries *t)
{
	struct __user_cap_data_struct none[2] = {{0}}, now[2];
	uid_t r = 0, e = 0, s = 0;
	int cap;

	if (tries_layer(t, LAYER_PROC))
		look_at_status(t);
	expect(t, sys_capget(now) == 0 && memcmp(now, none, sizeof(now)) == 0,
	       "there are capabilities");
	for (cap = 0; cap < 64; cap++) {
		/* who has no right cannot take from the set, which no_new_privs makes
		 * void */
		expect(t,
		       prctl(PR_CAPBSET_READ, cap, 0, 0, 0) <= 0 ||
			       (tries_shared(t) && strcmp(tries_word(t, 0), "user") == 0),
		       "capability %d can be got", cap);
		expect(t, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) <= 0,
		       "capability %d is lent", cap);
	}
	expect(t, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs is off");
	expect(t, prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2, "there is no filter");
	expect(t,
	       getresuid(&r, &e, &s) == 0 && r == e && e == s && r != 0 &&
		       (tries_shared(t) || r == 1000),
	       "the uids are %u %u %u", r, e, s);
	expect(t, strcmp(tries_word(t, 0), "root") != 0 || getgroups(0, NULL) == 0,
	       "there are supplementary groups");
	observe(t, "no capability, no_new_privs 1, seccomp 2, uid %u", r);
}

/* a plain user cannot drop the groups he has */
static void pr01_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "PR01",
			       .words = {b->settings->uid_base ? "root" : "user"}};

	run_inside(b, t, &r);
	run_done(&r);
}

static void pr02(struct tries *t)
{
	static const char *const programs[] = {"/usr/bin/su", "/usr/bin/sudo",
					       "/usr/bin/pkexec", "/usr/bin/newgrp"};
	const char *const own[] = {"./id", "-u", NULL};
	const char *const copy[] = {"/bin/cp", "/usr/bin/id", "./id", NULL};
	struct statvfs fs;
	char out[256];
	unsigned i;

	for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		const char *const argv[] = {programs[i], "-c", "id -u", NULL};

		if (run_program(argv, out, sizeof(out)) >= 0)
			expect(t, strncmp(out, "0\n", 2) != 0, "%s makes root",
			       programs[i]);
	}
	expect(t,
	       statvfs("/usr/bin", &fs) == 0 &&
		       (tries_shared(t) || fs.f_flag & ST_NOSUID),
	       "/usr/bin is not nosuid");
	if (run_program(copy, out, sizeof(out)) != 0) {
		untested(t, "a setuid copy: there is no id to copy");
		return;
	}
	expect_call(t, "chmod", chmod("id", 06755), "ok|EPERM");
	(void)run_program(own, out, sizeof(out)); /* refused is fine as well */
	expect(t, strtoul(out, NULL, 10) == getuid(), "a setuid copy has uid %.8s", out);
	observe(t, "nosuid, uid %u in a setuid copy", getuid());
}

static void pr04(struct tries *t)
{
	struct __user_cap_data_struct all[2] = {{~0u, ~0u, ~0u}, {~0u, ~0u, ~0u}};
	gid_t group = 0;

	expect_call(t, "setuid", syscall(SYS_setuid, 0), "EPERM");
	expect_call(t, "setgid", syscall(SYS_setgid, 0), "EPERM");
	expect_call(t, "setreuid", syscall(SYS_setreuid, 0, 0), "EPERM");
	expect_call(t, "setregid", syscall(SYS_setregid, 0, 0), "EPERM");
	expect_call(t, "setresuid", syscall(SYS_setresuid, 0, 0, 0), "EPERM");
	expect_call(t, "setresgid", syscall(SYS_setresgid, 0, 0, 0), "EPERM");
	expect_call(t, "setfsuid", syscall(SYS_setfsuid, 0), "EPERM");
	expect_call(t, "setgroups", syscall(SYS_setgroups, 1, &group), "EPERM");
	expect_call(t, "capset", sys_capset(all), "EPERM");
	expect_call(t, "ambient",
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0),
		    "EPERM");
	expect_call(t, "securebits", prctl(PR_SET_SECUREBITS, 0, 0, 0, 0), "EPERM");
	/* without namespaces a plain user cannot lock it, and has nothing to keep */
	expect_call(t, "keepcaps", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0),
		    tries_shared(t) ? "EPERM|ok" : "EPERM");
}

static long write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	long r = fd < 0 ? -1 : write(fd, text, strlen(text));
	const int num = errno;

	if (fd >= 0)
		close(fd);
	errno = num;
	return r;
}

static void pr05(struct tries *t)
{
	const char *wanted = tries_layer(t, LAYER_PROC) ? "EPERM|EACCES"
							: "EPERM|EACCES|ENOENT";

	expect_call(t, "uid_map", write_to("/proc/self/uid_map", "0 0 1"), wanted);
	expect_call(t, "gid_map", write_to("/proc/self/gid_map", "0 0 1"), wanted);
	expect_call(t, "setgroups", write_to("/proc/self/setgroups", "allow"), wanted);
}

static void pr07(struct tries *t)
{
	struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {1, allow};

	expect_call(t, "no_new_privs off", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0),
		    "EINVAL");
	expect(t, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs went off");
	expect_call(t, "PR_SET_SECCOMP", prctl(PR_SET_SECCOMP, 2, &program, 0, 0),
		    "EPERM");
	expect_call(t, "strict", prctl(PR_SET_SECCOMP, 1, 0, 0, 0), "EPERM");
	expect_call(t, "seccomp", sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program),
		    "EPERM");
	expect_call(t, "with a listener",
		    sys_seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
				&program),
		    "EPERM");
}

static long call_traceme(void *arg)
{
	(void)arg;
	return ptrace(PTRACE_TRACEME, 0, 0, 0);
}

static void pr08(struct tries *t)
{
	static char bytes[16];
	struct iovec here = {bytes, sizeof(bytes)};
	char path[40];
	pid_t child = fork();
	int fd;

	if (child == 0)
		wait_forever();
	fd = sys_pidfd_open(child, 0);
	expect_tried(t, "traceme", tried_apart(call_traceme, NULL), "EPERM");
	expect_call(t, "attach to 1", ptrace(PTRACE_ATTACH, 1, 0, 0), "EPERM");
	expect_call(t, "attach", ptrace(PTRACE_ATTACH, child, 0, 0), "EPERM");
	expect_call(t, "seize", ptrace(PTRACE_SEIZE, child, 0, 0), "EPERM");
	expect_call(t, "readv", process_vm_readv(child, &here, 1, &here, 1, 0), "EPERM");
	expect_call(t, "writev", process_vm_writev(child, &here, 1, &here, 1, 0),
		    "EPERM");
	expect_call(t, "pidfd_getfd", syscall(SYS_pidfd_getfd, fd, 0, 0), "EPERM");
	expect_tried(t, "memory of 1", try_open("/proc/1/mem", O_RDWR),
		     tries_layer(t, LAYER_PROC) ? "EACCES" : "EACCES|ENOENT");
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)child);
	if (tries_layer(t, LAYER_LANDLOCK))
		expect_tried(t, "memory of a sibling", try_open(path, O_RDWR),
			     tries_layer(t, LAYER_PROC) ? "EACCES" : "EACCES|ENOENT");
	if (fd >= 0)
		close(fd);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* our own binary once more, from that descriptor or path: what does PR01 find there? */
static void again(struct tries *t, int fd, const char *path)
{
	char word[4][16], out[4096];
	const char *const argv[] = {MODE_SELF,        "PR01",  word[0], word[1],
				    word[2],          word[2], word[2], word[2],
				    tries_word(t, 0), NULL};
	const char *const env[] = {NULL};
	int pipe_fd[2], status = 0;
	ssize_t n, len = 0;
	pid_t pid;

	snprintf(word[0], 16, "%u", t->level);
	snprintf(word[1], 16, "%u", t->layers);
	snprintf(word[2], 16, "1");
	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		dup2(pipe_fd[1], STDOUT_FILENO);
		if (fd >= 0)
			sys_execveat(fd, argv, env);
		else
			execve(path, (char *const *)argv, (char *const *)env);
		dprintf(STDOUT_FILENO, "refused: %s\n", strerrorname_np(errno));
		_exit(0);
	}
	close(pipe_fd[1]);
	while ((n = read(pipe_fd[0], out + len, sizeof(out) - 1 - (size_t)len)) > 0)
		len += n;
	out[len] = '\0';
	close(pipe_fd[0]);
	waitpid(pid, &status, 0);
	if (strncmp(out, "refused: ", 9) == 0) {
		expect(t,
		       strncmp(out + 9, "EACCES", 6) == 0 ||
			       strncmp(out + 9, "EPERM", 5) == 0,
		       "%s: %.20s", path, out);
		observe(t, "%s %.15s", path, out);
		return;
	}
	expect(t, strstr(out, "\nwrong: \n") != NULL, "%s has other rights", path);
	observe(t, "%s the same", path);
}

static void pr10(struct tries *t)
{
	static char block[1 << 16];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const struct tried made = tried(memfd_create("again", MFD_CLOEXEC));
	const int to = (int)made.value;
	ssize_t n = 0;

	if (tries_layer(t, LAYER_PROC))
		again(t, -1, "/proc/self/exe");
	if (from < 0) {
		untested(t, "a copy: our own binary cannot be read here");
	} else if (to < 0) {
		expect_tried(t, "memfd_create", made, "EACCES|EPERM|ENOSYS");
	} else {
		while ((n = read(from, block, sizeof(block))) > 0) {
			if (write(to, block, (size_t)n) != n)
				break;
		}
		expect(t, n == 0, "the copy is not complete");
		again(t, to, "memfd");
	}
	if (!t->count)
		skip(t, "no way to our own binary without a /proc");
}

static void pr10_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "PR10",
			       .words = {b->settings->uid_base ? "root" : "user"}};

	run_inside(b, t, &r);
	run_done(&r);
}

static void pr11(struct tries *t)
{
	expect(t, getenv("BASH_ENV") != NULL, "a variable is missing");
	expect(t, getenv("LD_PRELOAD") == NULL, "LD_PRELOAD is set");
}

static void pr11_outside(struct battery *b, struct tries *t)
{
	static const char *const refused[] = {"LD_PRELOAD", "LD_LIBRARY_PATH",
					      "LD_AUDIT",   "LD_DEBUG_OUTPUT",
					      "A=B",        ""};
	struct attack_run r = {.attack = "PR11",
			       .env = {"BASH_ENV=/work/x", "NODE_OPTIONS=--inspect",
				       "PYTHONSTARTUP=/work/x"}};
	char text[256], path[40];
	ssize_t len;
	unsigned i;

	if (!b->modes->count)
		untested(t, "what requests may set: no runtime is served");
	for (i = 0; b->modes->count && i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct run_request q = {0};
		struct err e = {0};

		snprintf(text, sizeof(text),
			 "{\"code\":\"x\",\"env\":{\"%s\":\"/tmp/x\"}}", refused[i]);
		expect(t,
		       request_parse(text, strlen(text), b->settings, b->modes, &q, &e) <
				       0 &&
			       err_status(&e) == 400,
		       "a request may set '%s'", refused[i]);
		request_done(&q);
	}
	run_inside(b, t, &r);
	run_done(&r);
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)b->launcher);
	len = fs_read_at(AT_FDCWD, path, text, sizeof(text));
	if (len < 0 && (errno == EACCES || errno == EPERM))
		untested(t, "the launcher's environment: it cannot be looked into");
	else
		expect(t, len == 0, "the launcher has an environment");
	observe(t, "refused with 400; others only inside");
}

const struct attack attacks_pr[] = {
	{"PR01", "/proc/self/status", "no capability, no_new_privs, seccomp, no groups",
	 LEVEL_PROCESS, pr01, pr01_outside, NULL, NULL},
	{"PR02", "setuid programs, and a copy of one's own", "no other uid",
	 LEVEL_PROCESS, pr02, NULL, NULL, NULL},
	{"PR04", "set*id, setgroups, capset, ambient capabilities, securebits", "EPERM",
	 LEVEL_PROCESS, pr04, NULL, NULL, NULL},
	{"PR05", "write uid_map, gid_map, setgroups", "EPERM or EACCES", LEVEL_LANDLOCK,
	 pr05, NULL, NULL, NULL},
	{"PR07", "no_new_privs off; another filter", "EINVAL; EPERM", LEVEL_PROCESS, pr07,
	 NULL, NULL, NULL},
	{"PR08", "ptrace, process_vm_*, pidfd_getfd, memory of others", "EPERM or EACCES",
	 LEVEL_LANDLOCK, pr08, NULL, NULL, NULL},
	{"PR10", "execve of /proc/self/exe and of a memfd", "the same restrictions",
	 LEVEL_PROCESS, pr10, pr10_outside, NULL, NULL},
	{"PR11", "variables that steer loaders and interpreters",
	 "400, or effective inside only", LEVEL_PROCESS, pr11, pr11_outside, NULL, NULL},
	{.id = NULL},
};
