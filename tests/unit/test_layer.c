/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_layer.c - layers of packages: made whole or not at all, kept as long as they are
 * used
 */
#include "launcher/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"
#include "base/fs.h"

static char root[64];

static int scratch(void)
{
	int fd;

	snprintf(root, sizeof(root), "/tmp/test-layer-XXXXXX");
	CHECK(mkdtemp(root));
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void done(int fd)
{
	close(fd);
	CHECK(fs_remove_tree(AT_FDCWD, root) == 0);
}

static int directory(int dir_fd, const char *name)
{
	const int fd = fs_make_path(dir_fd, name, 0755);

	CHECK(fd >= 0);
	return fd;
}

static void file(int dir_fd, const char *name, const char *text, mode_t mode)
{
	const int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, mode);

	CHECK(fd >= 0 && fs_write_all(fd, text, strlen(text)) == 0);
	CHECK(fchmod(fd, mode) == 0);
	close(fd);
}

static struct layer_copy bounds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (struct layer_copy){
		.bytes = 1 << 20,
		.entries = 1000,
		.depth = 8,
		.until_ns = ((uint64_t)t.tv_sec + 60) * 1000000000u,
	};
}

/* what copying from/ into a new directory says */
static enum layer_result copied(int dir_fd, struct layer_copy c)
{
	const int from_fd = directory(dir_fd, "from");
	enum layer_result r;
	int to_fd;

	CHECK(fs_remove_tree(dir_fd, "to") == 0);
	to_fd = directory(dir_fd, "to");
	r = layer_copy(from_fd, to_fd, &c);
	close(from_fd);
	close(to_fd);
	return r;
}

static mode_t mode_of(int dir_fd, const char *name)
{
	struct stat st = {0};

	CHECK(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
	return st.st_mode;
}

TEST(a_copy_is_frozen_and_has_the_times)
{
	const struct timespec old[] = {{1000, 0}, {1000, 0}};
	const int dir_fd = scratch(), from_fd = directory(dir_fd, "from");
	char text[16];
	struct stat st;

	close(directory(from_fd, "a/b"));
	file(from_fd, "a/b/module.py", "x = 1\n", 0644);
	file(from_fd, "a/tool", "#!\n", 0755);
	file(from_fd, "a/setuid", "", 06755);
	file(from_fd, "a/script", "#!/bin/sh\n", 0644);
	CHECK(utimensat(from_fd, "a/b/module.py", old, 0) == 0);
	CHECK(symlinkat("../a/tool", from_fd, "a/inside") == 0);
	CHECK(copied(dir_fd, bounds()) == LAYER_MADE);
	CHECK(mode_of(dir_fd, "to/a/b") == (S_IFDIR | 0555));
	CHECK(mode_of(dir_fd, "to/a/b/module.py") == (S_IFREG | 0444));
	CHECK(mode_of(dir_fd, "to/a/tool") == (S_IFREG | 0555));
	CHECK(mode_of(dir_fd, "to/a/setuid") == (S_IFREG | 0555));
	CHECK(mode_of(dir_fd, "to/a/script") == (S_IFREG | 0444));
	CHECK(S_ISLNK(mode_of(dir_fd, "to/a/inside")));
	CHECK(fstatat(dir_fd, "to/a/b/module.py", &st, 0) == 0);
	CHECK(st.st_mtim.tv_sec == 1000);
	CHECK(fs_read_at(dir_fd, "to/a/b/module.py", text, sizeof(text)) == 6);
	close(from_fd);
	done(dir_fd);
}

TEST(where_modes_tell_nothing_a_program_is_known_by_its_first_bytes)
{
	const int dir_fd = scratch(), from_fd = directory(dir_fd, "from");
	struct layer_copy c = bounds();

	file(from_fd, "script", "#!/bin/sh\n", 0644);
	file(from_fd, "elf", "\177ELF...", 0644);
	file(from_fd, "short", "#", 0644);
	file(from_fd, "module.py", "# !\n", 0644);
	c.by_content = true;
	CHECK(copied(dir_fd, c) == LAYER_MADE);
	CHECK(mode_of(dir_fd, "to/script") == (S_IFREG | 0555));
	CHECK(mode_of(dir_fd, "to/elf") == (S_IFREG | 0555));
	CHECK(mode_of(dir_fd, "to/short") == (S_IFREG | 0444));
	CHECK(mode_of(dir_fd, "to/module.py") == (S_IFREG | 0444));
	close(from_fd);
	done(dir_fd);
}

TEST(links_that_lead_out_refuse_the_layer)
{
	static const char *const out[] = {"/etc/passwd", "../x",    "..",
					  "b/../../x",   "./../..", "b/.."};
	static const char *const in[] = {"x", "./x/y", "b", "b/./c"};
	const int dir_fd = scratch();

	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
		CHECK(symlinkat(out[i], directory(dir_fd, "from"), "l") == 0);
		CHECK(copied(dir_fd, bounds()) == LAYER_BAD_LINK);
		CHECK(fs_remove_tree(dir_fd, "from") == 0);
	}
	for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++) {
		CHECK(symlinkat(in[i], directory(dir_fd, "from"), "l") == 0);
		CHECK(copied(dir_fd, bounds()) == LAYER_MADE);
		CHECK(fs_remove_tree(dir_fd, "from") == 0);
	}
	CHECK(symlinkat("../../x", directory(dir_fd, "from/a"), "l") == 0);
	CHECK(copied(dir_fd, bounds()) == LAYER_BAD_LINK);
	done(dir_fd);
}

