/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_sample_disk.c - trees of files, counted whole, in part, and together
 */
#include "launcher/sample.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "tap.h"

static char place[] = "/tmp/test-sample-XXXXXX";

static int make_place(void)
{
	int fd;

	CHECK(mkdtemp(place));
	fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void remove_place(int fd)
{
	close(fd);
	CHECK(fs_remove_tree(AT_FDCWD, place) == 0);
}

static void make_file(int dir_fd, const char *name, size_t bytes)
{
	static const char zeros[65536];
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, zeros, bytes) == (ssize_t)bytes && fsync(fd) == 0);
	close(fd);
}

static int make_directory(int dir_fd, const char *name)
{
	int fd;

	CHECK(mkdirat(dir_fd, name, 0700) == 0);
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

/* each with a long name: more than one call for them, at any size of ours */
static void make_many(int dir_fd, unsigned count)
{
	char name[256];
	unsigned i;

	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%0200u", i);
		CHECK(mknodat(dir_fd, name, S_IFREG | 0600, 0) == 0);
	}
}

TEST(every_name_is_seen_once_however_many_there_are)
{
	int fd = make_place(), below_fd = make_directory(fd, "below");
	struct disk_use use;

	make_many(fd, 300);
	make_many(below_fd, 6000);
	close(below_fd);
	sample_disk(fd, UINT64_MAX, &use);
	CHECK(use.entries == 6301 && !use.too_deep && !use.unseen);
	sample_disk(fd, 6301, &use);
	CHECK(use.entries == 6301);
	remove_place(fd);
}

TEST(it_ends_when_there_are_more_than_asked_for)
{
	int fd = make_place();
	struct disk_use use;

	make_many(fd, 100);
	sample_disk(fd, 40, &use);
	CHECK(use.entries == 41);
	remove_place(fd);
}

TEST(a_file_of_two_names_counts_for_each_unless_it_was_seen)
{
	int fd = make_place(), one_fd = make_directory(fd, "one"),
	    two_fd = make_directory(fd, "two");
	struct disk_use use = {0}, each;
	struct sample_seen seen = {0};

	make_file(one_fd, "a", 65536);
	make_file(one_fd, "b", 65536);
	make_file(two_fd, "c", 65536);
	CHECK(linkat(one_fd, "a", two_fd, "a", 0) == 0);
	sample_disk(fd, UINT64_MAX, &each);
	CHECK(each.entries == 6);
	sample_disk_more(one_fd, UINT64_MAX, &seen, &use);
	CHECK(use.entries == 2 && use.bytes >= 2 * 65536 && use.bytes < 3 * 65536);
	sample_disk_more(two_fd, UINT64_MAX, &seen, &use);
	CHECK(use.entries == 3 && use.bytes >= 3 * 65536 && use.bytes < 4 * 65536);
	sample_seen_done(&seen);
	close(one_fd);
	close(two_fd);
	remove_place(fd);
}

TEST(thousands_of_files_that_were_seen_are_all_remembered)
{
	int fd = make_place(), one_fd = make_directory(fd, "one"),
	    two_fd = make_directory(fd, "two");
	struct disk_use use = {0};
	struct sample_seen seen = {0};
	char name[256];
	unsigned i;

	make_many(one_fd, 3000);
	for (i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "%0200u", i);
		CHECK(linkat(one_fd, name, two_fd, name, 0) == 0);
	}
	sample_disk_more(one_fd, UINT64_MAX, &seen, &use);
	sample_disk_more(two_fd, UINT64_MAX, &seen, &use);
	CHECK(use.entries == 3000);
	sample_seen_done(&seen);
	close(one_fd);
	close(two_fd);
	remove_place(fd);
}

TEST(what_is_too_deep_is_said_and_counted_when_nobody_writes_to_it)
{
	int fd = make_place(), at = dup(fd), next;
	struct disk_use use, whole = {0};
	struct sample_seen seen = {0};
	unsigned i;

	for (i = 0; i < 200; i++) {
		next = make_directory(at, "d");
		if (i > 120) {
			close(make_directory(at, "e"));
			make_file(at, "f", 4096);
			CHECK(linkat(at, "f", at, "g", 0) == 0);
		}
		close(at);
		at = next;
	}
	close(at);
	sample_disk(fd, UINT64_MAX, &use);
	CHECK(use.too_deep && use.entries <= 129 + 3 * 8);
	sample_disk_whole(fd, UINT64_MAX, &seen, &whole);
	CHECK(!whole.too_deep && !whole.unseen && whole.entries == 200 + 79 * 2);
	CHECK(whole.bytes >= use.bytes + (uint64_t)79 * 4096 - 8 * 4096);
	sample_seen_done(&seen);
	whole = (struct disk_use){0};
	sample_disk_whole(fd, 300, NULL, &whole);
	CHECK(whole.entries == 301);
	remove_place(fd);
}
