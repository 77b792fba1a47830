/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_fs.c - whole files, paths that stay beneath, names
 */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "../tap.h"

/* a fresh directory of this test's own, gone when the test ends */
static char root[] = "/tmp/test_fs.XXXXXX";

static void remove_root(void)
{
	fs_remove_tree(AT_FDCWD, root);
}

static int fresh(void)
{
	int fd;

	CHECK(mkdtemp(root));
	atexit(remove_root);
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void make(int dir_fd, const char *name, const char *text)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	CHECK(fd >= 0 && fs_write_all(fd, text, strlen(text)) == 0);
	close(fd);
}

static int entries(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
	DIR *d = fdopendir(fd);

	CHECK(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

TEST(read_takes_the_whole_file_or_nothing)
{
	int dir_fd = fresh();
	char out[8] = "before";

	make(dir_fd, "seven", "1234567");
	make(dir_fd, "eight", "12345678");
	make(dir_fd, "none", "");
	CHECK(fs_read_at(dir_fd, "seven", out, 8) == 7 && !strcmp(out, "1234567"));
	memcpy(out, "before", 7);
	CHECK(fs_read_at(dir_fd, "eight", out, 8) == -1 && errno == EFBIG);
	CHECK(fs_read_at(dir_fd, "absent", out, 8) == -1 && errno == ENOENT);
	CHECK(fs_read_at(dir_fd, "seven", out, 0) == -1 && errno == EINVAL);
	CHECK(fs_read_at(dir_fd, ".", out, 8) == -1 && errno == EISDIR);
	CHECK(!strcmp(out, "before"));
	CHECK(fs_read_at(dir_fd, "none", out, 1) == 0 && out[0] == 0);
	close(dir_fd);
}

TEST(read_takes_kernel_files_and_does_not_wait_on_a_fifo)
{
	int dir_fd = fresh();
	char out[4096];

	CHECK(fs_read_at(AT_FDCWD, "/proc/self/status", out, sizeof(out)) > 100);
	CHECK(mkfifoat(dir_fd, "fifo", 0600) == 0);
	CHECK(fs_read_at(dir_fd, "fifo", out, sizeof(out)) == 0);
	close(dir_fd);
}

TEST(write_replaces_and_does_not_create)
{
	int dir_fd = fresh();
	char out[32];

	CHECK(fs_write_at(dir_fd, "f", "x") == -1 && errno == ENOENT);
	make(dir_fd, "f", "a longer text");
	CHECK(fs_write_at(dir_fd, "f", "short") == 0);
	CHECK(fs_read_at(dir_fd, "f", out, sizeof(out)) == 5 && !strcmp(out, "short"));
	CHECK(fs_write_at(AT_FDCWD, "/proc/self/oom_score_adj", "1000") == 0);
	CHECK(fs_read_at(AT_FDCWD, "/proc/self/oom_score_adj", out, 32) == 5);
	close(dir_fd);
}

TEST(created_files_are_whole_and_private)
{
	int dir_fd = fresh();
	struct stat st;
	char out[32];

	CHECK(fs_create_whole(dir_fd, "f", "one", 3) == 0);
	CHECK(fs_create_whole(dir_fd, "f", "two!", 4) == 0);
	CHECK(fs_read_at(dir_fd, "f", out, sizeof(out)) == 4 && !strcmp(out, "two!"));
	CHECK(fstatat(dir_fd, "f", &st, 0) == 0 && (st.st_mode & 07777) == 0600);
	CHECK(entries(dir_fd) == 1);
	CHECK(mkdirat(dir_fd, "d", 0700) == 0);
	CHECK(fs_create_whole(dir_fd, "d", "x", 1) == -1 && errno == EISDIR);
	CHECK(entries(dir_fd) == 2); /* no temporary file stayed */
	close(dir_fd);
}

TEST(create_does_not_write_through_a_link)
{
	int dir_fd = fresh();
	char out[32];

	make(dir_fd, "victim", "safe");
	CHECK(symlinkat("victim", dir_fd, "link") == 0);
	CHECK(fs_create_whole(dir_fd, "link", "new", 3) == 0);
	CHECK(fs_read_at(dir_fd, "victim", out, sizeof(out)) == 4 &&
	      !strcmp(out, "safe"));
	close(dir_fd);
}

TEST(write_all_reports_a_full_device)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0 && fs_write_all(fd, "x", 1) == -1 && errno == ENOSPC);
	CHECK(fs_write_all(fd, "x", 0) == 0);
	close(fd);
}

