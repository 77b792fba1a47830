/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * loop.h - one epoll loop: descriptors, timers, signals
 *
 * A callback may add, change and remove descriptors and timers, its own included; an
 * event already fetched for a removed descriptor is dropped. Nothing in a callback may
 * wait.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;
typedef void loop_fn(void *arg, uint32_t events); /* EPOLLIN, EPOLLOUT, ... */
typedef void loop_timer_fn(void *arg);
typedef void loop_signal_fn(void *arg, int signo);

/* embedded in its owner; zeroed means idle */
struct loop_timer {
	loop_timer_fn *fn;
	void *arg;
	uint64_t due_ns;
	unsigned place; /* in the loop's heap, from 1; 0: idle */
};

struct loop *loop_new(void);
void loop_free(struct loop *l);
int loop_add(struct loop *l, int fd, uint32_t events, loop_fn *fn, void *arg);
int loop_change(struct loop *l, int fd, uint32_t events);
void loop_remove(struct loop *l, int fd); /* does not close; harmless when not there */
/* (re)arm: fn(arg) once when CLOCK_MONOTONIC reaches due_ns */
void loop_timer_at(struct loop *l, struct loop_timer *t, uint64_t due_ns);
void loop_timer_stop(struct loop *l, struct loop_timer *t);
/* blocks these signals and delivers them here; one set a loop */
int loop_signals(struct loop *l, const sigset_t *set, loop_signal_fn *fn, void *arg);
/* called before every wait; may be NULL. For code with a poll function of its own */
void loop_before_wait(struct loop *l, loop_timer_fn *fn, void *arg);
int loop_run(struct loop *l); /* until loop_stop; -1 when epoll itself fails */
void loop_stop(struct loop *l);
uint64_t loop_now_ns(void); /* CLOCK_MONOTONIC */

#endif
