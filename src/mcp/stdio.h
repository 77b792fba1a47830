/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * stdio.h - the Model Context Protocol over a pair of descriptors, a message a line
 *
 * For the client that started us: requests are answered as they are done, in any order,
 * and the end of its output is ours. It has a session of its own, which a call means that
 * names none, and which is opened when the first one does. Start: stdio_new(), jobs_new()
 * with stdio_observer(), stdio_set_jobs(), and stdio_begin() when programs can run. End:
 * stdio_free() first, jobs_free() afterwards.
 */
#ifndef MCP_STDIO_H
#define MCP_STDIO_H

#include "api/api.h"

struct artifacts;
struct job_observer;
struct jobs;
struct loop;
struct sessions;
struct stdio;

/* the descriptors are taken over; on_end is called once, when the client is gone */
struct stdio *stdio_new(struct loop *l, const struct request_world *w, int in_fd,
			int out_fd);
void stdio_on_end(struct stdio *s, void (*fn)(void *arg), void *arg);
const struct job_observer *stdio_observer(struct stdio *s);
void stdio_set_jobs(struct stdio *s, struct jobs *j, struct artifacts *a,
		    struct sessions *sessions);
/* reads from here on; again is fine. -1 and *e: the input cannot be waited for */
int stdio_begin(struct stdio *s, struct err *e);
void stdio_free(struct stdio *s);

#endif
