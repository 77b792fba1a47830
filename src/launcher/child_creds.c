/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * child_creds.c - who the sandbox is, and that it can do nothing with it
 *
 * Runs in: process 1 of the sandbox. Its host uid is the slot's already, so one line of
 * map is all that an unprivileged process may write, and all that is wanted: no chown
 * games, no uid to become. A session whose user is root has a range of ids instead, and
 * its commands keep a few rights over those; process 1 keeps none.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/caps.h"
#include "base/sys.h"
#include "launcher/child.h"

#define MAP_TEXT 48

/* "1000 <outer> 1" without stdio */
static void child_map_line(char out[MAP_TEXT], unsigned outer)
{
	char digits[12];
	size_t n = 0, at;

	memcpy(out, "1000 ", 5);
	at = 5;
	do {
		digits[n++] = (char)('0' + outer % 10);
		outer /= 10;
	} while (outer);
	while (n)
		out[at++] = digits[--n];
	memcpy(out + at, " 1", 3);
}

/* who it is inside */
static uid_t child_uid(const struct child *c)
{
	return child_shares(c) ? c->outer_uid : c->plan.root ? 0 : CHILD_UID;
}

/* and what it may there */
static uint32_t child_caps(const struct child *c)
{
	return child_enters(c) && c->plan.root ? CAPS_ROOT_INSIDE : 0;
}

/* a range is the launcher's to give; it says when that is done */
static int child_await_range(const struct child *c)
{
	ssize_t n;
	char byte;

	do
		n = read(c->news_fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		errno = EPIPE;
	return n == 1 ? 0 : -1;
}

static int child_map_own(const struct child *c)
{
	char line[MAP_TEXT];

	/* the worker changed its uid, so /proc/self belongs to root until we are dumpable
	 */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return -1;
	if (child_write_at(c->proc_fd, "self/setgroups", "deny") < 0)
		return -1;
	child_map_line(line, c->outer_gid);
	if (child_write_at(c->proc_fd, "self/gid_map", line) < 0)
		return -1;
	child_map_line(line, c->outer_uid);
	if (child_write_at(c->proc_fd, "self/uid_map", line) < 0)
		return -1;
	/* the program will not be able to: it is the first to go when memory runs out,
	 * before its worker and, by its size, before us */
	return child_borrows(c) ? child_write_at(c->proc_fd, "self/oom_score_adj", "1000")
				: 0;
}

int child_id_maps(struct child *c)
{
	const uid_t uid = child_uid(c);

	if (c->plan.root ? child_await_range(c) < 0 : child_map_own(c) < 0)
		return -1;
	if (getuid() != uid || geteuid() != uid || getgid() != uid || getegid() != uid) {
		errno = EPERM;
		return -1;
	}
	/* nobody inside may look into process 1 */
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int child_parent_death(struct child *c)
{
	struct pollfd p = {.fd = c->news_fd, .events = 0};

	/* where no pid namespace ends with us, our tree must be ended by us */
	if (prctl(PR_SET_PDEATHSIG, child_shares(c) ? SIGTERM : SIGKILL, 0, 0, 0) < 0)
		return -1;
	/* it may have died before; getppid() is 0 in a new pid namespace and tells
	 * nothing */
	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR))) {
		errno = EPIPE;
		return -1;
	}
	return 0;
}

int child_session(struct child *c)
{
	umask(022); /* the files we write for the program look as if it had */
	if (setsid() < 0)
		return -1;
	/* a kernel without keyrings has none to share, and what a container's own filter
	 * refuses to us it refuses to the program too */
	if (sys_join_session_keyring() < 0 && errno != ENOSYS &&
	    !(errno == EPERM && child_shares(c)))
		return -1;
	return 0;
}

int child_cgroup_namespace(struct child *c)
{
	(void)c;
	return unshare(CLONE_NEWCGROUP);
}

static int child_drop_bounding(void)
{
	int cap;

	/* up to what this kernel knows, which may be more than our headers do */
	for (cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
		;
	/* any other error is not the end of the list, and would leave the rest in it */
	if (errno == EINVAL && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) < 0 &&
	    errno == EINVAL)
		return 0;
	errno = EPERM;
	return -1;
}

/* the worker that came into the session gave the others up there */
static int child_check_bounding(uint32_t caps, unsigned long bits)
{
	int cap, has;

	for (cap = 0; (has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0)) >= 0; cap++)
		if (has != (cap < 32 && caps & (1u << cap)))
			break;
	if (has < 0 && errno == EINVAL &&
	    (unsigned long)prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) == bits)
		return 0;
	errno = EPERM;
	return -1;
}

int child_capabilities(struct child *c)
{
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
				   SECBIT_NO_SETUID_FIXUP |
				   SECBIT_NO_SETUID_FIXUP_LOCKED |
				   SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
				   SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	const uint32_t caps = child_caps(c);
	struct __user_cap_data_struct own[2] = {{caps, caps, 0}}, now[2];

	/* in the host's user namespace the worker has given up the right to these two;
	 * what they forbid is a gain of rights by execve, as no_new_privs does */
	if (child_enters(c)
		    ? child_check_bounding(caps, caps ? CAPS_ROOT_INSIDE_BITS : bits) < 0
		    : !child_shares(c) && (child_drop_bounding() < 0 ||
					   prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0))
		return -1;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -1;
	if (sys_capset(own) < 0 || sys_capget(now) < 0)
		return -1;
	if (memcmp(now, own, sizeof(now)) != 0) {
		errno = EPERM;
		return -1;
	}
	return 0;
}

int child_no_new_privs(struct child *c)
{
	(void)c;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
		errno = EPERM;
		return -1;
	}
	return 0;
}

/* what the steps above promised, looked at once more by the program itself */
int child_identity(struct child *c)
{
	const uint32_t caps = child_caps(c);
	struct __user_cap_data_struct own[2] = {{caps, caps, 0}}, now[2];
	const uid_t uid = child_uid(c);
	const gid_t gid = child_shares(c) ? c->outer_gid : uid;
	uid_t r, e, s;
	gid_t g[3];

	if (getresuid(&r, &e, &s) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0)
		return -1;
	if (sys_capget(now) < 0)
		return -1;
	/* root of a session is never the host's */
	if (r != uid || e != uid || s != uid || (uid == 0 && !caps) ||
	    c->outer_uid == 0 || g[0] != gid || g[1] != gid || g[2] != gid ||
	    (!c->keeps_groups && getgroups(0, NULL) != 0) ||
	    memcmp(now, own, sizeof(now)) != 0 ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
		errno = EPERM;
		return -1;
	}
	return 0;
}