TEST(what_is_no_file_refuses_the_layer)
{
	const int dir_fd = scratch();

	CHECK(mkfifoat(directory(dir_fd, "from"), "fifo", 0644) == 0);
	CHECK(copied(dir_fd, bounds()) == LAYER_SPECIAL);
	done(dir_fd);
}

/* a file system that is smaller than what is to be kept: in bytes, and in names */
TEST(a_store_that_is_full_is_told_apart)
{
	static const char *const sizes[] = {"size=64k", "size=1m,nr_inodes=3"};
	static char text[256 << 10];
	int dir_fd, from_fd;

	if (unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		SKIP("needs CAP_SYS_ADMIN, for a mount");
	dir_fd = scratch();
	from_fd = directory(dir_fd, "from");
	memset(text, 'x', sizeof(text) - 1);
	file(from_fd, "large", text, 0644);
	for (const char *name = "abcdefgh"; *name; name++)
		close(directory(from_fd, (char[]){*name, 0}));
	close(from_fd);
	CHECK(chdir(root) == 0 && mkdir("full", 0755) == 0);
	for (unsigned i = 0; i < 2; i++) {
		struct layer_copy c = bounds();
		int to_fd;

		CHECK(mount("none", "full", "tmpfs", 0, sizes[i]) == 0);
		to_fd = open("full", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		from_fd = directory(dir_fd, "from");
		CHECK(layer_copy(from_fd, to_fd, &c) == LAYER_NO_ROOM);
		close(from_fd);
		close(to_fd);
		CHECK(umount("full") == 0);
	}
	done(dir_fd);
}

/* whoever copies has no right to read what its owner closed */
TEST(what_its_owner_closed_refuses_the_layer)
{
	static const uid_t nobody = 65534;
	const int dir_fd = scratch();
	const int from_fd = directory(dir_fd, "from");
	pid_t pid;
	int status;

	if (geteuid() != 0)
		SKIP("needs root, to be somebody else");
	CHECK(fchmod(dir_fd, 0777) == 0);
	for (int closed = 0; closed < 2; closed++) {
		if (closed == 0)
			file(from_fd, "secret", "x", 0600);
		else
			CHECK(mkdirat(from_fd, "secret", 0700) == 0);
		pid = fork();
		if (pid == 0) {
			struct layer_copy c = bounds();
			int to_fd;

			CHECK(setgid(nobody) == 0 && setuid(nobody) == 0);
			to_fd = directory(dir_fd, "to");
			_exit((int)layer_copy(directory(dir_fd, "from"), to_fd, &c));
		}
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		CHECK(WEXITSTATUS(status) == LAYER_UNREADABLE);
		CHECK(fs_remove_tree(dir_fd, "to") == 0);
		CHECK(fs_remove_tree(dir_fd, "from/secret") == 0);
	}
	close(from_fd);
	done(dir_fd);
}

TEST(a_copy_is_bounded_in_bytes_entries_and_depth)
{
	const int dir_fd = scratch(), from_fd = directory(dir_fd, "from");
	struct layer_copy c = bounds();
	int fd;

	file(from_fd, "a", "0123456789", 0644);
	c.bytes = 9;
	CHECK(copied(dir_fd, c) == LAYER_TOO_LARGE);
	c.bytes = 10;
	CHECK(copied(dir_fd, c) == LAYER_MADE);
	/* a hole is as large as it says */
	fd = openat(from_fd, "hole", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && ftruncate(fd, 1 << 20) == 0);
	close(fd);
	CHECK(copied(dir_fd, c) == LAYER_TOO_LARGE);
	CHECK(unlinkat(from_fd, "hole", 0) == 0);
	c.entries = 0;
	CHECK(copied(dir_fd, c) == LAYER_TOO_LARGE);
	c = bounds();
	close(directory(from_fd, "1/2/3/4/5/6/7/8"));
	CHECK(copied(dir_fd, c) == LAYER_MADE);
	close(directory(from_fd, "1/2/3/4/5/6/7/8/9"));
	CHECK(copied(dir_fd, c) == LAYER_TOO_LARGE);
	c.until_ns = 1;
	CHECK(copied(dir_fd, c) == LAYER_TOO_LARGE);
	close(from_fd);
	done(dir_fd);
}

static void name_of(uint8_t first, char out[LAYER_NAME])
{
	const uint8_t key[LAYER_KEY] = {first};

	layer_name(key, out);
	CHECK(layer_name_ok(out));
}

/* a layer of that many bytes, used that many seconds ago */
static void make(int dir_fd, uint8_t first, const char *bytes, time_t ago)
{
	const struct timespec used[] = {{time(NULL) - ago, 0}, {time(NULL) - ago, 0}};
	char name[LAYER_NAME], staged[LAYER_NAME + 32];
	int fd;

	name_of(first, name);
	fd = layer_stage(dir_fd, name, staged);
	CHECK(fd >= 0);
	file(fd, LAYER_SIZE, bytes, 0444);
	CHECK(futimens(fd, used) == 0);
	CHECK(layer_publish(dir_fd, staged, fd, name) == 0);
	close(fd);
}

static bool there(int dir_fd, uint8_t first)
{
	char name[LAYER_NAME];

	name_of(first, name);
	return faccessat(dir_fd, name, F_OK, 0) == 0;
}

TEST(small_files_take_a_block_too)
{
	const int dir_fd = scratch(), from_fd = directory(dir_fd, "from");
	const int to_fd = directory(dir_fd, "to");
	struct layer_copy c = bounds();
	char name[16];

	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "%d", i);
		file(from_fd, name, i ? "" : "x", 0644);
	}
	close(directory(from_fd, "d"));
	CHECK(symlinkat("0", from_fd, "link") == 0);
	CHECK(layer_copy(from_fd, to_fd, &c) == LAYER_MADE);
	CHECK(c.disk_bytes == 12 * 4096 && c.bytes == (1 << 20) - 1);
	close(from_fd);
	close(to_fd);
	done(dir_fd);
}

