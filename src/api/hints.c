/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hints.c - why a call is refused, or what to do instead
 *
 * For people who know their program and not its system calls. About the policies of this
 * version; with others a hint may be beside the point, but never wrong about the call.
 */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ANY (-1)

#define NO_NETWORK "sockets are denied: network is off"
#define NAMESPACES "a program cannot make or enter namespaces"
#define MOUNTS "a program cannot mount anything; /work and /tmp can be written"
#define OTHERS "a program cannot trace other processes or look into them"
#define IDS "a program keeps its user and its groups, and has no capabilities"
#define HOST "that is for whoever administers the host"
#define CLOCK "the clock is the host's"
#define KEYS "there are no kernel keyrings here"
#define HANDLES "files can be opened by their paths only"
#define SCHEDULING "a program cannot choose how it is scheduled; nice works"
#define DEVICES "device nodes cannot be made"
#define OUT_OF_BAND "out-of-band data (MSG_OOB) is denied"
#define WATCH "who reads and opens files cannot be watched; changes can"

/* the first row that fits */
static const struct {
	const char *name;
	int first; /* the first argument, as an int; ANY */
	const char *text;
} rows[] = {
	{"socket", AF_INET, NO_NETWORK},
	{"socket", AF_INET6, NO_NETWORK},
	{"socket", AF_NETLINK, "of AF_NETLINK only NETLINK_ROUTE can be used"},
	{"socket", ANY, "only AF_UNIX sockets can be made: network is off"},
	{"socketpair", ANY, "only pairs of AF_UNIX sockets can be made"},
	{"clone", ANY, NAMESPACES},
	{"unshare", ANY, NAMESPACES},
	{"setns", ANY, NAMESPACES},
	{"mount", ANY, MOUNTS},
	{"umount2", ANY, MOUNTS},
	{"mount_setattr", ANY, MOUNTS},
	{"move_mount", ANY, MOUNTS},
	{"open_tree", ANY, MOUNTS},
	{"open_tree_attr", ANY, MOUNTS},
	{"fsopen", ANY, MOUNTS},
	{"fsconfig", ANY, MOUNTS},
	{"fsmount", ANY, MOUNTS},
	{"fspick", ANY, MOUNTS},
	{"chroot", ANY, "a program cannot change its root directory"},
	{"pivot_root", ANY, "a program cannot change its root directory"},
	{"ptrace", ANY, OTHERS},
	{"process_vm_readv", ANY, OTHERS},
	{"process_vm_writev", ANY, OTHERS},
	{"process_madvise", ANY, OTHERS},
	{"process_mrelease", ANY, OTHERS},
	{"pidfd_getfd", ANY, OTHERS},
	{"kcmp", ANY, OTHERS},
	{"prlimit64", ANY, "a program can change its own limits only (pid 0)"},
	{"setuid", ANY, IDS},
	{"setgid", ANY, IDS},
	{"setreuid", ANY, IDS},
	{"setregid", ANY, IDS},
	{"setresuid", ANY, IDS},
	{"setresgid", ANY, IDS},
	{"setfsuid", ANY, IDS},
	{"setfsgid", ANY, IDS},
	{"setgroups", ANY, IDS},
	{"capset", ANY, IDS},
	{"seccomp", ANY, "a program cannot load filters of its own; Landlock works"},
	{"keyctl", ANY, KEYS},
	{"add_key", ANY, KEYS},
	{"request_key", ANY, KEYS},
	{"name_to_handle_at", ANY, HANDLES},
	{"open_by_handle_at", ANY, HANDLES},
	{"settimeofday", ANY, CLOCK},
	{"clock_settime", ANY, CLOCK},
	{"clock_adjtime", ANY, CLOCK},
	{"adjtimex", ANY, CLOCK},
	{"sethostname", ANY, HOST},
	{"setdomainname", ANY, HOST},
	{"init_module", ANY, HOST},
	{"finit_module", ANY, HOST},
	{"delete_module", ANY, HOST},
	{"kexec_load", ANY, HOST},
	{"kexec_file_load", ANY, HOST},
	{"reboot", ANY, HOST},
	{"swapon", ANY, HOST},
	{"swapoff", ANY, HOST},
	{"acct", ANY, HOST},
	{"quotactl", ANY, HOST},
	{"quotactl_fd", ANY, HOST},
	{"syslog", ANY, HOST},
	{"iopl", ANY, HOST},
	{"ioperm", ANY, HOST},
	{"vhangup", ANY, HOST},
	{"sched_setscheduler", ANY, SCHEDULING},
	{"sched_setparam", ANY, SCHEDULING},
	{"sched_setattr", ANY, SCHEDULING},
	{"ioprio_set", ANY, SCHEDULING},
	{"inotify_add_watch", ANY, WATCH},
	{"fanotify_init", ANY, WATCH},
	{"fanotify_mark", ANY, WATCH},
	{"mknod", ANY, DEVICES},
	{"mknodat", ANY, DEVICES},
	{"sendto", ANY, OUT_OF_BAND},
	{"recvfrom", ANY, OUT_OF_BAND},
	{"sendmsg", ANY, OUT_OF_BAND},
	{"recvmsg", ANY, OUT_OF_BAND},
	{"sendmmsg", ANY, OUT_OF_BAND},
	{"recvmmsg", ANY, OUT_OF_BAND},
};

const char *violation_hint(const char *name, const uint64_t args[6])
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].name, name) == 0 &&
		    (rows[i].first == ANY ||
		     (uint32_t)args[0] == (uint32_t)rows[i].first))
			return rows[i].text;
	return NULL;
}
