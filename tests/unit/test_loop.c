/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * test_loop.c - descriptors, timers and signals, and callbacks that change them
 */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "../tap.h"

static struct loop *l;
static int calls;

static int ready_fd(void)
{
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

	CHECK(fd >= 0);
	return fd;
}

static void stop(void *arg)
{
	(void)arg;
	loop_stop(l);
}

/* stops the loop when it is not done in time, and so lets the test go on to fail */
static void run_for(unsigned ms)
{
	struct loop_timer end = {.fn = stop};

	loop_timer_at(l, &end, loop_now_ns() + ms * 1000000ull);
	CHECK(loop_run(l) == 0);
	loop_timer_stop(l, &end);
}

static void count(void *arg, uint32_t events)
{
	uint64_t n;

	CHECK(events & EPOLLIN);
	CHECK(read(*(int *)arg, &n, sizeof(n)) == sizeof(n));
	calls++;
	loop_stop(l);
}

TEST(a_ready_descriptor_calls_back)
{
	int fd = ready_fd();

	l = loop_new();
	CHECK(loop_add(l, fd, EPOLLIN, count, &fd) == 0);
	CHECK(loop_add(l, fd, EPOLLIN, count, &fd) == -1 && errno == EEXIST);
	run_for(5000);
	CHECK(calls == 1);
	CHECK(loop_change(l, fd, 0) == 0);
	CHECK(eventfd_write(fd, 1) == 0);
	run_for(20);
	CHECK(calls == 1);
	CHECK(loop_change(l, fd, EPOLLIN) == 0);
	run_for(5000);
	CHECK(calls == 2);
	loop_remove(l, fd);
	CHECK(eventfd_write(fd, 1) == 0);
	run_for(20);
	CHECK(calls == 2 && loop_change(l, fd, EPOLLIN) == -1 && errno == ENOENT);
	loop_free(l);
	close(fd);
}

TEST(what_is_not_there_is_harmless)
{
	l = loop_new();
	errno = 0;
	loop_remove(l, 5);
	loop_remove(l, -1);
	loop_remove(l, 1 << 20);
	CHECK(errno == 0);
	CHECK(loop_add(l, -1, EPOLLIN, count, NULL) == -1 && errno == EBADF);
	CHECK(loop_add(l, 900, EPOLLIN, count, NULL) == -1 && errno == EBADF);
	CHECK(loop_change(l, 900, EPOLLIN) == -1 && errno == ENOENT);
	loop_free(l);
	loop_free(NULL);
}

static int pair[2];

static void remove_both(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	calls++;
	loop_remove(l, pair[0]);
	loop_remove(l, pair[1]);
}

TEST(fetched_events_of_removed_descriptors_are_dropped)
{
	l = loop_new();
	for (int i = 0; i < 2; i++) {
		pair[i] = ready_fd();
		CHECK(loop_add(l, pair[i], EPOLLIN, remove_both, NULL) == 0);
	}
	run_for(50);
	CHECK(calls == 1);
	loop_free(l);
}

static int replaced;

static void fresh_owner(void *arg, uint32_t events)
{
	(void)arg;
	(void)events;
	replaced++;
}

/* the other descriptor is closed, and its number given to somebody who is not ready */
static void replace_other(void *arg, uint32_t events)
{
	int other = *(int *)arg == pair[0] ? pair[1] : pair[0], fd;

	(void)events;
	if (calls++)
		return;
	loop_remove(l, *(int *)arg);
	loop_remove(l, other);
	close(other);
	fd = eventfd(0, EFD_CLOEXEC);
	CHECK(fd == other);
	CHECK(loop_add(l, fd, EPOLLIN, fresh_owner, NULL) == 0);
}

TEST(a_new_owner_of_a_number_gets_no_old_events)
{
	l = loop_new();
	for (int i = 0; i < 2; i++) {
		pair[i] = ready_fd();
		CHECK(loop_add(l, pair[i], EPOLLIN, replace_other, &pair[i]) == 0);
	}
	run_for(50);
	CHECK(calls == 1 && replaced == 0);
	loop_free(l);
}

static uint64_t last_due;
static struct loop_timer timers[500];