/* tidies until it is killed */
static pid_t tidier(int dir_fd)
{
	const struct layer_bounds most = {1000, 1000};
	struct layers_state t;
	const pid_t pid = fork();

	CHECK(pid >= 0);
	while (pid == 0)
		(void)layers_tidy(dir_fd, &most, NULL, &t);
	return pid;
}

TEST(who_tidies_does_not_keep_others_from_making_a_layer)
{
	const int dir_fd = scratch();
	const pid_t pid = tidier(dir_fd);
	char name[LAYER_NAME], staged[LAYER_NAME + 32];

	name_of(1, name);
	for (int i = 0; i < 200; i++) {
		const int fd = layer_stage(dir_fd, name, staged);

		CHECK(fd >= 0 && faccessat(dir_fd, staged, F_OK, 0) == 0);
		CHECK(unlinkat(dir_fd, staged, AT_REMOVEDIR) == 0);
		close(fd);
	}
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	done(dir_fd);
}

TEST(half_layers_have_no_name_and_go_at_the_next_look)
{
	const struct layer_bounds most = {1000, 1000};
	const int dir_fd = scratch();
	char name[LAYER_NAME], staged[LAYER_NAME + 32];
	struct layers_state t;
	int fd;

	name_of(1, name);
	fd = layer_stage(dir_fd, name, staged);
	CHECK(fd >= 0);
	file(fd, "half", "x", 0444);
	CHECK(layer_open(dir_fd, name) < 0 && errno == ENOENT);
	CHECK(layers_tidy(dir_fd, &most, NULL, &t) == 0 && t.count == 0);
	CHECK(faccessat(dir_fd, staged, F_OK, 0) == 0); /* its maker lives */
	close(fd);
	CHECK(layers_tidy(dir_fd, &most, NULL, &t) == 0 && t.count == 0);
	CHECK(faccessat(dir_fd, staged, F_OK, 0) < 0);
	done(dir_fd);
}

