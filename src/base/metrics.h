/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * metrics.h - histograms, counts by a word, and the text that Prometheus reads
 *
 * metrics_family() begins a family; what follows are its samples, all of them before the
 * next family. Names and units are as Prometheus wants them: base units, counters end in
 * _total. Labels are written as they stand in the text: mode="python",verdict="ok".
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

struct buf;

#define HISTOGRAM_BOUNDS 16

/* zeroed: nothing was seen */
struct histogram {
	uint64_t in[HISTOGRAM_BOUNDS + 1]; /* the last: above all bounds */
	double sum;
};
/* upper bounds, rising; 0 behind the last if there are fewer */
typedef const double histogram_bounds[HISTOGRAM_BOUNDS];

void histogram_add(struct histogram *h, histogram_bounds bounds, double value);

/* how often each of a few words was said; those that have no place are one: "other" */
#define TALLY_WORDS 64
#define TALLY_WORD 40
struct tally {
	struct {
		char word[TALLY_WORD];
		uint64_t count;
	} one[TALLY_WORDS];
	size_t words;
	uint64_t other;
};
void tally_add(struct tally *t, const char *word);

/* type: "counter", "gauge", "histogram". All of them: 0, or -1 as buf_add */
int metrics_family(struct buf *b, const char *name, const char *type, const char *help);
int metrics_count(struct buf *b, const char *name, const char *labels, uint64_t n);
int metrics_value(struct buf *b, const char *name, const char *labels, double value);
int metrics_histogram(struct buf *b, const char *name, const char *labels,
		      const struct histogram *h, histogram_bounds bounds);
int metrics_tally(struct buf *b, const char *name, const char *label,
		  const struct tally *t);
/* a family of one sample */
int metrics_one(struct buf *b, const char *name, const char *type, const char *help,
		double value);

#endif
