/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_metrics.c - histograms, counts by a word, and their text
 */
#include "base/metrics.h"

#include <stdio.h>

#include "../tap.h"
#include "base/buf.h"

static histogram_bounds bounds = {0.1, 1, 10};
static struct buf out;

static const char *text(void)
{
	CHECK(buf_text(&out) == 0);
	return out.bytes;
}

TEST(a_value_is_counted_in_its_bucket_and_all_above)
{
	struct histogram h = {0};

	buf_init(&out, 4096);
	histogram_add(&h, bounds, 0.1); /* bounds are inclusive */
	histogram_add(&h, bounds, 0.5);
	histogram_add(&h, bounds, 400);
	CHECK(metrics_histogram(&out, "x_seconds", "mode=\"a\"", &h, bounds) == 0);
	CHECK(strcmp(text(), "x_seconds_bucket{mode=\"a\",le=\"0.1\"} 1\n"
			     "x_seconds_bucket{mode=\"a\",le=\"1\"} 2\n"
			     "x_seconds_bucket{mode=\"a\",le=\"10\"} 2\n"
			     "x_seconds_bucket{mode=\"a\",le=\"+Inf\"} 3\n"
			     "x_seconds_sum{mode=\"a\"} 400.60000000000002\n"
			     "x_seconds_count{mode=\"a\"} 3\n") == 0);
}

TEST(labels_may_be_none)
{
	struct histogram h = {0};

	buf_init(&out, 4096);
	CHECK(metrics_histogram(&out, "x", NULL, &h, bounds) == 0);
	CHECK(metrics_one(&out, "y_total", "counter", "Of something.", 3) == 0);
	CHECK(metrics_count(&out, "z", "", UINT64_MAX) == 0);
	CHECK(strncmp(text(), "x_bucket{le=\"0.1\"} 0\n", 20) == 0);
	CHECK(strstr(text(),
		     "x_sum 0\nx_count 0\n# HELP y_total Of something.\n"
		     "# TYPE y_total counter\ny_total 3\nz 18446744073709551615\n"));
}

TEST(words_that_have_no_place_are_other)
{
	struct tally t = {0};
	char word[64];

	buf_init(&out, 1 << 16);
	for (int i = 0; i < TALLY_WORDS + 5; i++) {
		snprintf(word, sizeof(word), "w%d", i);
		tally_add(&t, word);
	}
	tally_add(&t, "w0");
	tally_add(&t, "a_word_that_is_longer_than_any_code_there_is");
	CHECK(t.words == TALLY_WORDS && t.other == 6);
	CHECK(metrics_tally(&out, "n_total", "code", &t) == 0);
	CHECK(strncmp(text(), "n_total{code=\"w0\"} 2\nn_total{code=\"w1\"} 1\n", 40) ==
	      0);
	CHECK(strstr(text(), "n_total{code=\"other\"} 6\n"));
}

TEST(a_text_that_does_not_fit_is_a_failure)
{
	struct histogram h = {0};
	struct tally t = {0};

	buf_init(&out, 8);
	CHECK(metrics_one(&out, "sandbox_x", "gauge", "X.", 1) == -1);
	CHECK(metrics_histogram(&out, "sandbox_x", NULL, &h, bounds) == -1);
	CHECK(metrics_tally(&out, "sandbox_x", "code", &t) == -1);
}
