/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * verdicts_chroot.c - is our root directory another one than the mount namespace's
 *
 * Runs in: the launcher, when no sandbox can be made. The kernel asks this before it
 * makes a user namespace, and tells nobody the answer.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/defer.h"
#include "base/num.h"
#include "base/sys.h"
#include "launcher/verdicts.h"

/* "ID PARENT DEVICE ROOT POINT ...", POINT as the owner of the file sees it */
static bool is_below(char *line, uint64_t mount_id)
{
	const char *id = strsep(&line, " "), *point = NULL;
	uint64_t n;

	for (int i = 0; i < 4; i++)
		point = strsep(&line, " ");
	return point && num_u64(id, &n) == 0 && n == mount_id && strcmp(point, "/") != 0;
}

static bool lists_below(const char *mountinfo, uint64_t mount_id)
{
	FILE *file = fopen(mountinfo, "re");
	auto_free char *line = NULL;
	bool below = false;
	size_t room = 0;

	while (file && !below && getline(&line, &room, file) > 0)
		below = is_below(line, mount_id);
	if (file)
		fclose(file);
	return below;
}

/* the mount that is our root lies below the root of some other process */
static bool below_another_root(uint64_t mount_id)
{
	DIR *dir = opendir("/proc");
	bool below = false;
	const struct dirent *d;

	while (dir && !below && (d = readdir(dir))) {
		char name[sizeof("/proc//mountinfo") + sizeof(d->d_name)];

		if (d->d_name[0] < '1' || d->d_name[0] > '9')
			continue;
		(void)snprintf(name, sizeof(name), "/proc/%s/mountinfo", d->d_name);
		below = lists_below(name, mount_id);
	}
	if (dir)
		closedir(dir);
	return below;
}

bool verdicts_in_chroot(void)
{
	struct statx root;

	if (statx(AT_FDCWD, "/", 0, STATX_MNT_ID, &root) < 0 ||
	    !(root.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
		return false;
	if (!(root.stx_attributes & STATX_ATTR_MOUNT_ROOT))
		return true;
	return (root.stx_mask & STATX_MNT_ID) && below_another_root(root.stx_mnt_id);
}
