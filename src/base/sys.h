/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sys.h - system calls and constants newer than the C library's headers
 *
 * Runs in: any process, also between clone3 and execve: every wrapper is one system call.
 * Each returns what the kernel gives, or -1 with errno. Flags carry their kernel names.
 * Where a system header is present but old, what it lacks is added here and nowhere else.
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#ifndef _GNU_SOURCE
#error "build with -D_GNU_SOURCE"
#endif

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MOUNT_ATTR_IDMAP /* before glibc 2.36 sys/mount.h knows only mount(2) */
#include <linux/mount.h>
#endif

/* ---- constants ---- */

#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef MOUNT_ATTR_NOSYMFOLLOW /* 5.14 */
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif
#ifndef MS_NOSYMFOLLOW /* 5.10 */
#define MS_NOSYMFOLLOW 256
#endif
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ULL
#endif
#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif
#ifndef MFD_NOEXEC_SEAL /* 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#define MFD_EXEC 0x0010U
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV /* 5.19 */
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_ADDFD_FLAG_SEND /* 5.14 */
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP /* 6.6 */
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif

/* Landlock, by the version of its interface that brought them */
#ifndef LANDLOCK_ACCESS_FS_REFER /* 2 */
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE /* 3 */
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_NET_BIND_TCP /* 4 */
#define LANDLOCK_ACCESS_NET_BIND_TCP (1ULL << 0)
#define LANDLOCK_ACCESS_NET_CONNECT_TCP (1ULL << 1)
#define LANDLOCK_RULE_NET_PORT 2 /* newer headers: of enum landlock_rule_type */
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV /* 5 */
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif
#ifndef LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET /* 6 */
#define LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET (1ULL << 0)
#define LANDLOCK_SCOPE_SIGNAL (1ULL << 1)
#endif
#ifndef LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF /* 7 */
#define LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF (1U << 0)
#define LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON (1U << 1)
#define LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF (1U << 2)
#endif

/* struct landlock_ruleset_attr of interface 6; sys_landlock_attr_size() says how much */
struct sys_landlock_ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net; /* 4 */
	uint64_t scoped;             /* 6 */
};

/* struct landlock_net_port_attr */
struct sys_landlock_net_port_attr {
	uint64_t allowed_access;
	uint64_t port; /* host order */
};

/* ---- processes ---- */

/* 0 in the child. It must not return from the function that called this with CLONE_VM. */
static inline pid_t sys_clone3(struct clone_args *args, size_t size)
{
	return (pid_t)syscall(SYS_clone3, args, size);
}

static inline int sys_pidfd_open(pid_t pid, unsigned flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}

static inline int sys_pidfd_send_signal(int pid_fd, int signo)
{
	return (int)syscall(SYS_pidfd_send_signal, pid_fd, signo, NULL, 0U);
}

static inline int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

/* closes all but these and the standard ones */
static inline int sys_keep_fds(const int *fds, size_t count)
{
	unsigned from = STDERR_FILENO + 1, next;

	do {
		next = ~0U;
		for (size_t i = 0; i < count; i++)
			if ((unsigned)fds[i] >= from && (unsigned)fds[i] < next)
				next = (unsigned)fds[i];
		if (next > from &&
		    sys_close_range(from, next == ~0U ? next : next - 1, 0) < 0)
			return -1;
		from = next + 1;
	} while (next != ~0U);
	return 0;
}

/* the file itself, without a path */
static inline int sys_execveat(int fd, const char *const *argv, const char *const *envp)
{
	return (int)syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
}

/* ---- files and mounts ---- */

static inline int sys_openat2(int dir_fd, const char *path, const struct open_how *how)
{
	return (int)syscall(SYS_openat2, dir_fd, path, how, sizeof(*how));
}

static inline int sys_mount_setattr(int dir_fd, const char *path, unsigned flags,
				    const struct mount_attr *attr)
{
	return (int)syscall(SYS_mount_setattr, dir_fd, path, flags, attr, sizeof(*attr));
}

static inline int sys_open_tree(int dir_fd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dir_fd, path, flags);
}

static inline int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to,
				 unsigned flags)
{
	return (int)syscall(SYS_move_mount, from_fd, from, to_fd, to, flags);
}

static inline int sys_fspick(int dir_fd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_fspick, dir_fd, path, flags);
}

