/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * metrics.c - histograms, counts by a word, and the text that Prometheus reads
 */
#include "base/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static size_t bounds_count(histogram_bounds bounds)
{
	size_t n = 0;

	while (n < HISTOGRAM_BOUNDS && bounds[n] > 0)
		n++;
	return n;
}

void histogram_add(struct histogram *h, histogram_bounds bounds, double value)
{
	const size_t n = bounds_count(bounds);
	size_t i = 0;

	while (i < n && value > bounds[i])
		i++;
	h->in[i < n ? i : HISTOGRAM_BOUNDS]++;
	h->sum += value;
}

void tally_add(struct tally *t, const char *word)
{
	size_t i = 0;

	while (i < t->words && strcmp(t->one[i].word, word) != 0)
		i++;
	if (i == TALLY_WORDS || strlen(word) >= TALLY_WORD) {
		t->other++;
		return;
	}
	if (i == t->words)
		snprintf(t->one[t->words++].word, TALLY_WORD, "%s", word);
	t->one[i].count++;
}

int metrics_family(struct buf *b, const char *name, const char *type, const char *help)
{
	return buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static int add_name(struct buf *b, const char *name, const char *end, const char *labels)
{
	return labels && labels[0] ? buf_printf(b, "%s%s{%s} ", name, end, labels)
				   : buf_printf(b, "%s%s ", name, end);
}

int metrics_count(struct buf *b, const char *name, const char *labels, uint64_t n)
{
	return add_name(b, name, "", labels) < 0 ? -1 : buf_printf(b, "%" PRIu64 "\n", n);
}

int metrics_value(struct buf *b, const char *name, const char *labels, double value)
{
	return add_name(b, name, "", labels) < 0 ? -1 : buf_printf(b, "%.17g\n", value);
}

int metrics_one(struct buf *b, const char *name, const char *type, const char *help,
		double value)
{
	return metrics_family(b, name, type, help) < 0
		       ? -1
		       : metrics_value(b, name, NULL, value);
}

int metrics_histogram(struct buf *b, const char *name, const char *labels,
		      const struct histogram *h, histogram_bounds bounds)
{
	const char *comma = labels && labels[0] ? "," : "";
	const size_t n = bounds_count(bounds);
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += h->in[i];
		if (buf_printf(b, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", name,
			       labels ? labels : "", comma, bounds[i], sum) < 0)
			return -1;
	}
	sum += h->in[HISTOGRAM_BOUNDS];
	if (buf_printf(b, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name,
		       labels ? labels : "", comma, sum) < 0 ||
	    add_name(b, name, "_sum", labels) < 0 ||
	    buf_printf(b, "%.17g\n", h->sum) < 0 ||
	    add_name(b, name, "_count", labels) < 0)
		return -1;
	return buf_printf(b, "%" PRIu64 "\n", sum);
}

int metrics_tally(struct buf *b, const char *name, const char *label,
		  const struct tally *t)
{
	for (size_t i = 0; i < t->words; i++)
		if (buf_printf(b, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label,
			       t->one[i].word, t->one[i].count) < 0)
			return -1;
	return buf_printf(b, "%s{%s=\"other\"} %" PRIu64 "\n", name, label, t->other);
}
