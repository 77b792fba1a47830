/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_nameless.c - open files without a name count once, and hidden ones are noticed
 */
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "../tap.h"
#include "launcher/sample.h"
#include "tree_fixture.h"

#define FILE_BYTES (1u << 20)
#define NOBODY 65534

/* a deleted file of FILE_BYTES, open */
static int deleted(void)
{
	static char block[FILE_BYTES];
	int fd = open(name("%s/x", top), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && unlink(name("%s/x", top)) == 0);
	CHECK(write(fd, block, sizeof(block)) == (ssize_t)sizeof(block));
	return fd;
}

static void only_open(void)
{
	(void)deleted();
}

static void only_named(void)
{
	const int fd = open(name("%s/named", top), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, "named", 5) == 5);
}

/* twice here, and in another process; the test's group ends with it */
static void shared(void)
{
	CHECK(dup(deleted()) >= 0);
	if (fork() == 0)
		pause();
}

static void mapped(void)
{
	const int fd = deleted();

	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
	close(fd);
}

static void mapped_and_open(void)
{
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, deleted(), 0) != MAP_FAILED);
}

static void memory(void)
{
	const int fd = memfd_create("memory", MFD_CLOEXEC);

	CHECK(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
}

static void sent(void)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec io = {"x", 1};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	const int fd = deleted();
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	control.align.cmsg_level = SOL_SOCKET;
	control.align.cmsg_type = SCM_RIGHTS;
	control.align.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	CHECK(sendmsg(pair[0], &m, 0) == 1);
	close(fd);
}

static void undumpable(void)
{
	CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
}

/* what is seen of a child that does this and waits */
static struct disk_use look(void (*hold)(void))
{
	const pid_t self = getpid();
	const uid_t uid = geteuid() ? geteuid() : NOBODY;
	const struct sample_run who = {.tops = &self,
				       .top_count = 1,
				       .uid = uid,
				       .uids = 1,
				       .owner = uid,
				       .gid = geteuid() ? getegid() : NOBODY,
				       .place = top,
				       .most = 32768,
				       .ms = 500};
	const int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct disk_use use = {0};
	int ready[2];
	char byte;

	make_top();
	CHECK(chmod(top, 0777) == 0 && pipe(ready) == 0 && proc_fd >= 0);
	if (fork() == 0) {
		if (geteuid() == 0)
			CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
		CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
		hold();
		CHECK(write(ready[1], "x", 1) == 1);
		pause();
	}
	CHECK(read(ready[0], &byte, 1) == 1);
	sample_nameless(proc_fd, &who, &use);
	return use;
}

static bool counted(struct disk_use use, uint64_t least)
{
	return !use.unseen && use.bytes >= least && use.bytes < least + FILE_BYTES / 2;
}

TEST(a_deleted_file_counts_while_it_is_open)
{
	CHECK(counted(look(only_open), FILE_BYTES));
}

TEST(a_file_with_a_name_is_not_counted_here)
{
	CHECK(counted(look(only_named), 0));
}

TEST(one_that_several_have_counts_once)
{
	CHECK(counted(look(shared), FILE_BYTES));
}

TEST(a_mapping_of_one_that_is_open_hides_nothing)
{
	CHECK(counted(look(mapped_and_open), FILE_BYTES));
}

TEST(memory_files_are_no_disks)
{
	CHECK(counted(look(memory), 0));
}

TEST(who_has_one_in_a_mapping_alone_hides_it)
{
	CHECK(look(mapped).unseen);
}

TEST(who_has_one_on_its_way_through_a_socket_hides_it)
{
	CHECK(look(sent).unseen);
}

TEST(who_cannot_be_looked_into_hides_something)
{
	CHECK(look(undumpable).unseen);
}
