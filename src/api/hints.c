/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hints.c - why a call is refused, or what to do instead
 *
 * For people who know their program and not its system calls. A hint is given for a call
 * that was refused, so it must be true wherever a policy of this version refuses it: at
 * every level, with every network; what is true somewhere only says where. With policies
 * of the operator's a hint may be beside the point.
 */
#include "api/api.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

#define NAMESPACES "a program cannot make or enter namespaces"
#define MOUNTS "a program cannot mount anything; /work and /tmp can be written"
#define OTHERS "a program cannot trace other processes or look into them"
#define IDS "a program keeps its user and its groups"
#define HOST "that is for whoever administers the host"
#define CLOCK "the clock is the host's"
#define KEYS "there are no kernel keyrings here"
#define HANDLES "files can be opened by their paths only"
#define SCHEDULING "a program cannot choose how it is scheduled; nice works"
#define DEVICES "device nodes cannot be made"
#define OUT_OF_BAND "out-of-band data (MSG_OOB) is denied"
#define WATCH "who reads and opens files cannot be watched"
#define FILES "a program with the server's user cannot change modes or owners of files"
#define FIRST "process 1, which ends the run, cannot be slowed down"
#define ITSELF "a program can change itself only (pid 0): it sees processes of others"

enum where {
	ANY,
	APART,  /* with namespaces, */
	SHARED, /* without: the levels landlock and process */
};

/* the first row that fits; of a container nobody knows which of the two it is inside */
static const struct {
	const char *name;
	enum where where;
	const char *text;
} rows[] = {
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
	{"sched_setaffinity", APART, FIRST},
	{"sched_setaffinity", SHARED, ITSELF},
	{"setpriority", APART, FIRST},
	{"setpriority", SHARED, ITSELF},
	{"kill", ANY, "not all processes at once (-1): some are others'; a group works"},
	{"setuid", ANY, IDS},
	{"setgid", ANY, IDS},
	{"setreuid", ANY, IDS},
	{"setregid", ANY, IDS},
	{"setresuid", ANY, IDS},
	{"setresgid", ANY, IDS},
	{"setfsuid", ANY, IDS},
	{"setfsgid", ANY, IDS},
	{"setgroups", ANY, IDS},
	{"capset", ANY, "a program cannot change its capabilities"},
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
	{"inotify_add_watch", APART, WATCH "; changes can"},
	{"inotify_add_watch", SHARED, "files cannot be watched at this level"},
	{"fanotify_init", ANY, WATCH},
	{"fanotify_mark", ANY, WATCH},
	{"chmod", ANY, FILES},
	{"fchmod", ANY, FILES},
	{"fchmodat", ANY, FILES},
	{"fchmodat2", ANY, FILES},
	{"chown", ANY, FILES},
	{"fchown", ANY, FILES},
	{"lchown", ANY, FILES},
	{"fchownat", ANY, FILES},
	{"mknod", ANY, DEVICES},
	{"mknodat", ANY, DEVICES},
	{"sendto", ANY, OUT_OF_BAND},
	{"recvfrom", ANY, OUT_OF_BAND},
	{"sendmsg", ANY, OUT_OF_BAND},
	{"recvmsg", ANY, OUT_OF_BAND},
	{"sendmmsg", ANY, OUT_OF_BAND},
	{"recvmmsg", ANY, OUT_OF_BAND},
};

static const char *inet_hint(const struct result *r)
{
	if (r->in_session)
		return "a session has TCP only: on its own loopback, and to the proxy "
		       "that https_proxy names where it has network";
	switch (r->reach) {
	case NETWORK_BROKER:
		return "only TCP, to the proxy that https_proxy names";
	case NETWORK_POD:
		return "only TCP and UDP";
	default:
		return "sockets are denied: network is off";
	}
}

static const char *socket_hint(const struct result *r, const struct violation *v)
{
	const uint64_t *args = v->args;

	switch ((uint32_t)args[0]) { /* as the kernel reads it */
	case AF_INET:
	case AF_INET6:
		return inet_hint(r);
	case AF_UNIX:
		if (v->errno_ret == ESOCKTNOSUPPORT)
			return "AF_UNIX sockets other than SOCK_STREAM are denied here; "
			       "a socketpair of SOCK_STREAM works";
		return "AF_UNIX sockets are denied: their names are not the run's own; "
		       "socketpair works, and lookups of users go on without";
	case AF_NETLINK:
		return (uint32_t)args[2] == NETLINK_ROUTE
			       ? "AF_NETLINK is denied: the interfaces are not the "
				 "run's own"
			       : "of AF_NETLINK NETLINK_ROUTE at most can be used";
	default:
		return "sockets of this family are denied";
	}
}

static bool fits(enum where where, uint32_t level)
{
	switch (where) {
	case APART:
		return level == LEVEL_NAMESPACES || level == LEVEL_FULL;
	case SHARED:
		return level == LEVEL_LANDLOCK || level == LEVEL_PROCESS;
	default:
		return true;
	}
}

const char *violation_hint(const struct result *r, const char *name,
			   const struct violation *v)
{
	if (strcmp(name, "socket") == 0)
		return socket_hint(r, v);
	if (strcmp(name, "socketpair") == 0)
		return v->errno_ret == ESOCKTNOSUPPORT
			       ? "only pairs of SOCK_STREAM sockets can be made here"
			       : "only pairs of AF_UNIX sockets can be made";
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].name, name) == 0 && fits(rows[i].where, r->level))
			return rows[i].text;
	return NULL;
}
