/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * audit_line.h - what an audit line says; for audit.c only
 */
#ifndef JOB_AUDIT_LINE_H
#define JOB_AUDIT_LINE_H

struct buf;
struct err;
struct job;

/* {"time":"...","event":"..." */
int audit_line_begin(struct buf *out, const char *event);
int audit_line_run(struct buf *out, const struct job *job, const struct err *e);
void audit_line_take(struct job *job); /* the hash of its code */

#endif