static void in_order(void *arg)
{
	struct loop_timer *t = arg;

	CHECK(t->place == 0 && t->due_ns >= last_due && loop_now_ns() >= t->due_ns);
	last_due = t->due_ns;
	calls++;
}

TEST(timers_fire_in_order_and_once)
{
	uint64_t start = loop_now_ns();
	unsigned seed = 1;

	l = loop_new();
	for (unsigned i = 0; i < 500; i++) {
		timers[i] = (struct loop_timer){.fn = in_order, .arg = &timers[i]};
		seed = seed * 1103515245 + 12345;
		loop_timer_at(l, &timers[i], start + seed % 20000000);
	}
	for (unsigned i = 0; i < 500; i += 5) /* later, earlier, not at all */
		loop_timer_at(l, &timers[i], start + 20000000 + i);
	for (unsigned i = 1; i < 500; i += 5)
		loop_timer_at(l, &timers[i], start + i);
	for (unsigned i = 2; i < 500; i += 5) {
		loop_timer_stop(l, &timers[i]);
		loop_timer_stop(l, &timers[i]);
	}
	run_for(200);
	CHECK(calls == 400);
	loop_free(l);
}

static void again(void *arg)
{
	calls++;
	loop_timer_at(l, arg, 0);
}

TEST(a_timer_that_is_always_due_does_not_starve_the_rest)
{
	struct loop_timer t = {.fn = again};
	int fd = ready_fd();

	t.arg = &t;
	l = loop_new();
	loop_timer_at(l, &t, 0);
	CHECK(loop_add(l, fd, EPOLLIN, count, &fd) == 0);
	run_for(5000);
	CHECK(eventfd_write(fd, 1) == 0 && calls < 1000); /* count() stopped it, soon */
	loop_free(l);
	CHECK(t.place == 0);
}

static void stop_others(void *arg)
{
	(void)arg;
	calls++;
	for (int i = 0; i < 10; i++)
		loop_timer_stop(l, &timers[i]);
}

TEST(a_timer_may_stop_others_that_are_due)
{
	l = loop_new();
	for (int i = 0; i < 10; i++) {
		timers[i] = (struct loop_timer){.fn = stop_others};
		loop_timer_at(l, &timers[i], 1);
	}
	run_for(20);
	CHECK(calls == 1);
	loop_free(l);
}

static void before(void *arg)
{
	int *asked = arg;

	if (++*asked == 3)
		loop_stop(l);
}

TEST(waiting_takes_no_time_of_the_processor)
{
	struct timespec used;
	uint64_t start = loop_now_ns();
	int asked = 100;

	l = loop_new();
	loop_before_wait(l, before, &asked);
	run_for(300);
	CHECK(loop_now_ns() - start >= 300000000u);
	CHECK(asked < 105); /* a wait cut too short would go round and round */
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	CHECK(used.tv_sec == 0 && used.tv_nsec < 100000000);
	loop_free(l);
}

static void on_signal(void *arg, int signo)
{
	*(int *)arg += signo;
	if (++calls == 2)
		loop_stop(l);
}

TEST(signals_arrive_as_callbacks)
{
	sigset_t set;
	int sum = 0;

	l = loop_new();
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	CHECK(loop_signals(l, &set, on_signal, &sum) == 0);
	CHECK(loop_signals(l, &set, on_signal, &sum) == -1 && errno == EEXIST);
	CHECK(raise(SIGTERM) == 0 && raise(SIGUSR1) == 0);
	run_for(5000);
	CHECK(calls == 2 && sum == SIGTERM + SIGUSR1);
	loop_free(l);
}

TEST(before_every_wait_somebody_is_asked)
{
	struct loop_timer t = {.fn = again};
	int asked = 0;

	t.arg = &t;
	l = loop_new();
	loop_before_wait(l, before, &asked);
	loop_timer_at(l, &t, 0);
	run_for(5000);
	CHECK(asked == 3 && calls >= 3 && calls < 10);
	loop_before_wait(l, NULL, NULL);
	loop_free(l);
}

TEST(a_stop_before_the_run_is_not_lost)
{
	l = loop_new();
	loop_stop(l);
	CHECK(loop_run(l) == 0);
	loop_free(l);
}