TEST(paths_are_made_component_by_component)
{
	int dir_fd = fresh(), fd = fs_make_path(dir_fd, "a/b//c/", 0700);
	struct stat made, there;
	char absolute[64], big[257];

	CHECK(fd >= 0 && fstat(fd, &made) == 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	CHECK(fstatat(dir_fd, "a/b/c", &there, 0) == 0 && made.st_ino == there.st_ino);
	close(fd);
	fd = fs_make_path(dir_fd, "a/b/c", 0700);
	CHECK(fd >= 0);
	close(fd);
	CHECK(fs_make_path(dir_fd, "a/../../x", 0700) == -1 && errno == EINVAL);
	memset(big, 'a', 256);
	big[256] = 0;
	CHECK(fs_make_path(dir_fd, big, 0700) == -1 && errno == ENAMETOOLONG);
	CHECK(fs_make_path(dir_fd, "/tmp", 0700) == -1 && errno == EINVAL);
	CHECK(symlinkat("/tmp", dir_fd, "link") == 0);
	CHECK(fs_make_path(dir_fd, "link/x", 0700) == -1);
	make(dir_fd, "file", "");
	CHECK(fs_make_path(dir_fd, "file/x", 0700) == -1 && errno == ENOTDIR);
	snprintf(absolute, sizeof(absolute), "%s/q/r", root);
	fd = fs_make_path(AT_FDCWD, absolute, 0700);
	CHECK(fd >= 0 && fstatat(dir_fd, "q/r", &there, 0) == 0);
	close(fd);
	close(dir_fd);
}

TEST(a_path_leads_through_what_may_be_entered_and_not_listed)
{
	int dir_fd, fd;

	if (geteuid() != 0)
		SKIP("needs root");
	dir_fd = fresh();
	CHECK(chmod(root, 0711) == 0 && mkdirat(dir_fd, "a", 0711) == 0 &&
	      mkdirat(dir_fd, "a/b", 0700) == 0 &&
	      fchownat(dir_fd, "a/b", 65534, 65534, 0) == 0);
	CHECK(seteuid(65534) == 0);
	fd = fs_make_path(dir_fd, "a/b/c", 0700);
	CHECK(fd >= 0 && fs_make_path(dir_fd, "a/x", 0700) == -1 && errno == EACCES);
	CHECK(fs_make_path(dir_fd, "a", 0700) == -1 && errno == EACCES);
	CHECK(seteuid(0) == 0);
	close(fd);
	close(dir_fd);
}

TEST(open_stays_beneath)
{
	int dir_fd = fresh(), fd;

	make(dir_fd, "f", "x");
	CHECK(mkdirat(dir_fd, "d", 0700) == 0);
	CHECK(symlinkat("f", dir_fd, "link") == 0 &&
	      symlinkat("/", dir_fd, "d/root") == 0);
	fd = fs_open_beneath(dir_fd, "f", O_RDONLY, 0);
	CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	close(fd);
	fd = fs_open_beneath(dir_fd, "d/new", O_WRONLY | O_CREAT | O_EXCL, 0640);
	CHECK(fd >= 0);
	close(fd);
	CHECK(fs_open_beneath(dir_fd, "link", O_RDONLY, 0) == -1 && errno == ELOOP);
	CHECK(fs_open_beneath(dir_fd, "d/root/etc", O_RDONLY, 0) == -1 && errno == ELOOP);
	CHECK(fs_open_beneath(dir_fd, "../", O_RDONLY, 0) == -1 && errno == EXDEV);
	CHECK(fs_open_beneath(dir_fd, "/etc/passwd", O_RDONLY, 0) == -1 &&
	      errno == EXDEV);
	CHECK(fs_open_beneath(dir_fd, "absent", O_RDONLY, 0644) == -1 && errno == ENOENT);
	close(dir_fd);
	dir_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fs_open_beneath(dir_fd, "proc/version", O_RDONLY, 0) == -1 &&
	      errno == EXDEV);
	close(dir_fd);
}

