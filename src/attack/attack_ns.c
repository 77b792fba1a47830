/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * attack_ns.c - out of the namespaces
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attack/battery.h"
#include "base/sys.h"

static const struct {
	const char *name;
	unsigned long flag;
} kinds[] = {
	{"mnt", CLONE_NEWNS},        {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET},
	{"ipc", CLONE_NEWIPC},       {"uts", CLONE_NEWUTS}, {"user", CLONE_NEWUSER},
	{"cgroup", CLONE_NEWCGROUP}, {"time", 0x80},
};
#define KINDS 8
#define OWN_KINDS 7 /* a time namespace is nobody's */

static long call_unshare(void *flags)
{
	return unshare((int)*(unsigned long *)flags);
}

static void ns01(struct tries *t)
{
	unsigned long flag = CLONE_NEWUSER;

	expect_tried(t, "unshare", tried_apart(call_unshare, &flag), "EPERM");
}

static void ns01_outside(struct battery *b, struct tries *t)
{
	struct attack_run r = {.attack = "NS01"};

	run_inside(b, t, &r);
	if (!tries_layer(t, LAYER_VIOLATIONS))
		untested(t, "the report of it: not available here");
	else if (tries_shared(t))
		untested(t, "the report of it: whoever refuses namespaces answers first");
	else
		expect(t, r.json && strstr(r.json, "\"syscall\":\"unshare\""),
		       "the answer does not report it");
	run_done(&r);
}

/* the child of a clone that worked must not go on with our work */
static long call_clone(void *flags)
{
	long pid = syscall(SYS_clone, *(unsigned long *)flags, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return pid;
}

static void ns02(struct tries *t)
{
	unsigned long plain = CLONE_NEWUSER | SIGCHLD, high = plain | 1ul << 32;

	expect_tried(t, "clone(NEWUSER)", tried_apart(call_clone, &plain), "EPERM");
	expect_tried(t, "with bit 32", tried_apart(call_clone, &high), "EPERM");
}

static long call_clone3(void *flags)
{
	struct clone_args args = {.flags = *(unsigned long *)flags,
				  .exit_signal = SIGCHLD};
	long pid = sys_clone3(&args, sizeof(args));

	if (pid == 0)
		_exit(0);
	return pid;
}

static void *one_thread(void *arg)
{
	*(int *)arg = 1;
	return NULL;
}

static void ns03(struct tries *t)
{
	unsigned long user = CLONE_NEWUSER, plain = 0;
	pthread_t thread;
	int ran = 0;

	expect_tried(t, "clone3(NEWUSER)", tried_apart(call_clone3, &user), "ENOSYS");
	expect_tried(t, "clone3 plain", tried_apart(call_clone3, &plain), "ENOSYS");
	if (pthread_create(&thread, NULL, one_thread, &ran) == 0)
		pthread_join(thread, NULL);
	expect(t, ran == 1, "no thread could be made");
	observe(t, "threads work");
}

static long call_setns(void *name)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", (const char *)name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return setns(fd < 0 ? 0 : fd, 0); /* refused before it looks at the descriptor */
}

static void ns04(struct tries *t)
{
	unsigned i;

	for (i = 0; i < KINDS; i++) {
		unsigned long flag = kinds[i].flag;

		expect_tried(t, kinds[i].name, tried_apart(call_unshare, &flag), "EPERM");
		expect_tried(t, "setns",
			     tried_apart(call_setns, (void *)(uintptr_t)kinds[i].name),
			     "EPERM");
	}
}

/* seccomp is not alone: in this user namespace none further can be made */
static void ns06(struct tries *t)
{
	unsigned long flag = CLONE_NEWUSER;
	char path[64], text[32];
	unsigned i;

	if (!tries_layer(t, LAYER_PROC)) {
		skip(t, "without a private /proc there is nowhere to say so");
		return;
	}
	for (i = 0; i < KINDS; i++) {
		snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces",
			 kinds[i].name);
		read_text(path, text, sizeof(text));
		expect(t, strcmp(text, "0\n") == 0, "%s is %.8s", path, text);
		expect_tried(t, path, try_open(path, O_WRONLY), "EROFS|EACCES");
	}
	/* ENOSPC: seccomp did not refuse it, but the count did */
	expect_tried(t, "unshare", tried_apart(call_unshare, &flag), "EPERM|ENOSPC");
	observe(t, "0 of each kind");
}

