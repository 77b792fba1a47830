/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * report.c - the names of levels and layers
 */
#include "wire/report.h"

#include <assert.h>
#include <string.h>

static const char *const levels[] = {
	[LEVEL_NONE] = "none",         [LEVEL_PROCESS] = "process",
	[LEVEL_LANDLOCK] = "landlock", [LEVEL_NAMESPACES] = "namespaces",
	[LEVEL_FULL] = "full",         [LEVEL_CONTAINER] = "container",
};
static_assert(sizeof(levels) / sizeof(levels[0]) == LEVEL_COUNT,
	      "a level lacks its name");

static const char *const layers[] = {
	[LAYER_USER_NAMESPACE] = "user_namespace",
	[LAYER_MOUNT_NAMESPACE] = "mount_namespace",
	[LAYER_PID_NAMESPACE] = "pid_namespace",
	[LAYER_NETWORK_NAMESPACE] = "network_namespace",
	[LAYER_IPC_NAMESPACE] = "ipc_namespace",
	[LAYER_UTS_NAMESPACE] = "uts_namespace",
	[LAYER_CGROUP_NAMESPACE] = "cgroup_namespace",
	[LAYER_ROOT] = "root",
	[LAYER_PROC] = "proc",
	[LAYER_MEMORY_LIMIT] = "memory_limit",
	[LAYER_PIDS_LIMIT] = "pids_limit",
	[LAYER_CPU_LIMIT] = "cpu_limit",
	[LAYER_IDENTITY] = "identity",
	[LAYER_CAPABILITIES] = "capabilities",
	[LAYER_NO_NEW_PRIVS] = "no_new_privs",
	[LAYER_SECCOMP] = "seccomp",
	[LAYER_LANDLOCK] = "landlock",
	[LAYER_VIOLATIONS] = "violations",
};
static_assert(sizeof(layers) / sizeof(layers[0]) == LAYER_COUNT,
	      "a layer lacks its name");

const char *report_level_name(uint32_t level)
{
	return levels[level < LEVEL_COUNT ? level : LEVEL_NONE];
}

int report_level_parse(const char *text)
{
	for (int i = 0; i < LEVEL_COUNT; i++)
		if (strcmp(text, levels[i]) == 0)
			return i;
	return -1;
}

const char *report_layer_name(enum layer_id id)
{
	assert(id < LAYER_COUNT);
	return layers[id];
}
