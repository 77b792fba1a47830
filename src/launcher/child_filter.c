/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_filter.c - landlock, then seccomp
 *
 * Runs in: the program, last before execve. Landlock stands behind the mount namespace:
 * should a mount turn writable by a bug, writing outside the scratch places is refused
 * all the same. Without a mount namespace it is what hides the host: then nothing is open
 * that is not on its list.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "launcher/child.h"

#define FS_READ                                                      \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | \
	 LANDLOCK_ACCESS_FS_READ_DIR)
#define FS_FILE /* what a rule on a file may name */                   \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |   \
	 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE | \
	 LANDLOCK_ACCESS_FS_IOCTL_DEV)
#define FS_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

static int child_landlock_rule(int rules_fd, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {.allowed_access = rights};
	struct stat st;
	int r, saved;

	rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
	if (rule.parent_fd < 0)
		return errno == ENOENT ? 0 : -1;
	if (fstat(rule.parent_fd, &st) == 0 && !S_ISDIR(st.st_mode))
		rule.allowed_access &= FS_FILE;
	r = sys_landlock_add_rule(rules_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	saved = errno;
	close(rule.parent_fd);
	errno = saved;
	return r;
}

/* the slot's root: all of it may be read, the scratch places written; that of a session
 * is its own to write, as far as it is mounted so */
static int child_rules_apart(const struct child *c, int rules_fd, uint64_t all)
{
	static const char *const scratch[] = {"/work", "/tmp", "/dev/shm", "/go-cache"};
	unsigned i;
	int r;

	r = child_landlock_rule(rules_fd, "/",
				all & (child_enters(c) ? ~FS_DEVICES : FS_READ));
	if (r == 0)
		r = child_landlock_rule(rules_fd, "/dev",
					all & (FS_FILE | LANDLOCK_ACCESS_FS_READ_DIR));
	for (i = 0; r == 0 && i < sizeof(scratch) / sizeof(scratch[0]); i++)
		r = child_landlock_rule(rules_fd, scratch[i], all & ~FS_DEVICES);
	return r;
}

/* where its broker listens. Landlock knows no addresses: the same port of another host is
 * open too, and the policies refuse what goes by other ways than connect() */
static int child_port_rule(const struct child *c, int rules_fd)
{
	const struct sys_landlock_net_port_attr rule = {
		.allowed_access = LANDLOCK_ACCESS_NET_CONNECT_TCP, .port = c->plan.port};

	return sys_landlock_add_rule(rules_fd, LANDLOCK_RULE_NET_PORT, &rule, 0);
}

/* the host's root: the runtime and five devices, and the run's own directory */
static int child_rules_shared(const struct child *c, int rules_fd, uint64_t all)
{
	static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full",
					      "/dev/random", "/dev/urandom"};
	const struct setup *s = c->setup;
	char layer[SETUP_PATH + 96];
	unsigned i;
	int r = 0;

	for (i = 0; r == 0 && i < s->binds; i++)
		if (!s->bind[i].installs || c->row->installs)
			r = child_landlock_rule(rules_fd, s->bind[i].path, all & FS_READ);
	for (i = 0; r == 0 && i < sizeof(devices) / sizeof(devices[0]); i++)
		r = child_landlock_rule(rules_fd, devices[i],
					all & FS_FILE & ~LANDLOCK_ACCESS_FS_EXECUTE);
	if (r == 0 && c->row->go_cache && c->abilities.go_seed)
		r = child_landlock_rule(rules_fd, s->go_seed_dir, all & FS_READ);
	if (r == 0 && child_has_layer(c)) {
		r = child_layer_dir(c, layer, sizeof(layer));
		if (r == 0)
			r = child_landlock_rule(rules_fd, layer, all & FS_READ);
	}
	if (r == 0 && c->seed_dir)
		r = child_landlock_rule(rules_fd, c->seed_dir, all & ~FS_DEVICES);
	if (r == 0)
		r = child_landlock_rule(rules_fd, c->place, all & ~FS_DEVICES);
	if (r == 0 && c->kept)
		r = child_landlock_rule(rules_fd, c->kept, all & ~FS_DEVICES);
	if (r == 0 && c->plan.network == NETWORK_HOST_PORT)
		r = child_port_rule(c, rules_fd);
	return r;
}

