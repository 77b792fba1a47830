/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_cgroup_find.c - our place in the cgroup file systems, from what /proc says
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "launcher/cgroup_kernel.h"
#include "tap.h"

static void put(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static struct cgroup_base find(const char *cgroup, const char *mountinfo)
{
	char dir[] = "/tmp/cgroup-find.XXXXXX", path[256];
	static const char *const names[] = {"cgroup", "mountinfo"};
	struct cgroup_base base;

	CHECK(mkdtemp(dir));
	put(dir, "cgroup", cgroup);
	put(dir, "mountinfo", mountinfo);
	cgroup_find(dir, &base);
	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
	return base;
}

static const char v1_mounts[] =
	"30 1 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
	"31 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup "
	"rw,cpu,cpuacct\n"
	"32 30 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	"33 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	"34 30 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
	"35 30 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(v1_is_taken_in_a_hybrid_and_one_mount_may_hold_two)
{
	struct cgroup_base b = find("5:cpuset:/no\n4:cpu,cpuacct:/\n3:pids:/a/b\n"
				    "2:memory:/m\n1:name=systemd:/s\n0::/u\n",
				    v1_mounts);

	CHECK(b.kind == CGROUP_V1);
	CHECK(strcmp(b.dir[CGROUP_CPU], "/sys/fs/cgroup/cpu,cpuacct") == 0);
	CHECK(strcmp(b.dir[CGROUP_CPUACCT], b.dir[CGROUP_CPU]) == 0);
	CHECK(strcmp(b.dir[CGROUP_PIDS], "/sys/fs/cgroup/pids/a/b") == 0);
	CHECK(strcmp(b.dir[CGROUP_MEMORY], "/sys/fs/cgroup/memory/m") == 0);
	CHECK(b.dir[CGROUP_DEVICES][0] == 0 && b.dir[CGROUP_FREEZER][0] == 0);
	CHECK(cgroup_first_of_mount(&b, CGROUP_CPU));
	CHECK(!cgroup_first_of_mount(&b, CGROUP_CPUACCT));
	CHECK(!cgroup_first_of_mount(&b, CGROUP_DEVICES));
}

TEST(v2_is_taken_when_v1_lacks_what_is_needed)
{
	struct cgroup_base b = find(
		"2:freezer:/f\n0::/user.slice/x\n",
		"30 1 0:28 / /sys/fs/cgroup rw - cgroup2 none rw,nsdelegate\n"
		"31 1 0:29 / /mnt/f rw - cgroup cgroup rw,freezer\n");

	CHECK(b.kind == CGROUP_V2);
	CHECK(strcmp(b.dir[CGROUP_SLOT], "/sys/fs/cgroup/user.slice/x") == 0);
}

TEST(the_root_field_of_a_mount_is_honoured)
{
	const char *mounts = "30 1 0:28 /docker/c1 /sys/fs/cgroup rw - cgroup2 none rw\n";

	CHECK(strcmp(find("0::/docker/c1\n", mounts).dir[0], "/sys/fs/cgroup") == 0);
	CHECK(strcmp(find("0::/docker/c1/sub\n", mounts).dir[0], "/sys/fs/cgroup/sub") ==
	      0);
	CHECK(find("0::/docker/c10\n", mounts).kind == CGROUP_NONE);
	CHECK(find("0::/other\n", mounts).kind == CGROUP_NONE);
	CHECK(find("0::/../other\n", "30 1 0:28 / /sys/fs/cgroup rw - cgroup2 none rw\n")
		      .kind == CGROUP_NONE);
}

TEST(escaped_mount_points_are_read)
{
	struct cgroup_base b = find("0::/\n",
				    "30 1 0:28 / /my\\040cgroups rw - cgroup2 none rw\n");

	CHECK(strcmp(b.dir[CGROUP_SLOT], "/my cgroups") == 0);
}

TEST(a_writable_mount_wins_over_a_read_only_one)
{
	struct cgroup_base b = find("0::/\n",
				    "30 1 0:28 / /a ro,nosuid - cgroup2 none rw\n"
				    "31 1 0:28 / /b rw - cgroup2 none rw\n"
				    "32 1 0:28 / /c rw - cgroup2 none rw\n");

	CHECK(b.kind == CGROUP_V2 && strcmp(b.dir[CGROUP_SLOT], "/b") == 0);
}

TEST(read_only_and_absent_are_told_with_a_fix)
{
	struct cgroup_base b = find("0::/\n", "30 1 0:28 / /a ro - cgroup2 none rw\n");

	CHECK(b.kind == CGROUP_NONE && strstr(b.reason, "read-only") && b.fix[0]);
	b = find("0::/\n", "30 1 0:28 / / rw - ext4 none rw\n");
	CHECK(b.kind == CGROUP_NONE && b.reason[0] && b.fix[0]);
}

TEST(broken_lines_are_passed_over)
{
	struct cgroup_base b = find("\n:\n0\n0:\n::\n0::/x",
				    "30 1\n - \n - cgroup2\n"
				    "30 1 0:28 / /a rw - cgroup2\n");

	CHECK(b.kind == CGROUP_NONE);
}
