/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_image.c - images: names and directories, which one is meant, made whole or not at
 * all
 */
#include "image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"
#include "base/err.h"
#include "base/fs.h"

static char root[64];

static int scratch(void)
{
	int fd;

	snprintf(root, sizeof(root), "/tmp/test-image-XXXXXX");
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

static void add(int dir_fd, const char *name, const char *info)
{
	char staged[IMAGE_STAGED];
	const int fd = image_stage(dir_fd, staged);

	CHECK(fd >= 0 && mkdirat(fd, IMAGE_ROOT, 0755) == 0);
	CHECK(fs_create_whole(fd, IMAGE_INFO, info, strlen(info)) == 0);
	CHECK(image_publish(dir_fd, staged, fd, name) == 0);
	close(fd);
}

static const char *found(int dir_fd, const char *asked)
{
	static char name[IMAGE_NAME];
	struct err e = {0};

	if (image_find(dir_fd, asked, name, &e) == 0)
		return name;
	CHECK(e.status == 400 && strcmp(e.code, "image_not_found") == 0);
	return "";
}

TEST(a_reference_is_one_directory_and_back)
{
	static const struct {
		const char *name, *file;
	} rows[] = {
		{"python", "python"},
		{"golang:1.22", "golang%3a1.22"},
		{"registry.test:5000/a/b_c:v1-2.3",
		 "registry.test%3a5000%2fa%2fb_c%3av1-2.3"},
		{"x@sha256:0123", "x%40sha256%3a0123"},
		{"A+b", "A%2bb"},
	};
	char file[IMAGE_FILE], name[IMAGE_NAME];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK(image_encode(rows[i].name, file) == 0);
		CHECK(strcmp(file, rows[i].file) == 0);
		CHECK(image_decode(file, name) == 0);
		CHECK(strcmp(name, rows[i].name) == 0);
	}
}

TEST(what_is_no_reference_has_no_directory)
{
	static const char *const wrong[] = {
		"",       ".",    "..",  "host",     "/x",  "x/",   "x//y",
		"x/../y", "../x", ".x",  "-x",       "x:",  "x:-y", "a b",
		"a\n",    "a%2f", "x/.", "\xc3\xa4", "a,b", "a\\b",
	};
	static const char *const files[] = {"%2e%2e", "a%2F", "a%2", "a%", "%00",
					    "a%61",   ".new", "..",  ".",  "a:b"};
	char file[IMAGE_FILE] = "untouched", name[IMAGE_NAME] = "untouched";
	char longest[IMAGE_NAME + 1];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK(!image_name_ok(wrong[i]));
		CHECK(image_encode(wrong[i], file) == -1 && errno == EINVAL);
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		CHECK(image_decode(files[i], name) == -1 && errno == EINVAL);
	memset(longest, 'x', sizeof(longest));
	longest[IMAGE_NAME] = '\0';
	CHECK(image_encode(longest, file) == -1);
	longest[IMAGE_NAME - 1] = '\0';
	CHECK(strcmp(file, "untouched") == 0 && strcmp(name, "untouched") == 0);
	CHECK(image_encode(longest, file) == 0);
	memset(longest, 'x', sizeof(longest));
	for (size_t i = 1; i < IMAGE_NAME - 1; i += 2)
		longest[i] = '/';
	longest[IMAGE_NAME - 2] = '\0';
	CHECK(image_name_ok(longest) && image_encode(longest, file) == -1);
}

TEST(a_shortcut_is_its_entry_then_what_stands_for_it_then_the_host)
{
	const int fd = scratch();

	CHECK(strcmp(found(-1, NULL), "host") == 0);
	CHECK(strcmp(found(fd, NULL), "host") == 0);
	CHECK(strcmp(found(fd, "python"), "host") == 0);
	CHECK(strcmp(found(fd, "go"), "host") == 0);
	CHECK(strcmp(found(fd, "host"), "host") == 0);
	add(fd, "team/python:3.11-slim", "{}");
	CHECK(strcmp(found(fd, "python"), "team/python:3.11-slim") == 0);
	add(fd, "python", "{}");
	CHECK(strcmp(found(fd, "python"), "python") == 0);
	add(fd, "ubuntu:22.04", "{}");
	CHECK(strcmp(found(fd, NULL), "ubuntu:22.04") == 0);
	CHECK(strcmp(found(fd, "bash"), "ubuntu:22.04") == 0);
	add(fd, "linux", "{}");
	CHECK(strcmp(found(fd, "linux"), "linux") == 0);
	CHECK(strcmp(found(fd, "shell"), "linux") == 0);
	CHECK(strcmp(found(fd, "node"), "host") == 0);
	done(fd);
}

