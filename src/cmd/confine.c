/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * confine.c - take from the server what it has no use for
 *
 * Runs in: the server, when everything it needs is open and before the first byte of a
 * client. As a plain user it has that user's rights over files and processes, so what
 * hostile bytes could make it do is bounded here: no file but stored runs, no connection
 * of its own, no other program, nobody else's memory.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#include "base/defer.h"
#include "base/sys.h"
#include "cmd/cmd.h"

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#else
#error "name the audit architecture of this machine"
#endif

#define X32_BIT 0x40000000u

/* every right of the first interface; what later ones add is below */
#define FS_FIRST ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1)
#define FS_STORED                                                         \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR |     \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_REG)

static int allow(int rules_fd, int dir_fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = rights,
						  .parent_fd = dir_fd};

	return sys_landlock_add_rule(rules_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

/* stored_fd: where stored runs go, -1: nowhere */
static int confine_files(int stored_fd)
{
	struct sys_landlock_ruleset_attr attr = {.handled_access_fs = FS_FIRST};
	const int abi = sys_landlock_abi();
	uint64_t stored = FS_STORED;
	auto_fd int rules_fd = -1;

	if (abi <= 0)
		return 0; /* the kernel has none, which `check` says */
	if (abi >= 2)
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3) {
		attr.handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
		stored |= LANDLOCK_ACCESS_FS_TRUNCATE;
	}
	if (abi >= 4)
		attr.handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP |
					  LANDLOCK_ACCESS_NET_CONNECT_TCP;
	if (abi >= 6)
		attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
	rules_fd = sys_landlock_create_ruleset(&attr, sys_landlock_attr_size(abi), 0);
	if (rules_fd < 0)
		return -1;
	if (stored_fd >= 0 && allow(rules_fd, stored_fd, stored) < 0)
		return -1;
	return sys_landlock_restrict_self(rules_fd, 0);
}

#define DENY(name)                                             \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static int confine_calls(void)
{
	struct sock_filter insns[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		DENY(execve),
		DENY(execveat),
		DENY(ptrace),
		DENY(process_vm_readv),
		DENY(process_vm_writev),
		DENY(pidfd_getfd),
		DENY(kill),
		DENY(tkill),
		DENY(pidfd_send_signal),
		DENY(unshare),
		DENY(setns),
		DENY(mount),
		DENY(umount2),
		DENY(pivot_root),
		DENY(chroot),
		DENY(open_tree),
		DENY(move_mount),
		DENY(fsopen),
		DENY(mount_setattr),
		DENY(bpf),
		DENY(perf_event_open),
		DENY(userfaultfd),
		DENY(io_uring_setup),
		DENY(keyctl),
		DENY(add_key),
		DENY(request_key),
		DENY(init_module),
		DENY(finit_module),
		DENY(kexec_load),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {
		.len = sizeof(insns) / sizeof(insns[0]),
		.filter = insns,
	};

	return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program);
}

int confine_server(int stored_fd)
{
#ifdef __SANITIZE_ADDRESS__
	/* its end looks into /proc and traces itself, to find what was not freed */
	(void)confine_files;
	(void)confine_calls;
	(void)stored_fd;
	return 0;
#else
	return confine_files(stored_fd) < 0 ? -1 : confine_calls();
#endif
}
