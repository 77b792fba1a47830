/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_multipart.c - a file in a form
 */
#include "api/multipart.h"

#include <stdbool.h>

#include "../tap.h"
#include "base/err.h"

#define TYPE "multipart/form-data; boundary=XyZ"
#define PART(disposition, bytes)                            \
	"--XyZ\r\nContent-Disposition: " disposition "\r\n" \
	"Content-Type: text/plain\r\n\r\n" bytes "\r\n"
#define FILE_PART \
	PART("form-data; name=\"file\"; filename=\"a/b.txt\"", "12\r\n--Xy\r\n3")

static struct multipart_file file;
static struct err e;

static struct multipart_text text(const char *t)
{
	return (struct multipart_text){t, t ? strlen(t) : 0};
}

static bool finds(const char *type, const char *body)
{
	e = (struct err){0};
	return multipart_find(text(type), text(body), "file", &file, &e) == 0;
}

static bool is(const char *name, const char *bytes)
{
	return file.name_len == strlen(name) &&
	       memcmp(file.name, name, file.name_len) == 0 && file.len == strlen(bytes) &&
	       memcmp(file.bytes, bytes, file.len) == 0;
}

TEST(a_file_is_found_with_its_name_and_all_its_bytes)
{
	CHECK(finds(TYPE, FILE_PART "--XyZ--\r\n"));
	CHECK(is("a/b.txt", "12\r\n--Xy\r\n3"));
	CHECK(finds("Multipart/Form-Data; charset=utf-8; BOUNDARY=\"XyZ\"",
		    "ignored\r\n" FILE_PART "--XyZ--"));
	CHECK(is("a/b.txt", "12\r\n--Xy\r\n3"));
	CHECK(finds(TYPE, PART("form-data; name=file; filename=x", "") "--XyZ--"));
	CHECK(is("x", ""));
}

TEST(other_parts_are_passed_over)
{
	CHECK(finds(TYPE, PART("form-data; name=\"files\"; filename=\"no\"", "no") PART(
				  "form-data; name=\"x;file\"",
				  "no") "--XyZ\r\n\r\nno head\r\n" FILE_PART "--XyZ--"));
	CHECK(is("a/b.txt", "12\r\n--Xy\r\n3"));
}

TEST(names_are_read_as_browsers_write_them)
{
	CHECK(finds(TYPE,
		    PART("form-data; name=\"file\"; filename=\"a%22b%0a; c\\\"d\\e\"",
			 "x") "--XyZ--"));
	CHECK(is("a\"b\n; c\"d\\e", "x"));
	CHECK(finds(TYPE, PART("form-data; filename=\"\xc3\xa4%41\"; name=\"file\"",
			       "x") "--XyZ--"));
	CHECK(is("\xc3\xa4%41", "x"));
}

TEST(the_boundary_counts_at_the_beginning_of_a_line_only)
{
	CHECK(finds(TYPE, PART("form-data; name=\"file\"; filename=\"a\"",
			       "1--XyZ2\n--XyZ3") "--XyZ--"));
	CHECK(is("a", "1--XyZ2\n--XyZ3"));
}

TEST(what_is_no_such_form_is_refused)
{
	static const struct {
		const char *type, *body;
		int status;
	} rows[] = {
		{NULL, FILE_PART "--XyZ--", 415},
		{"text/plain", FILE_PART "--XyZ--", 415},
		{"multipart/form-data", FILE_PART "--XyZ--", 400},
		{"multipart/form-data; boundary=", FILE_PART "--XyZ--", 400},
		{"multipart/form-data; boundary=\"\"", FILE_PART "--XyZ--", 400},
		{"multipart/form-data; boundary="
		 "12345678901234567890123456789012345"
		 "678901234567890123456789012345678901",
		 FILE_PART, 400},
		{TYPE, "", 400},
		{TYPE, "--XyZ", 400},
		{TYPE, "--XyZ--\r\n", 400},
		{TYPE, "x--XyZ\r\n\r\n", 400},
		{TYPE, FILE_PART, 400}, /* it has no end */
		{TYPE, PART("form-data; name=\"file\"", "1") "--XyZ--", 400},
		{TYPE, PART("form-data; name=\"file\"; filename=\"\"", "1") "--XyZ--",
		 400},
		{TYPE, PART("form-data; name=\"other\"; filename=\"a\"", "1") "--XyZ--",
		 400},
		{TYPE,
		 "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; "
		 "filename=\"a\"\r\n--XyZ--",
		 400},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK(!finds(rows[i].type, rows[i].body));
		CHECK(err_status(&e) == rows[i].status);
	}
}
