/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * sys.c - holds the structures of sys.h to what the kernel reads
 *
 * The wrappers are all in the header: the child may call nothing out of line.
 */
#include "base/sys.h"

#include <assert.h>

static_assert(sizeof(struct sys_landlock_ruleset_attr) == 24, "Landlock interface 6");
static_assert(offsetof(struct sys_landlock_ruleset_attr, handled_access_net) == 8,
	      "Landlock interface 4");
static_assert(sizeof(struct sys_landlock_net_port_attr) == 16, "Landlock interface 4");
static_assert(sizeof(struct landlock_path_beneath_attr) == 12, "packed, as the kernel's");
static_assert(sizeof(struct open_how) == 24, "openat2");
static_assert(sizeof(struct mount_attr) == 32, "mount_setattr");
static_assert(sizeof(struct clone_args) >= CLONE_ARGS_SIZE_VER2, "clone3 with a cgroup");
static_assert(_LINUX_CAPABILITY_U32S_3 == 2, "two halves");