static void ns07(struct tries *t)
{
	char path[40], name[64];
	unsigned i;
	ssize_t len;

	say("namespaces:");
	for (i = 0; i < OWN_KINDS; i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i].name);
		len = readlink(path, name, sizeof(name) - 1);
		name[len > 0 ? len : 0] = '\0';
		expect(t, len > 0, "%s cannot be read", path);
		say(" %s", name);
	}
	say(" end\n");
	sleep_ms(200); /* both of them are there at the same time */
}

static void compare_namespaces(struct tries *t, const char *one, const char *two)
{
	char path[40], host[64], word[80];
	unsigned i;
	ssize_t len;

	for (i = 0; i < OWN_KINDS; i++) {
		const char *in_one, *in_two;
		size_t n;

		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i].name);
		len = readlink(path, host, sizeof(host) - 1);
		host[len > 0 ? len : 0] = '\0';
		snprintf(word, sizeof(word), " %s:[", kinds[i].name);
		in_one = strstr(one, word);
		in_two = strstr(two, word);
		if (!in_one || !in_two || len <= 0) {
			expect(t, false, "%s is not known", kinds[i].name);
			continue;
		}
		n = strcspn(in_one + 1, " ");
		expect(t, strncmp(in_one + 1, host, n) != 0, "%s is the host's",
		       kinds[i].name);
		/* a slot keeps its network namespace, two at once have two */
		expect(t, strncmp(in_one, in_two, n + 2) != 0, "%s is another run's",
		       kinds[i].name);
	}
}

static void ns07_outside(struct battery *b, struct tries *t)
{
	struct attack_run one = {.attack = "NS07"}, two = one;

	if (!tries_layer(t, LAYER_PROC)) {
		skip(t, "there is no /proc inside to look in");
		return;
	}
	run_start(b, &one);
	run_start(b, &two);
	run_wait(b, &one);
	run_wait(b, &two);
	if (run_tell(&one, t) && run_tell(&two, t)) {
		compare_namespaces(t, one.out, two.out);
		observe(t, "7 of 7 differ from the host's and from another run's");
	}
	run_done(&one);
	run_done(&two);
}

static void ns08(struct tries *t)
{
	static const char *const links[] = {"root", "cwd", "exe"};
	static const char *const files[] = {"fd", "environ", "maps", "mem"};
	const char *wanted = tries_layer(t, LAYER_PROC) ? "EACCES" : "ENOENT|EACCES";
	char path[40], text[64];
	unsigned i;

	for (i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		snprintf(path, sizeof(path), "/proc/1/%s", links[i]);
		expect_call(t, path, readlink(path, text, sizeof(text)), wanted);
	}
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "/proc/1/%s", files[i]);
		expect_tried(t, path, try_open(path, O_RDONLY), wanted);
	}
	expect_tried(t, "through root", try_open("/proc/1/root/etc/shadow", O_RDONLY),
		     wanted);
}

static void ns10(struct tries *t)
{
	char here[256] = "", up[256] = "/";
	struct stat root, now;
	int i;

	for (i = 0; i < 50; i++) {
		(void)!chdir(".."); /* at the top it stays where it is */
		memcpy(up + strlen(up), "../", 4);
	}
	if (!tries_shared(t)) {
		expect(t, getcwd(here, sizeof(here)) && strcmp(here, "/") == 0,
		       "50 times up is %.40s", here);
		expect(t,
		       stat("/", &root) == 0 && stat(".", &now) == 0 &&
			       root.st_ino == now.st_ino,
		       "up is out");
	}
	snprintf(up + strlen(up), sizeof(up) - strlen(up), "etc/shadow");
	expect_tried(t, "/../../etc/shadow", try_open(up, O_RDONLY), tries_hidden(t));
	for (i = 3; i < 1024; i++)
		expect_call(t, "fchdir", fchdir(i), "EBADF");
	(void)!chdir("/work");
}

