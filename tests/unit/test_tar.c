/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_tar.c - archives are read the same in pieces of any size, and names come out clean
 */
#include "image/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "base/err.h"
#include "tar_fixture.h"

static struct tar_text text;
static char told[1 << 16];

static int on_entry(void *arg, const struct tar_entry *n, struct err *e)
{
	const size_t len = strlen(told);

	(void)e;
	snprintf(told + len, sizeof(told) - len, "%d:%s:%s:%llu:%o:%llu:%lld:%d{",
		 n->kind, n->path, n->target, (unsigned long long)n->size, n->mode,
		 (unsigned long long)n->uid, (long long)n->mtime_sec, n->has_caps);
	return arg && strcmp(n->path, arg) == 0 ? TAR_UNWANTED : TAR_WANTED;
}

static int on_data(void *arg, const char *bytes, size_t len, struct err *e)
{
	const size_t have = strlen(told);

	(void)arg;
	(void)e;
	memcpy(told + have, bytes, len);
	told[have + len] = '\0';
	return 0;
}

static int on_end(void *arg, struct err *e)
{
	(void)arg;
	(void)e;
	memcpy(told + strlen(told), "}", 2);
	return 0;
}

/* what the handler heard; "" and e when it was refused */
static const char *heard(size_t piece, const char *unwanted, struct err *e)
{
	const struct tar_handler handler = {(void *)(uintptr_t)unwanted, on_entry,
					    on_data, on_end};
	struct tar t;
	int rc = 0;

	told[0] = '\0';
	tar_init(&t, &handler);
	for (size_t at = 0; rc == 0 && at < text.len; at += piece)
		rc = tar_feed(&t, text.bytes + at,
			      text.len - at < piece ? text.len - at : piece, e);
	if (rc == 0)
		rc = tar_end(&t, e);
	tar_done(&t);
	return rc == 0 ? told : "";
}

static void expect(const char *want)
{
	static const size_t pieces[] = {1, 7, 511, 512, 513, 4096, 1 << 16};
	struct err e = {0};

	tar_text_end(&text);
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		const char *got = heard(pieces[i], NULL, &e);

		if (strcmp(got, want) != 0)
			fprintf(stderr, "# pieces of %zu: %s, not %s (%s)\n", pieces[i],
				got, want, e.text);
		CHECK(strcmp(got, want) == 0);
	}
}

static void expect_refused(const char *why)
{
	struct err e = {0};

	tar_text_end(&text);
	CHECK(heard(4096, NULL, &e)[0] == '\0');
	if (!strstr(e.text, why))
		fprintf(stderr, "# %s\n", e.text);
	CHECK(e.kind == ERR_THEIRS && strstr(e.text, why));
}

TEST(files_directories_and_links_are_told)
{
	tar_text_add(&text, '5', "./d/", "", "");
	tar_text_add(&text, '0', "d//./f", "", "hello");
	tar_text_add(&text, '\0', "old/", "", "");
	tar_text_add(&text, '0', "empty", "", "");
	tar_text_add(&text, '2', "l", "../anywhere", "");
	tar_text_add(&text, '1', "h", "./d/f", "");
	tar_text_add(&text, '3', "dev", "", "");
	tar_text_add(&text, '5', "./", "", "");
	expect("1:d::0:644:0:15:0{0:d/f::5:644:0:15:0{hello}1:old::0:644:0:15:0{"
	       "0:empty::0:644:0:15:0{}2:l:../anywhere:0:644:0:15:0{"
	       "3:h:d/f:0:644:0:15:0{4:dev::0:644:0:15:0{1:::0:644:0:15:0{");
}

TEST(a_prefix_is_part_of_the_name)
{
	char *h = tar_text_add(&text, '0', "f", "", "");

	memcpy(h + 345, "a/b", 3);
	tar_text_sum(h);
	h = tar_text_add(&text, '0', "g", "", "");
	memcpy(h + 257, "ustar  ", 8); /* GNU's, which has other things there */
	memcpy(h + 345, "a/b", 3);
	tar_text_sum(h);
	expect("0:a/b/f::0:644:0:15:0{}0:g::0:644:0:15:0{}");
}

TEST(long_names_are_of_the_next_entry_only)
{
	char name[300], want[700];

	memset(name, 'n', 150);
	memcpy(name + 150, "/m", 3);
	tar_text_add(&text, 'L', "././@LongLink", "", name);
	tar_text_add(&text, 'K', "././@LongLink", "", name);
	tar_text_add(&text, '2', "short", "short", "");
	tar_text_add(&text, '2', "short", "target", "");
	snprintf(want, sizeof(want), "2:%s:%s:0:644:0:15:0{2:short:target:0:644:0:15:0{",
		 name, name);
	expect(want);
}

