/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stream.h - live output: server-sent events, or one JSON object a line
 *
 *	event: stdout                         {"event":"stdout","data":{"text":"hi\n"}}
 *	data: {"text":"hi\n"}
 *
 * Events are stdout, stderr, then result, or error when the run failed after the program
 * had started; a failure before that is a plain HTTP error.
 */
#ifndef HTTP_STREAM_H
#define HTTP_STREAM_H

#include "http/admit.h"

struct buf;
struct conn;

enum stream_kind { STREAM_NONE, STREAM_SSE, STREAM_LINES };

/* what an Accept header would rather have */
enum stream_kind stream_wanted(struct span accept);
/* the program runs: sends the head, unless an event was faster */
void stream_begin(struct conn *k);
/* one event; data is one JSON object */
void stream_event(struct conn *k, const char *event, const struct buf *data);
void stream_end(struct conn *k);
/* makes the job wait for a slow reader, or go on */
void stream_balance(struct conn *k);

#endif
