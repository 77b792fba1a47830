/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroup_below.c - cgroups below a slot's: what is in them counts for the slot too
 *
 * Runs in: the launcher.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/err.h"
#include "base/fs.h"
#include "launcher/cgroup_kernel.h"

/*
 * Where the hierarchy is mounted with nsdelegate, as systemd does it, who is in a cgroup
 * namespace clones into cgroups below its root only; and the root of a session's is where
 * its process 1 was born. So that one goes a level down, and others can be made beside.
 */
static int make_room(struct cgroup_slot *slot)
{
	static const struct {
		const char *file, *value;
	} wide[] = {
		{"cgroup.max.descendants", "max"},
		{"memory.oom.group", "0"}, /* a command's end is not the session's */
		{"cpu.max", "max"},        /* each command has a quota of its own */
	};
	const int run_fd = slot->dir_fd[CGROUP_RUN];
	auto_fd int holder_fd = -1;
	char text[16];
	pid_t pid;

	for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
		/* as in make_run(): what is not there forbids nothing */
		if (fs_write_at(run_fd, wide[i].file, wide[i].value) < 0 &&
		    errno != ENOENT)
			return -1;
	if (mkdirat(run_fd, "holder", 0755) < 0)
		return -1;
	holder_fd = cgroup_open_dir(run_fd, "holder");
	if (holder_fd < 0)
		return -1;
	if (cgroup_list(run_fd, 0, &pid, 1) != 1) {
		errno = ESRCH;
		return -1;
	}
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	if (fs_write_at(holder_fd, "cgroup.procs", text) < 0 ||
	    fs_write_at(run_fd, "cgroup.subtree_control", "+memory +pids +cpu") < 0)
		return -1;
	close(run_fd);
	slot->dir_fd[CGROUP_RUN] = take_fd(&holder_fd);
	slot->set_valid = false;
	cgroup_open_files(slot, &cgroup_v2);
	return 0;
}

int cgroup_below(struct cgroup_slot *slot, struct cgroup_base *out)
{
	const bool v2 = slot->kind == CGROUP_V2;
	struct cgroup_base below = *slot->base;

	for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
		const size_t len = strlen(below.dir[c]),
			     room = sizeof(below.dir[c]) - len;

		if (len && (size_t)snprintf(below.dir[c] + len, room, "/slot-%u%s",
					    slot->n, v2 ? "/run" : "") >= room) {
			errno = ENAMETOOLONG;
			return -1;
		}
	}
	if (v2 && make_room(slot) < 0)
		return -1;
	*out = below;
	return 0;
}

/* v1 has them where the run's own are set; v2 in the directory above the run's */
int cgroup_limit_all(struct cgroup_slot *slot, const struct cgroup_limits *limits,
		     struct err *e)
{
	char memory[32], pids[32];

	if (slot->kind != CGROUP_V2)
		return 0;
	(void)snprintf(memory, sizeof(memory), "%llu",
		       (unsigned long long)limits->memory_bytes);
	(void)snprintf(pids, sizeof(pids), "%u", limits->pids);
	if (fs_write_at(slot->dir_fd[CGROUP_SLOT], "memory.max", memory) < 0 ||
	    fs_write_at(slot->dir_fd[CGROUP_SLOT], "pids.max", pids) < 0)
		return err_errno(e, "limit what is below slot %u", slot->n);
	return 0;
}
