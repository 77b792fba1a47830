/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_collect.c - output directories as hostile code leaves them
 *
 * As root the tree belongs to a uid that nobody has; as a plain user, also one who is
 * root in a user namespace, to ourselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/err.h"
#include "base/fs.h"
#include "launcher/collect.h"
#include "tap.h"
#include "wire/files.h"

#define UID 600123

static char work[] = "/tmp/collect.XXXXXX";
static struct collect_job job;

static void clean(void)
{
	fs_remove_tree(AT_FDCWD, work);
}

/* an empty working directory with an empty "out" in it; we are in it */
static void setup(void)
{
	job = (struct collect_job){.output_dir = "out",
				   .uid = UID,
				   .gid = UID,
				   .max_files = 200,
				   .max_bytes = 1 << 20};
	CHECK(mkdtemp(work) && chdir(work) == 0);
	atexit(clean);
	umask(0);
	if (chown(".", job.uid, job.gid) < 0) {
		job.uid = geteuid();
		job.gid = getegid();
	}
	CHECK(chmod(".", 0755) == 0);
	CHECK(mkdir("out", 0755) == 0);
	job.work_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(job.work_fd >= 0);
}

static void put(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(close(fd) == 0);
}

/* what the collector says, as one line per record: "file NAME=DATA" or "skip NAME=WHY" */
static char *collect(void)
{
	static char text[65536];
	struct files_record f;
	struct files_reader r;
	struct err e = {0};
	struct pollfd done = {.events = POLLIN};
	size_t at = 0;
	int mem_fd = -1, rc;
	pid_t pid;

	CHECK(collect_start(&job, &pid, &done.fd, &mem_fd, &e) == 0);
	CHECK(poll(&done, 1, 5000) == 1);
	rc = collect_finish(pid, mem_fd, &e);
	if (rc < 0)
		fprintf(stderr, "# %s\n", e.text);
	CHECK(rc == 0);
	CHECK(write(mem_fd, "x", 1) == -1 && errno == EPERM);
	CHECK(files_open(&r, mem_fd) == 0);
	text[0] = 0;
	while ((rc = files_next(&r, &f)) == 1)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s %.*s=%.*s\n",
				       f.kind == FILES_FILE ? "file" : "skip",
				       (int)f.name_len, f.name, (int)f.data_len, f.data);
	CHECK(rc == 0);
	files_close(&r);
	close(mem_fd);
	close(done.fd);
	return text;
}

static void expect(const char *text)
{
	const char *got = collect();

	if (strcmp(got, text) != 0)
		fprintf(stderr, "# wanted:\n%s# got:\n%s", text, got);
	CHECK(strcmp(got, text) == 0);
}

TEST(files_come_in_the_order_of_their_names)
{
	setup();
	put("out/b", "two");
	put("out/a.txt", "one");
	CHECK(mkdir("out/dir", 0755) == 0 && mkdir("out/dir/empty", 0755) == 0);
	put("out/dir/x", "");
	put("out/e\xc3\xa4", "12345678");
	put("beside", "not this");
	expect("file a.txt=one\nfile b=two\nfile dir/x=\nfile e\xc3\xa4=12345678\n");
}

TEST(an_empty_or_missing_directory_gives_nothing)
{
	setup();
	expect("");
	CHECK(rmdir("out") == 0);
	expect("");
}

