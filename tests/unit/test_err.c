/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_err.c - whose failure, and what it says
 */
#include "base/err.h"

#include <errno.h>

#include "../tap.h"
#include "base/utf8.h"

TEST(every_filler_says_whose_it_is)
{
	struct err e = {0};

	CHECK(err_bad(&e, "no '%s'", "x") == -1);
	CHECK(e.kind == ERR_THEIRS && err_status(&e) == 400 && e.num == 0);
	CHECK(!strcmp(e.code, "bad_request") && !strcmp(e.text, "no 'x'"));
	CHECK(err_client(&e, 413, "too_large", "%d bytes", 7) == -1);
	CHECK(e.kind == ERR_THEIRS && err_status(&e) == 413);
	CHECK(!strcmp(e.code, "too_large") && !strcmp(e.text, "7 bytes"));
	CHECK(err_busy(&e, "later") == -1);
	CHECK(e.kind == ERR_BUSY && err_status(&e) == 429 &&
	      !strcmp(e.code, "at_capacity"));
	CHECK(err_ours(&e, "oh") == -1);
	CHECK(e.kind == ERR_OURS && err_status(&e) == 500 && e.num == 0);
	CHECK(err_server(&e, 503, "sandbox_setup_failed", "no slot") == -1);
	CHECK(e.kind == ERR_OURS && err_status(&e) == 503);
	CHECK(!strcmp(e.code, "sandbox_setup_failed"));
}

TEST(status_follows_the_kind_when_none_is_set)
{
	struct err e = {.kind = ERR_THEIRS};

	CHECK(err_status(&e) == 400);
	e.kind = ERR_BUSY;
	CHECK(err_status(&e) == 429);
	e.kind = ERR_OURS;
	CHECK(err_status(&e) == 500);
}

TEST(errno_is_told_and_kept)
{
	struct err e = {0};

	errno = ENOENT;
	CHECK(err_errno(&e, "open '%s'", "a") == -1);
	CHECK(errno == ENOENT && e.num == ENOENT && e.kind == ERR_OURS);
	CHECK(!strcmp(e.text, "open 'a': No such file or directory"));
	errno = 99999;
	CHECK(err_errno(&e, "x") == -1 && errno == 99999);
	CHECK(!strcmp(e.text, "x: errno 99999"));
	errno = EPERM;
	err_bad(&e, "y");
	CHECK(errno == EPERM);
}

TEST(nobody_need_listen)
{
	errno = EIO;
	CHECK(err_bad(NULL, "%d", 1) == -1);
	CHECK(err_client(NULL, 400, "c", "%d", 1) == -1);
	CHECK(err_busy(NULL, "%d", 1) == -1);
	CHECK(err_ours(NULL, "%d", 1) == -1);
	CHECK(err_server(NULL, 500, "c", "%d", 1) == -1);
	CHECK(err_errno(NULL, "%d", 1) == -1 && errno == EIO);
}

TEST(long_texts_are_cut_at_a_character)
{
	char text[1200];
	struct err e;

	for (size_t shift = 0; shift < 4; shift++) {
		memset(text, 'a', shift);
		for (size_t i = shift; i + 4 < sizeof(text); i += 3)
			memcpy(text + i, "\xe2\x82\xac", 4);
		err_bad(&e, "%s", text);
		CHECK(strlen(e.text) > 500 && strlen(e.text) < sizeof(e.text));
		CHECK(utf8_valid(e.text, strlen(e.text)));
		errno = ENOENT;
		err_errno(&e, "%s", text);
		CHECK(utf8_valid(e.text, strlen(e.text)));
		CHECK(strstr(e.text, ": No such file or directory"));
	}
}

TEST(long_codes_stay_inside)
{
	struct err e;

	err_client(&e, 400, "a_code_that_is_much_longer_than_the_forty_bytes_it_has",
		   "x");
	CHECK(strlen(e.code) == sizeof(e.code) - 1);
}
