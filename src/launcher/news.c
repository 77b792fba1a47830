/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * news.c - what a run says of itself on its way
 *
 * Runs in: the launcher. Its process 1, and the program up to execve, are ours; what they
 * say is taken once each, and only before the program has started.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/fdpass.h"
#include "launcher/launcher.h"

#define MS 1000000ull
#define END_MS 5 /* from the end of the program to that of its tree, as a rule */

/* calls of the program wait for an answer: without one it must not run */
static void take_listener(struct run *r, int *fd)
{
	if (notify_take(r, fd) == 0)
		return;
	r->failed = (struct child_news){.num = errno};
	r->failed.step = child_step_find("listener");
	run_kill(r);
}

/* links to the compile cache's seed are no doing of the program's, and many */
static void take_own_place(struct run *r, int *fd)
{
	const struct launcher *l = r->slot->launcher;

	r->place_fd = take_fd(fd);
	if (l->abilities.go_seed && l->setup->row[r->plan.row].go_cache &&
	    r->plan.errand == ERRAND_NONE)
		sample_disk(r->place_fd, UINT64_MAX, &r->disk_base);
	r->disk_free = run_disk_free(r);
}

static void started(struct run *r, uint64_t at_ns)
{
	struct message m = {.type = MSG_STARTED, .run = r->id};

	if (r->slot->state != SLOT_BUSY) {
		run_kill(r); /* without an order */
		return;
	}
	r->started = true;
	r->started_ns = at_ns;
	if (r->plan.errand == ERRAND_SESSION) { /* no deadline: it stays */
		loop_timer_stop(r->slot->launcher->loop, &r->timer);
		session_started(r);
		return;
	}
	m.setup_us = (at_ns - r->arrived_ns) / 1000;
	if (r->warm)
		warm_started(r, &m);
	else if (r->plan.errand == ERRAND_NONE)
		launcher_send(r->slot->launcher, &m, NULL);
	loop_timer_at(r->slot->launcher->loop, &r->timer, 0);
}

void run_on_news(void *arg, uint32_t events)
{
	struct run *r = arg;
	struct child_news n = {0};
	int fds[FDPASS_MAX], got;
	size_t count, i;

	(void)events;
	while ((got = fdpass_receive(r->news_fd, &n, sizeof(n), fds, &count,
				     FDPASS_NOW)) == 1) {
		if (n.type == NEWS_PLACES && r->work_fd < 0) {
			r->work_fd = take_fd(&fds[0]);
			if (launcher_shares(r->slot->launcher))
				take_own_place(r, &fds[1]);
			else if (r->slot->launcher->abilities.poll_memory)
				r->proc_fd = take_fd(&fds[1]);
			else
				r->mounts_fd = take_fd(&fds[1]);
		} else if (n.type == NEWS_SOCKETS && r->sockets_fd < 0 && !r->started) {
			run_take_sockets(r, &fds[0]);
		} else if (n.type == NEWS_FAILED && !r->started) {
			r->failed = n;
		} else if (n.type == NEWS_LISTENER && !r->notify.taken && !r->started) {
			take_listener(r, &fds[0]);
		} else if (n.type == NEWS_STARTED && r->failed.step < 0 && !r->started) {
			started(r, n.at_ns);
		} else if (n.type == NEWS_NAMESPACE && !r->started) {
			session_take_namespace(r, n.status, &fds[0]);
		} else if (n.type == NEWS_READY) {
			r->takes_words = n.status;
			warm_ready(r);
		} else if (n.type == NEWS_EXITED && !r->exited) {
			r->exited = true;
			r->wait_status = n.status;
			r->exited_ns = n.at_ns;
			/* what a session's command leaves may stay */
			if (r->slot->session && !session_by_tree(r->slot))
				loop_timer_stop(r->slot->launcher->loop, &r->timer);
			else
				loop_timer_at(r->slot->launcher->loop, &r->timer,
					      loop_now_ns() + END_MS * MS);
		}
		for (i = 0; i < count; i++)
			defer_close(&fds[i]);
	}
	if (got < 0 && errno == EAGAIN)
		return;
	loop_remove(r->slot->launcher->loop, r->news_fd);
	/* that it waits would never be heard, and no other is made meanwhile */
	if (got < 0 && r->slot->state == SLOT_WARMING)
		run_kill(r);
}
