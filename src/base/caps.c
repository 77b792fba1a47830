/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * caps.c - rights of our own processes; the only libcap user
 *
 * What was done is read back from the kernel: a right that should be gone and is not is a
 * failure here, not a surprise later. Without CAP_SETPCAP the bounding set and the secure
 * bits stay as they are. They only matter to a process that can gain rights by execve,
 * which no_new_privs forbids to the ones that end without any.
 */
#include "base/caps.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

static const cap_value_t launcher_caps[] = {
	CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,
	CAP_FSETID,  CAP_KILL,         CAP_SETGID,          CAP_SETUID,
	CAP_SETPCAP, CAP_SYS_ADMIN,    CAP_SYS_CHROOT,
};

enum { LAUNCHER_CAPS = sizeof(launcher_caps) / sizeof(launcher_caps[0]) };

static void defer_caps(cap_t *caps)
{
	int saved = errno;

	if (*caps)
		cap_free(*caps);
	errno = saved;
}
#define auto_caps __attribute__((cleanup(defer_caps)))

static bool has(cap_t caps, cap_value_t cap, cap_flag_t set)
{
	cap_flag_value_t value = CAP_CLEAR;

	return cap_get_flag(caps, cap, set, &value) == 0 && value == CAP_SET;
}

static bool have(cap_value_t cap, cap_flag_t set)
{
	auto_caps cap_t caps = cap_get_proc();

	return caps && has(caps, cap, set);
}

bool caps_have(const char *name)
{
	cap_value_t cap;

	return cap_from_name(name, &cap) == 0 && have(cap, CAP_EFFECTIVE);
}

/* use what is permitted: what follows needs CAP_SETPCAP in effect */
static int raise_setpcap(void)
{
	const cap_value_t setpcap = CAP_SETPCAP;
	auto_caps cap_t caps = cap_get_proc();

	if (!caps)
		return -1;
	if (!has(caps, setpcap, CAP_PERMITTED) || has(caps, setpcap, CAP_EFFECTIVE))
		return 0;
	if (cap_set_flag(caps, CAP_EFFECTIVE, 1, &setpcap, CAP_SET) < 0)
		return -1;
	return cap_set_proc(caps);
}

/* Drop from the bounding set what `keep` does not permit; needs CAP_SETPCAP. */
static int shrink_bounding(cap_t keep)
{
	for (cap_value_t cap = 0; cap_get_bound(cap) >= 0; cap++)
		if (cap_get_bound(cap) == 1 && !has(keep, cap, CAP_PERMITTED) &&
		    cap_drop_bound(cap) < 0)
			return -1;
	return 0;
}

/* Are the sets what they should be? EPERM when a right survived. */
static int verify(cap_t want, bool bounding)
{
	auto_caps cap_t now = cap_get_proc();
	int differ;

	if (!now)
		return -1;
	differ = cap_compare(now, want);
	for (cap_value_t cap = 0; cap_get_bound(cap) >= 0; cap++) {
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1)
			differ = 1;
		if (bounding && cap_get_bound(cap) == 1 && !has(want, cap, CAP_PERMITTED))
			differ = 1;
	}
	if (differ)
		errno = EPERM;
	return differ ? -1 : 0;
}

/* Bounding set, ambient set, then the rest: each step may need what the next one takes.
 */
static int restrict_to(cap_t want)
{
	bool setpcap;

	if (raise_setpcap() < 0)
		return -1;
	setpcap = have(CAP_SETPCAP, CAP_EFFECTIVE);
	if (setpcap && shrink_bounding(want) < 0)
		return -1;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -1;
	if (cap_set_proc(want) < 0)
		return -1;
	return verify(want, setpcap);
}

int caps_keep_for_launcher(void)
{
	auto_caps cap_t now = cap_get_proc(), keep = cap_init();

	if (!now || !keep)
		return -1;
	for (int i = 0; i < LAUNCHER_CAPS; i++) {
		if (!has(now, launcher_caps[i], CAP_PERMITTED))
			continue;
		if (cap_set_flag(keep, CAP_PERMITTED, 1, &launcher_caps[i], CAP_SET) <
			    0 ||
		    cap_set_flag(keep, CAP_EFFECTIVE, 1, &launcher_caps[i], CAP_SET) < 0)
			return -1;
	}
	return restrict_to(keep);
}

