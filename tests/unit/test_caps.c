/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_caps.c - what is gone is gone
 */
#include "base/caps.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "../tap.h"
#include "base/sys.h"

#define CAP_BIT(cap) (UINT64_C(1) << (cap))

static const uint64_t launcher_set = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) |
				     CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_FOWNER) |
				     CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_KILL) |
				     CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETUID) |
				     CAP_BIT(CAP_SETPCAP) | CAP_BIT(CAP_SYS_ADMIN) |
				     CAP_BIT(CAP_SYS_CHROOT);

struct sets {
	uint64_t permitted, effective, inheritable, bounding, ambient;
};

/* asked of the kernel, not of the library under test */
static struct sets now(void)
{
	struct __user_cap_data_struct d[2];
	struct sets s = {0};

	CHECK(sys_capget(d) == 0);
	s.permitted = d[0].permitted | (uint64_t)d[1].permitted << 32;
	s.effective = d[0].effective | (uint64_t)d[1].effective << 32;
	s.inheritable = d[0].inheritable | (uint64_t)d[1].inheritable << 32;
	for (int cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
			s.bounding |= CAP_BIT(cap);
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1)
			s.ambient |= CAP_BIT(cap);
	}
	return s;
}

static void need_root(void)
{
	if (geteuid() != 0 || !(now().effective & CAP_BIT(CAP_SETPCAP)))
		SKIP("needs root");
}

/* one right where it does not belong, to see it go */
static void spread(void)
{
	struct __user_cap_data_struct d[2];

	CHECK(sys_capget(d) == 0);
	d[0].inheritable |= 1u << CAP_KILL;
	CHECK(sys_capset(d) == 0);
	CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0) == 0);
}

static void nothing_left(void)
{
	struct sets s = now();

	CHECK(s.permitted == 0 && s.effective == 0 && s.inheritable == 0 &&
	      s.ambient == 0);
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}

TEST(have_tells_what_is_in_effect)
{
	bool root = now().effective & CAP_BIT(CAP_SYS_ADMIN);

	CHECK(caps_have("cap_sys_admin") == root);
	CHECK(!caps_have("cap_no_such_thing"));
	CHECK(caps_drop_all() == 0);
	CHECK(!caps_have("cap_sys_admin"));
}

TEST(the_launcher_keeps_its_list_and_no_more)
{
	uint64_t want;
	struct sets s;

	need_root();
	want = now().permitted & launcher_set;
	spread();
	CHECK(caps_keep_for_launcher() == 0);
	s = now();
	CHECK(s.permitted == want && s.effective == want && s.bounding == want);
	CHECK(s.inheritable == 0 && s.ambient == 0);
	CHECK(caps_keep_for_launcher() == 0); /* and again: nothing more goes */
	CHECK(now().permitted == want);
}

TEST(the_launcher_keeps_only_what_it_had)
{
	struct __user_cap_data_struct d[2];
	struct sets s;

	need_root();
	CHECK(sys_capget(d) == 0);
	d[0].permitted &= ~(1u << CAP_SYS_ADMIN);
	d[0].effective &= d[0].permitted;
	d[0].inheritable = d[1].inheritable = 0;
	CHECK(sys_capset(d) == 0);
	CHECK(caps_keep_for_launcher() == 0);
	s = now();
	CHECK(!((s.permitted | s.effective | s.bounding) & CAP_BIT(CAP_SYS_ADMIN)));
	CHECK(s.permitted & CAP_BIT(CAP_SETUID));
}

TEST(drop_all_leaves_root_without_rights)
{
	need_root();
	spread();
	CHECK(caps_drop_all() == 0);
	nothing_left();
	CHECK(now().bounding == 0 && geteuid() == 0);
	CHECK(setresuid(1, 1, 1) == -1 && errno == EPERM);
	CHECK(caps_drop_all() == 0); /* again, without CAP_SETPCAP */
}

TEST(nobody_has_no_groups_no_rights_and_no_way_back)
{
	uid_t r, e, s;
	gid_t rg, eg, sg, groups[2] = {0, 4};

	need_root();
	CHECK(setgroups(2, groups) == 0);
	spread();
	CHECK(caps_become_nobody(65534, 65533) == 0);
	nothing_left();
	CHECK(now().bounding == 0);
	CHECK(getresuid(&r, &e, &s) == 0 && r == 65534 && e == 65534 && s == 65534);
	CHECK(getresgid(&rg, &eg, &sg) == 0 && rg == 65533 && eg == 65533 && sg == 65533);
	CHECK(getgroups(0, NULL) == 0);
	CHECK(setuid(0) == -1 && seteuid(0) == -1 && setgid(0) == -1);
	CHECK(caps_become_nobody(65534, 65533) == 0); /* what it is already */
	CHECK(caps_become_nobody(1, 1) == -1 && errno == EPERM);
}

TEST(a_reader_reads_what_is_not_his_and_has_no_other_right)
{
	const uint64_t reads = CAP_BIT(CAP_DAC_READ_SEARCH);
	char path[64] = "/tmp/test-caps-XXXXXX";
	struct sets s;
	int fd;

	need_root();
	if (!(now().permitted & reads))
		SKIP("needs CAP_DAC_READ_SEARCH");
	fd = mkstemp(path);
	CHECK(fd >= 0 && fchmod(fd, 0) == 0 && unlink(path) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	spread();
	CHECK(caps_become_reader(65534, 65533) == 0);
	s = now();
	CHECK(s.permitted == reads && s.effective == reads && s.bounding == reads);
	CHECK(s.inheritable == 0 && s.ambient == 0);
	CHECK(getuid() == 65534 && getegid() == 65533 && getgroups(0, NULL) == 0);
	CHECK(setuid(0) == -1 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	CHECK(open(path, O_RDONLY | O_CLOEXEC) >= 0);
	CHECK(open(path, O_WRONLY | O_CLOEXEC) == -1 && errno == EACCES);
	CHECK(ftruncate(fd, 0) ==
	      0); /* our own descriptor; its name is root's to remove */
}

TEST(root_may_stay_root_in_name)
{
	need_root();
	CHECK(caps_become_nobody(0, 0) == 0);
	nothing_left();
	CHECK(now().bounding == 0 && getuid() == 0);
}

TEST(without_setpcap_the_bounding_set_stays_and_the_rest_goes)
{
	struct __user_cap_data_struct d[2];

	need_root();
	CHECK(sys_capget(d) == 0);
	d[0].permitted &= ~(1u << CAP_SETPCAP);
	d[0].effective &= d[0].permitted;
	d[0].inheritable = d[1].inheritable = 0;
	CHECK(sys_capset(d) == 0);
	CHECK(caps_become_nobody(65534, 65534) == 0);
	nothing_left();
	CHECK(getuid() == 65534 && getgroups(0, NULL) == 0);
}

/* a process that could change its groups but is not let keeps nothing quietly */
TEST(groups_that_cannot_be_dropped_are_a_failure)
{
	gid_t groups[1] = {4};
	int fd;

	need_root();
	CHECK(setgroups(1, groups) == 0);
	if (unshare(CLONE_NEWUSER) < 0)
		SKIP("cannot make a user namespace");
	fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, "deny", 4) == 4);
	close(fd);
	CHECK(caps_become_nobody(0, 0) == -1 && errno == EPERM);
}
