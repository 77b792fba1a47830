/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * options.h - what a request says of a file beside its path: behind a question mark, and
 * in its Range
 */
#ifndef HTTP_OPTIONS_H
#define HTTP_OPTIONS_H

#include "http/admit.h"

struct err;
struct json;

/* "recursive=true&cursor=x" as an object, as if it had been the body; names that are not
 * known are ignored. 0, or -1 and *e */
int options_read(struct span query, struct json **out, struct err *e);

/* "bytes=FIRST-LAST", "bytes=FIRST-", "bytes=-LAST" */
struct options_range {
	uint64_t first, count; /* count: 0: all there is */
	bool from_end;         /* the last ones: so many as first says */
};
/* what is no such range, or several, is ignored, as the standard says: false */
bool options_range(struct span range, struct options_range *out);

#endif
