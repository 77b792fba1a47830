/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loop.c - one epoll loop: descriptors, timers, signals
 *
 * Runs in: server, launcher, supervisor; one thread.
 * A descriptor is removed before it is closed: while a copy of it lives in another
 * process the kernel would go on to report it, and there would be no way left to make it
 * stop.
 */
#include "base/loop.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/defer.h"
#include "base/mem.h"

enum { BATCH = 64 };

/* what belongs to a descriptor number; an event names it with the generation it is for */
struct slot {
	loop_fn *fn;
	void *arg;
	uint32_t generation;
};

struct loop {
	int epoll_fd;
	int signal_fd;
	loop_signal_fn *signal_fn;
	void *signal_arg;
	loop_timer_fn *before_fn;
	void *before_arg;
	struct slot *slots;
	size_t slot_count;
	struct loop_timer **heap; /* from 1: the earliest */
	unsigned heap_len, heap_room;
	bool stopped;
};

uint64_t loop_now_ns(void)
{
	struct timespec now = {0};

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct loop *loop_new(void)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct loop *l;

	if (epoll_fd < 0)
		return NULL;
	l = mem_zero(sizeof(*l));
	l->epoll_fd = epoll_fd;
	l->signal_fd = -1;
	return l;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	for (unsigned i = 1; i <= l->heap_len; i++)
		l->heap[i]->place = 0;
	defer_close(&l->signal_fd);
	defer_close(&l->epoll_fd);
	free(l->slots);
	free(l->heap);
	free(l);
}

/* ---- descriptors ---- */

static int slots_reach(struct loop *l, size_t fd)
{
	size_t count = l->slot_count ? l->slot_count : 64;
	struct slot *slots;

	if (fd < l->slot_count)
		return 0;
	while (count <= fd)
		count *= 2;
	slots = reallocarray(l->slots, count, sizeof(*slots));
	if (!slots)
		return -1;
	memset(slots + l->slot_count, 0, (count - l->slot_count) * sizeof(*slots));
	l->slots = slots;
	l->slot_count = count;
	return 0;
}

static struct epoll_event event_for(const struct loop *l, int fd, uint32_t events)
{
	return (struct epoll_event){
		.events = events,
		.data.u64 = (uint64_t)l->slots[fd].generation << 32 | (uint32_t)fd,
	};
}

int loop_add(struct loop *l, int fd, uint32_t events, loop_fn *fn, void *arg)
{
	struct epoll_event ev;

	if (fd < 0) {
		errno = EBADF;
		return -1;
	}
	if (slots_reach(l, (size_t)fd) < 0)
		return -1;
	ev = event_for(l, fd, events);
	ev.data.u64 += UINT64_C(1) << 32; /* the next generation */
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -1;
	l->slots[fd] = (struct slot){fn, arg, (uint32_t)(ev.data.u64 >> 32)};
	return 0;
}

int loop_change(struct loop *l, int fd, uint32_t events)
{
	struct epoll_event ev;

	if (fd < 0 || (size_t)fd >= l->slot_count || !l->slots[fd].fn) {
		errno = ENOENT;
		return -1;
	}
	ev = event_for(l, fd, events);
	return epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, fd, &ev);
}

void loop_remove(struct loop *l, int fd)
{
	int saved = errno;

	if (fd < 0 || (size_t)fd >= l->slot_count || !l->slots[fd].fn)
		return;
	l->slots[fd].fn = NULL;
	l->slots[fd].arg = NULL;
	/* Fails when it was closed already; the kernel has forgotten it then. */
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	errno = saved;
}

static void dispatch(struct loop *l, const struct epoll_event *ev)
{
	size_t fd = (uint32_t)ev->data.u64;
	const struct slot *s = &l->slots[fd];

	if (s->fn && s->generation == (uint32_t)(ev->data.u64 >> 32))
		s->fn(s->arg, ev->events);
}

/* ---- timers: a binary heap ---- */

static void heap_put(struct loop *l, unsigned place, struct loop_timer *t)
{
	l->heap[place] = t;
	t->place = place;
}

static void heap_up(struct loop *l, unsigned place)
{
	struct loop_timer *t = l->heap[place];

	for (; place > 1 && t->due_ns < l->heap[place / 2]->due_ns; place /= 2)
		heap_put(l, place, l->heap[place / 2]);
	heap_put(l, place, t);
}