int child_landlock(struct child *c)
{
	const int abi = c->abilities.landlock_abi;
	struct sys_landlock_ruleset_attr attr = sys_landlock_everything(abi);
	const uint64_t all = attr.handled_access_fs;
	int fd, r;

	/* the canary finds out what it is worth; here it has to be there at least */
	if (abi <= 0 && child_shares(c)) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (abi <= 0)
		return 0;
	/* on a loopback of its own it may do as it likes, and so it may where the
	 * operator left it to the pod's network */
	if (c->plan.network == NETWORK_POD ||
	    ((c->plan.network == NETWORK_BROKER || child_enters(c)) && !child_shares(c)))
		attr.handled_access_net = 0;
	/* commands of a session may end and ask each other's processes: all that they see
	 * is the session's, by its pid and network namespaces */
	if (child_enters(c))
		attr.scoped = 0;
	fd = sys_landlock_create_ruleset(&attr, sys_landlock_attr_size(abi), 0);
	if (fd < 0)
		return -1;
	r = child_shares(c) ? child_rules_shared(c, fd, all)
			    : child_rules_apart(c, fd, all);
	if (r == 0)
		r = sys_landlock_restrict_self(fd, 0);
	close(fd);
	return r;
}

static int child_load(const struct sock_filter *insns, uint32_t len, unsigned flags)
{
	struct sock_fprog program = {
		.len = (unsigned short)len,
		.filter = (struct sock_filter *)insns,
	};

	return sys_seccomp(SECCOMP_SET_MODE_FILTER, flags, &program);
}

#define LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define REFUSE(num) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (num))

/*
 * Without a cgroup nobody counts what is in a memfd: it belongs to no process and to no
 * tmpfs of the run's. Programs know kernels without, and take a file in /dev/shm instead.
 *
 * What sockets hold is counted by sockets.c. For streams it can tell how much a sender
 * left that is gone, as long as all have the same room: so there are no others, which is
 * the policies' to refuse and report, and SO_SNDBUF does nothing, with success, as beyond
 * the kernel's own bound. Netlink, which nobody needs as much, is refused where it is not
 * counted; nobody is told of that one, which a policy may allow and this kernel not.
 *
 * Foreign architectures, whose numbers differ, are killed by the policies' filter.
 */
static int child_refuse_uncounted(const struct child *c)
{
	const uint8_t netlink = !c->abilities.sockets && !child_shares(c);
	const struct sock_filter insns[] = {
		LOAD(nr),
		IS(SYS_memfd_create, 11, 0),
		IS(SYS_setsockopt, 4, 0),
		IS(SYS_socket, netlink, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		LOAD(args[0]), /* of socket */
		IS(AF_NETLINK, 7, 4),
		LOAD(args[1]), /* of setsockopt */
		IS(SOL_SOCKET, 0, 2),
		LOAD(args[2]),
		IS(SO_SNDBUF, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		REFUSE(0),
		REFUSE(ENOSYS),
		REFUSE(EAFNOSUPPORT),
	};

	return child_load(insns, sizeof(insns) / sizeof(insns[0]), 0);
}

/* the one of the policies is the last: it refuses seccomp() itself */
int child_seccomp(struct child *c)
{
	const struct setup_reporting *r =
		&c->setup->reporting[child_reporting(c->setup, &c->abilities, &c->plan)];
	unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;

	if (c->abilities.poll_memory && child_refuse_uncounted(c) < 0)
		return -1;
	if (!c->abilities.notify)
		return child_load(r->plain.insns, r->plain.len, 0);
	if (c->abilities.wait_killable)
		flags |= SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	c->listener_fd = child_load(r->notify.insns, r->notify.len, flags);
	return c->listener_fd < 0 ? -1 : 0;
}

/* A program that had it could answer for itself. Until the launcher has it, a refused
 * call would wait: there is none before execve. */
int child_listener(struct child *c)
{
	const struct child_news n = {.type = NEWS_LISTENER, .step = -1};

	if (c->listener_fd < 0)
		return 0;
	if (child_send(c, &n, &c->listener_fd, 1) < 0 || close(c->listener_fd) < 0)
		return -1;
	c->listener_fd = -1;
	return 0;
}
