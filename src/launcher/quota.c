/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * quota.c - what a directory may hold, as its file system keeps count of it
 *
 * Runs in: the launcher, and what it forks to remove layers.
 */
#include "launcher/quota.h"

#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK 1024 /* limits are in these, whatever the file system has */

static int quotactl_at(int dir_fd, int what, uint32_t project, void *arg)
{
	return (int)syscall(SYS_quotactl_fd, dir_fd, QCMD(what, PRJQUOTA), project, arg);
}

bool quota_possible(int dir_fd)
{
	struct fs_quota_statv state = {.qs_version = FS_QSTATV_VERSION1};

	return quotactl_at(dir_fd, Q_XGETQSTATV, 0, &state) == 0 &&
	       state.qs_flags & FS_QUOTA_PDQ_ENFD;
}

int quota_mark(int dir_fd, uint32_t project)
{
	struct fsxattr a;

	if (ioctl(dir_fd, FS_IOC_FSGETXATTR, &a) < 0)
		return -1;
	a.fsx_projid = project;
	a.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	return ioctl(dir_fd, FS_IOC_FSSETXATTR, &a);
}

bool quota_marked(int dir_fd, uint32_t project)
{
	struct fsxattr a;

	return ioctl(dir_fd, FS_IOC_FSGETXATTR, &a) == 0 && a.fsx_projid == project &&
	       a.fsx_xflags & FS_XFLAG_PROJINHERIT;
}

int quota_limit(int dir_fd, uint32_t project, const struct quota_use *most)
{
	struct if_dqblk q = {.dqb_valid = QIF_LIMITS};

	if (most) {
		q.dqb_bhardlimit = q.dqb_bsoftlimit = most->bytes / BLOCK;
		q.dqb_ihardlimit = q.dqb_isoftlimit = most->entries;
	}
	return quotactl_at(dir_fd, Q_SETQUOTA, project, &q);
}

int quota_used(int dir_fd, uint32_t project, struct quota_use *out)
{
	struct if_dqblk q = {0};

	if (quotactl_at(dir_fd, Q_GETQUOTA, project, &q) < 0)
		return -1;
	*out = (struct quota_use){.bytes = q.dqb_curspace, .entries = q.dqb_curinodes};
	return 0;
}