TEST(a_reference_is_found_by_itself_its_tag_or_its_end)
{
	const int fd = scratch();
	char name[IMAGE_NAME];
	struct err e = {0};

	add(fd, "registry.test/a/golang:1.22", "{}");
	add(fd, "tools:latest", "{}");
	CHECK(strcmp(found(fd, "golang:1.22"), "registry.test/a/golang:1.22") == 0);
	CHECK(strcmp(found(fd, "a/golang:1.22"), "registry.test/a/golang:1.22") == 0);
	CHECK(strcmp(found(fd, "tools"), "tools:latest") == 0);
	CHECK(strcmp(found(fd, "lang:1.22"), "") == 0);
	CHECK(strcmp(found(fd, "golang"), "") == 0);
	CHECK(strcmp(found(fd, ""), "") == 0);
	CHECK(strcmp(found(fd, "../x"), "") == 0);
	add(fd, "b/golang:1.22", "{}");
	CHECK(image_find(fd, "golang:1.22", name, &e) == -1);
	CHECK(strstr(e.text, "more than one") && strstr(e.text, "b/golang:1.22"));
	add(fd, "golang:1.22", "{}");
	CHECK(strcmp(found(fd, "golang:1.22"), "golang:1.22") == 0);
	CHECK(image_find(fd, "nothing", name, &e) == -1);
	CHECK(strstr(e.text, "'nothing'") && strstr(e.text, "tools:latest"));
	CHECK(strstr(e.text, "image pull"));
	done(fd);
}

TEST(what_is_said_of_an_image_is_read_with_care)
{
	const int fd = scratch();
	struct image_info info;
	struct err e = {0};

	add(fd, "a",
	    "{\"source\":\"tar\",\"bytes\":12,\"architecture\":\"amd64\",\"env\":["
	    "\"PATH=/bin\",\"=x\",\"none\",3,\"A=b\\u0000c\",\"B=\"]}");
	CHECK(image_info_read(fd, "a", &info, &e) == 0);
	CHECK(strcmp(info.name, "a") == 0 && strcmp(info.source, "tar") == 0);
	CHECK(info.bytes == 12 && strcmp(info.architecture, "amd64") == 0);
	CHECK(strcmp(info.env[0], "PATH=/bin") == 0 && strcmp(info.env[1], "B=") == 0);
	CHECK(!info.env[2] && !info.digest[0]);
	image_info_done(&info);
	add(fd, "b", "{\"source\":\"\\u001b[2J\",\"bytes\":-1}");
	CHECK(image_info_read(fd, "b", &info, &e) == 0);
	CHECK(!info.source[0] && info.bytes == 0);
	image_info_done(&info);
	add(fd, "c", "{");
	CHECK(image_info_read(fd, "c", &info, &e) == -1);
	CHECK(image_info_read(fd, "d", &info, &e) == -1);
	image_info_done(&info);
	done(fd);
}

TEST(of_two_of_one_name_one_wins)
{
	const int fd = scratch();
	char staged[IMAGE_STAGED];
	int other_fd;

	add(fd, "x", "{}");
	other_fd = image_stage(fd, staged);
	CHECK(other_fd >= 0 && mkdirat(other_fd, IMAGE_ROOT, 0755) == 0);
	CHECK(image_publish(fd, staged, other_fd, "x") == -1 && errno == EEXIST);
	/* and is there until its maker ends */
	images_sweep(fd);
	CHECK(faccessat(fd, staged, F_OK, 0) == 0);
	close(other_fd);
	images_sweep(fd);
	CHECK(faccessat(fd, staged, F_OK, 0) == -1);
	done(fd);
}

TEST(one_in_use_is_not_removed)
{
	const int fd = scratch();
	int used_fd;

	add(fd, "x:1", "{}");
	used_fd = image_open(fd, "x:1");
	CHECK(used_fd >= 0);
	CHECK(image_remove(fd, "x:1") == -1 && errno == EBUSY);
	close(used_fd);
	CHECK(image_remove(fd, "x:1") == 0);
	CHECK(image_open(fd, "x:1") == -1 && errno == ENOENT);
	CHECK(image_remove(fd, "x:1") == -1 && errno == ENOENT);
	CHECK(strcmp(found(fd, "x:1"), "") == 0);
	done(fd);
}

TEST(names_are_listed_in_order_and_nothing_else_is)
{
	char(*names)[IMAGE_NAME] = NULL;
	const int fd = scratch();
	size_t count = 7;

	CHECK(images_list(-1, &names, &count) == 0 && count == 0);
	for (char name[] = "i00"; name[1] <= '3'; name[1]++)
		for (name[2] = '0'; name[2] <= '9'; name[2]++)
			add(fd, name, "{}");
	CHECK(mkdirat(fd, ".new-1", 0700) == 0 && mkdirat(fd, "lost+found:", 0700) == 0);
	CHECK(images_list(fd, &names, &count) == 0 && count == 40);
	CHECK(strcmp(names[0], "i00") == 0 && strcmp(names[39], "i39") == 0);
	free(names);
	done(fd);
}