static inline int sys_fsopen(const char *type, unsigned flags)
{
	return (int)syscall(SYS_fsopen, type, flags);
}

static inline int sys_fsconfig(int fs_fd, unsigned command, const char *key,
			       const void *value, int aux)
{
	return (int)syscall(SYS_fsconfig, fs_fd, command, key, value, aux);
}

static inline int sys_fsmount(int fs_fd, unsigned flags, unsigned attr_flags)
{
	return (int)syscall(SYS_fsmount, fs_fd, flags, attr_flags);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

/* ---- rights ---- */

/* SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_NEW_LISTENER gives an fd */
static inline int sys_seccomp(unsigned operation, unsigned flags, void *args)
{
	return (int)syscall(SYS_seccomp, operation, flags, args);
}

/* attr NULL, size 0 and LANDLOCK_CREATE_RULESET_VERSION ask for the interface version */
static inline int sys_landlock_create_ruleset(
	const struct sys_landlock_ruleset_attr *attr, size_t size, unsigned flags)
{
	return (int)syscall(SYS_landlock_create_ruleset, attr, size, flags);
}

/* rule: struct landlock_path_beneath_attr or sys_landlock_net_port_attr, by type */
static inline int sys_landlock_add_rule(int ruleset_fd, unsigned type, const void *rule,
					unsigned flags)
{
	return (int)syscall(SYS_landlock_add_rule, ruleset_fd, type, rule, flags);
}

static inline int sys_landlock_restrict_self(int ruleset_fd, unsigned flags)
{
	return (int)syscall(SYS_landlock_restrict_self, ruleset_fd, flags);
}

/* a child that has ended, or was killed: 0, and no zombie stays, even when the first try
 * is interrupted or refused */
static inline int sys_reap(pid_t pid, int *out_status, struct rusage *out_usage)
{
	for (int tries = 0; tries < 3; tries++) {
		if (wait4(pid, out_status, __WALL, out_usage) == pid)
			return 0;
		if (errno == ECHILD)
			break;
	}
	return -1;
}

/*
 * Process 1 of a container, or a subreaper, is given children that others started: takes
 * away those that have ended. One of ours that has ended is left to whoever waits for it,
 * and may hide others: to be called again when it is reaped. 0: no such process
 */
static inline void sys_reap_adopted(const pid_t *ours, size_t count)
{
	for (;;) {
		siginfo_t ended = {.si_pid = 0};

		if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 ||
		    ended.si_pid == 0)
			return;
		for (size_t i = 0; i < count; i++)
			if (ended.si_pid == ours[i])
				return;
		(void)sys_reap(ended.si_pid, NULL, NULL);
	}
}

/* the interface version, -1 when this kernel has no Landlock or it is switched off */
static inline int sys_landlock_abi(void)
{
	return sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* how much of the struct a kernel of this version knows; older ones refuse a longer one
 * unless its end is zero */
static inline size_t sys_landlock_attr_size(int abi)
{
	if (abi >= 6)
		return sizeof(struct sys_landlock_ruleset_attr);
	if (abi >= 4)
		return offsetof(struct sys_landlock_ruleset_attr, scoped);
	return offsetof(struct sys_landlock_ruleset_attr, handled_access_net);
}

/* everything that an interface of this version can restrict; what a later kernel adds is
 * not restricted. abi: at least 1 */
static inline struct sys_landlock_ruleset_attr sys_landlock_everything(int abi)
{
	struct sys_landlock_ruleset_attr all = {
		.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1};

	if (abi >= 2)
		all.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		all.handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
	if (abi >= 4)
		all.handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP |
					 LANDLOCK_ACCESS_NET_CONNECT_TCP;
	if (abi >= 5)
		all.handled_access_fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	if (abi >= 6)
		all.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
	return all;
}

/* a new, empty session keyring, so that the caller's keys are out of reach */
static inline int sys_join_session_keyring(void)
{
	long serial = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0);

	return serial < 0 ? -1 : 0;
}

/* both halves of the 64-bit sets, of the calling process */
static inline int sys_capget(struct __user_cap_data_struct out_data[2])
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};

	return (int)syscall(SYS_capget, &head, out_data);
}

static inline int sys_capset(const struct __user_cap_data_struct data[2])
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};

	return (int)syscall(SYS_capset, &head, data);
}

#endif