TEST(pax_says_more_than_the_header)
{
	tar_text_add(&text, 'g', "global", "", "11 path=no\n");
	tar_text_add(&text, 'x', "pax", "",
		     "13 path=a//b\n10 size=3\n15 uid=3000000\n15 mtime=77.25\n"
		     "37 SCHILY.xattr.security.capability=\n16 comment=a=b\n\n");
	tar_text_add(&text, '0', "short", "", "xyz");
	tar_text_add(&text, '0', "plain", "", "");
	expect("0:a/b::3:644:3000000:77:1{xyz}0:plain::0:644:0:15:0{}");
}

TEST(a_damaged_pax_header_is_refused)
{
	static const char *const bad[] = {
		"x",          "5 a=b\n",  "99 path=x\n", "11 path=xyz", "11 pathxyz1\n",
		"8 =value\n", "path=x\n", "-1 path=x\n", "0 path=x\n",  "999999999 a=b\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&text, 0, sizeof(text));
		tar_text_add(&text, 'x', "pax", "", bad[i]);
		tar_text_add(&text, '0', "f", "", "");
		expect_refused("a pax header of the archive is damaged");
	}
}

TEST(names_that_lead_out_are_refused)
{
	static const char *const bad[] = {"/f", "..", "../f", "a/..", "a/../b", "//"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&text, 0, sizeof(text));
		tar_text_add(&text, '0', bad[i], "", "");
		expect_refused(bad[i][0] == '/' ? "an absolute name"
						: "'..' in its name");
	}
}

TEST(a_name_is_clean_or_none)
{
	char out[TAR_PATH], name[2 * TAR_PATH] = "";

	CHECK(tar_clean("./a//b/./c/", out) == 0 && strcmp(out, "a/b/c") == 0);
	CHECK(tar_clean(".", out) == 0 && out[0] == '\0');
	CHECK(tar_clean("..a/b..", out) == 0 && strcmp(out, "..a/b..") == 0);
	CHECK(tar_clean("/", out) == -1 && tar_clean("a/..", out) == -1);
	for (int i = 0; i < TAR_DEPTH; i++)
		memcpy(name + 2 * i, "d/", 3);
	CHECK(tar_clean(name, out) == 0 && strlen(out) == 2 * TAR_DEPTH - 1);
	memcpy(name + (size_t)2 * TAR_DEPTH, "d", 2);
	CHECK(tar_clean(name, out) == -1);
	memset(name, 'n', 256);
	name[256] = '\0';
	CHECK(tar_clean(name, out) == -1);
	name[255] = '\0';
	CHECK(tar_clean(name, out) == 0);
	for (size_t i = 0; i + 200 < sizeof(name); i += 200) {
		memset(name + i, 'n', 199);
		memcpy(name + i + 199, "/", 2);
	}
	CHECK(tar_clean(name, out) == -1);
}

TEST(what_is_cut_short_is_refused)
{
	struct err e = {0};

	tar_text_add(&text, '0', "f", "", "hello");
	tar_text_end(&text);
	for (text.len = 0; text.len < (size_t)3 * TAR_BLOCK; text.len += 100) {
		e = (struct err){0};
		CHECK(heard(4096, NULL, &e)[0] == '\0');
		CHECK(strcmp(e.text, "the archive is cut short") == 0);
	}
}

TEST(what_follows_the_end_has_no_meaning)
{
	tar_text_add(&text, '0', "f", "", "");
	tar_text_end(&text);
	tar_text_add(&text, '0', "/g", "", "");
	expect("0:f::0:644:0:15:0{}");
}

TEST(unwanted_data_can_be_stepped_over)
{
	const struct tar_handler handler = {(void *)(uintptr_t) "f", on_entry, on_data,
					    on_end};
	struct err e = {0};
	struct tar t;

	tar_text_add(&text, '0', "f", "", "not to be read");
	tar_text_add(&text, '0', "g", "", "read");
	tar_text_end(&text);
	tar_init(&t, &handler);
	CHECK(tar_feed(&t, text.bytes, TAR_BLOCK, &e) == 0);
	CHECK(tar_skippable(&t) == TAR_BLOCK);
	tar_skip(&t);
	CHECK(t.offset == (size_t)2 * TAR_BLOCK && tar_skippable(&t) == 0);
	CHECK(tar_feed(&t, text.bytes + t.offset, text.len - t.offset, &e) == 0);
	CHECK(tar_end(&t, &e) == 0);
	tar_done(&t);
	CHECK(strcmp(told, "0:f::14:644:0:15:0{0:g::4:644:0:15:0{read}") == 0);
}

TEST(what_is_shown_is_fit_for_a_terminal)
{
	char out[TAR_SHOWN], name[200];

	CHECK(strcmp(tar_shown("a\x1b[1m\n\x7f\xc3", out), "a?[1m???") == 0);
	memset(name, 'n', sizeof(name));
	name[199] = '\0';
	CHECK(strlen(tar_shown(name, out)) == TAR_SHOWN - 1);
	CHECK(strcmp(out + TAR_SHOWN - 4, "...") == 0);
}