/* uid 0 means nothing any more, and nothing changes that */
#define NOBODY_BITS                                                      \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | \
	 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |       \
	 SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

static int lock_securebits(int bits)
{
	int now = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);

	if (now < 0)
		return -1;
	if (!have(CAP_SETPCAP, CAP_EFFECTIVE))
		return 0;
	return prctl(PR_SET_SECUREBITS, (unsigned long)(now | bits), 0, 0, 0);
}

static int drop_but(cap_t keep, int bits)
{
	if (raise_setpcap() < 0 || lock_securebits(bits) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	if (restrict_to(keep) < 0)
		return -1;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
		errno = EPERM;
		return -1;
	}
	return 0;
}

int caps_drop_all(void)
{
	auto_caps cap_t none = cap_init();

	return none ? drop_but(none, NOBODY_BITS) : -1;
}

/*
 * Who may not change groups keeps them; who could and was not let must have none. A plain
 * user's own namespace denies it whatever the capabilities, and there nobody becomes
 * somebody else.
 */
static int drop_groups(bool same_ids)
{
	if (setgroups(0, NULL) == 0 || getgroups(0, NULL) == 0)
		return 0;
	if (errno == EPERM && (!have(CAP_SETGID, CAP_EFFECTIVE) || same_ids))
		return 0;
	errno = EPERM;
	return -1;
}

static int verify_ids(uid_t uid, gid_t gid)
{
	uid_t r, e, s;
	gid_t rg, eg, sg;
	bool wrong;

	if (getresuid(&r, &e, &s) < 0 || getresgid(&rg, &eg, &sg) < 0)
		return -1;
	wrong = r != uid || e != uid || s != uid || rg != gid || eg != gid || sg != gid;
	/* and there is no way back */
	wrong = wrong || (uid != 0 && setuid(0) == 0) || (gid != 0 && setgid(0) == 0);
	if (wrong)
		errno = EPERM;
	return wrong ? -1 : 0;
}

static int become(uid_t uid, gid_t gid, cap_t keep, int bits)
{
	if (raise_setpcap() < 0)
		return -1;
	/* The bounding set first: the change of ids may take CAP_SETPCAP along. It says
	 * what execve may give, not what we have, so the ids can still be changed. */
	if (have(CAP_SETPCAP, CAP_EFFECTIVE) && shrink_bounding(keep) < 0)
		return -1;
	if (lock_securebits(bits) < 0)
		return -1;
	if (drop_groups(uid == geteuid() && gid == getegid()) < 0 ||
	    setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return -1;
	if (drop_but(keep, bits) < 0)
		return -1;
	return verify_ids(uid, gid);
}

int caps_become_nobody(uid_t uid, gid_t gid)
{
	auto_caps cap_t none = cap_init();

	return none ? become(uid, gid, none, NOBODY_BITS) : -1;
}

int caps_become_reader(uid_t uid, gid_t gid)
{
	const cap_value_t reads = CAP_DAC_READ_SEARCH;
	auto_caps cap_t keep = cap_init();

	if (!keep)
		return -1;
	/* who has it not reads what its uid may */
	if (have(reads, CAP_PERMITTED) &&
	    (cap_set_flag(keep, CAP_PERMITTED, 1, &reads, CAP_SET) < 0 ||
	     cap_set_flag(keep, CAP_EFFECTIVE, 1, &reads, CAP_SET) < 0))
		return -1;
	return become(uid, gid, keep, NOBODY_BITS);
}

int caps_become_root_inside(void)
{
	auto_caps cap_t keep = cap_init();

	if (!keep)
		return -1;
	for (cap_value_t cap = 0; cap < 32; cap++)
		if (CAPS_ROOT_INSIDE & (1u << cap) &&
		    (cap_set_flag(keep, CAP_PERMITTED, 1, &cap, CAP_SET) < 0 ||
		     cap_set_flag(keep, CAP_EFFECTIVE, 1, &cap, CAP_SET) < 0))
			return -1;
	return become(0, 0, keep, CAPS_ROOT_INSIDE_BITS);
}
