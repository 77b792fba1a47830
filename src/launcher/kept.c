/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kept.c - how much there may be in the directory of plan.kept
 *
 * Runs in: the workers, but for what only compares. No limit of the kernel's is about a
 * directory, and looking comes late: there may be more than its limit. Who comes then may
 * remove something. What is more than twice that, or so deep that nobody can count it, is
 * removed from here, as a pod is evicted that fills its node: else it would be there, and
 * no command, until the server is started again.
 */
#include "launcher/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/log.h"
#include "launcher/launcher.h"
#include "launcher/worker.h"

#define ENTRIES_PER_MB 128
#define ENTRIES 1024

uint64_t disk_entries(uint64_t mb)
{
	return mb * ENTRIES_PER_MB + ENTRIES;
}

bool kept_is_full(const struct limits *limits, const struct disk_use *use)
{
	return use->bytes >= (uint64_t)limits->disk_mb << 20 ||
	       use->entries >= disk_entries(limits->disk_mb);
}

bool kept_is_far(const struct limits *limits, const struct disk_use *use)
{
	return use->too_deep || use->unseen ||
	       use->bytes > (uint64_t)limits->disk_mb << 21 ||
	       use->entries > 2 * disk_entries(limits->disk_mb);
}

static int open_kept(const struct launcher *l)
{
	return open(l->kept, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void remove_all(int fd, const struct disk_use *use)
{
	const bool done = place_clean(fd) == 0;

	log_warn("kept.removed", "bytes=%llu entries=%llu too_deep=%d error=\"%s\"",
		 (unsigned long long)use->bytes, (unsigned long long)use->entries,
		 use->too_deep, done ? "" : strerror(errno));
}

int kept_begin(const struct launcher *l, const struct limits *limits,
	       struct disk_use *out)
{
	auto_fd int fd = open_kept(l);

	*out = (struct disk_use){0};
	if (fd < 0)
		return -1;
	sample_disk_open(fd, 2 * disk_entries(limits->disk_mb), out);
	if (!kept_is_far(limits, out))
		return 0;
	remove_all(fd, out);
	errno = EDQUOT;
	return -1;
}

bool kept_count(const struct launcher *l, const struct worker_order *o,
		struct disk_use *use)
{
	const struct limits *limits = &o->plan.limits;
	const uint64_t far = 2 * disk_entries(limits->disk_mb);
	auto_fd int fd = open_kept(l);
	struct disk_use all;
	bool removes;

	if (fd < 0)
		return false;
	if (!o->last) {
		sample_disk_more(fd, o->most, NULL, use);
		return false;
	}
	sample_disk_open(fd, o->most > far ? o->most : far, &all);
	removes = kept_is_far(limits, &all);
	if (removes)
		remove_all(fd, &all);
	sample_add(use, &all);
	return removes;
}
