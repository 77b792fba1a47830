/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_sys.c - the wrappers reach the system calls they are named after
 */
#include "base/sys.h"

#include <sys/prctl.h>

#include "mounts_fixture.h"

TEST(processes)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	int status, fd, pid_fd = -1;
	pid_t pid;

	args.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
	args.pidfd = (uint64_t)(uintptr_t)&pid_fd;
	pid = sys_clone3(&args, sizeof(args));
	if (pid == 0)
		for (;;)
			pause();
	CHECK(pid > 0 && pid_fd >= 0);
	fd = sys_pidfd_open(pid, 0);
	CHECK(fd >= 0);
	CHECK(sys_pidfd_send_signal(fd, SIGKILL) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL);
	CHECK(sys_pidfd_send_signal(fd, SIGKILL) == -1 && errno == ESRCH);
	CHECK(sys_close_range((unsigned)fd, (unsigned)fd, 0) == 0);
	CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
	CHECK(sys_close_range((unsigned)pid_fd, ~0U, CLOSE_RANGE_CLOEXEC) == 0);
	CHECK(fcntl(pid_fd, F_GETFD) == FD_CLOEXEC);
}

TEST(openat2_resolves_as_told)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};

	CHECK(sys_openat2(AT_FDCWD, "/", &how) == -1 && errno == EXDEV);
	how.resolve = 0;
	CHECK(sys_openat2(AT_FDCWD, "/", &how) >= 0);
}

TEST(mounts)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	struct open_how how = {.flags = O_WRONLY | O_CREAT | O_CLOEXEC, .mode = 0600};
	int fs_fd, mount_fd, tree_fd;

	mounts_own();
	fs_fd = sys_fsopen("tmpfs", FSOPEN_CLOEXEC);
	CHECK(fs_fd >= 0);
	CHECK(sys_fsconfig(fs_fd, FSCONFIG_SET_STRING, "size", "64k", 0) == 0);
	CHECK(sys_fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0);
	mount_fd = sys_fsmount(fs_fd, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOEXEC);
	CHECK(mount_fd >= 0);
	CHECK(close(sys_openat2(mount_fd, "a", &how)) == 0);
	tree_fd = sys_open_tree(AT_FDCWD, "/tmp",
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	CHECK(tree_fd >= 0);
	CHECK(sys_mount_setattr(mount_fd, "", AT_EMPTY_PATH, &attr) == 0);
	CHECK(sys_openat2(mount_fd, "b", &how) == -1 && errno == EROFS);
	CHECK(sys_move_mount(mount_fd, "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH) ==
	      0);
	CHECK(access("/mnt/a", F_OK) == 0);
	CHECK(sys_pivot_root("/absent", "/absent") == -1 && errno == ENOENT);
}

TEST(landlock_takes_the_sizes_of_its_version)
{
	int abi = sys_landlock_abi(), fd;
	struct sys_landlock_ruleset_attr attr = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE};
	struct landlock_path_beneath_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE};

	CHECK(sys_landlock_attr_size(1) == 8 && sys_landlock_attr_size(3) == 8);
	CHECK(sys_landlock_attr_size(4) == 16 && sys_landlock_attr_size(5) == 16);
	CHECK(sys_landlock_attr_size(6) == 24 && sys_landlock_attr_size(99) == 24);
	if (abi < 1)
		SKIP("no Landlock here");
	if (abi >= 4)
		attr.handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP;
	if (abi >= 6)
		attr.scoped = LANDLOCK_SCOPE_SIGNAL;
	fd = sys_landlock_create_ruleset(&attr, sys_landlock_attr_size(abi), 0);
	CHECK(fd >= 0);
	rule.parent_fd = open("/tmp", O_PATH | O_CLOEXEC);
	CHECK(sys_landlock_add_rule(fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0);
	if (abi >= 4) {
		struct sys_landlock_net_port_attr port = {LANDLOCK_ACCESS_NET_BIND_TCP,
							  80};

		CHECK(sys_landlock_add_rule(fd, LANDLOCK_RULE_NET_PORT, &port, 0) == 0);
	}
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(sys_landlock_restrict_self(fd, 0) == 0);
	CHECK(open("/dev/null", O_WRONLY) == -1 && errno == EACCES);
}

TEST(landlock_restricts_everything_that_its_version_knows)
{
	struct sys_landlock_ruleset_attr all;
	const int abi = sys_landlock_abi();

	all = sys_landlock_everything(1);
	CHECK(all.handled_access_fs == 0x1fff && !all.handled_access_net && !all.scoped);
	all = sys_landlock_everything(99);
	CHECK(all.handled_access_fs == 0xffff && all.handled_access_net == 3);
	CHECK(all.scoped == 3);
	if (abi < 1)
		SKIP("no Landlock here");
	/* the kernel takes what we say it knows, and of a version we know nothing more */
	all = sys_landlock_everything(abi);
	CHECK(sys_landlock_create_ruleset(&all, sys_landlock_attr_size(abi), 0) >= 0);
	if (abi > 6)
		return;
	all.handled_access_fs = (all.handled_access_fs << 1) | 1;
	CHECK(sys_landlock_create_ruleset(&all, sys_landlock_attr_size(abi), 0) == -1);
	CHECK(errno == EINVAL);
}

TEST(rights)
{
	struct __user_cap_data_struct d[2], after[2];
	unsigned action = SECCOMP_RET_ERRNO;

	CHECK(sys_capget(d) == 0);
	d[0].effective = d[1].effective = 0;
	CHECK(sys_capset(d) == 0 && sys_capget(after) == 0);
	CHECK(after[0].effective == 0 && after[0].permitted == d[0].permitted);
	CHECK(sys_seccomp(SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);
}

TEST(session_keyrings)
{
	long before = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING,
			      0);

	if (sys_join_session_keyring() < 0 && errno == ENOSYS)
		SKIP("no keys here");
	CHECK(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) !=
	      before);
}

TEST(others_are_closed)
{
	const int kept[] = {40, 3, 41, -1, 60};
	bool open[64];
	int i;

	for (i = 3; i < 64; i++)
		CHECK(dup2(STDERR_FILENO, i) == i);
	if (fork() == 0) {
		bool right = sys_keep_fds(kept, 5) == 0;

		for (i = 0; i < 64; i++) {
			open[i] = fcntl(i, F_GETFD) >= 0;
			right = right &&
				open[i] == (i <= 3 || i == 40 || i == 41 || i == 60);
		}
		_exit(!(right && sys_keep_fds(NULL, 0) == 0 && fcntl(3, F_GETFD) < 0 &&
			fcntl(2, F_GETFD) >= 0));
	}
	CHECK(wait(&i) > 0 && i == 0);
}
