/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_files.c - collected files are read without trusting a single length in them
 */
#include <errno.h>
#include <fcntl.h>

#include "tap.h"
#include "wire/files.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int file_of(const void *bytes, size_t len, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
	CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

/* one record with lengths as told and `body` behind its head; what files_next says */
static int read_one(struct files_head head, const char *body, size_t body_len)
{
	char bytes[256] = {0};
	struct files_reader r;
	struct files_record record;
	int fd, rc;

	memcpy(bytes, &head, sizeof(head));
	memcpy(bytes + sizeof(head), body, body_len);
	fd = file_of(bytes, sizeof(head) + body_len, SEALS);
	CHECK(files_open(&r, fd) == 0);
	close(fd);
	errno = 0;
	rc = files_next(&r, &record);
	CHECK(rc >= 0 || errno == EBADMSG);
	files_close(&r);
	return rc;
}

TEST(a_file_that_may_still_change_is_refused)
{
	struct files_reader r;

	CHECK(files_open(&r, file_of("", 0, 0)) == -1 && errno == EPERM);
	CHECK(files_open(&r, file_of("", 0, F_SEAL_WRITE | F_SEAL_GROW)) == -1);
	CHECK(files_open(&r, open("/dev/null", O_RDONLY)) == -1);
}

TEST(an_empty_file_has_no_records)
{
	struct files_reader r;
	struct files_record record;

	CHECK(files_open(&r, file_of("", 0, SEALS)) == 0);
	CHECK(files_next(&r, &record) == 0);
	files_close(&r);
	files_close(&r);
}

TEST(records_follow_each_other_at_multiples_of_eight)
{
	const struct files_head one = {FILES_FILE, 1, 2}, two = {FILES_SKIPPED, 3, 5};
	struct files_reader r;
	struct files_record record;
	char bytes[48] = {0};

	memcpy(bytes, &one, sizeof(one));
	memcpy(bytes + 16, "axy", 3);
	memcpy(bytes + 24, &two, sizeof(two));
	memcpy(bytes + 40, "b/cmores", 8);
	CHECK(files_open(&r, file_of(bytes, sizeof(bytes), SEALS)) == 0);
	CHECK(files_next(&r, &record) == 1 && record.kind == FILES_FILE);
	CHECK(record.name_len == 1 && record.name[0] == 'a');
	CHECK(record.data_len == 2 && memcmp(record.data, "xy", 2) == 0);
	CHECK(files_next(&r, &record) == 1 && record.kind == FILES_SKIPPED);
	CHECK(record.data_len == 5 && memcmp(record.data, "mores", 5) == 0);
	CHECK(files_next(&r, &record) == 0);
	files_close(&r);
}

TEST(lengths_beyond_the_end_are_refused)
{
	CHECK(read_one((struct files_head){FILES_FILE, 4, 4}, "namedata", 8) == 1);
	CHECK(read_one((struct files_head){FILES_FILE, 4, 5}, "namedata", 8) == -1);
	CHECK(read_one((struct files_head){FILES_FILE, 9, 0}, "namedata", 8) == -1);
	CHECK(read_one((struct files_head){FILES_FILE, 4, UINT64_MAX}, "namedata", 8) ==
	      -1);
	CHECK(read_one((struct files_head){FILES_FILE, 4, UINT64_MAX - 19}, "namedata",
		       8) == -1);
	CHECK(read_one((struct files_head){FILES_FILE, UINT32_MAX, 4}, "namedata", 8) ==
	      -1);
	CHECK(read_one((struct files_head){FILES_FILE, 4, 3}, "namedat", 7) == -1);
}

TEST(half_a_head_is_refused)
{
	struct files_reader r;
	struct files_record record;

	CHECK(files_open(&r, file_of("\1\0\0\0\0\0\0", 8, SEALS)) == 0);
	CHECK(files_next(&r, &record) == -1 && errno == EBADMSG);
	files_close(&r);
}

TEST(unknown_kinds_are_refused)
{
	CHECK(read_one((struct files_head){0, 4, 4}, "namedata", 8) == -1);
	CHECK(read_one((struct files_head){3, 4, 4}, "namedata", 8) == -1);
}

TEST(names_are_utf8_without_nul)
{
	CHECK(read_one((struct files_head){FILES_FILE, 4, 4}, "na\0edata", 8) == -1);
	CHECK(read_one((struct files_head){FILES_FILE, 4, 4},
		       "na\xff"
		       "edata",
		       8) == -1);
	CHECK(read_one((struct files_head){FILES_FILE, 4, 4},
		       "\xc3\xa4\xc3\xb6\0\xff\0\xff", 8) == 1);
}