#define OK(s) fs_name_ok(s, sizeof(s) - 1, 4096)

TEST(plain_names_are_ok)
{
	CHECK(OK("a") && OK("a/b") && OK("a.b") && OK("..a") && OK("a..") && OK("..."));
	CHECK(OK(".hidden") && OK("a b") && OK("-rf") && OK("caf\xc3\xa9") && OK("con"));
	CHECK(OK("\xc2\xa0") && OK("a/.b/..c/d"));
}

TEST(names_that_lead_elsewhere_are_not)
{
	CHECK(!OK("") && !OK(".") && !OK("..") && !OK("/") && !OK("/a") && !OK("a/"));
	CHECK(!OK("a//b") && !OK("./a") && !OK("a/.") && !OK("a/./b") && !OK("../a"));
	CHECK(!OK("a/..") && !OK("a/../b") && !OK("a/../../b") && !OK("//"));
}

TEST(names_with_odd_bytes_are_not)
{
	CHECK(!OK("a\0b") && !OK("\0") && !OK("a\n") && !OK("\x1b") && !OK("\x7f"));
	CHECK(!OK("a\xff") && !OK("\xc0\xaf") && !OK("\xed\xa0\x80") && !OK("\xc2"));
	CHECK(!OK("\xc2\x85") && !OK("a\tb"));
}

TEST(names_have_their_lengths)
{
	char name[512];

	memset(name, 'a', sizeof(name));
	CHECK(fs_name_ok(name, 255, 4096) && !fs_name_ok(name, 256, 4096));
	name[255] = '/';
	CHECK(fs_name_ok(name, 511, 511) && !fs_name_ok(name, 511, 510));
	CHECK(!fs_name_ok(name, 512, 4096)); /* 256 behind the slash */
}

TEST(sealed_files_do_not_change)
{
	int fd = fs_sealed("label", "bytes", 5);
	char out[8];

	CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
	CHECK(read(fd, out, sizeof(out)) == 5 && !memcmp(out, "bytes", 5));
	CHECK(pwrite(fd, "x", 1, 0) == -1 && errno == EPERM);
	CHECK(ftruncate(fd, 0) == -1 && ftruncate(fd, 9) == -1);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) == -1 && errno == EPERM);
	CHECK(mmap(NULL, 5, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	close(fd);
	fd = fs_sealed("empty", "", 0);
	CHECK(fd >= 0 && read(fd, out, 1) == 0);
	close(fd);
}

/* a page of the file that a pipe holds, as the kernel does for moments of its own */
static void hold(int fd, int pipe_fd)
{
	struct iovec page = {.iov_len = 4096};

	page.iov_base = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(page.iov_base != MAP_FAILED);
	CHECK(vmsplice(pipe_fd, &page, 1, 0) == 4096);
	CHECK(munmap(page.iov_base, 4096) == 0);
}

TEST(sealing_waits_for_a_page_that_is_held_for_a_while)
{
	int fd = memfd_create("held", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipes[2];
	char out[4096];
	pid_t pid;

	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && pipe2(pipes, O_CLOEXEC) == 0);
	hold(fd, pipes[1]);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EBUSY);
	pid = fork();
	if (pid == 0) {
		usleep(200000); /* one try of the kernel's takes 150 ms */
		_exit(read(pipes[0], out, sizeof(out)) == sizeof(out) ? 0 : 1);
	}
	CHECK(pid > 0 && fs_seal(fd) == 0);
	CHECK(pwrite(fd, "x", 1, 0) == -1 && errno == EPERM);
}

TEST(sealing_a_file_that_stays_held_fails)
{
	int fd = memfd_create("held", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipes[2];

	CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && pipe2(pipes, O_CLOEXEC) == 0);
	hold(fd, pipes[1]);
	CHECK(fs_seal(fd) == -1 && errno == EBUSY);
}
