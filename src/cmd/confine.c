/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * confine.c - take from the server what it has no use for
 *
 * Runs in: the server, when everything it needs is open and before the first byte of a
 * client. As a plain user it has that user's rights over files and processes, so what
 * hostile bytes could make it do is bounded here: no file but stored runs, no connection
 * of its own, no other program, nobody else's memory. What it may still call is
 * policy/server.json.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/sys.h"
#include "cmd/cmd.h"
#include "wire/setup.h"

#define FS_STORED                                                         \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |     \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_TRUNCATE)

static int allow(int rules_fd, int dir_fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = rights,
						  .parent_fd = dir_fd};

	return sys_landlock_add_rule(rules_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

/* stored_fd: where stored runs go, -1: nowhere */
static int confine_files(int stored_fd)
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

int confine_server(int stored_fd, const struct setup_filter *calls)
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
	(void)calls;
	return 0;
#else
	if (confine_files(stored_fd) < 0 || confine_signals() < 0)
		return -1;
	return confine_calls(calls); /* the last: it allows no other filter */
#endif
}
