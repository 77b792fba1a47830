/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_filter.c - landlock, then seccomp
 *
 * Runs in: the program, last before execve. Landlock stands behind the mount namespace:
 * should a mount turn writable by a bug, writing outside the scratch places is refused
 * all the same.
 */
#include <errno.h>
#include <linux/filter.h>

#include "base/sys.h"
#include "launcher/child.h"

#define FS_READ                                                      \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | \
	 LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_WRITE                                                         \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |  \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |    \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM)
#define FS_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

/* every right of this version of the interface; what a later kernel adds is not
 * restricted */
static uint64_t child_landlock_rights(int abi)
{
	uint64_t all = FS_READ | FS_WRITE | FS_DEVICES;

	if (abi >= 2)
		all |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= 3)
		all |= LANDLOCK_ACCESS_FS_TRUNCATE;
	if (abi >= 5)
		all |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
	return all;
}

static int child_landlock_rule(int rules_fd, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = rights};
	int r, saved;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return errno == ENOENT ? 0 : -1;
	r = sys_landlock_add_rule(rules_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	saved = errno;
	close(rule.parent_fd);
	errno = saved;
	return r;
}

int child_landlock(struct child *c)
{
	static const char *const scratch[] = {"/work", "/tmp", "/dev/shm", "/go-cache"};
	const int abi = c->abilities.landlock_abi;
	const uint64_t all = child_landlock_rights(abi);
	struct sys_landlock_ruleset_attr attr = {.handled_access_fs = all};
	unsigned i;
	int fd, r;

	if (abi <= 0)
		return 0;
	if (abi >= 4)
		attr.handled_access_net = LANDLOCK_ACCESS_NET_BIND_TCP |
					  LANDLOCK_ACCESS_NET_CONNECT_TCP;
	if (abi >= 6)
		attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL;
	fd = sys_landlock_create_ruleset(&attr, sys_landlock_attr_size(abi), 0);
	if (fd < 0)
		return -1;
	r = child_landlock_rule(fd, "/", all & FS_READ);
	if (r == 0)
		r = child_landlock_rule(fd, "/dev",
					all & (FS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE |
					       LANDLOCK_ACCESS_FS_TRUNCATE |
					       LANDLOCK_ACCESS_FS_IOCTL_DEV));
	for (i = 0; r == 0 && i < sizeof(scratch) / sizeof(scratch[0]); i++)
		r = child_landlock_rule(fd, scratch[i], all & ~FS_DEVICES);
	if (r == 0)
		r = sys_landlock_restrict_self(fd, 0);
	close(fd);
	return r;
}

static int child_load(const struct setup_filter *f)
{
	struct sock_fprog program = {
		.len = (unsigned short)f->len,
		.filter = (struct sock_filter *)f->insns,
	};

	return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program);
}

int child_seccomp(struct child *c)
{
	int i;

	for (i = FILTER_NETWORK; i <= FILTER_BASE; i++) {
		if (child_load(&c->setup->filter[i]) < 0)
			return -1;
	}
	return 0;
}