TEST(the_oldest_go_first_but_none_in_use)
{
	struct layer_bounds most = {25, 1000};
	const int dir_fd = scratch();
	char name[LAYER_NAME];
	struct layers_state t;
	int fd;

	make(dir_fd, 1, "10\n", 300);
	make(dir_fd, 2, "10\n", 200);
	make(dir_fd, 3, "10\n", 100);
	make(dir_fd, 4, "1\n", 2000);
	CHECK(layers_tidy(dir_fd, &most, NULL, &t) == 0);
	CHECK(t.count == 2 && t.bytes == 20);
	CHECK(!there(dir_fd, 1) && there(dir_fd, 2) && there(dir_fd, 3) &&
	      !there(dir_fd, 4));
	name_of(2, name);
	fd = layer_open(dir_fd, name); /* used now: younger than the other one */
	CHECK(fd >= 0);
	most.bytes = 0;
	CHECK(layers_tidy(dir_fd, &most, NULL, &t) == 0 && t.count == 1);
	CHECK(there(dir_fd, 2) && !there(dir_fd, 3));
	CHECK(layer_remove(dir_fd, name) < 0 && errno == EBUSY);
	close(fd);
	CHECK(layers_tidy(dir_fd, &most, name, &t) == 0 && t.count == 1);
	CHECK(layer_remove(dir_fd, name) == 0 && !there(dir_fd, 2));
	CHECK(layer_remove(dir_fd, name) < 0 && errno == ENOENT);
	done(dir_fd);
}

TEST(of_two_that_make_the_same_the_first_counts)
{
	const int dir_fd = scratch();
	char name[LAYER_NAME], staged[LAYER_NAME + 32], text[8];
	int fd, other;

	name_of(1, name);
	fd = layer_stage(dir_fd, name, staged);
	file(fd, LAYER_SIZE, "2\n", 0444);
	make(dir_fd, 1, "1\n", 0);
	CHECK(layer_publish(dir_fd, staged, fd, name) == 0);
	close(fd);
	CHECK(faccessat(dir_fd, staged, F_OK, 0) < 0);
	other = layer_open(dir_fd, name);
	CHECK(other >= 0 && fs_read_at(other, LAYER_SIZE, text, sizeof(text)) == 2);
	CHECK(text[0] == '1');
	close(other);
	done(dir_fd);
}

TEST(names_are_keys_in_hexadecimal)
{
	char name[LAYER_NAME];

	name_of(0xa5, name);
	CHECK(strncmp(name, "a500", 4) == 0);
	CHECK(!layer_name_ok("..") && !layer_name_ok(""));
	name[3] = '/';
	CHECK(!layer_name_ok(name));
}

/* npm's list is of any size: the word may begin anywhere in it */
TEST(a_list_of_packages_tells_of_scripts)
{
	static const char word[] = "\"hasInstallScript\": true";
	static char text[1 << 18];
	static const size_t places[] = {0,     1,     65500,  65511,  65512,
					65535, 65536, 131040, 131072, 200000};
	const int dir_fd = scratch(), tree_fd = directory(dir_fd, "node_modules");

	CHECK(!layer_has_scripts(dir_fd, "node_modules"));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		memset(text, ' ', sizeof(text) - 1);
		memcpy(text + places[i], word, sizeof(word) - 1);
		file(tree_fd, ".package-lock.json", text, 0644);
		CHECK(layer_has_scripts(dir_fd, "node_modules"));
		text[places[i] + 3] = ' ';
		CHECK(unlinkat(tree_fd, ".package-lock.json", 0) == 0);
		file(tree_fd, ".package-lock.json", text, 0644);
		CHECK(!layer_has_scripts(dir_fd, "node_modules"));
		CHECK(unlinkat(tree_fd, ".package-lock.json", 0) == 0);
	}
	file(tree_fd, "list", word, 0644); /* whatever stands there instead of it */
	CHECK(symlinkat("list", tree_fd, ".package-lock.json") == 0);
	CHECK(!layer_has_scripts(dir_fd, "node_modules"));
	CHECK(unlinkat(tree_fd, ".package-lock.json", 0) == 0);
	CHECK(mkfifoat(tree_fd, ".package-lock.json", 0644) == 0);
	CHECK(!layer_has_scripts(dir_fd, "node_modules"));
	CHECK(!layer_has_scripts(dir_fd, "other"));
	close(tree_fd);
	done(dir_fd);
}