TEST(only_a_directory_that_is_there_readable_and_empty_needs_no_collector)
{
	static const char *const not_empty[] = {"out/a", "out/.b", "out/..c"};

	setup();
	CHECK(collect_nothing(job.work_fd, "out"));
	CHECK(!collect_nothing(job.work_fd, "missing"));
	for (size_t i = 0; i < 3; i++) {
		put(not_empty[i], "");
		CHECK(!collect_nothing(job.work_fd, "out"));
		CHECK(unlink(not_empty[i]) == 0);
	}
	CHECK(mkdir("out/d", 0755) == 0 && !collect_nothing(job.work_fd, "out"));
	CHECK(collect_nothing(job.work_fd, "out/d"));
	CHECK(chmod("out/d", 0300) == 0 && !collect_nothing(job.work_fd, "out/d"));
	CHECK(symlink("out/d", "link") == 0 && !collect_nothing(job.work_fd, "link"));
	CHECK(symlink("out", "up") == 0 && !collect_nothing(job.work_fd, "up/d"));
	CHECK(!collect_nothing(job.work_fd, "/proc") &&
	      !collect_nothing(job.work_fd, ".."));
	put("file", "");
	CHECK(!collect_nothing(job.work_fd, "file"));
	CHECK(mkfifo("fifo", 0644) == 0 && !collect_nothing(job.work_fd, "fifo"));
}

TEST(links_are_not_followed)
{
	setup();
	CHECK(symlink("/etc/passwd", "out/file") == 0);
	CHECK(symlink("/etc", "out/tree") == 0 && symlink("nowhere", "out/void") == 0);
	expect("skip file=symlink\nskip tree=symlink\nskip void=symlink\n");
}

TEST(the_output_directory_as_a_link_is_not_followed)
{
	setup();
	CHECK(rmdir("out") == 0 && mkdir("real", 0755) == 0);
	put("real/x", "x");
	CHECK(symlink("/etc", "out") == 0);
	expect("skip out=symlink\n");
	CHECK(unlink("out") == 0 && symlink("real", "out") == 0);
	expect("skip out=symlink\n");
}

TEST(the_output_directory_as_a_file_is_told)
{
	setup();
	CHECK(rmdir("out") == 0);
	put("out", "x");
	expect("skip out=not_a_directory\n");
	CHECK(unlink("out") == 0 && mkfifo("out", 0666) == 0);
	expect("skip out=not_a_directory\n");
}

TEST(a_fifo_and_a_socket_do_not_block)
{
	struct sockaddr_un where = {.sun_family = AF_UNIX, .sun_path = "out/socket"};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	setup();
	CHECK(mkfifo("out/fifo", 0666) == 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&where, sizeof(where)) == 0);
	expect("skip fifo=not_a_regular_file\nskip socket=not_a_regular_file\n");
}

TEST(a_mode_is_obeyed_whoever_we_are)
{
	setup();
	put("out/none", "x");
	CHECK(chmod("out/none", 0) == 0);
	CHECK(mkdir("out/shut", 0) == 0);
	if (job.uid != geteuid()) {
		CHECK(chown("out/none", job.uid, job.gid) == 0);
		CHECK(chown("out/shut", job.uid, job.gid) == 0);
		put("out/of_root", "secret");
		CHECK(chmod("out/of_root", 0600) == 0);
		expect("skip none=unreadable\nskip of_root=unreadable\n"
		       "skip shut=unreadable\n");
	} else {
		expect("skip none=unreadable\nskip shut=unreadable\n");
	}
}

TEST(an_output_directory_without_permission_is_told)
{
	setup();
	CHECK(chown("out", job.uid, job.gid) == 0 && chmod("out", 0) == 0);
	expect("skip out=unreadable\n");
}

TEST(a_sparse_file_of_a_tebibyte_is_not_read)
{
	int fd;

	setup();
	fd = open("out/big", O_WRONLY | O_CREAT, 0644);
	CHECK(fd >= 0 && ftruncate(fd, (off_t)1 << 40) == 0);
	put("out/small", "x");
	expect("skip big=too_large\nfile small=x\n");
}

TEST(files_and_bytes_have_a_limit)
{
	setup();
	job.max_files = 2;
	job.max_bytes = 10;
	put("out/a", "1234");
	put("out/b", "1234567");
	put("out/c", "12345678901");
	put("out/d", "123456");
	put("out/e", "");
	expect("file a=1234\nskip b=total_size_limit\nskip c=too_large\nfile d=123456\n"
	       "skip e=too_many_files\n");
}

