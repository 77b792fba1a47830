/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_tree.c - layers onto each other; a directory packed and unpacked is the same
 */
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"
#include "base/err.h"
#include "base/fs.h"
#include "image/pack.h"
#include "tar_fixture.h"

static struct tar_text text;
static char top[64];
static int top_fd = -1;

static void scratch(void)
{
	snprintf(top, sizeof(top), "/tmp/test-tree-XXXXXX");
	CHECK(mkdtemp(top));
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(top_fd >= 0 && mkdirat(top_fd, "root", 0755) == 0);
}

static void done(void)
{
	close(top_fd);
	CHECK(fs_remove_tree(AT_FDCWD, top) == 0);
}

static int feed(struct tree *t, struct err *e)
{
	const struct tar_handler handler = tree_handler(t);
	struct tar tar;
	int rc;

	tar_text_end(&text);
	tree_next_layer(t);
	tar_init(&tar, &handler);
	rc = tar_feed(&tar, text.bytes, text.len, e) < 0 || tar_end(&tar, e) < 0 ? -1 : 0;
	tar_done(&tar);
	memset(&text, 0, sizeof(text));
	return rc;
}

static bool there(const char *path)
{
	struct stat st;

	return fstatat(top_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void begin(struct tree *t, uint64_t bytes, uint64_t entries)
{
	scratch();
	tree_init(t, openat(top_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		  openat(top_fd, "owners", O_WRONLY | O_CREAT | O_CLOEXEC, 0644), bytes,
		  entries);
	CHECK(t->root_fd >= 0 && t->owners_fd >= 0);
}

static void finish(struct tree *t)
{
	struct err e = {0};

	CHECK(tree_finish(t, &e) == 0);
	close(t->root_fd);
	close(t->owners_fd);
	tree_done(t);
	done();
}

TEST(a_whiteout_hides_what_was_there_before_and_not_what_comes_with_it)
{
	struct err e = {0};
	struct tree t;

	begin(&t, 1 << 20, 100);
	tar_text_add(&text, '0', "d/a", "", "a");
	tar_text_add(&text, '0', "d/sub/b", "", "b");
	tar_text_add(&text, '0', "d/sub/c", "", "c");
	tar_text_add(&text, '0', "e", "", "e");
	CHECK(feed(&t, &e) == 0);
	tar_text_add(&text, '0', "d/sub/new", "", "n"); /* its directory has no entry */
	tar_text_add(&text, '0', "d/.wh..wh..opq", "", "");
	tar_text_add(&text, '0', "e", "", "again");
	tar_text_add(&text, '0', ".wh.e", "", "");
	CHECK(feed(&t, &e) == 0);
	CHECK(!there("root/d/a") && !there("root/d/sub/b") && !there("root/d/sub/c"));
	CHECK(there("root/d/sub/new") && there("root/e"));
	tar_text_add(&text, '0', ".wh.d", "", "");
	CHECK(feed(&t, &e) == 0);
	CHECK(!there("root/d"));
	finish(&t);
}

TEST(a_later_entry_takes_the_place_of_an_earlier_one)
{
	struct stat a, b;
	struct err e = {0};
	struct tree t;

	begin(&t, 1 << 20, 100);
	tar_text_add(&text, '0', "f", "", "first");
	tar_text_add(&text, '1', "g", "f", "");
	tar_text_add(&text, '0', "f", "", "second"); /* and g stays as it was */
	tar_text_add(&text, '0', "d/x", "", "");
	tar_text_add(&text, '2', "d", "/etc", "");
	tar_text_add(&text, '2', "l", "/etc", "");
	tar_text_add(&text, '5', "l", "", "");
	tar_text_add(&text, '0', "l/x", "", "");
	tar_text_add(&text, '0', "s", "", "");
	tar_text_add(&text, '6', "s", "", "");
	CHECK(feed(&t, &e) == 0);
	CHECK(fstatat(top_fd, "root/f", &a, 0) == 0 &&
	      fstatat(top_fd, "root/g", &b, 0) == 0);
	CHECK(a.st_ino != b.st_ino && a.st_size == 6 && b.st_size == 5);
	CHECK(fstatat(top_fd, "root/d", &a, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK(S_ISLNK(a.st_mode) && there("root/l/x") && !there("root/s"));
	CHECK(t.counts.special == 1);
	finish(&t);
}

TEST(what_is_too_much_is_refused)
{
	struct err e = {0};
	struct tree t;
	char *h;

	begin(&t, 10, 5);
	tar_text_add(&text, '0', "a", "", "12345");
	tar_text_add(&text, '0', "b", "", "12345");
	tar_text_add(&text, '0', "c", "", "1");
	CHECK(feed(&t, &e) == -1 && strstr(e.text, "'c' has 1 bytes"));
	finish(&t);
	begin(&t, 1 << 20, 5);
	for (char name[] = "a"; name[0] <= 'f'; name[0]++)
		tar_text_add(&text, '0', name, "", "");
	CHECK(feed(&t, &e) == -1 && strstr(e.text, "more than 5 entries"));
	finish(&t);
	/* directories without an entry count */
	begin(&t, 1 << 20, 5);
	tar_text_add(&text, '0', "a/b/c/d/e/f", "", "");
	CHECK(feed(&t, &e) == -1 && strstr(e.text, "more than 5 entries"));
	CHECK(!there("root/a"));
	finish(&t);
	begin(&t, 1 << 20, 5);
	h = tar_text_add(&text, '0', "a", "", "");
	memcpy(h + 124, "77777777777", 12);
	tar_text_sum(h);
	CHECK(feed(&t, &e) == -1 && strstr(e.text, "'a' has 8589934591 bytes"));
	finish(&t);
}

TEST(nobody_gains_rights_and_everybody_can_read)
{
	static const struct {
		char type;
		const char *had;
		mode_t has;
	} rows[] = {
		{'0', "0000600", 0644},  {'0', "0000000", 0644}, {'0', "0004711", 0755},
		{'0', "0002775", 0775},  {'0', "0000666", 0666}, {'5', "0000700", 0755},
		{'5', "0001777", 01777}, {'5', "0002775", 0775}, {'5', "0000000", 0755},
	};
	struct err e = {0};
	struct stat st;
	struct tree t;
	char name[] = "a", path[8], *h;

	begin(&t, 1 << 20, 100);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, name[0]++) {
		h = tar_text_add(&text, rows[i].type, name, "", "");
		memcpy(h + 100, rows[i].had, 8);
		tar_text_sum(h);
	}
	CHECK(feed(&t, &e) == 0);
	name[0] = 'a';
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++, name[0]++) {
		snprintf(path, sizeof(path), "root/%s", name);
		CHECK(fstatat(top_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0);
		CHECK((st.st_mode & 07777) == rows[i].has);
	}
	CHECK(t.counts.set_id == 2 && t.counts.opened == 5);
	finish(&t);
}

TEST(owners_are_kept_as_the_archive_has_them)
{
	char owners[256];
	struct err e = {0};
	struct tree t;
	char *h;

	begin(&t, 1 << 20, 100);
	h = tar_text_add(&text, '0', "a b", "", "");
	memcpy(h + 108, "0001750", 8);
	memcpy(h + 116, "0000062", 8);
	tar_text_sum(h);
	tar_text_add(&text, '2', "l", "x", "");
	CHECK(feed(&t, &e) == 0 && tree_finish(&t, &e) == 0);
	CHECK(fs_read_at(top_fd, "owners", owners, sizeof(owners)) == 26);
	CHECK(strcmp(owners, "1000 50 644 a b") == 0);
	CHECK(strcmp(owners + 16, "0 0 644 l") == 0);
	finish(&t);
}

static void make(const char *path, const char *bytes, mode_t mode)
{
	const int fd = openat(top_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && fs_write_all(fd, bytes, strlen(bytes)) == 0);
	CHECK(fchmod(fd, mode) == 0);
	close(fd);
}

TEST(a_directory_that_is_packed_comes_out_the_same)
{
	char name[256], deep[400] = "from/", target[3001], got[3001];
	struct stat a, b;
	struct err e = {0};
	struct tree t;
	int fd;

	begin(&t, 1 << 20, 100);
	CHECK(mkdirat(top_fd, "from", 0755) == 0);
	memset(name, 'n', 255);
	name[255] = '\0';
	memcpy(deep + 5, name, 256);
	CHECK(mkdirat(top_fd, deep, 0755) == 0);
	memcpy(deep + 260, "/file", 6);
	make(deep, "deep", 0755);
	make("from/empty", "", 0600);
	CHECK(linkat(top_fd, deep, top_fd, "from/link", 0) == 0);
	memset(target, 't', 3000);
	target[3000] = '\0';
	CHECK(symlinkat(target, top_fd, "from/sym") == 0);
	CHECK(mkfifoat(top_fd, "from/fifo", 0600) == 0);
	fd = openat(top_fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	{
		const int out_fd = openat(top_fd, "tar", O_RDWR | O_CREAT | O_CLOEXEC,
					  0600);

		CHECK(pack_tree(fd, out_fd, &e) == 0);
		text.len = (size_t)lseek(out_fd, 0, SEEK_CUR);
		CHECK(text.len < sizeof(text.bytes) - 2048);
		CHECK(pread(out_fd, text.bytes, text.len, 0) == (ssize_t)text.len);
		close(out_fd);
	}
	close(fd);
	CHECK(feed(&t, &e) == 0);
	memcpy(deep, "root/", 5);
	CHECK(fstatat(top_fd, deep, &a, 0) == 0 && a.st_size == 4 && a.st_nlink == 2);
	CHECK(fstatat(top_fd, "root/link", &b, 0) == 0 && a.st_ino == b.st_ino);
	CHECK(readlinkat(top_fd, "root/sym", got, sizeof(got)) == 3000);
	CHECK(memcmp(got, target, 3000) == 0 && there("root/empty"));
	CHECK(!there("root/fifo") && t.counts.special == 1);
	finish(&t);
}