/* every number, with a second run beside us: only our own answer */
static void ns19(struct tries *t)
{
	unsigned others = 0, hidden = 0;
	pid_t pid;

	if (strcmp(tries_word(t, 0), "victim") == 0) {
		say("here\n");
		wait_forever();
	}
	for (pid = 1; pid <= 32768; pid++) {
		if (pid == getpid())
			continue;
		if (kill(pid, 0) == 0)
			others++;
		else if (errno == EPERM)
			hidden++;
	}
	if (tries_shared(t)) {
		expect(t, others == 0, "%u other processes answer", others);
		observe(t, "%u refuse, none of another run answers", hidden);
		return;
	}
	expect(t, getpid() == 2, "own number is %d", (int)getpid());
	expect(t, others + hidden <= 1, "%u other processes are there", others + hidden);
	expect(t, kill(1, 0) == 0 || errno == EPERM, "there is no process 1");
	observe(t, "ESRCH but for process 1");
}

static void ns19_outside(struct battery *b, struct tries *t)
{
	struct attack_run victim = {.attack = "NS19", .words = {"victim"}};
	struct attack_run attacker = {.attack = "NS19"};

	run_start(b, &victim);
	expect(t, run_said(b, &victim, "here"), "the second run did not start");
	run_inside(b, t, &attacker);
	expect(t, !victim.over, "the second run was ended");
	run_cancel(b, &victim);
	run_done(&attacker);
}

const struct attack attacks_ns[] = {
	{"NS01", "unshare(CLONE_NEWUSER)", "EPERM, and the answer reports it",
	 LEVEL_PROCESS, ns01, ns01_outside, NULL, NULL},
	{"NS02", "clone with CLONE_NEWUSER, and with bit 32 set", "EPERM", LEVEL_PROCESS,
	 ns02, NULL, NULL, NULL},
	{"NS03", "clone3, with CLONE_NEWUSER and plain", "ENOSYS; threads still work",
	 LEVEL_PROCESS, ns03, NULL, NULL, NULL},
	{"NS04", "unshare and setns of every kind of namespace", "EPERM", LEVEL_PROCESS,
	 ns04, NULL, NULL, NULL},
	{"NS06", "namespaces without the help of seccomp", "none is left to be made",
	 LEVEL_NAMESPACES, ns06, NULL, NULL, NULL},
	{"NS07", "namespaces, compared with the host's and another run's", "all differ",
	 LEVEL_NAMESPACES, ns07, ns07_outside, NULL, NULL},
	{"NS08", "root, cwd, exe, fd, environ, maps and mem of process 1", "EACCES",
	 LEVEL_LANDLOCK, ns08, NULL, NULL, "EACCES or ENOENT"},
	{"NS10", "50 times up; /../../etc/shadow; inherited descriptors 3 to 1023",
	 "stays inside; ENOENT; EBADF", LEVEL_LANDLOCK, ns10, NULL, NULL,
	 "EACCES; EBADF"},
	{"NS11", "chroot, pivot_root, mount, umount, mount_setattr, open_tree, fsopen",
	 "EPERM", LEVEL_PROCESS, ns11, NULL, NULL, NULL},
	{"NS13", "open_by_handle_at with a made-up handle", "EPERM", LEVEL_PROCESS, ns13,
	 NULL, NULL, NULL},
	{"NS15", "cgroup file systems: found, mounted, release_agent", "none; EPERM",
	 LEVEL_LANDLOCK, ns15, NULL, NULL, NULL},
	{"NS16", "kernel knobs: binfmt_misc, modprobe, sysrq, all of /proc/sys",
	 "EROFS, EACCES or ENOENT", LEVEL_LANDLOCK, ns16, NULL, NULL, NULL},
	{"NS17", "devices", "null zero full random urandom, and no other", LEVEL_LANDLOCK,
	 ns17, NULL, NULL, "the others EACCES"},
	{"NS19", "signal 0 to processes 1 to 32768, with another run beside",
	 "ESRCH but for its own", LEVEL_LANDLOCK, ns19, ns19_outside, NULL,
	 "EPERM or ESRCH"},
	{"NS20", "every mount", "read-only, nosuid, nodev, but for the places to write",
	 LEVEL_NAMESPACES, ns20, NULL, NULL, NULL},
	{.id = NULL},
};