TEST(hard_links_count_each_time_they_are_read)
{
	setup();
	job.max_bytes = 10;
	put("out/a", "1234");
	CHECK(link("out/a", "out/b") == 0 && link("out/a", "out/c") == 0);
	expect("file a=1234\nfile b=1234\nskip c=total_size_limit\n");
}

TEST(depth_has_a_limit)
{
	setup();
	job.max_depth = 2;
	CHECK(mkdir("out/1", 0755) == 0 && mkdir("out/1/2", 0755) == 0);
	CHECK(mkdir("out/1/2/3", 0755) == 0);
	put("out/1/2/x", "x");
	put("out/1/2/3/y", "y");
	expect("skip 1/2/3=too_deep\nfile 1/2/x=x\n");
}

TEST(a_path_of_any_depth_ends_well)
{
	char name[200];
	int fd, next;

	setup();
	job.max_depth = 60;
	memset(name, 'd', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	fd = open("out", O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < 300; i++) {
		CHECK(mkdirat(fd, name, 0755) == 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY);
		CHECK(next >= 0);
		close(fd);
		fd = next;
	}
	CHECK(strstr(collect(), "=too_deep\n"));
}

TEST(entries_have_a_limit)
{
	char name[32];

	setup();
	job.max_entries = 50;
	for (int i = 0; i < 60; i++) {
		(void)snprintf(name, sizeof(name), "out/%d", i);
		CHECK(mkdir(name, 0755) == 0);
	}
	CHECK(strncmp(collect(), "skip =too_many_entries\n", 23) == 0);
}

TEST(names_that_are_not_utf8_are_told_readably)
{
	setup();
	put("out/a\xff\xfe", "x");
	CHECK(mkdir("out/b\xc3", 0755) == 0);
	put("out/b\xc3/x", "x");
	put("out/c\nd", "y");
	expect("skip a\xef\xbf\xbd\xef\xbf\xbd=bad_name\nskip b\xef\xbf\xbd=bad_name\n"
	       "file c\nd=y\n");
}

TEST(the_list_of_what_was_skipped_has_an_end)
{
	char name[32], *text, *last;
	int lines = 0;

	setup();
	for (int i = 0; i < 150; i++) {
		(void)snprintf(name, sizeof(name), "out/%d", i);
		CHECK(symlink("x", name) == 0);
	}
	put("out/z", "still");
	text = collect();
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	CHECK(lines == FILES_SKIPPED_MAX + 2);
	last = strstr(text, "skip =more\n");
	CHECK(last && strcmp(last, "skip =more\nfile z=still\n") == 0);
}

TEST(time_has_a_limit)
{
	int mem_fd = memfd_create("test", MFD_CLOEXEC);
	char bytes[64];

	setup();
	put("out/a", "x");
	job.max_entries = 10;
	job.wall_ms = 0; /* not the default here: no time at all */
	CHECK(collect_walk(&job, mem_fd) == 0);
	CHECK(pread(mem_fd, bytes, sizeof(bytes), 0) == 32);
	CHECK(memcmp(bytes + 16, "atime_limit", 11) == 0);
}

TEST(a_collector_that_was_killed_gives_nothing)
{
	struct pollfd done = {.events = POLLIN};
	struct err e = {0};
	int mem_fd = -1;
	pid_t pid;

	setup();
	CHECK(collect_start(&job, &pid, &done.fd, &mem_fd, &e) == 0);
	collect_kill(done.fd);
	CHECK(poll(&done, 1, 5000) == 1);
	if (collect_finish(pid, mem_fd, &e) < 0) /* it may have been faster */
		CHECK(e.kind == ERR_OURS && strstr(e.text, "signal 9"));
}

TEST(thousands_of_files_end_in_time)
{
	char name[32], *text;

	setup();
	job.max_files = 10;
	for (int i = 0; i < 2000; i++) {
		(void)snprintf(name, sizeof(name), "out/%05d", i);
		put(name, "x");
	}
	text = collect();
	CHECK(strncmp(text, "file 00000=x\n", 13) == 0);
	CHECK(strstr(text, "skip =more\n") || strstr(text, "=time_limit\n"));
}
