/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * report.h - what isolation this host really gives, as canaries saw it
 */
#ifndef WIRE_REPORT_H
#define WIRE_REPORT_H

#include <stdint.h>

enum isolation_level {
	LEVEL_NONE, /* below everything that may run code */
	LEVEL_PROCESS,
	LEVEL_LANDLOCK,
	LEVEL_NAMESPACES,
	LEVEL_FULL,
	LEVEL_CONTAINER, /* a container engine's: beside the ladder, and asked for */
	LEVEL_COUNT
};

enum layer_id {
	LAYER_USER_NAMESPACE,
	LAYER_MOUNT_NAMESPACE,
	LAYER_PID_NAMESPACE,
	LAYER_NETWORK_NAMESPACE,
	LAYER_IPC_NAMESPACE,
	LAYER_UTS_NAMESPACE,
	LAYER_CGROUP_NAMESPACE,
	LAYER_ROOT, /* pivoted, read-only, nothing of the host beyond the runtime */
	LAYER_PROC, /* private /proc */
	LAYER_MEMORY_LIMIT,
	LAYER_PIDS_LIMIT,
	LAYER_CPU_LIMIT,
	LAYER_IDENTITY, /* not host root, no groups */
	LAYER_CAPABILITIES,
	LAYER_NO_NEW_PRIVS,
	LAYER_SECCOMP,
	LAYER_LANDLOCK,
	LAYER_VIOLATIONS, /* denied calls are reported to the caller */
	LAYER_COUNT
};

struct layer {
	uint32_t requested; /* 0: not asked for, so not missing either */
	uint32_t active;
	char evidence[160]; /* what the canary saw */
	char reason[160];   /* why it is not active; "" when it is */
	char fix[160];      /* one line to type or to set; "" when there is none */
};

struct report {
	uint32_t level; /* enum isolation_level */
	uint32_t slots;
	uint32_t lost; /* 1 + enum layer_id: gone since the start, so the level is none */
	uint32_t network;         /* enum plan_network: what a run can have here, */
	uint32_t install_network; /* and an install of packages */
	uint32_t counts_sockets;  /* 1: without a cgroup, their memory counts too */
	uint32_t sessions;        /* 1: there can be sessions here, */
	char sessions_why[200];   /* else why not */
	uint32_t kept;     /* 1: there are none, but a directory that stays: plan.kept */
	uint64_t refused;  /* messages of the server that were not as they must be */
	char summary[240]; /* below the minimum: the one sentence that says why */
	struct layer layer[LAYER_COUNT];
};

/* "full", ... ; "none" for anything else */
const char *report_level_name(uint32_t level);
/* the level, or -1 */
int report_level_parse(const char *text);
/* "user_namespace", ... */
const char *report_layer_name(enum layer_id id);

#endif