static void heap_down(struct loop *l, unsigned place)
{
	struct loop_timer *t = l->heap[place];
	unsigned child;

	for (; 2 * place <= l->heap_len; place = child) {
		child = 2 * place;
		if (child < l->heap_len &&
		    l->heap[child + 1]->due_ns < l->heap[child]->due_ns)
			child++;
		if (t->due_ns <= l->heap[child]->due_ns)
			break;
		heap_put(l, place, l->heap[child]);
	}
	heap_put(l, place, t);
}

static void heap_grow(struct loop *l)
{
	unsigned room = l->heap_room ? l->heap_room * 2 : 64;
	struct loop_timer **heap = mem_array(room, sizeof(struct loop_timer *));

	if (l->heap)
		memcpy(heap, l->heap, (l->heap_len + 1) * sizeof(struct loop_timer *));
	free(l->heap);
	l->heap = heap;
	l->heap_room = room;
}

void loop_timer_at(struct loop *l, struct loop_timer *t, uint64_t due_ns)
{
	t->due_ns = due_ns;
	if (!t->place) {
		if (l->heap_len + 1 >= l->heap_room)
			heap_grow(l);
		heap_put(l, ++l->heap_len, t);
	}
	heap_up(l, t->place);
	heap_down(l, t->place);
}

void loop_timer_stop(struct loop *l, struct loop_timer *t)
{
	unsigned place = t->place;
	struct loop_timer *last;

	if (!place)
		return;
	t->place = 0;
	last = l->heap[l->heap_len--];
	if (last == t)
		return;
	heap_put(l, place, last);
	heap_up(l, place);
	heap_down(l, last->place);
}

/* As many at once as there were: a timer that is due again at once waits for its turn. */
static void run_timers(struct loop *l)
{
	uint64_t now = loop_now_ns();
	struct loop_timer *t;

	for (unsigned left = l->heap_len; left && l->heap_len && !l->stopped; left--) {
		t = l->heap[1];
		if (t->due_ns > now)
			return;
		loop_timer_stop(l, t);
		t->fn(t->arg);
	}
}

/* milliseconds until the next timer, rounded up: waking early would only spin */
static int wait_ms(const struct loop *l)
{
	uint64_t now, ms;

	if (!l->heap_len)
		return -1;
	now = loop_now_ns();
	if (l->heap[1]->due_ns <= now)
		return 0;
	ms = (l->heap[1]->due_ns - now - 1) / 1000000 + 1;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* ---- signals ---- */

static void on_signal_fd(void *arg, uint32_t events)
{
	struct signalfd_siginfo info;
	struct loop *l = arg;

	(void)events;
	while (!l->stopped &&
	       read(l->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		l->signal_fn(l->signal_arg, (int)info.ssi_signo);
}

int loop_signals(struct loop *l, const sigset_t *set, loop_signal_fn *fn, void *arg)
{
	auto_fd int fd = -1;
	sigset_t before;

	if (l->signal_fd >= 0) {
		errno = EEXIST;
		return -1;
	}
	if (sigprocmask(SIG_BLOCK, set, &before) < 0)
		return -1;
	fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0 || loop_add(l, fd, EPOLLIN, on_signal_fd, l) < 0) {
		int saved = errno;

		sigprocmask(SIG_SETMASK, &before, NULL);
		errno = saved;
		return -1;
	}
	l->signal_fn = fn;
	l->signal_arg = arg;
	l->signal_fd = take_fd(&fd);
	return 0;
}

/* ---- running ---- */

void loop_before_wait(struct loop *l, loop_timer_fn *fn, void *arg)
{
	l->before_fn = fn;
	l->before_arg = arg;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}

int loop_run(struct loop *l)
{
	struct epoll_event events[BATCH];
	int count, timeout;

	while (!l->stopped) {
		run_timers(l);
		if (!l->stopped && l->before_fn)
			l->before_fn(l->before_arg);
		if (l->stopped)
			break;
		timeout = wait_ms(l);
		count = epoll_wait(l->epoll_fd, events, BATCH, timeout);
		if (count < 0 && errno != EINTR)
			return -1;
		for (int i = 0; i < count && !l->stopped; i++)
			dispatch(l, &events[i]);
	}
	l->stopped = false; /* it may be run again */
	return 0;
}
