/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_artifacts.c - stored runs: what is in them, what is not, and how many stay
 */
#include "job/artifacts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "job/mask.h"
#include "tap.h"

static char path[64];
static int dir_fd;
static struct artifacts *a;
static char newest[256]; /* name of the last file by name */
static char content[65536];

static void start(uint64_t cap_bytes)
{
	snprintf(path, sizeof(path), "/tmp/artifacts.XXXXXX");
	CHECK(mkdtemp(path));
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir_fd >= 0);
	a = artifacts_new(dup(dir_fd), cap_bytes);
	CHECK(a);
}

static void finish(void)
{
	artifacts_free(a);
	close(dir_fd);
	CHECK(fs_remove_tree(AT_FDCWD, path) == 0);
}

/* how many files there are */
static unsigned look(void)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned count = 0;

	CHECK(dir);
	newest[0] = 0;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' && strcmp(entry->d_name, ".partial") != 0)
			continue;
		count++;
		if (strcmp(entry->d_name, newest) > 0)
			snprintf(newest, sizeof(newest), "%s", entry->d_name);
	}
	closedir(dir);
	return count;
}

static void store(const char *code, char *const *env, const char *result)
{
	struct artifact what = {.code = code,
				.code_len = strlen(code),
				.env = env,
				.result_json = result,
				.result_len = strlen(result),
				.request_id = "id1"};

	artifacts_store(a, &what);
}

static void read_newest(void)
{
	struct json *doc;
	struct err e;

	CHECK(fs_read_at(dir_fd, newest, content, sizeof(content)) > 0);
	doc = json_parse(content, strlen(content), &json_request_limits, &e);
	CHECK(doc && json_member(doc, "timestamp") && json_member(doc, "code"));
	CHECK(json_is_object(json_member(doc, "result")));
	CHECK(json_is_object(json_member(doc, "metadata")));
	json_free(doc);
}

TEST(a_stored_run_is_private_json_named_by_time)
{
	struct stat st;

	start(1 << 20);
	store("print(\"x\")", NULL, "{\"stdout\":\"x\\n\",\"exit_code\":0}");
	CHECK(look() == 1 && strlen(newest) == 42);
	CHECK(newest[8] == 'T' && newest[15] == '.' && newest[19] == 'Z' &&
	      newest[20] == '_');
	CHECK(strcmp(newest + 37, ".json") == 0 && strncmp(newest, "20", 2) == 0);
	CHECK(fstatat(dir_fd, newest, &st, 0) == 0 && (st.st_mode & 07777) == 0600);
	read_newest();
	CHECK(strstr(content, "\"code\":\"print(\\\"x\\\")\",\"result\":{\"stdout\":"
			      "\"x\\n\",\"exit_code\":0},\"metadata\":{\"request_id\":"
			      "\"id1\",\"code_bytes\":10,"));
	finish();
}

TEST(env_values_of_eight_bytes_are_masked)
{
	char *env[] = {(char[]){"TOKEN=hunter2hunter2"}, (char[]){"SHORT=abcdefg"},
		       (char[]){"Q=say \"hi\"\n now"},   (char[]){"EIGHT=12345678"},
		       (char[]){"KEY=exit_code"},        NULL};

	start(1 << 20);
	store("t='hunter2hunter2' + 'abcdefg' # say \"hi\"\n now", env,
	      "{\"stdout\":\"hunter2hunter2hunter2hunter2 say \\\"hi\\\"\\n now\","
	      "\"exit_code\":12345678,\"b\":\"x12345678\"}");
	CHECK(look() == 1);
	read_newest();
	CHECK(!strstr(content, "hunter2") && !strstr(content, "say"));
	CHECK(strstr(content, "\"code\":\"t='***' + 'abcdefg' # ***\""));
	CHECK(strstr(content, "{\"stdout\":\"****** ***\",\"exit_code\":12345678,"
			      "\"b\":\"x***\"}"));
	finish();
}

TEST(a_value_that_begins_inside_an_escape_does_not_break_it)
{
	char *env[] = {(char[]){"A=n1234567"}, (char[]){"B=0001abcd"},
		       (char[]){"C=u0001abc"}, NULL};

	start(1 << 20);
	store("\n1234567 \x01"
	      "abcd",
	      env, "{\"o\":\"\\\\n1234567\"}");
	CHECK(look() == 1);
	read_newest();
	CHECK(strstr(content, "\"code\":\"\\n1234567 \\u0001abcd\""));
	CHECK(strstr(content, "{\"o\":\"\\\\***\"}"));
	finish();
}

