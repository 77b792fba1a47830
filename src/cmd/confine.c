/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * confine.c - take from the server and the brokers what they have no use for
 *
 * Runs in: the server, when everything it needs is open and before the first byte of a
 * client. As a plain user it has that user's rights over files and processes, so what
 * hostile bytes could make it do is bounded here: no file but stored runs, no connection
 * of its own, no other program, nobody else's memory. What it may still call is
 * policy/server.json. The same in the brokers' mother, whose connections are her purpose:
 * no file but what a resolver reads, policy/broker.json. And in those that unpack an
 * image, for which there is one directory, policy/image.json.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/defer.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "wire/setup.h"

#define FS_STORED                                                         \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |     \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_TRUNCATE)

#define FS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_MAKE                                                                    \
	(FS_STORED | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_DIR | \
	 LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)

static int allow(int rules_fd, int dir_fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = rights,
						  .parent_fd = dir_fd};

	return sys_landlock_add_rule(rules_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

/* stored_fd: where stored runs go, index_fd: what sessions there are; -1: nowhere */
static int confine_files(int stored_fd, int index_fd)
{
	const int abi = sys_landlock_abi();
	const struct sys_landlock_ruleset_attr all = sys_landlock_everything(abi);
	auto_fd int rules_fd = -1;

	if (abi <= 0)
		return 0; /* the kernel has none, which `check` says */
	rules_fd = sys_landlock_create_ruleset(&all, sys_landlock_attr_size(abi), 0);
	if (rules_fd < 0)
		return -1;
	if (stored_fd >= 0 &&
	    allow(rules_fd, stored_fd, all.handled_access_fs & FS_STORED) < 0)
		return -1;
	if (index_fd >= 0 &&
	    allow(rules_fd, index_fd, all.handled_access_fs & FS_STORED) < 0)
		return -1;
	return sys_landlock_restrict_self(rules_fd, 0);
}

/* A policy file cannot name a process: signals, as far as it allows them, are for
 * ourselves alone. */
static int confine_signals(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]),
				     .filter = code};

	return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program);
}

static int confine_calls(const struct setup_filter *calls)
{
	struct sock_fprog program = {
		.len = (unsigned short)calls->len,
		.filter = (struct sock_filter *)(uintptr_t)calls->insns,
	};

	return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* clearenv alone leaves the texts where they were: a bug could still tell them */
static void forget_environment(void)
{
	for (char **v = environ; v && *v; v++)
		explicit_bzero(*v, strlen(*v));
	clearenv();
}

static int become(const struct settings *s, enum confine_who who,
		  int (*what)(uid_t uid, gid_t gid))
{
	const uid_t uid = s->uid_base ? (uid_t)s->uid_base - who : geteuid();
	const gid_t gid = s->uid_base ? (gid_t)s->uid_base - who : getegid();

	if (what(uid, gid) < 0)
		return -1;
	/* the change of ids cleared it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	forget_environment();
	return chdir("/");
}

int confine_rights(const struct settings *s, enum confine_who who)
{
	return become(s, who, caps_become_nobody);
}

int confine_reader(const struct settings *s, enum confine_who who)
{
	return become(s, who, caps_become_reader);
}

static int confine_trees(int made_fd, int read_fd)
{
	const int abi = sys_landlock_abi();
	const struct sys_landlock_ruleset_attr all = sys_landlock_everything(abi);
	auto_fd int rules_fd = -1;

	if (abi <= 0)
		return 0; /* the kernel has none, which `check` says */
	rules_fd = sys_landlock_create_ruleset(&all, sys_landlock_attr_size(abi), 0);
	if (rules_fd < 0)
		return -1;
	if ((made_fd >= 0 &&
	     allow(rules_fd, made_fd, all.handled_access_fs & FS_MAKE) < 0) ||
	    (read_fd >= 0 && allow(rules_fd, read_fd, FS_READ) < 0))
		return -1;
	return sys_landlock_restrict_self(rules_fd, 0);
}

/* what names are resolved by, where the usual programs that manage it put it; whole
 * directories, since a new file takes an old one's place */
static int confine_resolver(void)
{
	static const char *const places[] = {"/etc", "/run/systemd/resolve",
					     "/run/resolvconf", "/run/NetworkManager"};
	const int abi = sys_landlock_abi();
	struct sys_landlock_ruleset_attr all = sys_landlock_everything(abi);
	auto_fd int rules_fd = -1;

	if (abi <= 0)
		return 0; /* the kernel has none, which `check` says */
	all.handled_access_net = 0;
	rules_fd = sys_landlock_create_ruleset(&all, sys_landlock_attr_size(abi), 0);
	if (rules_fd < 0)
		return -1;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		auto_fd int fd = open(places[i], O_PATH | O_CLOEXEC);

		if (fd >= 0 && allow(rules_fd, fd, LANDLOCK_ACCESS_FS_READ_FILE) < 0)
			return -1;
	}
	return sys_landlock_restrict_self(rules_fd, 0);
}

int confine_broker(const struct setup_filter *calls)
{
#ifdef __SANITIZE_ADDRESS__
	(void)confine_resolver; /* as below */
	(void)confine_calls;
	(void)calls;
	return 0;
#else
	return confine_resolver() < 0 ? -1 : confine_calls(calls);
#endif
}

int confine_image(int made_fd, int read_fd, const struct setup_filter *calls)
{
#ifdef __SANITIZE_ADDRESS__
	(void)confine_trees; /* as below */
	(void)confine_calls;
	(void)made_fd;
	(void)read_fd;
	(void)calls;
	return 0;
#else
	return confine_trees(made_fd, read_fd) < 0 ? -1 : confine_calls(calls);
#endif
}

int confine_server(int stored_fd, int index_fd, const struct setup_filter *calls)
{
#ifdef __SANITIZE_ADDRESS__
	/* Its end clones and traces itself, reads /proc and executes a symbolizer, to
	 * find what was not freed and to say where: with those calls allowed, little
	 * would be left of the filter. The same server is confined in every other build.
	 */
	(void)confine_files;
	(void)confine_signals;
	(void)confine_calls;
	(void)stored_fd;
	(void)index_fd;
	(void)calls;
	return 0;
#else
	if (confine_files(stored_fd, index_fd) < 0 || confine_signals() < 0)
		return -1;
	return confine_calls(calls); /* the last: it allows no other filter */
#endif
}
