/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_lost.c - which layer it is whose absence makes a step fail
 */
#include "launcher/lost.h"

#include <errno.h>

#include "../tap.h"
#include "launcher/launcher.h"

static int layer_at(int level, const char *step, int num)
{
	static struct launcher l;

	l.abilities.level = level;
	l.proc_fd = -1;
	return lost_layer_of(&l, step, num);
}

TEST(a_clone_with_namespaces_fails_for_want_of_them)
{
	CHECK(layer_at(LEVEL_NAMESPACES, "clone", EPERM) == LAYER_USER_NAMESPACE);
	CHECK(layer_at(LEVEL_NAMESPACES, "clone", ENOSPC) == LAYER_USER_NAMESPACE);
}

TEST(a_clone_without_namespaces_does_not)
{
	CHECK(layer_at(LEVEL_LANDLOCK, "clone", EPERM) == -1);
	CHECK(layer_at(LEVEL_LANDLOCK, "clone", ENOSPC) == -1);
	CHECK(layer_at(LEVEL_PROCESS, "clone", EPERM) == -1);
}

TEST(a_clone_into_a_cgroup_that_is_gone_names_the_cgroup)
{
	CHECK(layer_at(LEVEL_NAMESPACES, "clone", ENODEV) == LAYER_MEMORY_LIMIT);
	CHECK(layer_at(LEVEL_LANDLOCK, "clone", ENODEV) == LAYER_MEMORY_LIMIT);
}

TEST(a_shortage_that_passes_is_no_lost_layer)
{
	CHECK(layer_at(LEVEL_NAMESPACES, "clone", EAGAIN) == -1);
	CHECK(layer_at(LEVEL_NAMESPACES, "cgroup", ENOMEM) == -1);
	CHECK(layer_at(LEVEL_LANDLOCK, "slot_cgroup", EBUSY) == -1);
}

TEST(cgroups_are_lost_at_every_level)
{
	CHECK(layer_at(LEVEL_NAMESPACES, "cgroup", ENOENT) == LAYER_MEMORY_LIMIT);
	CHECK(layer_at(LEVEL_LANDLOCK, "cgroup", EROFS) == LAYER_MEMORY_LIMIT);
	CHECK(layer_at(LEVEL_LANDLOCK, "slot_cgroup", EACCES) == LAYER_MEMORY_LIMIT);
}

TEST(other_steps_are_faults_of_ours)
{
	CHECK(layer_at(LEVEL_NAMESPACES, "cgroup_namespace", EPERM) == -1);
	CHECK(layer_at(LEVEL_NAMESPACES, "cgroup_namespace", ENOSPC) ==
	      LAYER_CGROUP_NAMESPACE);
	CHECK(layer_at(LEVEL_NAMESPACES, "execve", ENOENT) == -1);
	CHECK(layer_at(LEVEL_LANDLOCK, "slot_directory", EROFS) == LAYER_ROOT);
}