TEST(userinfo_of_urls_is_masked)
{
	start(1 << 20);
	store("get('https://bob:pw@example.org/a@b') x://y://u@h http://e.org/@x", NULL,
	      "{\"o\":\"ftp://a@b ssh://h \\\"://x y@\\\"\"}");
	CHECK(look() == 1);
	read_newest();
	CHECK(strstr(content, "get('https://***@example.org/a@b') x://y://***@h "
			      "http://e.org/@x"));
	CHECK(strstr(content, "\"ftp://***@b ssh://h \\\"://x y@\\\"\""));
	finish();
}

TEST(the_oldest_go_first)
{
	char first[256];

	start(2000); /* six or so */
	store("1", NULL, "{}");
	CHECK(look() == 1);
	memcpy(first, newest, sizeof(first));
	for (int i = 0; i < 50; i++) {
		store("1", NULL, "{}");
		CHECK(look() <= 20);
	}
	CHECK(look() > 3 && faccessat(dir_fd, first, F_OK, 0) == -1);
	finish();
}

TEST(what_an_earlier_server_left_counts)
{
	unsigned before, after;

	start(2000);
	for (int i = 0; i < 5; i++)
		store("1", NULL, "{}");
	before = look();
	CHECK(fs_create_whole(dir_fd, ".partial", "x", 1) == 0);
	CHECK(fs_create_whole(dir_fd, "notes.json", "mine", 4) == 0);
	artifacts_free(a);
	a = artifacts_new(dup(dir_fd), 500);
	CHECK(look() == before + 1); /* .partial is gone */
	store("1", NULL, "{}");
	after = look();
	CHECK(after < before && faccessat(dir_fd, "notes.json", F_OK, 0) == 0);
	finish();
}

TEST(what_cannot_be_stored_leaves_nothing)
{
	struct rlimit small = {100, 100};

	start(1 << 20);
	CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0); /* as a full disk would */
	store("1", NULL, "{}");
	CHECK(look() == 0);
	finish();
}

TEST(a_run_above_the_cap_is_left_out)
{
	char *code = mem_zero(3001);

	start(2000);
	memset(code, 'x', 3000);
	store("1", NULL, "{}");
	store(code, NULL, "{}");
	CHECK(look() == 1);
	free(code);
	finish();
}

TEST(code_that_cannot_be_masked_in_time_is_not_stored)
{
	const size_t len = 10 << 20;
	char *code = mem_zero(len + 1);
	char *env[] = {(char[]){"A=12345678"}, (char[]){"B=23456789"}, NULL};

	start(64 << 20);
	memset(code, 'x', len);
	store(code, env, "{\"o\":\"12345678\"}");
	CHECK(look() == 1);
	read_newest();
	CHECK(strstr(content, "\"code\":null,\"result\":{\"o\":\"***\"}"));
	store(code, NULL, "{}"); /* with nothing to mask it is */
	CHECK(look() == 2);
	free(code);
	finish();
}

TEST(off_is_off)
{
	CHECK(!artifacts_new(-1, 100));
	a = NULL;
	store("1", NULL, "{}");
	artifacts_free(NULL);
}

TEST(masking_is_linear_whatever_the_values)
{
	const size_t len = 140000; /* with 119 values just within the bound */
	char *json = mem_zero(len + 3), *env[120];
	struct timespec from, to;
	struct mask *m;
	struct buf out;

	/* all of a value but its last byte, everywhere */
	memset(json, 'a', len + 2);
	json[0] = json[len + 1] = '"';
	for (int i = 0; i < 119; i++) {
		env[i] = mem_zero(8002);
		memset(env[i], 'a', 8000);
		env[i][1] = '=';
		env[i][8000] = 'b';
	}
	env[119] = NULL;
	m = mask_new(env);
	buf_init(&out, 2 * len);
	clock_gettime(CLOCK_MONOTONIC, &from);
	CHECK(m && mask_json(m, &out, json, len + 2) == 0);
	clock_gettime(CLOCK_MONOTONIC, &to);
	CHECK(out.len == len + 2 && to.tv_sec - from.tv_sec < 3);
	buf_done(&out);
	buf_init(&out, 100);
	CHECK(mask_json(m, &out, json, (size_t)-1 / 2) == -1 && errno == E2BIG);
	buf_done(&out);
	mask_free(m);
	for (int i = 0; i < 119; i++)
		free(env[i]);
	free(json);
}
